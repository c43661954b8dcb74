#include "checks/cli/command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <thread>

#include "reference/case/file_io.hpp"
#include "reference/case/safetensors.hpp"
#include "reference/case/text.hpp"
#include "reference/oracle/registry.hpp"

namespace assay::cli {

void add_seed(CLI::App& app, std::uint64_t& seed, const std::string& doc) {
  app.add_option("--seed", seed, doc)
      ->check([](const std::string& text) {
        // CLI11 itself takes -1 for 2^64 - 1, and so it does what is too large.
        std::uint64_t number = 0;
        const char* end = text.data() + text.size();
        const auto read = std::from_chars(text.data(), end, number);
        return read.ec == std::errc() && read.ptr == end
                   ? std::string()
                   : "a whole number from 0 to 18446744073709551615 is needed";
      })
      ->capture_default_str();
}

CLI::Validator named_folder() {
  return CLI::Validator(
      [](std::string& text) { return text.empty() ? std::string("a name is needed") : ""; }, "");
}

CLI::Validator writable_file() {
  return CLI::Validator(
      [](std::string& text) {
        try {
          if (text != "-" && !text.empty()) check_writable(text);
        } catch (const InputError& error) {
          return std::string(error.what());
        }
        return std::string();
      },
      "");
}

void add_threads(CLI::App& app, int& threads) {
  threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  app.add_option("--threads", threads, "threads; the result does not depend on them")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
}

std::string& invocation() {
  static std::string line;
  return line;
}

double parse_duration(const std::string& text) {
  std::string digits = text;
  double unit = 1;
  if (!digits.empty() && (digits.back() == 's' || digits.back() == 'm' || digits.back() == 'h')) {
    unit = digits.back() == 'm' ? 60 : digits.back() == 'h' ? 3600 : 1;
    digits.pop_back();
  }
  const std::optional<double> value = parse_real(digits);
  if (!value || !(*value > 0) || !(*value < 1e7)) {
    throw InputError("'" + text + "' is no time; give one like 60s, 2m or 1h");
  }
  return *value * unit;
}

bool looks_like_file(const std::string& text) {
  return text.find_first_of("./") != std::string::npos || std::filesystem::exists(text);
}

ValidCase load_case(const std::string& path, bool strict,
                    const std::function<void(Case&)>& adjust) {
  Case data = read_case(path);
  if (adjust) adjust(data);
  const Schema schema = find_operation(data.op).schema(&data);
  ValidCase c = validate(std::move(data), schema);
  if (strict && !c.notes.empty()) {
    throw InputError(fmt::format("{}: {} (--strict)", path, domain_note_text(c.notes.front())));
  }
  return c;
}

}  // namespace assay::cli
