#include "reports/conditioning/conditioning.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "reference/oracle/parallel.hpp"

namespace assay::reports {
namespace {

constexpr std::int64_t kShown = 64;  // the chunk length of the series, the kernels' own default

void take(const ChunkGates& gates, std::int64_t start, LengthConditioning& worst,
          UnitConditioning& unit) {
  const ChunkRange range = chunk_range(gates);
  const bool first = worst.chunks++ == 0;
  ChunkRange& w = worst.worst;
  if (first || !(range.condition <= w.condition)) {
    w.condition = range.condition;
    worst.condition_at = start;
  }
  w.inverse_norm = std::max(w.inverse_norm, range.inverse_norm);
  w.largest = std::max(w.largest, range.largest);
  w.smallest = first ? range.smallest : std::min(w.smallest, range.smallest);
  w.largest_factor =
      first ? range.largest_factor : std::max(w.largest_factor, range.largest_factor);
  w.largest_exponent =
      first ? range.largest_exponent : std::max(w.largest_exponent, range.largest_exponent);
  w.cancelled_digits = std::max(w.cancelled_digits, range.cancelled_digits);
  const std::vector<double> truth = true_coefficients(gates);
  for (std::size_t form = 0; form < 3; ++form) {
    for (std::size_t format = 0; format < 3; ++format) {
      const CoefficientError e = coefficient_error(
          truth, coefficients(gates, static_cast<CoefficientForm>(form), kFormats[format]),
          gates.n());
      CoefficientError& sum = worst.error[form][format];
      sum.relative = std::max(sum.relative, e.relative);
      sum.scaled = std::max(sum.scaled, e.scaled);
      sum.non_finite += e.non_finite;
      if (format != 0 || worst.C != kShown) continue;
      const double shown = e.non_finite > 0 ? kInf : std::max(e.scaled, 1e-9);
      if (form == 1) unit.log_error.push_back(shown);
      if (form == 2) unit.recursion_error.push_back(shown);
    }
  }
  if (worst.C != kShown) return;
  unit.at.push_back(static_cast<double>(start));
  unit.condition.push_back(range.condition);
}

ChunkGates read_chunk(const Trace& trace, const TraceUnit& where, std::int64_t s0, std::int64_t n) {
  const Schema& schema = trace.unit_schema();
  const int alpha = input_index(schema, "alpha"), beta = input_index(schema, "beta"),
            mu = input_index(schema, "mu"), eta = input_index(schema, "eta"),
            k = input_index(schema, "k");
  SliceInMemory slice(trace, where, s0, n, 1);
  ChunkGates gates;
  for (std::int64_t s = 0; s < n; ++s) {
    const Step step = slice.step(s);
    gates.K = step.context->K;
    gates.alpha.push_back(alpha < 0 ? 1 : *step.x(alpha));
    gates.beta.push_back(*step.x(beta));
    if (mu >= 0) gates.mu.push_back(*step.x(mu));
    gates.eta.push_back(eta < 0 ? 1 : *step.x(eta));
    gates.k.insert(gates.k.end(), step.x(k), step.x(k) + gates.K);
  }
  return gates;
}

UnitConditioning one_unit(const Trace& trace, const TraceUnit& where,
                          const ConditioningOptions& options) {
  UnitConditioning unit;
  unit.name = where.name;
  for (const std::int64_t C : kChunkLengths) {
    LengthConditioning worst;
    worst.C = C;
    const std::int64_t all = (where.steps + C - 1) / C;
    const std::int64_t chosen = std::min(all, options.most_chunks);
    for (std::int64_t i = 0; i < chosen; ++i) {
      const std::int64_t start = i * all / chosen * C;
      take(read_chunk(trace, where, start, std::min(C, where.steps - start)), start, worst, unit);
    }
    unit.lengths.push_back(worst);
  }
  return unit;
}

}  // namespace

std::vector<UnitConditioning> trace_conditioning(const Trace& trace,
                                                 const ConditioningOptions& options) {
  const std::string& op = trace.unit_op();
  if (op != "mdn" && op != "gdn" && op != "delta") {
    throw InputError(trace.path() + ": " + op +
                     " has no chunk form with these coefficients; mdn, gdn and delta have");
  }
  const auto& units = trace.units();
  std::vector<UnitConditioning> results(units.size());
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

UnitConditioning box_conditioning(const GateBox& box, int chunks) {
  UnitConditioning unit;
  unit.name = box.text;
  for (const std::int64_t C : kChunkLengths) {
    LengthConditioning worst;
    worst.C = C;
    const std::vector<GatePoint> points = box_points(box, static_cast<int>(C) * chunks);
    // Constant gates at the corners, then chunks whose gates change at every step.
    for (std::int64_t start = 0; start < 32 + chunks; ++start) {
      ChunkGates gates;
      gates.K = 1;
      for (std::int64_t s = 0; s < C; ++s) {
        const GatePoint& p = points[start < 32 ? start : 32 + (start - 32) * C + s];
        gates.alpha.push_back(box.op == "delta" ? 1 : p.alpha);
        gates.beta.push_back(p.beta);
        if (box.op == "mdn") gates.mu.push_back(p.mu);
        gates.eta.push_back(p.eta);
        gates.k.push_back(std::sqrt(p.kappa));
      }
      take(gates, start, worst, unit);
    }
    unit.lengths.push_back(worst);
  }
  return unit;
}

render::Grid error_map(CoefficientForm form, int points) {
  render::Grid grid;
  for (int i = 0; i < points; ++i) grid.x.push_back(0.02 + 0.975 * i / (points - 1));
  grid.y = grid.x;
  for (const double mu : grid.y) {
    for (const double alpha : grid.x) {
      ChunkGates gates;
      gates.alpha.assign(kShown, round_to(Format::fp32, alpha));
      gates.beta.assign(kShown, round_to(Format::fp32, 1 - alpha));
      gates.mu.assign(kShown, round_to(Format::fp32, mu));
      const CoefficientError e = coefficient_error(true_coefficients(gates),
                                                   coefficients(gates, form, Format::fp32), kShown);
      grid.values.push_back(e.non_finite > 0 ? std::nan("") : std::max(e.scaled, 1e-8));
    }
  }
  return grid;
}

}  // namespace assay::reports
