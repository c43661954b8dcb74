# Tests of the room `checks` and of the house as a whole.
file(GLOB tests CONFIGURE_DEPENDS tests/*.cpp */tests/*.cpp)
if(tests)
  assay_catch_tests(checks_tests COST 50 ${tests})
  assay_unity(checks_tests PRECOMPILED ALONE planted_test)
  target_compile_definitions(checks_tests PRIVATE
    ASSAY_PROGRAM="$<TARGET_FILE:assay_program>")
  target_link_libraries(checks_tests PRIVATE assay::checks fmt::fmt)
  add_dependencies(checks_tests assay_program)
  include(${CMAKE_CURRENT_SOURCE_DIR}/candidate/tests/plugins.cmake)
endif()

set(tests_dir ${CMAKE_CURRENT_SOURCE_DIR}/tests)

add_test(NAME house/include_arrows
  COMMAND Python3::Interpreter ${tests_dir}/include_arrows.py ${PROJECT_SOURCE_DIR})
add_test(NAME house/include_arrows_self_test
  COMMAND Python3::Interpreter ${tests_dir}/include_arrows.py --self-test)
add_test(NAME house/inventory
  COMMAND Python3::Interpreter ${tests_dir}/inventory.py ${PROJECT_SOURCE_DIR}
    $<TARGET_FILE:assay_program>)
add_test(NAME house/inventory_self_test
  COMMAND Python3::Interpreter ${tests_dir}/inventory.py --self-test)
add_test(NAME house/format
  COMMAND Python3::Interpreter ${tests_dir}/format.py ${PROJECT_SOURCE_DIR})
set_tests_properties(house/include_arrows house/include_arrows_self_test house/inventory
  house/inventory_self_test house/format PROPERTIES TIMEOUT 120 SKIP_RETURN_CODE 77)

# A second implementation, in Python with mpmath, written from the equations alone.
set(independent_dir ${PROJECT_SOURCE_DIR}/reference/tests/independent)
set(cases_dir ${PROJECT_BINARY_DIR}/independent_cases)
add_test(NAME independent/oracle_self_test
  COMMAND Python3::Interpreter ${independent_dir}/test_oracle.py)
add_test(NAME independent/make_cases
  COMMAND Python3::Interpreter ${independent_dir}/make_cases.py --seed 1 --count 8
    --out ${cases_dir})
add_test(NAME independent/agrees_with_assay
  COMMAND Python3::Interpreter ${independent_dir}/compare.py --assay $<TARGET_FILE:assay_program>
    --cases ${cases_dir})
add_test(NAME independent/comparison_self_test
  COMMAND Python3::Interpreter ${independent_dir}/compare.py --self-test --cases ${cases_dir})
set_tests_properties(independent/make_cases PROPERTIES FIXTURES_SETUP independent_cases)
set_tests_properties(independent/agrees_with_assay independent/comparison_self_test PROPERTIES
  FIXTURES_REQUIRED independent_cases)
set_tests_properties(independent/oracle_self_test independent/make_cases
  independent/agrees_with_assay independent/comparison_self_test PROPERTIES
  TIMEOUT 900 ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)

# The main job itself, on one thread: much of it is serial, and other tests run beside it.
add_test(NAME house/verify COMMAND assay_program verify --threads 1)
set_tests_properties(house/verify PROPERTIES TIMEOUT 900 COST 1000)

# The installed package serves a stranger's project.
if(ASSAY_INSTALL AND NOT ASSAY_SANITIZE)
  set(consumer_dir ${PROJECT_BINARY_DIR}/consumer)
  add_test(NAME house/consumer
    COMMAND ${CMAKE_COMMAND} -DBUILD=${PROJECT_BINARY_DIR} -DWORK=${consumer_dir}
      -DSOURCE=${tests_dir}/consumer -DGENERATOR=${CMAKE_GENERATOR}
      -DCOMPILER=${CMAKE_CXX_COMPILER} -P ${tests_dir}/consumer/run.cmake)
  set_tests_properties(house/consumer PROPERTIES TIMEOUT 600)
endif()
