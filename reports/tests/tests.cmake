# Tests of the room `reports`.
file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/tests/*.cpp
  ${CMAKE_CURRENT_SOURCE_DIR}/*/tests/*.cpp)
assay_catch_tests(reports_tests ${tests})
set(pages_dir ${PROJECT_BINARY_DIR}/report_pages)
target_compile_definitions(reports_tests PRIVATE ASSAY_PAGES="${pages_dir}")
target_link_libraries(reports_tests PRIVATE assay::reports fmt::fmt Eigen3::Eigen)

# Pages in a real browser.
set(browser ${CMAKE_CURRENT_SOURCE_DIR}/tests/browser.py)
add_test(NAME reports/browser_self_test COMMAND Python3::Interpreter ${browser} --self-test)
add_test(NAME reports/write_example
  COMMAND reports_tests "render/page: writes the example for the browser")
add_test(NAME reports/browser_example
  COMMAND Python3::Interpreter ${browser} ${pages_dir}/example.html)
set_tests_properties(reports/write_example PROPERTIES FIXTURES_SETUP report_example)
set_tests_properties(reports/browser_example PROPERTIES FIXTURES_REQUIRED report_example)
set_tests_properties(reports/browser_self_test reports/browser_example PROPERTIES
  TIMEOUT 300 SKIP_RETURN_CODE 77 ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
