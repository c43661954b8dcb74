// Case files for the tests of reports.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>

#include "reference/case/generate.hpp"
#include "reference/case/safetensors.hpp"
#include "reference/oracle/registry.hpp"

namespace assay::reports {

inline std::string sample(const std::string& name) {
  return std::string(ASSAY_SOURCE_DIR) + "/checks/samples/" + name + ".safetensors";
}

/// A random case as a file that goes with it.
class TemporaryTrace {
 public:
  TemporaryTrace(const std::string& op, const std::string& shape) : TemporaryTrace() {
    GenerateRequest request;
    request.op = op;
    request.shape = shape;
    request.seed = 11;
    request.dtype = DType::F64;
    case_ = generate([&](const Case* c) { return find_operation(op).schema(c); }, request);
    write_case(path_, case_);
  }
  explicit TemporaryTrace(Case c) : TemporaryTrace() {
    case_ = std::move(c);
    write_case(path_, case_);
  }
  ~TemporaryTrace() { std::filesystem::remove(path_); }
  TemporaryTrace(const TemporaryTrace&) = delete;
  TemporaryTrace& operator=(const TemporaryTrace&) = delete;
  const std::string& path() const { return path_; }
  void change(const std::function<void(Case&)>& how) {
    write_case(path_, [&] {
      Case c = case_;
      how(c);
      return c;
    }());
  }

 private:
  TemporaryTrace() {
    static int number = 0;
    path_ =
        (std::filesystem::temp_directory_path() / ("assay-report-" + std::to_string(getpid()) +
                                                   "-" + std::to_string(number++) + ".safetensors"))
            .string();
  }
  std::string path_;
  Case case_;
};

}  // namespace assay::reports
