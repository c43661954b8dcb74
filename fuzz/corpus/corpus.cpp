#include "fuzz/corpus/corpus.hpp"

#include <algorithm>
#include <filesystem>

#include "checks/output/failure_folder.hpp"
#include "reference/case/safetensors.hpp"
#include "reference/case/text.hpp"
#include "reference/oracle/registry.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCatches = "assay.corpus.catches";
constexpr const char* kWhy = "assay.corpus.why";
constexpr int kDeepest = 4;
/// Pinned cases are small; whoever pins a large one learns it here.
constexpr std::uint64_t kLargest = 64 << 20;
constexpr std::int64_t kMostElements = 1 << 24;

std::vector<fs::path> files_of(const std::string& folder, bool failures) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) throw InputError(folder + ": is no folder");
  std::vector<fs::path> files;
  fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, error);
  if (error) throw InputError(folder + ": " + error.message());
  for (; at != fs::recursive_directory_iterator(); at.increment(error)) {
    if (error) throw InputError(folder + ": " + error.message());
    if (!failures || at.depth() >= kDeepest) at.disable_recursion_pending();
    const fs::path& path = at->path();
    const bool wanted =
        failures ? path.filename() == "case.safetensors" : path.extension() == ".safetensors";
    if (wanted && at->is_regular_file(error)) files.push_back(path);
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

PinnedCase load_pinned(const std::string& path, const std::string& name) {
  std::error_code error;
  if (fs::file_size(path, error) > kLargest && !error) {
    throw InputError(path + ": larger than 64 MiB, which is no case to pin");
  }
  Case data = read_case(path);
  PinnedCase pinned;
  pinned.name = name;
  if (const auto found = data.metadata.find(kCatches); found != data.metadata.end()) {
    pinned.catches = split(found->second, ',');
    data.metadata.erase(found);
  }
  if (const auto found = data.metadata.find(kWhy); found != data.metadata.end()) {
    pinned.why = printable(found->second);
    data.metadata.erase(found);
  }
  const bool exact = says_exact(data);
  const Schema schema = find_operation(data.op).schema(&data);
  pinned.given = {validate(std::move(data), schema), "pinned", exact};
  // A few bytes can ask for a large result: no tokens, and states of any width.
  for (const OutputSpec& out : pinned.given.valid.schema.outputs) {
    if (element_count(pinned.given.valid.output_shape(out)) > kMostElements) {
      throw InputError(path + ": '" + out.name +
                       "' has more than 2^24 elements, which is no case to pin");
    }
  }
  return pinned;
}

std::vector<PinnedCase> load_corpus(const std::string& folder) {
  std::vector<PinnedCase> all;
  for (const fs::path& file : files_of(folder, false)) {
    all.push_back(load_pinned(file.string(), file.stem().string()));
  }
  return all;
}

std::vector<PinnedCase> load_failures(const std::string& folder) {
  std::vector<PinnedCase> all;
  for (const fs::path& file : files_of(folder, true)) {
    all.push_back(load_pinned(file.string(), fs::relative(file.parent_path(), folder).string()));
  }
  std::stable_sort(all.begin(), all.end(), [](const PinnedCase& a, const PinnedCase& b) {
    const auto minimal = [](const PinnedCase& c) {
      return c.name.find("/minimal/") != c.name.npos;
    };
    return minimal(a) > minimal(b);
  });
  return all;
}

std::string pinned_bytes(const PinnedCase& c) {
  CheckCase given = c.given;
  if (!c.catches.empty()) given.valid.data.metadata[kCatches] = join(c.catches, ",");
  if (!c.why.empty()) given.valid.data.metadata[kWhy] = c.why;
  return case_bytes(given);
}

}  // namespace assay
