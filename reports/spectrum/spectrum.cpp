#include "reports/spectrum/spectrum.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "reference/oracle/parallel.hpp"
#include "reports/spectrum/enclose.hpp"

namespace assay::reports {
namespace {

constexpr std::int64_t kDenseSteps = 2000;  // a dense solve of order 64 takes some 3 ms
constexpr std::size_t kScatter = 600;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// The steps of a unit that get everything: evenly spread.
std::vector<std::int64_t> even_steps(std::int64_t steps, std::int64_t count) {
  std::vector<std::int64_t> out;
  count = std::min(count, steps);
  for (std::int64_t i = 0; i < count; ++i) out.push_back((2 * i + 1) * steps / (2 * count));
  return out;
}

void take(const StepSpectrum& s, std::int64_t index, UnitSpectrum& unit) {
  const bool first = unit.analysed++ == 0;
  unit.complex_steps += s.has_complex;
  unit.negative_steps += s.has_negative;
  unit.outside_steps += !(s.radius <= 1);
  if (first || s.radius > unit.largest_radius) {
    unit.largest_radius = s.radius;
    unit.radius_at = index;
  }
  unit.largest_norm = std::max(unit.largest_norm, s.norm);
  unit.smallest_jury = first ? s.jury : std::min(unit.smallest_jury, s.jury);
  unit.modulus.add(std::abs(s.lead));
  unit.phase.add(std::abs(std::arg(s.lead)) / M_PI);
  if (s.second == s.lead) return;
  unit.modulus.add(std::abs(s.second));
  unit.phase.add(std::abs(std::arg(s.second)) / M_PI);
}

void keep_point(const StepSpectrum& s, std::int64_t index, UnitSpectrum& unit) {
  for (const std::complex<double>& value : {s.lead, s.second}) {
    unit.re.push_back(value.real());
    unit.im.push_back(value.imag());
    unit.at.push_back(index);
    if (s.second == s.lead) break;
  }
  for (const double value : s.across) {
    if (!std::isnan(value)) unit.across.push_back(value);
  }
}

void keep_worst(const FrozenStep& frozen, const SampledStep& sample, double& growth,
                UnitSpectrum& unit) {
  if (!(sample.non_normal.growth > growth)) return;
  growth = sample.non_normal.growth;
  unit.worst = frozen;
  unit.worst_at = sample.index;
}

UnitSpectrum one_unit(const Trace& trace, const TraceUnit& where, const SpectrumOptions& options) {
  UnitSpectrum unit;
  unit.name = where.name;
  unit.steps = where.steps;
  FrozenReader reader(trace.unit_schema());
  const std::int64_t most = options.most_steps > 0 ? options.most_steps
                            : reader.closed()      ? where.steps
                                                   : kDenseSteps;
  const std::int64_t stride = std::max<std::int64_t>(1, (where.steps + most - 1) / most);
  const std::int64_t scatter = std::max<std::int64_t>(
      stride, static_cast<std::int64_t>((where.steps + kScatter - 1) / kScatter));
  // Rays, angles and powers of dense matrices are dear.
  const int count = reader.closed() ? options.samples : std::min(options.samples, 2);
  const std::vector<std::int64_t> chosen = even_steps(where.steps, count);
  double growth = -1;
  FrozenStep frozen;
  const auto sample = [&](Step& step) {
    SampledStep s;
    s.index = step.index;
    s.token = where.token(step.index);
    s.spectrum = step_spectrum(frozen);
    s.non_normal = non_normal(frozen);
    s.deviation = reader.closed()
                      ? eigenvalue_distance(all_eigenvalues(frozen), dense_eigenvalues(step))
                      : kNan;
    if (static_cast<int>(unit.samples.size()) < options.enclose) {
      const EnclosedSpectrum enclosed = enclose_spectrum(trace, where, step.index);
      if (enclosed.available) {
        s.enclosure = enclosed.radius;
        s.enclosed_inside = enclosed.upper < 1;
      }
    }
    keep_worst(frozen, s, growth, unit);
    unit.samples.push_back(std::move(s));
  };
  walk(trace, where, {}, [&](Step& step) {
    const bool full = std::binary_search(chosen.begin(), chosen.end(), step.index);
    if (step.index % stride != 0 && !full) return;
    reader.read(step, frozen);
    const StepSpectrum spectrum = step_spectrum(frozen);
    take(spectrum, step.index, unit);
    if (step.index % scatter == 0) keep_point(spectrum, step.index, unit);
    if (full) sample(step);
  });
  if (trace.is_linear()) {  // the step with the largest radius, known only now
    walk(trace, where, {1, unit.radius_at, 1}, [&](Step& step) {
      reader.read(step, frozen);
      sample(step);
    });
    std::rotate(unit.samples.begin(), unit.samples.end() - 1, unit.samples.end());
  }
  return unit;
}

}  // namespace

void Histogram::add(double value) {
  const double bins = static_cast<double>(counts.size());
  const double at = std::floor((value - lo) / (hi - lo) * bins);
  ++counts[static_cast<std::size_t>(std::clamp(at, 0.0, bins - 1))];
}

double Histogram::centre(std::size_t bin) const {
  return lo + (static_cast<double>(bin) + 0.5) * bin_width();
}

std::vector<UnitSpectrum> trace_spectrum(const Trace& trace, const SpectrumOptions& options) {
  const auto& units = trace.units();
  std::vector<UnitSpectrum> results(units.size());
  std::atomic<std::int64_t> done{0};
  parallel_for(static_cast<std::int64_t>(units.size()), options.threads, [&](std::int64_t n) {
    results[n] = one_unit(trace, units[n], options);
    if (options.progress) {
      options.progress(static_cast<double>(++done) / static_cast<double>(units.size()),
                       units[n].name);
    }
  });
  return results;
}

UnitSpectrum box_spectrum(const GateBox& box, int points, int samples) {
  constexpr std::int64_t kWidth = 64;  // any K > 2: the blocks are the same
  UnitSpectrum unit;
  unit.name = box.text;
  const std::vector<GatePoint> all = box_points(box, points);
  unit.steps = static_cast<std::int64_t>(all.size());
  const std::int64_t scatter =
      std::max<std::int64_t>(1, unit.steps / static_cast<std::int64_t>(kScatter));
  const std::vector<std::int64_t> chosen = even_steps(unit.steps, samples);
  double growth = -1;
  FrozenStep frozen;
  const auto blocks = [&](const GatePoint& p) {
    frozen.small.clear();
    if (box.op == "mdn") {
      mdn_blocks(p.alpha, p.mu, p.beta, p.eta, p.kappa, kWidth, frozen.small);
      return;
    }
    const double alpha = box.op == "gdn" ? p.alpha : 1, along = alpha * (1 - p.beta * p.kappa);
    frozen.small.push_back({1, along, 0, 0, 0, along, 1});
    frozen.small.push_back({1, alpha, 0, 0, 0, alpha, kWidth - 1});
  };
  const auto sample = [&](std::int64_t i) {
    SampledStep s;
    s.index = s.token = i;
    s.spectrum = step_spectrum(frozen);
    s.non_normal = non_normal(frozen);
    s.deviation = kNan;
    keep_worst(frozen, s, growth, unit);
    unit.samples.push_back(s);
  };
  for (std::int64_t i = 0; i < unit.steps; ++i) {
    blocks(all[i]);
    const StepSpectrum spectrum = step_spectrum(frozen);
    take(spectrum, i, unit);
    if (i % scatter == 0) keep_point(spectrum, i, unit);
    if (std::binary_search(chosen.begin(), chosen.end(), i)) sample(i);
  }
  blocks(all[unit.radius_at]);
  sample(unit.radius_at);
  std::rotate(unit.samples.begin(), unit.samples.end() - 1, unit.samples.end());
  return unit;
}

}  // namespace assay::reports
