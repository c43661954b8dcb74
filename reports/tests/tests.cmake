# Tests of the room `reports`.
file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/tests/*.cpp
  ${CMAKE_CURRENT_SOURCE_DIR}/*/tests/*.cpp)
assay_catch_tests(reports_tests ${tests})
assay_unity(reports_tests PRECOMPILED)
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

# The page of a check.
set(check_page ${pages_dir}/check.html)
add_test(NAME reports/write_check COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:assay_program>
  -DPAGE=${check_page} -P ${CMAKE_CURRENT_SOURCE_DIR}/tests/write_check.cmake)
add_test(NAME reports/browser_check COMMAND Python3::Interpreter ${browser} ${check_page})
set_tests_properties(reports/write_check PROPERTIES TIMEOUT 300 FIXTURES_SETUP report_check)
set_tests_properties(reports/browser_check PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77
  FIXTURES_REQUIRED report_check ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)

# The commands on the samples, and their pages in the browser.
add_test(NAME reports/commands
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/tests/report_commands.py
    ${PROJECT_BINARY_DIR}/assay ${PROJECT_SOURCE_DIR}/checks/samples ${pages_dir})
add_test(NAME reports/browser_reports
  COMMAND Python3::Interpreter ${browser} ${pages_dir}/report0/spectrum.html
    ${pages_dir}/report4/stability.html ${pages_dir}/report8/conditioning.html)
set_tests_properties(reports/commands PROPERTIES
  TIMEOUT 600 FIXTURES_SETUP report_pages ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
set_tests_properties(reports/browser_reports PROPERTIES
  TIMEOUT 300 SKIP_RETURN_CODE 77 FIXTURES_REQUIRED report_pages
  ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
