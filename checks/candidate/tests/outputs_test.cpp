// `outputs:FILE` and the registration of schemes.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "checks/candidate/scheme.hpp"
#include "checks/candidate/tests/candidate_cases.hpp"
#include "reference/case/safetensors.hpp"
#include "reference/oracle/evaluate.hpp"

namespace assay {
namespace {

using namespace tests;
using Catch::Matchers::Contains;

CaseTensor stored(const Tensor<double>& tensor) {
  CaseTensor out;
  out.shape = tensor.shape;
  out.values = tensor.data;
  return out;
}

SafetensorsFile truth_file(const ValidCase& c) {
  RunOptions options;
  options.gradients = true;
  const Result<double> truth = evaluate(lift<double>(c), options);
  SafetensorsFile file;
  for (const auto& [name, tensor] : truth.outputs) file.tensors[name] = stored(tensor);
  for (const auto& [name, tensor] : truth.gradients) file.tensors["d_" + name] = stored(tensor);
  return file;
}

struct File {
  std::string path = (std::filesystem::temp_directory_path() /
                      ("assay-outputs-" + std::to_string(getpid()) + ".safetensors"))
                         .string();
  ~File() { std::filesystem::remove(path); }
};

TEST_CASE("candidate/outputs: results computed elsewhere", "[candidate]") {
  const File file;
  const ValidCase c = attention_case(5);
  SafetensorsFile contents = truth_file(c);
  write_safetensors(file.path, contents);
  const RunResult all = open_candidate("outputs:" + file.path, {}, {})->run(c, true);
  CHECK(all.status == RunStatus::ran);
  CHECK(all.hygiene.empty());
  CHECK(distance_to_truth(c, all, true) == 0);

  // What is not stored is not judged.
  contents.tensors.erase("d_k");
  contents.tensors["o"].shape = {40};
  write_safetensors(file.path, contents);
  const RunResult part = open_candidate("outputs:" + file.path, {}, {})->run(c, true);
  CHECK(part.status == RunStatus::ran);
  CHECK(part.gradients.count("k") == 0);
  CHECK(has_finding(part.hygiene, "wrong shape", "o"));

  contents.tensors.clear();
  write_safetensors(file.path, contents);
  CHECK(open_candidate("outputs:" + file.path, {}, {})->run(c, true).status ==
        RunStatus::unsupported);
  CHECK_THROWS_AS(open_candidate("outputs:/nowhere.safetensors", {}, {}), InputError);
}

class Silent : public Candidate {
 public:
  explicit Silent(const std::string& name) { info_.name = name; }
  const CandidateInfo& info() const override { return info_; }
  RunResult run(const ValidCase&, bool) override { return {}; }

 private:
  CandidateInfo info_;
};

TEST_CASE("candidate/scheme: others can be registered", "[candidate]") {
  CHECK_THROWS_WITH(open_candidate("planted-scheme:x", {}, {}), Contains("known are"));
  register_candidate_scheme("planted-scheme", "planted-scheme:ID", "for this test",
                            [](const std::string& rest, const PrecisionModel&, const RunLimits&) {
                              return std::make_unique<Silent>(rest);
                            });
  const auto candidate = open_candidate("planted-scheme:x:y", {}, {});
  CHECK(candidate->info().name == "x:y");
  CHECK(candidate_schemes().back().form == "planted-scheme:ID");
  CHECK(candidate->run_laid_out(attention_case(1), false, {true, false}).status ==
        RunStatus::unsupported);
}

}  // namespace
}  // namespace assay
