# Fails if an object of the AVX2 build defines a weak function that others may define too: the
# linker keeps one copy, and a processor without AVX2 could meet the wrong one.
#   cmake -DNM=nm "-DOBJECTS=a.o;b.o" -P builds_apart.cmake
execute_process(COMMAND ${NM} -C --defined-only ${OBJECTS}
  OUTPUT_VARIABLE symbols RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "nm failed")
endif()
string(REPLACE ";" "," symbols "${symbols}")
string(REPLACE "\n" ";" symbols "${symbols}")
set(own 0)
foreach(symbol IN LISTS symbols)
  if(NOT symbol MATCHES "^[0-9a-fA-F]+ [Wu] ")
    continue()
  endif()
  if(NOT symbol MATCHES "avx2::|EigenAvx2::")
    message(SEND_ERROR "shared with the other build: ${symbol}")
  endif()
  math(EXPR own "${own} + 1")
endforeach()
if(own EQUAL 0)
  message(FATAL_ERROR "no weak symbol at all: is this the AVX2 build?")
endif()
