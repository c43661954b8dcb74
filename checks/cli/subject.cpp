#include "checks/cli/subject.hpp"

#include <filesystem>

#include "checks/cli/command.hpp"
#include "checks/output/json_output.hpp"
#include "fuzz/corpus/corpus.hpp"
#include "fuzz/generators/recipe.hpp"
#include "reference/case/file_io.hpp"

namespace assay::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLargest = 64 << 20;

}  // namespace

/// A plug-in's path holds from everywhere.
std::string absolute_spec(const std::string& spec) {
  std::error_code error;
  const std::string file = spec.substr(0, spec.rfind('@'));
  if (!fs::is_regular_file(file, error)) return spec;
  return fs::absolute(file).string() + spec.substr(file.size());
}

std::string default_corpus() {
  std::error_code error;
  const auto program = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& place : {fs::path(ASSAY_SOURCE_DIR) / "fuzz/corpus",
                                program / "../" ASSAY_DATA_DIR "/corpus", program / "corpus"}) {
    if (fs::is_directory(place, error)) return place.string();
  }
  return "";
}

Subject load_subject(const std::string& text) {
  std::error_code error;
  Subject s;
  if (fs::is_directory(text, error)) {
    s.given = load_pinned(text + "/case.safetensors", text).given;
    if (fs::exists(text + "/model.json", error)) s.model = text + "/model.json";
    for (const std::string& place : {text + "/finding.json", text + "/../../finding.json"}) {
      if (!fs::exists(place, error)) continue;
      const Json finding = Json::parse(read_file_bytes(place, kLargest), nullptr, false);
      if (!finding.is_object()) throw InputError(place + ": is no JSON object");
      s.candidate = finding.value("candidate", "");
      break;
    }
    if (fs::exists(text + "/verdict.json", error)) {
      const Json verdict =
          Json::parse(read_file_bytes(text + "/verdict.json", kLargest), nullptr, false);
      if (verdict.is_object() && verdict.contains("verdict") && verdict["verdict"].is_string()) {
        s.expected = verdict["verdict"];
      }
    }
    return s;
  }
  if (text.find(' ') == std::string::npos && looks_like_file(text)) {
    s.given = load_pinned(text, text).given;
    return s;
  }
  s.given = {build_case(parse_recipe(text)), "case line", false};
  return s;
}

}  // namespace assay::cli
