#include "checks/candidate/outputs_file.hpp"

#include "checks/candidate/exchange.hpp"
#include "reference/case/safetensors.hpp"
#include "reference/oracle/registry.hpp"

namespace assay {
namespace {

class OutputsFile : public Candidate {
 public:
  explicit OutputsFile(const std::string& path) : file_(read_safetensors(path)) {
    info_.name = path;
    if (const auto op = file_.metadata.find("assay.op"); op != file_.metadata.end()) {
      info_.operations = {op->second};
    }
    info_.has_backward = false;
    info_.any_case = false;
    for (const auto& [name, tensor] : file_.tensors) {
      info_.has_backward = info_.has_backward || is_gradient(name);
    }
  }

  const CandidateInfo& info() const override { return info_; }

  RunResult run(const ValidCase& c, bool gradients) override {
    RunResult result;
    result.saved = true;
    take_tensors(c, gradients && info_.has_backward, file_, declined(c), result);
    if (result.outputs.empty() && result.gradients.empty() && result.hygiene.empty()) {
      result.status = RunStatus::unsupported;
      result.detail = "the file holds no output and no gradient of " + c.data.op;
    }
    return result;
  }

 private:
  /// Cotangents are called d_<output>, gradients d_<input>.
  bool is_gradient(const std::string& name) const {
    if (name.rfind("d_", 0) != 0) return false;
    if (info_.operations.empty()) return true;
    const Schema schema = find_operation(info_.operations[0]).schema(nullptr);
    return schema.find_output(name.substr(2)) == nullptr;
  }

  /// Whoever computed it elsewhere chose what to store: what is absent is not judged.
  std::set<std::string> declined(const ValidCase& c) const {
    std::set<std::string> names;
    for (const OutputSpec& spec : c.schema.outputs) names.insert(spec.name);
    for (const std::string& name : gradient_names(c)) names.insert("d_" + name);
    return names;
  }

  SafetensorsFile file_;
  CandidateInfo info_;
};

}  // namespace

std::unique_ptr<Candidate> open_outputs_file(const std::string& path) {
  return std::make_unique<OutputsFile>(path);
}

}  // namespace assay
