#include "checks/verdict/properties.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "checks/verdict/property_examiner.hpp"
#include "checks/verdict/statistics.hpp"
#include "reference/case/text.hpp"
#include "reference/oracle/registry.hpp"
#include "reference/scalars/scalars.hpp"

namespace assay {
namespace properties {
namespace {

template <class Tensors>
void add_values(Values& all, const Tensors& tensors, const std::string& prefix) {
  for (const auto& [name, tensor] : tensors) all[prefix + name] = tensor.data;
}

/// A tensor with a finite number that its dtype has not; none: "".
std::string beyond_its_format(const ValidCase& c) {
  for (const auto& [name, tensor] : c.data.tensors) {
    for (const double x : tensor.values) {
      if (std::isfinite(x) && !std::isfinite(round_to_dtype(x, tensor.dtype))) return name;
    }
  }
  return "";
}

}  // namespace

Values values_of(const RunResult& r) {
  Values all;
  add_values(all, r.outputs, "");
  add_values(all, r.gradients, "d_");
  return all;
}

Values reference_values(const ValidCase& c, bool gradients) {
  const auto r = evaluate<double>(lift<double>(c), {Form::recurrent, gradients, 1, {}});
  Values all;
  add_values(all, r.outputs, "");
  add_values(all, r.gradients, "d_");
  return all;
}

std::string axes_of(const ValidCase& c, const std::string& name) {
  if (const InputSpec* in = c.schema.find_input(name)) return in->axes;
  if (name.rfind("d_", 0) != 0) return "";
  const OutputSpec* out = c.schema.find_output(name.substr(2));
  return out ? out->axes : "";
}

PropertyReport PropertyExaminer::run() {
  if (!c_.sizes.has('T') || c_.sizes['T'] == 0) return {};
  causality();
  sequences();
  heads();
  permutation();
  linearity();
  two_halves();
  one_by_one();
  chunk_lengths();
  return std::move(report_);
}

std::optional<Values> PropertyExaminer::call(const std::string& property, const ValidCase& c) {
  if (report_.broken) return std::nullopt;
  if (const std::string name = beyond_its_format(c); !name.empty()) {
    report_.notes.push_back(property + ": not tried, " + name + " would leave its format");
    return std::nullopt;
  }
  RunResult r = candidate_.run(c, gradients_);
  if (r.status == RunStatus::ran) return values_of(r);
  if (r.status == RunStatus::unsupported) {
    report_.notes.push_back(property + ": not tried, " + r.detail);
  } else {
    report_.broken = std::move(r);
    report_.broken_in = property;
  }
  return std::nullopt;
}

void PropertyExaminer::compare(
    const std::string& property, const Values& want, const Values& got,
    const std::function<bool(const std::string&, std::int64_t)>& must_stay, bool bits_expected) {
  // The same work split otherwise rounds at other places, where a value is an operand that was
  // none: the scale is the tensor's, and wide. With four roundings of a value of the tensor's
  // size what is found differs by 4 u √2 kMaxZ / √3 of that size, 8 % in bf16, where a state that
  // a split loses is all of it. With half of that correct bf16 and fp16 arithmetic still passes
  // (with an eighth of it, too), with twice as much 17 % would be found.
  constexpr double kOtherSplit = 4;
  const double cast = unit_roundoff(model_.operand) / std::sqrt(3.0);
  std::int64_t looked_at = 0, other_bits = 0;
  std::string first_bits;
  for (const auto& [name, e] : expected_) {
    const auto a = want.find(name), b = got.find(name);
    if (a == want.end() || b == got.end()) continue;
    if (a->second.size() != e.truth.size() || b->second.size() != e.truth.size()) continue;
    double noise = 0, size = 0;
    for (double sigma : e.sigma) noise += std::isfinite(sigma) ? sigma * sigma : 0;
    for (double truth : e.truth) size += truth * truth;
    const double common =
        kOtherSplit * std::sqrt(std::max(noise, cast * cast * size) /
                                static_cast<double>(std::max<std::size_t>(1, e.sigma.size())));
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(e.truth.size()); ++i) {
      if (!std::isfinite(e.sigma[i]) || !must_stay(name, i)) continue;
      ++looked_at;
      const double x = a->second[i], y = b->second[i];
      if (x == y) continue;
      if (!std::isfinite(x)) continue;  // the verdict on the case says so already
      if (!std::isfinite(y) && e.may_be_spoiled(i)) continue;
      const double scale = bits_expected ? e.sigma[i] : std::max(common, e.sigma[i]);
      const double z = std::fabs(x - y) / (std::sqrt(2.0) * scale);
      if (!(z <= kMaxZ)) {
        report_.findings.push_back(
            {property, name,
             fmt::format("at {}: {} and {}", index_text(e.shape, i), number_text(x),
                         number_text(y)) +
                 (std::isfinite(z) ? fmt::format(", {:.3g} standard deviations apart", z) : "")});
        return;
      }
      if (other_bits++ == 0) first_bits = name + " at " + index_text(e.shape, i);
    }
  }
  if (looked_at == 0) return;
  report_.held.push_back(property);
  if (bits_expected && other_bits > 0 && !model_.atomics) {
    report_.notes.push_back(fmt::format("{}: holds within rounding, not bit for bit ({}, {} of {})",
                                        property, first_bits, other_bits, looked_at));
  }
}

}  // namespace properties

PropertyReport examine_properties(Candidate& candidate, const ValidCase& c,
                                  const PrecisionModel& model, bool gradients,
                                  const RunResult& first, const Expectation& expected) {
  return properties::PropertyExaminer(candidate, c, model, gradients, first, expected).run();
}

}  // namespace assay
