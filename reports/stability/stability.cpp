#include "reports/stability/stability.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "reference/oracle/parallel.hpp"
#include "reports/stability/nonlinear.hpp"
#include "reports/stability/qr_product.hpp"

namespace assay::reports {
namespace {

constexpr double kExactWork = 3e9;       // multiplications for which all directions are followed
constexpr std::int64_t kDirections = 8;  // otherwise
constexpr double kWindowSteps = 1e7;     // steps that all windows of a report may take together

int qr_every(std::int64_t steps) { return steps <= 1024 ? 1 : steps <= 8192 ? 4 : 8; }

void forward_pass(const Trace& trace, const TraceUnit& where, std::int64_t every,
                  const RowMatrix& basis, UnitStability& unit) {
  QrProduct product(unit.order, unit.directions, qr_every(where.steps));
  product.start_from(basis);
  for (std::int64_t s0 = 0; s0 < where.steps; s0 += kSliceSteps) {
    const std::int64_t n = std::min(kSliceSteps, where.steps - s0);
    SliceInMemory slice(trace, where, s0, n, unit.directions);
    for (std::int64_t s = 0; s < n; ++s) {
      slice.apply(s, product.columns().data());
      product.stepped();
      const std::int64_t t = s0 + s + 1;
      if (t % every == 0 || t == where.steps) {
        unit.forward.record(static_cast<double>(t), product.log_norm());
      }
    }
  }
  unit.exponents = product.exponents();
  unit.mean_leading = unit.exponents.value.front();
}

/// Returns the directions that the whole product amplifies most.
RowMatrix backward_pass(const Trace& trace, const TraceUnit& where, std::int64_t every,
                        UnitStability& unit) {
  QrProduct product(unit.order, unit.directions, qr_every(where.steps));
  for (std::int64_t end = where.steps; end > 0;) {
    const std::int64_t s0 = (end - 1) / kSliceSteps * kSliceSteps;
    SliceInMemory slice(trace, where, s0, end - s0, unit.directions);
    for (std::int64_t s = end - s0; s-- > 0;) {
      slice.apply_transposed(s, product.columns().data());
      product.stepped();
      if ((s0 + s) % every == 0) {
        unit.backward.record(static_cast<double>(s0 + s), product.log_norm());
      }
    }
    end = s0;
  }
  return product.basis();
}

/// |A_{t+L-1} ... A_t|_2 from below, by power iteration on the product and its transpose.
double window_norm(SliceInMemory& slice, std::int64_t length, std::int64_t order,
                   std::int64_t columns) {
  RowMatrix X(order, columns);
  for (std::int64_t i = 0; i < order; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      X(i, j) = std::cos(1.7 * static_cast<double>(i + 1) * static_cast<double>(j + 1));
    }
  }
  double norm = 0;
  for (int iteration = 0; iteration < 3; ++iteration) {
    for (std::int64_t j = 0; j < columns; ++j) {
      const double size = X.col(j).norm();
      if (size > 0) X.col(j) /= size;
    }
    for (std::int64_t s = 0; s < length; ++s) slice.apply(s, X.data());
    for (std::int64_t j = 0; j < columns; ++j) norm = std::max(norm, X.col(j).norm());
    if (iteration == 2) break;
    for (std::int64_t s = length; s-- > 0;) slice.apply_transposed(s, X.data());
  }
  return norm;
}

void find_windows(const Trace& trace, const TraceUnit& where, UnitStability& unit) {
  constexpr std::int64_t kColumns = 2;
  const double budget = kWindowSteps / (5.0 * static_cast<double>(trace.units().size()));
  for (const std::int64_t length : {1, 4, 16, 64, 256}) {
    if (length > where.steps) break;
    // Five passes over each window; overlapping by three quarters when there is time for it.
    const double passes = 5.0 * static_cast<double>(where.steps - length + 1);
    std::int64_t stride = std::max<std::int64_t>(1, length / 4);
    while (passes / static_cast<double>(stride) * static_cast<double>(length) > budget) {
      stride *= 2;
    }
    WorstWindow worst{length, 0, 0, -kInf};
    for (std::int64_t start = 0; start + length <= where.steps; start += stride) {
      SliceInMemory slice(trace, where, start, length, kColumns);
      const double log10_norm = std::log10(window_norm(slice, length, unit.order, kColumns));
      ++worst.tried;
      if (!(log10_norm <= worst.log10_norm)) {
        worst.log10_norm = log10_norm;
        worst.start = start;
      }
    }
    unit.windows.push_back(worst);
  }
}

UnitStability linear_unit(const Trace& trace, const TraceUnit& where) {
  UnitStability unit;
  unit.name = where.name;
  unit.steps = where.steps;
  unit.order = SliceInMemory(trace, where, 0, 1, 1).order();
  const double n = static_cast<double>(unit.order);
  unit.exact = static_cast<double>(where.steps) / qr_every(where.steps) * n * n * n <= kExactWork;
  unit.directions = unit.exact ? unit.order : std::min(unit.order, kDirections);
  const std::int64_t every = std::max<std::int64_t>(qr_every(where.steps), where.steps / 512);
  const RowMatrix basis = backward_pass(trace, where, every, unit);
  forward_pass(trace, where, every, basis, unit);
  find_windows(trace, where, unit);
  return unit;
}

void find_largest(UnitStability& unit) {
  unit.largest_log10 = -kInf;
  for (std::size_t i = 0; i < unit.forward.t.size(); ++i) {
    if (unit.forward.log10_norm[i] <= unit.largest_log10) continue;
    unit.largest_log10 = unit.forward.log10_norm[i];
    unit.largest_at = static_cast<std::int64_t>(unit.forward.t[i]);
  }
}

}  // namespace

std::vector<UnitStability> trace_stability(const Trace& trace, const StabilityOptions& options) {
  const auto& units = trace.units();
  std::vector<UnitStability> results(units.size());
  std::atomic<std::int64_t> done{0};
  parallel_for(static_cast<std::int64_t>(units.size()), options.threads, [&](std::int64_t n) {
    results[n] = trace.is_linear() ? linear_unit(trace, units[n]) : nonlinear_unit(trace, units[n]);
    find_largest(results[n]);
    if (options.progress) {
      options.progress(static_cast<double>(++done) / static_cast<double>(units.size()),
                       units[n].name);
    }
  });
  return results;
}

}  // namespace assay::reports
