// A case as a safetensors file: what lies in the metadata.
#include "reference/case/options.hpp"
#include "reference/case/safetensors.hpp"
#include "reference/case/text.hpp"

namespace assay {
namespace {

constexpr const char* kOp = "assay.op";
constexpr const char* kOptions = "assay.options";
constexpr const char* kVersion = "assay.version";
constexpr const char* kSeed = "assay.seed";
constexpr const char* kCurrentVersion = "1";

/// Removes a key from the metadata and returns its text; nothing when it is absent.
std::optional<std::string> take(std::map<std::string, std::string>& metadata, const char* key) {
  auto node = metadata.extract(key);
  if (node.empty()) return std::nullopt;
  return std::move(node.mapped());
}

}  // namespace

Case case_from_file(SafetensorsFile file, const std::string& source) {
  const std::string where = printable(source) + ": metadata ";
  const auto version = take(file.metadata, kVersion);
  if (!version) throw InputError(where + "'assay.version' is missing; not a case file?");
  if (*version != kCurrentVersion) {
    throw InputError(where + "'assay.version' is " + quote_name(*version) +
                     ", this program reads '" + kCurrentVersion + "'");
  }
  const auto op = take(file.metadata, kOp);
  if (!op || op->empty()) throw InputError(where + "'assay.op' is missing");

  Case c;
  c.op = *op;
  c.source = source;
  c.seed = take(file.metadata, kSeed).value_or("");
  if (const auto options = take(file.metadata, kOptions)) {
    c.options = parse_options(*options, where + "'assay.options'");
  }
  c.metadata = std::move(file.metadata);
  c.tensors = std::move(file.tensors);
  return c;
}

SafetensorsFile file_from_case(const Case& c) {
  SafetensorsFile file;
  file.metadata = c.metadata;
  file.metadata[kOp] = c.op;
  file.metadata[kOptions] = options_text(c.options);
  file.metadata[kVersion] = kCurrentVersion;
  if (!c.seed.empty()) file.metadata[kSeed] = c.seed;
  file.tensors = c.tensors;
  return file;
}

Case read_case(const std::string& path) { return case_from_file(read_safetensors(path), path); }

void write_case(const std::string& path, const Case& c) {
  write_safetensors(path, file_from_case(c));
}

}  // namespace assay
