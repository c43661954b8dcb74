#include "checks/verdict/diagnosis.hpp"

#include <algorithm>
#include <cmath>

#include "reference/oracle/parallel.hpp"
#include "reference/scalars/noisy.hpp"

namespace assay {
namespace {

/// 1/σ², 0 where nothing is expected to be off at all (the z test sees those).
std::vector<double> weights(const ExpectedTensor& e) {
  std::vector<double> w(e.sigma.size());
  for (std::size_t i = 0; i < w.size(); ++i) {
    const bool known = e.sigma[i] > 0 && std::isfinite(e.sigma[i]);
    w[i] = known ? 1 / (e.sigma[i] * e.sigma[i]) : 0;
  }
  return w;
}

/// Of one number a lane: that of the lanes in which equal values are rounded alike or that of the
/// others, whichever is larger. A candidate does the one or the other, and in sums it matters.
template <class Of>
double root_mean_square(Of of, std::size_t first, std::size_t last) {
  double sums[2] = {};
  for (std::size_t l = first; l < last; ++l) sums[Noisy::alike(l)] += of(l) * of(l);
  const double half = static_cast<double>(last - first) / 2;
  return first == last ? 0 : std::sqrt(std::max(sums[0], sums[1]) / half);
}

/// Sums over all elements of <a, b> in units of σ².
struct Products {
  double aa = 0, ab = 0, bb = 0;
};

}  // namespace

Filters::Filters(const Expectation& expectation, const ErrorTensors& error)
    : expectation_(expectation), error_(error) {
  for (const auto& [name, e] : expectation) {
    weight_[name] = weights(e);
    energy_ += energy(name);
    noise_ += noise(name);
  }
}

double Filters::energy(const std::string& tensor) const {
  const std::vector<double>&w = weight_.at(tensor), &err = error_.at(tensor);
  double sum = 0;
  for (std::size_t i = 0; i < err.size(); ++i) sum += w[i] * err[i] * err[i];
  return sum;
}

double Filters::noise(const std::string& tensor) const {
  const std::vector<double>& w = weight_.at(tensor);
  return static_cast<double>(std::count_if(w.begin(), w.end(), [](double x) { return x > 0; }));
}

FilterResult Filters::operator()(const Direction& direction) const {
  FilterResult r;
  r.id = direction.id;
  r.is_fault = direction.is_fault;
  r.sized = direction.sized;
  r.says = direction.says;
  r.allowed = direction.allowed;
  r.accuses = direction.accuses;
  r.rounding = direction.rounding;
  r.energy = energy_;
  r.noise_energy = noise_;
  r.left = energy_;
  double dd = 0, ed = 0;
  std::vector<double> lane_ed;
  const ExpectedTensor* any = nullptr;
  for (const auto& [name, d] : direction.d) {
    const auto found = expectation_.find(name);
    if (found == expectation_.end()) continue;
    const ExpectedTensor& e = found->second;
    any = &e;
    const std::vector<double>&w = weight_.at(name), &err = error_.at(name);
    lane_ed.resize(e.lanes.size());
    for (std::size_t i = 0; i < d.size(); ++i) {
      const double wd = w[i] * d[i];
      if (wd == 0) continue;
      dd += wd * d[i];
      ed += wd * err[i];
      for (std::size_t l = 0; l < e.lanes.size(); ++l) lane_ed[l] += wd * e.lanes[l][i];
    }
  }
  // Of an error whose square is no number any more no direction has a share.
  if (!(dd > 0) || !std::isfinite(dd) || !std::isfinite(energy_)) return r;
  r.coefficient = ed / dd;
  r.standard_error =
      largest_over_groups(*any,
                          [&](std::size_t first, std::size_t last) {
                            return root_mean_square([&](std::size_t l) { return lane_ed[l]; },
                                                    first, last);
                          }) /
      dd;
  r.explained = energy_ > 0 ? ed * ed / dd / energy_ : 0;
  r.left = direction.sized ? energy_ - 2 * ed + dd : energy_ - ed * ed / dd;
  r.misfit = std::sqrt(std::max(0.0, energy_ - ed * ed / dd - kLeftToNoise * noise_) / dd);
  return r;
}

double Filters::told_apart(const Direction& a, const Direction& b) const {
  Products p;
  double ea = 0, eb = 0;
  std::vector<double> lane_a, lane_b;
  const ExpectedTensor* any = nullptr;
  const std::vector<double> none;
  for (const auto& [name, e] : expectation_) {
    const auto in_a = a.d.find(name), in_b = b.d.find(name);
    if (in_a == a.d.end() && in_b == b.d.end()) continue;
    any = &e;
    lane_a.resize(e.lanes.size());
    lane_b.resize(e.lanes.size());
    const std::vector<double>&w = weight_.at(name), &err = error_.at(name);
    for (std::size_t i = 0; i < err.size(); ++i) {
      if (w[i] == 0) continue;
      const double x = in_a == a.d.end() ? 0 : in_a->second[i];
      const double y = in_b == b.d.end() ? 0 : in_b->second[i];
      p.aa += w[i] * x * x;
      p.ab += w[i] * x * y;
      p.bb += w[i] * y * y;
      ea += w[i] * x * err[i];
      eb += w[i] * y * err[i];
      for (std::size_t l = 0; l < e.lanes.size(); ++l) {
        lane_a[l] += w[i] * x * e.lanes[l][i];
        lane_b[l] += w[i] * y * e.lanes[l][i];
      }
    }
  }
  if (!(p.bb > 0) || any == nullptr) return 0;
  const double share = p.ab / p.bb;
  const double scale = largest_over_groups(*any, [&](std::size_t first, std::size_t last) {
    return root_mean_square([&](std::size_t l) { return lane_a[l] - share * lane_b[l]; }, first,
                            last);
  });
  return scale > 0 ? std::fabs(ea - share * eb) / scale : 0;
}

double FilterResult::significance() const {
  const double beyond = std::fabs(coefficient) - allowed;
  if (!(beyond > 0)) return 0;
  return standard_error > 0 ? beyond / standard_error : 1e300;
}

bool fits(const FilterResult& r, double share) {
  if (!(r.significance() > kFilterThreshold)) return false;
  if (r.sized &&
      !(std::fabs(r.coefficient - 1) <= std::max(kOwnSize, kSizeErrors * r.standard_error))) {
    return false;
  }
  return r.left <= std::max(share * r.energy, kLeftToNoise * r.noise_energy);
}

Blame blame(const std::vector<FilterResult>& filters) {
  constexpr double kShare = 0.2;  // what may be left of the error
  constexpr double kSame = 1.5;   // how much more the same function may leave
  const FilterResult* best = nullptr;
  for (const FilterResult& r : filters) {
    if (fits(r, kShare) && (!best || r.left < best->left)) best = &r;
  }
  Blame result;
  if (!best) {
    // Coarse roundings agree with the reference's in part only.
    constexpr double kFewest = 0.2, kMost = 1.25, kLeastShare = 0.05;
    for (const FilterResult& r : filters) {
      const bool partly = r.rounding && r.explained >= kLeastShare &&
                          r.significance() > kFilterThreshold && r.coefficient >= kFewest &&
                          r.coefficient <= kMost;
      if (partly && (!best || r.explained > best->explained)) best = &r;
    }
    if (best) result.on.push_back(*best);
    return result;
  }
  result.on.push_back(*best);
  if (!best->is_fault) return result;
  for (const FilterResult& r : filters) {
    const double close = kSame * std::max(best->left, 0.0) + 1e-12 * best->energy;
    const bool same_size =
        std::fabs(r.coefficient - best->coefficient) <= 1e-6 + kSizeErrors * r.standard_error;
    if (&r != best && r.is_fault && fits(r, kShare) && r.left <= close && same_size) {
      result.on.push_back(r);
    }
  }
  return result;
}

std::vector<FilterResult> matched_filters(const Expectation& expectation, const ErrorTensors& error,
                                          const std::vector<Direction>& directions,
                                          const std::vector<std::string>& without, int threads) {
  std::vector<const Direction*> considered;
  for (const Direction& d : directions) {
    if (std::find(without.begin(), without.end(), d.id) == without.end()) considered.push_back(&d);
  }
  const Filters filter(expectation, error);
  std::vector<FilterResult> results(considered.size());
  parallel_for(static_cast<std::int64_t>(considered.size()), threads,
               [&](std::int64_t i) { results[i] = filter(*considered[i]); });
  const auto significant = [](const FilterResult& r) {
    return r.significance() > kFilterThreshold;
  };
  std::stable_sort(
      results.begin(), results.end(), [&](const FilterResult& a, const FilterResult& b) {
        if (significant(a) != significant(b)) return significant(a);
        return significant(a) ? a.explained > b.explained : a.significance() > b.significance();
      });
  return results;
}

namespace {

/// One way to sort the elements of a tensor into groups.
struct Grouping {
  std::string axis;
  std::vector<std::int32_t> group;  // of each element
  std::int64_t count = 0;
};

std::string axis_label(char letter) {
  switch (letter) {
    case 'B':
      return "batch";
    case 'T':
      return "t";
    case 'H':
    case 'N':
      return "head";
    case 'K':
      return "row";
    case 'V':
    case 'D':
    case 'E':
      return "column";
    case 'M':
    case 'R':
      return "memory";
    default:
      return std::string("axis ") + letter;
  }
}

std::vector<Grouping> groupings(const ExpectedTensor& e, std::int64_t chunk) {
  std::vector<Grouping> all;
  const std::int64_t n = static_cast<std::int64_t>(e.truth.size());
  std::int64_t stride = n;
  for (std::size_t a = 0; a < e.shape.size() && a < e.axes.size(); ++a) {
    if (e.shape[a] == 0) return {};
    stride /= e.shape[a];
    const std::int64_t length = e.shape[a];
    const auto make = [&](const std::string& label, std::int64_t count, auto map) {
      Grouping g{label, std::vector<std::int32_t>(n), count};
      for (std::int64_t i = 0; i < n; ++i) {
        g.group[i] = static_cast<std::int32_t>(map(i / stride % length));
      }
      all.push_back(std::move(g));
    };
    if (length < 2) continue;
    make(axis_label(e.axes[a]), length, [](std::int64_t i) { return i; });
    if (e.axes[a] == 'T' && length > chunk) {
      make("t mod " + std::to_string(chunk), chunk, [&](std::int64_t i) { return i % chunk; });
      make("chunk", (length + chunk - 1) / chunk, [&](std::int64_t i) { return i / chunk; });
    }
  }
  return all;
}

/// Sums of z and of z² over every group, for one error vector.
struct GroupSums {
  std::vector<double> z, square, elements;
};

GroupSums group_sums(const Grouping& g, const std::vector<double>& inverse_sigma,
                     const auto& error) {
  GroupSums sums{std::vector<double>(g.count), std::vector<double>(g.count),
                 std::vector<double>(g.count)};
  for (std::size_t i = 0; i < g.group.size(); ++i) {
    if (inverse_sigma[i] == 0) continue;
    const double z = static_cast<double>(error[i]) * inverse_sigma[i];
    sums.z[g.group[i]] += z;
    sums.square[g.group[i]] += z * z;
    sums.elements[g.group[i]] += inverse_sigma[i] > 0;
  }
  return sums;
}

/// How far a sum of squares lies above what the lanes have, in standard errors: Wilson and
/// Hilferty's cube root of a χ² with the degrees of freedom that mean and variance of the lanes
/// imply. 0 for groups too small or too correlated to say anything, and below the usual rms.
double excess(double seen, double mean, double variance, double elements) {
  constexpr double kFewestDegrees = 4, kNoticeable = 1.5;  // the ratio of the rms
  if (!(mean > 0) || !(variance > 0)) return 0;
  // Of n independent rounding errors, uniform ones, the sum of squares has 2.5 n degrees.
  const double degrees = std::min(2 * mean * mean / variance, 2.5 * elements);
  if (degrees < kFewestDegrees || seen < kNoticeable * kNoticeable * mean) return 0;
  const double spread = 2 / (9 * degrees);
  return (std::cbrt(seen / mean) - (1 - spread)) / std::sqrt(spread);
}

}  // namespace

std::vector<StructureFinding> structure(const Expectation& expectation, const ErrorTensors& error,
                                        std::int64_t chunk) {
  std::vector<StructureFinding> findings;
  for (const auto& [name, e] : expectation) {
    std::vector<double> inverse(e.sigma.size());
    for (std::size_t i = 0; i < inverse.size(); ++i) {
      inverse[i] = e.sigma[i] > 0 && std::isfinite(e.sigma[i]) ? 1 / e.sigma[i] : 0;
    }
    for (const Grouping& g : groupings(e, chunk)) {
      const GroupSums seen = group_sums(g, inverse, error.at(name));
      std::vector<GroupSums> lanes;
      for (const std::vector<float>& lane : e.lanes) lanes.push_back(group_sums(g, inverse, lane));
      for (std::int64_t i = 0; i < g.count; ++i) {
        const double scale = largest_over_groups(e, [&](std::size_t first, std::size_t last) {
          return root_mean_square([&](std::size_t l) { return lanes[l].z[i]; }, first, last);
        });
        if (std::fabs(seen.z[i]) > kStructureThreshold * scale && scale > 0) {
          findings.push_back({name, g.axis, i, "mean", std::fabs(seen.z[i]) / scale});
        }
        // Beyond the noise of every form.
        const double beyond = -largest_over_groups(e, [&](std::size_t first, std::size_t last) {
          double sum = 0, squares = 0;
          for (std::size_t l = first; l < last; ++l) {
            sum += lanes[l].square[i];
            squares += lanes[l].square[i] * lanes[l].square[i];
          }
          const double n = static_cast<double>(last - first), mean = sum / n;
          return -excess(seen.square[i], mean, squares / n - mean * mean, seen.elements[i]);
        });
        if (beyond > kStructureThreshold && std::isfinite(beyond)) {
          findings.push_back({name, g.axis, i, "rms", beyond});
        }
      }
    }
  }
  std::sort(findings.begin(), findings.end(),
            [](const auto& a, const auto& b) { return a.significance > b.significance; });
  return findings;
}

}  // namespace assay
