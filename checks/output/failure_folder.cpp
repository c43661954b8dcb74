#include "checks/output/failure_folder.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "checks/output/check_formats.hpp"
#include "checks/output/verdict_text.hpp"
#include "reference/case/file_io.hpp"
#include "reference/case/safetensors.hpp"
#include "reference/case/text.hpp"

namespace assay {
namespace {

constexpr const char* kExact = "assay.exact";

void add(SafetensorsFile& file, const std::string& name, const Shape& shape,
         const std::vector<double>& values) {
  file.tensors[name] = {DType::F64, shape, values, {}};
}

SafetensorsFile evidence_file(const Evidence& evidence) {
  SafetensorsFile file;
  for (const auto* set : {&evidence.result.outputs, &evidence.result.gradients}) {
    const std::string prefix = set == &evidence.result.gradients ? "d_" : "";
    for (const auto& [name, tensor] : *set) add(file, prefix + name, tensor.shape, tensor.data);
  }
  for (const auto& [name, e] : evidence.expectation) {
    add(file, name + ".truth", e.shape, e.truth);
    add(file, name + ".sigma", e.shape, e.sigma);
  }
  return file;
}

}  // namespace

std::string case_bytes(const CheckCase& c) {
  Case data = c.valid.data;
  if (c.exact) data.metadata[kExact] = "1";
  return safetensors_bytes(file_from_case(data));
}

std::string case_hash(const CheckCase& c) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  for (const unsigned char byte : case_bytes(c)) hash = (hash ^ byte) * 0x100000001b3ULL;
  return fmt::format("{:08x}", static_cast<std::uint32_t>(hash ^ hash >> 32));
}

bool says_exact(const Case& data) { return data.metadata.count(kExact) != 0; }

std::string shell_word(const std::string& text) {
  const bool plain =
      !text.empty() && text.find_first_not_of(
                           "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                           "_-./:=,@+%") == std::string::npos;
  if (plain) return text;
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string write_failure(const std::string& folder, const Verdict& verdict,
                          const Evidence& evidence, const PrecisionModel& model,
                          const std::string& candidate) {
  namespace fs = std::filesystem;
  const fs::path place = fs::path(folder) / (verdict.op + "-" + case_hash(evidence.given));
  std::error_code error;
  fs::create_directories(place, error);
  if (error) throw InputError(place.string() + ": cannot make the folder: " + error.message());
  const auto write = [&](const char* name, const std::string& text) {
    write_file_atomic((place / name).string(), text);
  };
  write("case.safetensors", case_bytes(evidence.given));
  write("evidence.safetensors", safetensors_bytes(evidence_file(evidence)));
  write("model.json", model_json(model) + "\n");
  write("verdict.txt", verdict_text(verdict));
  write("finding.json", nlohmann::ordered_json{{"candidate", candidate}}.dump(1) + "\n");
  write("verdict.json", verdict_json(verdict).dump(1) + "\n");
  write("replay.sh",
        fmt::format("#!/bin/sh\n# {}\ncd \"$(dirname \"$0\")\" || exit 2\n"
                    "PYTHONPATH={}${{PYTHONPATH:+:$PYTHONPATH}}; export PYTHONPATH\n"
                    "exec assay check --candidate {} --model model.json --case case.safetensors\n",
                    printable(verdict.case_line), shell_word(fs::current_path().string()),
                    shell_word(candidate)));
  fs::permissions(place / "replay.sh", fs::perms::owner_exec | fs::perms::group_exec,
                  fs::perm_options::add, error);
  return place.string();
}

}  // namespace assay
