#include "fuzz/generators/simpler.hpp"

#include <algorithm>

#include "reference/case/text.hpp"

namespace assay {
namespace {

bool can_be_made(const CaseRecipe& r) {
  try {
    build_case(r);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

/// "T=65" with other lengths: 1, half, one less; offsets of packed sequences stay.
void shorter(const CaseRecipe& r, std::vector<CaseRecipe>& out) {
  const std::vector<std::string> parts = split(r.shape, ',');
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t equals = parts[i].find('=');
    if (equals == std::string::npos) continue;
    const std::string key = parts[i].substr(0, equals);
    const auto length = parse_integer(parts[i].substr(equals + 1));
    if (key == "cu" || !length || *length < 2) continue;
    for (const std::int64_t n : {std::int64_t{1}, *length / 2, *length - 1}) {
      std::vector<std::string> changed = parts;
      changed[i] = key + "=" + std::to_string(n);
      CaseRecipe smaller = r;
      smaller.shape = join(changed, ",");
      if (n < *length) out.push_back(std::move(smaller));
    }
  }
}

}  // namespace

std::vector<CaseRecipe> simpler_recipes(const CaseRecipe& r) {
  const CaseRecipe plain;
  std::vector<CaseRecipe> all;
  shorter(r, all);
  const auto reset = [&](auto member) {
    if (r.*member == plain.*member) return;
    all.push_back(r);
    all.back().*member = plain.*member;
  };
  reset(&CaseRecipe::gates);
  reset(&CaseRecipe::log_gates);
  reset(&CaseRecipe::keys);
  reset(&CaseRecipe::values);
  reset(&CaseRecipe::routing);
  reset(&CaseRecipe::activations);
  reset(&CaseRecipe::states);
  reset(&CaseRecipe::cotangents);
  reset(&CaseRecipe::options);
  reset(&CaseRecipe::without);
  std::erase_if(all, [](const CaseRecipe& smaller) { return !can_be_made(smaller); });
  return all;
}

}  // namespace assay
