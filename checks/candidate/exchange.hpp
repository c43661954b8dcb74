// A case as a request to a worker, and what comes back as a RunResult.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "checks/candidate/candidate.hpp"
#include "reference/case/safetensors.hpp"

namespace assay {

/// Which form a kernel is asked for.
struct FormRequest {
  std::string form = "any";
  std::int64_t chunk = 0;
};

struct RunRequest {
  bool gradients = false;
  CallLayout layout;
  FormRequest form;
  DType output = DType::F32;       // of outputs
  DType final_state = DType::F32;  // of outputs that are states
};

/// Everything but id and bytes. Gradients have the dtype of their input.
nlohmann::json request_json(const ValidCase& c, const RunRequest& request);
/// The tensors that go with it.
std::string request_tensors(const ValidCase& c);

/// Names of the inputs that have a gradient, as the case has them.
std::vector<std::string> gradient_names(const ValidCase& c);

/// Fills outputs and gradients from stored tensors (gradients are called "d_<input>"); what is
/// missing and not in `declined`, or has the wrong shape, becomes a hygiene finding.
void take_tensors(const ValidCase& c, bool gradients, SafetensorsFile file,
                  const std::set<std::string>& declined, RunResult& result);

}  // namespace assay
