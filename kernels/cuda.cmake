# Kernels for NVIDIA GPUs: the plug-in assay_kernels_cuda.so, where there is an nvcc. It carries its
# CUDA runtime and needs no GPU to be built. Further operations: common/cuda/kernels.hpp.
if(NOT ASSAY_CUDA)
  return()
endif()
if(ASSAY_SANITIZE)
  message(STATUS "CUDA kernels: not built with sanitizers of the CPU (compute-sanitizer is theirs)")
  return()
endif()
if(NOT ASSAY_NVCC)
  message(STATUS "CUDA kernels: not built, there is no nvcc")
  return()
endif()

set(CMAKE_CUDA_COMPILER ${ASSAY_NVCC})
# Set before the language is enabled, or CMake chooses an architecture itself.
set(CMAKE_CUDA_ARCHITECTURES OFF)
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
set(CMAKE_CUDA_STANDARD 17)  # CMake 3.25 knows no later one of nvcc
if(ASSAY_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${ASSAY_CCACHE})
endif()
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
message(STATUS "CUDA kernels: nvcc ${CMAKE_CUDA_COMPILER_VERSION}")

file(GLOB cuda_device CONFIGURE_DEPENDS
  ${CMAKE_CURRENT_SOURCE_DIR}/*/*.cu ${CMAKE_CURRENT_SOURCE_DIR}/common/cuda/*.cu)
file(GLOB cuda_host CONFIGURE_DEPENDS
  ${CMAKE_CURRENT_SOURCE_DIR}/*/*_cuda.cpp ${CMAKE_CURRENT_SOURCE_DIR}/common/cuda/*.cpp)
set(cuda_plugin ${CMAKE_CURRENT_SOURCE_DIR}/common/cuda/plugin.cpp)
list(REMOVE_ITEM cuda_host ${cuda_plugin})
# The rules for shapes are those of the CPU kernels, compiled once more under a name of their own.
list(APPEND cuda_host
  ${CMAKE_CURRENT_SOURCE_DIR}/common/binding.cpp ${CMAKE_CURRENT_SOURCE_DIR}/mom/mom_spec.cpp)

# Device code by nvcc, which takes none of the host compiler's options; host code like any other.
function(assay_cuda_build target)
  add_library(${target}_device OBJECT ${cuda_device})
  target_include_directories(${target}_device PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_options(${target}_device PRIVATE
    -O3 "SHELL:-gencode arch=compute_90a,code=sm_90a" -Xcompiler=-fvisibility=hidden)
  add_library(${target}_host OBJECT ${cuda_host})
  assay_target(${target}_host)
  target_link_libraries(${target}_host PRIVATE assay::kernel_abi)
  target_include_directories(${target}_host SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  foreach(part device host)
    target_compile_definitions(${target}_${part} PRIVATE ASSAY_CPU_VARIANT=cuda_host ${ARGN})
    set_target_properties(${target}_${part} PROPERTIES POSITION_INDEPENDENT_CODE ON
      CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON EXCLUDE_FROM_ALL ON)
  endforeach()

  add_library(${target} MODULE ${cuda_plugin}
    $<TARGET_OBJECTS:${target}_device> $<TARGET_OBJECTS:${target}_host>)
  assay_target(${target})
  target_link_libraries(${target} PRIVATE assay::kernel_abi CUDA::cudart_static)
  set_target_properties(${target} PROPERTIES PREFIX "" LINKER_LANGUAGE CXX
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  if(ASSAY_PORTABLE)
    target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc)
  endif()
endfunction()

assay_cuda_build(assay_kernels_cuda)
add_library(assay::kernels_cuda ALIAS assay_kernels_cuda)

# The same with known errors built in; ASSAY_M2RNN_FAULT or ASSAY_MDN_FAULT names the one to be made.
assay_cuda_build(assay_kernels_cuda_faults ASSAY_M2RNN_FAULTS ASSAY_MDN_FAULTS)
set_target_properties(assay_kernels_cuda_faults PROPERTIES EXCLUDE_FROM_ALL ON)

if(ASSAY_TESTS)
  add_test(NAME "cuda/check: the kernels on this machine's GPU"
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/tests/cuda_check.sh accept ${PROJECT_BINARY_DIR}/assay
      $<TARGET_FILE:assay_kernels_cuda> ${PROJECT_SOURCE_DIR}/checks/samples)
  set_tests_properties("cuda/check: the kernels on this machine's GPU" PROPERTIES
    TIMEOUT 1800 SKIP_RETURN_CODE 77)
endif()

if(ASSAY_INSTALL)
  install(TARGETS assay_kernels_cuda DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/assay)
endif()

file(GLOB cuda_benches CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/bench/cuda_*.cpp)
foreach(source IN LISTS cuda_benches)
  cmake_path(GET source STEM name)
  add_executable(${name} EXCLUDE_FROM_ALL ${source}
    $<TARGET_OBJECTS:assay_kernels_cuda_device> $<TARGET_OBJECTS:assay_kernels_cuda_host>)
  assay_target(${name})
  target_link_libraries(${name} PRIVATE assay::kernel_abi CUDA::cudart_static)
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
  if(ASSAY_PORTABLE)
    target_link_options(${name} PRIVATE -static-libstdc++ -static-libgcc)
  endif()
endforeach()
