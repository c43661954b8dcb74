#include "reference/case/draw.hpp"

#include <algorithm>
#include <cmath>

#include "reference/case/generate.hpp"
#include "reference/case/text.hpp"

namespace assay {
namespace {

ValuePlan::Range parse_range(const std::string& text) {
  const auto fail = [&](const std::string& rule) {
    throw InputError("gates " + quote_name(text) + ": " + rule);
  };
  const std::size_t equals = text.find('=');
  const std::vector<std::string> ends = split(text.substr(equals + 1), ':');
  if (ends.empty() || ends.size() > 2) fail("must be name=lo:hi or name=value");
  const auto lo = parse_real(ends.front()), hi = parse_real(ends.back());
  if (!lo || !hi) fail("the ends must be numbers");
  if (!(*lo <= *hi)) fail("lo must not be above hi");
  if (*lo != *hi && !std::isfinite(*hi - *lo)) fail("a range must be finite");
  return {*lo, *hi};
}

/// Gates that keep a state, as opposed to those that write into it: what has a logarithm, or, in
/// operations without logarithms, what is a share between 0 and 1.
bool is_decay(const Schema& schema, const InputSpec& input) {
  if (!input.log_name.empty()) return true;
  const bool any_log = std::any_of(schema.inputs.begin(), schema.inputs.end(),
                                   [](const InputSpec& i) { return !i.log_name.empty(); });
  return !any_log && input.domain.lo == 0 && input.domain.hi == 1;
}

/// A logarithmic gate, as hi minus a magnitude. Domains end at 1, so hi is 0 exactly.
double draw_log_gate(Stream& random, double hi, Preset preset) {
  switch (preset) {
    case Preset::model:
      break;
    case Preset::long_memory:
      return hi - random.octaves(8, 20);
    case Preset::wide:
      return hi - random.octaves(-4, 10);
    case Preset::edge:
      switch (random.below(5)) {
        case 0:
          return -kInf;
        case 1:
          return hi;
        case 2:
          return hi - random.octaves(10, 60);
        case 3:
          return hi - random.octaves(-7, -3);
        default:
          break;
      }
      break;
    case Preset::dead:
      if (random.below(4) != 0) return -kInf;
      break;
  }
  return hi - random.octaves(1, 10);
}

/// Share of a gate's domain, 0 to 1, of a decaying gate.
double draw_decay(Stream& random, Preset preset) {
  switch (preset) {
    case Preset::model:
      break;
    case Preset::long_memory:
      return 1.0 - random.octaves(8, 20);
    case Preset::wide:
      return random.uniform();
    case Preset::edge:
      switch (random.below(6)) {
        case 0:
          return 0.0;
        case 1:
          return 1.0;
        case 2:
          return random.octaves(20, 120);
        case 3:
          return 1.0 - random.octaves(8, 24);
        case 4:
          return 0.5;
        default:
          return random.uniform();
      }
    case Preset::dead:
      if (random.below(4) != 0) return 0.0;
      break;
  }
  return 1.0 / (1.0 + random.octaves(1, 10));
}

/// The same of a writing gate: trained models squash a pre-activation; the algebraic sigmoid needs
/// no exponential.
double draw_write(Stream& random, Preset preset) {
  if (preset == Preset::wide || preset == Preset::edge) return draw_decay(random, preset);
  const double x = random.normal();
  return 0.5 * (1.0 + x / std::sqrt(1.0 + x * x));
}

double draw_unbounded(Stream& random, const Schema& schema, const InputSpec& input,
                      std::int64_t last) {
  const double x = random.normal();
  if (std::isfinite(input.domain.lo)) return input.domain.lo + std::fabs(x);
  if (std::isfinite(input.domain.hi)) return input.domain.hi - std::fabs(x);
  if (input.default_value != 0) return input.default_value + 0.25 * x;
  // Queries and keys of about unit length and weights of about unit norm keep states bounded.
  const auto inner = std::count_if(input.axes.begin(), input.axes.end(),
                                   [&](char a) { return a != schema.head_axis; });
  const bool key = input.role == Role::token && !input.axes.empty() && input.axes.back() == 'K';
  const bool weights = input.role == Role::param && inner >= 2;
  return key || weights ? x / std::sqrt(static_cast<double>(std::max<std::int64_t>(last, 1))) : x;
}

}  // namespace

const std::vector<GatePreset>& gate_presets() {
  // In the order of Preset.
  static const std::vector<GatePreset> presets = {
      {"model", "decays between 0.5 and 0.999, as in trained models"},
      {"long", "decays within 1 % of 1"},
      {"wide", "the whole domain"},
      {"edge", "exact 0 and 1, tiny and near-1 values, mixed"},
      {"dead", "three decays in four exactly 0"},
  };
  return presets;
}

ValuePlan parse_value_plan(const std::vector<std::string>& texts) {
  ValuePlan plan;
  std::vector<std::string> known;
  for (const GatePreset& preset : gate_presets()) known.push_back(preset.name);
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) {
      const auto range = parse_range(text);
      const std::string name = text.substr(0, equals);
      if (!plan.ranges.emplace(name, range).second) {
        throw InputError("gates " + quote_name(text) + ": " + quote_name(name) + " is given twice");
      }
      continue;
    }
    const auto found = std::find(known.begin(), known.end(), text);
    if (found == known.end()) {
      throw InputError("gates " + quote_name(text) + ": must be name=lo:hi or one of " +
                       join(known, ", ") + did_you_mean(text, known));
    }
    plan.preset = static_cast<Preset>(found - known.begin());
  }
  return plan;
}

double draw_value(Stream& random, const Schema& schema, const InputSpec& input,
                  const std::string& name, std::int64_t last, const ValuePlan& plan) {
  const auto range = plan.ranges.find(name);
  if (range != plan.ranges.end()) {
    const auto [lo, hi] = range->second;
    return lo == hi ? lo : random.uniform(lo, hi);
  }
  if (!input.log_name.empty() && name == input.log_name) {
    return draw_log_gate(random, domain_of(input, name).hi, plan.preset);
  }
  const Domain domain = input.domain;
  if (!std::isfinite(domain.lo) || !std::isfinite(domain.hi)) {
    return draw_unbounded(random, schema, input, last);
  }
  const double share =
      is_decay(schema, input) ? draw_decay(random, plan.preset) : draw_write(random, plan.preset);
  return domain.lo + (domain.hi - domain.lo) * share;
}

}  // namespace assay
