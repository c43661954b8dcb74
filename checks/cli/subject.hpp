// What `replay`, `shrink` and `corpus` are given: a failure folder, a case file or a case line.
#pragma once

#include <string>

#include "checks/verdict/check_cases.hpp"

namespace assay::cli {

struct Subject {
  CheckCase given;
  std::string candidate, model;  // of the folder, if it says so
  std::string expected;          // its verdict
};
/// Throws InputError.
Subject load_subject(const std::string& text);

/// A plug-in's path holds from everywhere.
std::string absolute_spec(const std::string& spec);

/// The folder of pinned cases that comes with the program; empty when it is not there.
std::string default_corpus();

}  // namespace assay::cli
