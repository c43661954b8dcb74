# Debian has no static twins of Flint, Arb and fmt, so the shared libraries (the C++ runtime among
# them, but not the C library) are laid beside the program, which looks for them there first:
# build-portable/{assay,lib/} can be carried to any machine with the same or a newer C library.
set_target_properties(assay_program PROPERTIES
  INSTALL_RPATH "\$ORIGIN/lib:\$ORIGIN/../lib/assay" BUILD_WITH_INSTALL_RPATH ON)
# RPATH, not RUNPATH: it must also serve the libraries' own dependencies.
target_link_options(assay_program PRIVATE -Wl,--disable-new-dtags)
add_custom_command(TARGET assay_program POST_BUILD
  COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:assay_program>
    -DFOLDER=$<TARGET_FILE_DIR:assay_program>/lib
    -P ${CMAKE_CURRENT_LIST_DIR}/collect_libraries.cmake VERBATIM)
if(ASSAY_INSTALL)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/lib/ DESTINATION lib/assay)
endif()
