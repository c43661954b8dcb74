// The decision about a gate box, between `proofs`, which decides, and `reports`, which shows.
#pragma once

#include <string>

#include "reports/stability/box.hpp"

namespace assay::cli {

struct BoxQuestion {
  std::string box;           // as reports::parse_box reads it
  std::string keys = "any";  // fixed, basis, any
  double budget = 20;        // seconds
  bool suggest = false;
  std::string folder;  // for the unstable cycle as a trace and the certificate; empty: not written
};

/// Throws InputError for a box that is none.
reports::BoxFinding decide_box(const BoxQuestion& question);

}  // namespace assay::cli
