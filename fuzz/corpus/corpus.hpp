// Pinned cases: small files that keep what once was wrong somewhere from coming back unseen.
#pragma once

#include <string>
#include <vector>

#include "checks/verdict/check_cases.hpp"

namespace assay {

struct PinnedCase {
  std::string name;  // of the file, without folder and ending
  CheckCase given;
  std::vector<std::string> catches;  // faults of the dictionary that the case shows
  std::string why;                   // which kind of bug, one line
};

/// All case files (*.safetensors) of a folder, by name. Throws InputError for a folder or a file
/// that cannot be read, naming it.
std::vector<PinnedCase> load_corpus(const std::string& folder);

/// case.safetensors of every failure folder below `folder`, at any depth of up to four: what
/// earlier campaigns found, minimal cases first.
std::vector<PinnedCase> load_failures(const std::string& folder);

/// One case file; `name` is kept.
PinnedCase load_pinned(const std::string& path, const std::string& name);

/// The bytes of a pinned case, with what it catches and why in its metadata.
std::string pinned_bytes(const PinnedCase& c);

}  // namespace assay
