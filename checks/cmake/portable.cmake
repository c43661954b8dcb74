# The shared libraries that have no static twin on Debian (Flint, Arb, fmt) are laid beside the
# program, which looks for them in its own folder first: build-portable/{assay,lib/} can be carried
# to any machine with the same or a newer C library.
set_target_properties(assay_program PROPERTIES
  BUILD_RPATH "\$ORIGIN/lib" INSTALL_RPATH "\$ORIGIN/../lib/assay" BUILD_RPATH_USE_ORIGIN ON)
# RPATH, not RUNPATH: it must also serve the libraries' own dependencies.
target_link_options(assay_program PRIVATE -Wl,--disable-new-dtags)
add_custom_command(TARGET assay_program POST_BUILD
  COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:assay_program>
    -DFOLDER=$<TARGET_FILE_DIR:assay_program>/lib
    -P ${CMAKE_CURRENT_LIST_DIR}/collect_libraries.cmake VERBATIM)
if(ASSAY_INSTALL)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/lib/ DESTINATION ${CMAKE_INSTALL_LIBDIR}/../lib/assay)
endif()
