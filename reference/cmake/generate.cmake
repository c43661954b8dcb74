# Writes the sources that follow from the lines `ASSAY_OPERATION(Type, name)` of the recurrence
# headers. MODE=unit: the translation unit of one header (a header without such lines gets one too,
# which shows that it compiles alone). MODE=registry: the list of all operations by name.
# In: ROOM (this folder), HEADERS (relative to it), OUTPUT.

cmake_minimum_required(VERSION 3.25)

set(names)
set(text "// Made by reference/cmake/generate.cmake.\n")

if(MODE STREQUAL "unit")
  string(APPEND text "#include \"reference/${HEADERS}\"\n\n")
elseif(MODE STREQUAL "registry")
  string(APPEND text "#include \"reference/oracle/registry.hpp\"\n\nnamespace assay {\n\n")
else()
  message(FATAL_ERROR "MODE is \"${MODE}\", must be unit or registry")
endif()

set(line_pattern "^[ \t]*ASSAY_OPERATION\\([ \t]*([A-Za-z0-9_:]+)[ \t]*,[ \t]*([a-z0-9_]+)[ \t]*\\)")
foreach(header IN LISTS HEADERS)
  file(STRINGS ${ROOM}/${header} lines REGEX "^[ \t]*ASSAY_OPERATION")
  foreach(line IN LISTS lines)
    if(NOT line MATCHES "${line_pattern}")
      message(FATAL_ERROR "reference/${header}: \"${line}\" is not ASSAY_OPERATION(Type, name)")
    endif()
    if(CMAKE_MATCH_2 IN_LIST names)
      message(FATAL_ERROR "reference/${header}: operation ${CMAKE_MATCH_2} is defined twice")
    endif()
    list(APPEND names ${CMAKE_MATCH_2})
    if(MODE STREQUAL "unit")
      string(APPEND text "ASSAY_DEFINE_OPERATION(${CMAKE_MATCH_1}, ${CMAKE_MATCH_2})\n")
    endif()
  endforeach()
endforeach()

if(MODE STREQUAL "registry")
  list(SORT names)
  set(list_text "")
  foreach(name IN LISTS names)
    string(APPEND text "const Operation& operation_${name}();\n")
    string(APPEND list_text "      &operation_${name}(),\n")
  endforeach()
  string(APPEND text "\nconst std::vector<const Operation*>& operations() {\n"
    "  static const std::vector<const Operation*> all = {\n${list_text}  };\n"
    "  return all;\n}\n\n}  // namespace assay\n")
endif()

file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "${text}" @ONLY)
