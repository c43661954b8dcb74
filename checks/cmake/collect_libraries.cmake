# Copies the shared libraries that PROGRAM needs, but for those of the C library, into FOLDER.
cmake_minimum_required(VERSION 3.25)
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${PROGRAM}
  RESOLVED_DEPENDENCIES_VAR libraries UNRESOLVED_DEPENDENCIES_VAR missing
  PRE_EXCLUDE_REGEXES "^(ld-linux|libc|libm|libpthread|libdl|librt)[-.]")
if(missing)
  message(FATAL_ERROR "${PROGRAM} needs ${missing}")
endif()
foreach(library IN LISTS libraries)
  file(COPY ${library} DESTINATION ${FOLDER} FOLLOW_SYMLINK_CHAIN)
endforeach()
