# Copies the shared libraries that PROGRAM needs, but for those of the C library, into FOLDER.
cmake_minimum_required(VERSION 3.25)
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${PROGRAM}
  RESOLVED_DEPENDENCIES_VAR libraries UNRESOLVED_DEPENDENCIES_VAR missing
  CONFLICTING_DEPENDENCIES_PREFIX twice
  PRE_EXCLUDE_REGEXES "^(ld-linux|libc|libm|libpthread|libdl|librt)[-.]")
if(missing)
  message(FATAL_ERROR "${PROGRAM} needs ${missing}")
endif()
# Found in FOLDER, from an earlier build, and where they come from: the latter.
foreach(name IN LISTS twice_FILENAMES)
  foreach(library IN LISTS twice_${name})
    cmake_path(IS_PREFIX FOLDER ${library} ours)
    if(NOT ours)
      list(APPEND libraries ${library})
    endif()
  endforeach()
endforeach()
foreach(library IN LISTS libraries)
  file(COPY ${library} DESTINATION ${FOLDER} FOLLOW_SYMLINK_CHAIN)
endforeach()
