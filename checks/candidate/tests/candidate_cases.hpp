// What the tests of candidates share.
#pragma once

#include <memory>
#include <string>

#include "checks/candidate/candidate.hpp"

namespace assay::tests {

/// linear_attention with B=1, H=2, K=3, V=4.
ValidCase attention_case(std::int64_t T, DType dtype = DType::F32);

std::unique_ptr<Candidate> open_plugin(const std::string& name, double seconds = 20,
                                       std::uint64_t memory_bytes = 8ull << 30);

/// Largest difference of outputs and gradients to the reference in double; infinite when a tensor
/// is missing or anything is not finite.
double distance_to_truth(const ValidCase& c, const RunResult& result, bool gradients);

/// "kind tensor: detail" of all findings, one a line.
std::string hygiene_text(const std::vector<HygieneFinding>& findings);
bool has_finding(const std::vector<HygieneFinding>& findings, const std::string& kind,
                 const std::string& tensor);

/// Sets an environment variable while it lives.
class Environment {
 public:
  Environment(const char* name, const std::string& value);
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
  std::string before_;
  bool was_set_;
};

}  // namespace assay::tests
