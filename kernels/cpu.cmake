# Kernels for the CPU: the plug-in assay_kernels_cpu.so. Built twice from the same sources, for any
# processor of the target and, on x86-64, for AVX2 with FMA; the library chooses when it is first
# called (common/dispatch.cpp).
find_package(Eigen3 3.4 REQUIRED NO_MODULE)

file(GLOB cpu_sources CONFIGURE_DEPENDS
  ${CMAKE_CURRENT_SOURCE_DIR}/common/*.cpp ${CMAKE_CURRENT_SOURCE_DIR}/*/*_cpu.cpp
  ${CMAKE_CURRENT_SOURCE_DIR}/mom/mom_spec.cpp)
set(cpu_once
  ${CMAKE_CURRENT_SOURCE_DIR}/common/dispatch.cpp ${CMAKE_CURRENT_SOURCE_DIR}/common/parallel.cpp)
set(cpu_plugin ${CMAKE_CURRENT_SOURCE_DIR}/common/plugin.cpp)
list(REMOVE_ITEM cpu_sources ${cpu_once} ${cpu_plugin})

# -O3 for the loop vectoriser at full strength. Contraction is welcome here, unlike elsewhere: the
# kernels promise fp32 arithmetic, not a given order of roundings.
function(assay_cpu_build target)
  add_library(${target} OBJECT ${cpu_sources})
  assay_target(${target})
  target_compile_options(${target} PRIVATE -O3 -ffp-contract=fast ${ARGN})
  target_include_directories(${target} SYSTEM PRIVATE
    $<TARGET_PROPERTY:Eigen3::Eigen,INTERFACE_INCLUDE_DIRECTORIES>)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()

assay_cpu_build(assay_cpu_baseline)
set(cpu_objects $<TARGET_OBJECTS:assay_cpu_baseline>)
set(cpu_definitions)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  # Eigen's inline functions get names of their own here, or the linker would merge them with those
  # of the other build; see common/variant.hpp.
  assay_cpu_build(assay_cpu_avx2 -mavx2 -mfma -mbmi -mbmi2 -mpopcnt
    -DASSAY_CPU_VARIANT=avx2 -DEigen=EigenAvx2)
  list(APPEND cpu_objects $<TARGET_OBJECTS:assay_cpu_avx2>)
  set(cpu_definitions ASSAY_CPU_HAS_AVX2)
endif()

# Tests and benchmarks of the kernels link this; everybody else loads the plug-in.
add_library(assay_cpu_kernels STATIC ${cpu_once} ${cpu_objects})
assay_target(assay_cpu_kernels)
target_compile_definitions(assay_cpu_kernels PRIVATE ${cpu_definitions})
target_link_libraries(assay_cpu_kernels PUBLIC Threads::Threads)
set_target_properties(assay_cpu_kernels PROPERTIES POSITION_INDEPENDENT_CODE ON
  CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)

add_library(assay_kernels_cpu MODULE ${cpu_plugin})
add_library(assay::kernels_cpu ALIAS assay_kernels_cpu)
assay_target(assay_kernels_cpu)
target_link_libraries(assay_kernels_cpu PRIVATE assay_cpu_kernels assay::kernel_abi)
set_target_properties(assay_kernels_cpu PROPERTIES PREFIX ""
  CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})

if(ASSAY_PORTABLE)
  target_link_options(assay_kernels_cpu PRIVATE -static-libstdc++ -static-libgcc)
endif()

if(ASSAY_TESTS)
  file(GLOB cpu_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/tests/*_test.cpp)
  if(cpu_tests)
    assay_catch_tests(kernels_cpu_tests ${cpu_tests}
      ${CMAKE_CURRENT_SOURCE_DIR}/tests/operations.cpp ${CMAKE_CURRENT_SOURCE_DIR}/tests/problem.cpp)
    assay_unity(kernels_cpu_tests)
    target_link_libraries(kernels_cpu_tests PRIVATE
      assay_cpu_kernels assay::kernel_abi ${CMAKE_DL_LIBS})
    target_compile_definitions(kernels_cpu_tests PRIVATE
      ASSAY_CPU_PLUGIN="$<TARGET_FILE:assay_kernels_cpu>")
    add_dependencies(kernels_cpu_tests assay_kernels_cpu)
  endif()
  # Sanitizers add inline functions of their own.
  if(TARGET assay_cpu_avx2 AND NOT ASSAY_SANITIZE)
    add_test(NAME "cpu/builds: the AVX2 build shares no inline function with the rest"
      COMMAND ${CMAKE_COMMAND} -DNM=${CMAKE_NM} "-DOBJECTS=$<TARGET_OBJECTS:assay_cpu_avx2>"
        -P ${CMAKE_CURRENT_SOURCE_DIR}/tests/builds_apart.cmake)
  endif()
endif()

file(GLOB cpu_benches CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/bench/cpu_*.cpp)
foreach(source IN LISTS cpu_benches)
  cmake_path(GET source STEM name)
  add_executable(${name} EXCLUDE_FROM_ALL ${source})
  assay_target(${name})
  target_link_libraries(${name} PRIVATE assay_cpu_kernels)
  add_dependencies(benchmarks ${name})
endforeach()

if(ASSAY_INSTALL)
  install(TARGETS assay_kernels_cpu DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/assay)
endif()
