# Installs the build tree BUILD under WORK and follows the example's README: builds the plug-in
# against the installed header, with CMake and with one command, and runs the self-test.
cmake_minimum_required(VERSION 3.25)
function(step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result)
  if(result)
    list(JOIN ARGN " " text)
    message(FATAL_ERROR "exit ${result}: ${text}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
set(prefix ${WORK}/prefix)
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix}
  OUTPUT_QUIET RESULT_VARIABLE result)
if(result)
  message(FATAL_ERROR "exit ${result}: installation")
endif()
step(${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/build -G ${GENERATOR}
  -DCMAKE_C_COMPILER=${COMPILER} -DCMAKE_PREFIX_PATH=${prefix})
step(${CMAKE_COMMAND} --build ${WORK}/build)
step(${prefix}/bin/assay-kernel-selftest ${WORK}/build/linear_attention.so)

step(${COMPILER} -std=c99 -O2 -shared -fPIC -I${prefix}/include/assay/kernels/abi
  ${SOURCE}/linear_attention.c -o ${WORK}/linear_attention.so -lm)
step(${prefix}/bin/assay-kernel-selftest ${WORK}/linear_attention.so)
