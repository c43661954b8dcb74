# Writes the page of a check with a finding; the finding is exit code 1.
cmake_path(GET PAGE PARENT_PATH folder)
file(MAKE_DIRECTORY ${folder})
execute_process(COMMAND ${PROGRAM} check gdn m2rnn --candidate fault:*.read_before_update
  --budget 8s --html ${PAGE} RESULT_VARIABLE code OUTPUT_QUIET)
if(NOT code EQUAL 1)
  message(FATAL_ERROR "exit code ${code}, expected a finding")
endif()
