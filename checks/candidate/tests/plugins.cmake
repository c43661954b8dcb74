# Plug-ins with planted behaviour: one library for each.
set(plugins_dir ${PROJECT_BINARY_DIR}/test_plugins)
set(plugins_source ${CMAKE_CURRENT_LIST_DIR}/plugins)
function(test_plugin name source)
  add_library(test_plugin_${name} MODULE ${plugins_source}/${source}.c)
  set_target_properties(test_plugin_${name} PROPERTIES PREFIX "" OUTPUT_NAME ${name}
    LIBRARY_OUTPUT_DIRECTORY ${plugins_dir})
  target_link_libraries(test_plugin_${name} PRIVATE assay::kernel_abi m)
  add_dependencies(checks_tests test_plugin_${name})
endfunction()

foreach(behaviour correct segfault abort hang devour before after far unwritten partly input stale
    prints error exits random workspace refuses strides grandchild nan_output)
  test_plugin(${behaviour} planted)
  string(TOUPPER ${behaviour} constant)
  target_compile_definitions(test_plugin_${behaviour} PRIVATE PLANTED=${constant})
endforeach()
foreach(name no_table old_version crash_at_load)
  test_plugin(${name} ${name})
endforeach()

add_dependencies(checks_tests assay_host)
target_compile_definitions(checks_tests PRIVATE
  ASSAY_TEST_PLUGINS="${plugins_dir}" ASSAY_TEST_PYTHON="${Python3_EXECUTABLE}")

add_executable(host_bench EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/../bench/host_bench.cpp)
assay_target(host_bench)
target_link_libraries(host_bench PRIVATE assay::checks fmt::fmt)
add_dependencies(benchmarks host_bench)
