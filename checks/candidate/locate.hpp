// Where the parts lie that the program does not contain: host, worker, built-in kernels.
#pragma once

#include <string>

namespace assay {

/// The file named by the environment variable if that is set, else `name` beside the running
/// program, one folder up (tests in the build tree), or in libexec/assay or lib/assay of its
/// prefix.
/// "" when it is nowhere.
std::string find_part(const char* environment_variable, const std::string& name);

/// The folder that holds the Python package assay_worker, installed or in the source tree; "" when
/// there is none (then Python must find it by itself).
std::string worker_package_folder();

/// `name` as a path to an executable, looked up on PATH unless it has a slash; "" if there is none.
std::string find_program(const std::string& name);

}  // namespace assay
