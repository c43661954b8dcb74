#include "checks/cli/command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <thread>

#include "reference/case/safetensors.hpp"
#include "reference/oracle/registry.hpp"

namespace assay::cli {

void add_threads(CLI::App& app, int& threads) {
  threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  app.add_option("--threads", threads, "threads; the result does not depend on them")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
}

bool looks_like_file(const std::string& text) {
  return text.find_first_of("./") != std::string::npos || std::filesystem::exists(text);
}

std::string note_text(const DomainNote& note) {
  return fmt::format("{}: {} value{} outside [{}, {}], first {} at {}", note.tensor, note.count,
                     note.count == 1 ? "" : "s", note.domain.lo, note.domain.hi, note.first_value,
                     note.first_index);
}

ValidCase load_case(const std::string& path, bool strict,
                    const std::function<void(Case&)>& adjust) {
  Case data = read_case(path);
  if (adjust) adjust(data);
  const Schema schema = find_operation(data.op).schema(&data);
  ValidCase c = validate(std::move(data), schema);
  if (strict && !c.notes.empty()) {
    throw InputError(fmt::format("{}: {} (--strict)", path, note_text(c.notes.front())));
  }
  return c;
}

}  // namespace assay::cli
