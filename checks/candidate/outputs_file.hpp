// `outputs:FILE`: results that were computed elsewhere.
#pragma once

#include <memory>
#include <string>

#include "checks/candidate/candidate.hpp"

namespace assay {

/// A safetensors file with outputs by name and gradients as `d_<input>`. It is the answer to every
/// case, so it belongs to one case. Throws InputError for a file that cannot be read.
std::unique_ptr<Candidate> open_outputs_file(const std::string& path);

}  // namespace assay
