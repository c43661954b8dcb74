# Campaigns as a user runs them.
foreach(name planted mpi kills resume budget interrupt hostile)
  add_test(NAME fuzz/campaign_${name}
    COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/tests/campaign.py
      $<TARGET_FILE:assay_program> ${name})
  set_tests_properties(fuzz/campaign_${name} PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77)
endforeach()
foreach(plugin correct segfault hang after unwritten random strides)
  add_dependencies(fuzz_tests test_plugin_${plugin})
endforeach()
add_test(NAME fuzz/corpus_run
  COMMAND assay_program corpus run --candidate cpu --faults)
set_tests_properties(fuzz/corpus_run PROPERTIES TIMEOUT 300)

# The program's own readers under libFuzzer: clang instruments what reads, everything else comes
# from the libraries that are built anyway.
find_program(ASSAY_CLANGXX NAMES clang++ clang++-14)
mark_as_advanced(ASSAY_CLANGXX)
set(self_dir ${CMAKE_CURRENT_SOURCE_DIR}/tests/self)
set(self_flags -std=c++20 -O1 -g -ffp-contract=off -DFMT_SHARED -I${PROJECT_SOURCE_DIR}
  -fsanitize=fuzzer,address -fno-omit-frame-pointer)
if(ASSAY_CLANGXX AND NOT ASSAY_SANITIZE)
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/probe.cpp
    "extern \"C\" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }\n")
  execute_process(COMMAND ${ASSAY_CLANGXX} -fsanitize=fuzzer,address
    ${CMAKE_CURRENT_BINARY_DIR}/probe.cpp -o ${CMAKE_CURRENT_BINARY_DIR}/probe
    RESULT_VARIABLE self_failed OUTPUT_QUIET ERROR_QUIET)
endif()
set(self_safetensors reference/case/safetensors.cpp reference/case/case_file.cpp
  reference/case/json.cpp reference/case/encoding.cpp reference/case/text.cpp)
set(self_case_line fuzz/generators/recipe.cpp reference/case/text.cpp)
set(self_protocol checks/candidate/worker_link.cpp checks/candidate/hosted.cpp
  checks/candidate/exchange.cpp reference/case/safetensors.cpp)
foreach(name safetensors case_line protocol)
  if(NOT ASSAY_CLANGXX OR ASSAY_SANITIZE OR self_failed)
    message(STATUS "no clang with libFuzzer (or a sanitizer build): fuzz/self_${name} is left out")
    continue()
  endif()
  set(objects)
  foreach(source fuzz/tests/self/${name}_fuzz.cpp ${self_${name}})
    string(MAKE_C_IDENTIFIER ${name}_${source} object)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/self/${object}.o)
    add_custom_command(OUTPUT ${object}
      COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${ASSAY_CLANGXX} ${self_flags} -MD -MF ${object}.d
        -c ${PROJECT_SOURCE_DIR}/${source} -o ${object}
      DEPENDS ${PROJECT_SOURCE_DIR}/${source} DEPFILE ${object}.d)
    list(APPEND objects ${object})
  endforeach()
  set(program ${CMAKE_CURRENT_BINARY_DIR}/self/${name}_fuzz)
  add_custom_command(OUTPUT ${program}
    COMMAND ${ASSAY_CLANGXX} -fsanitize=fuzzer,address ${objects} $<TARGET_FILE:assay_fuzz>
      $<TARGET_FILE:assay_checks> $<TARGET_FILE:assay_reference> -ldl -lfmt ${ASSAY_LIB_flint_arb}
      ${ASSAY_LIB_flint} ${ASSAY_LIB_mpfr} ${ASSAY_LIB_gmp} -lpthread -o ${program}
    DEPENDS ${objects} assay_fuzz assay_checks assay_reference)
  add_custom_target(self_fuzz_${name} ALL DEPENDS ${program})
  # New inputs go into the build folder; seeds stand in the source tree.
  file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/self/found/${name})
  add_test(NAME fuzz/self_${name}
    COMMAND ${program} -max_total_time=3 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1
      -artifact_prefix=${CMAKE_CURRENT_BINARY_DIR}/self/ -seed=1
      ${CMAKE_CURRENT_BINARY_DIR}/self/found/${name} ${self_dir}/seeds/${name})
  set_tests_properties(fuzz/self_${name} PROPERTIES TIMEOUT 60)
endforeach()
