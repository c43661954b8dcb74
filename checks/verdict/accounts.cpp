#include "checks/verdict/accounts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "checks/faults/facts.hpp"
#include "checks/faults/rearrange.hpp"

namespace assay {
namespace {

// What an account may leave of a tensor's error, beside noise.
constexpr double kShare = 0.001;
// So many elements must speak of a factor: with fewer, any error looks like one.
constexpr double kFewest = 4;

using Places = std::vector<std::int64_t>;

/// Truth and candidate of one tensor.
class Wrong {
 public:
  Wrong(const ValidCase& c, const Filters& filters, const std::string& name)
      : c_(c),
        filters_(filters),
        name_(name),
        e_(filters.expectation().at(name)),
        w_(filters.weight(name)),
        error_(filters.error().at(name)),
        energy_(filters.energy(name)),
        noise_(filters.noise(name)) {}

  /// Whichever leaves least; the first of those that leave about the same.
  std::optional<Account> best() const {
    std::optional<Account> best;
    const auto take = [&](Account a) {
      if (a.left <= allowed() && (!best || a.left < best->left / 1.5 - noise_)) {
        best = std::move(a);
      }
    };
    for (std::size_t a = 0; a < axes(); ++a) {
      const char letter = e_.axes[a];
      if (letter == c_.schema.head_axis) take(mapped(static_cast<int>(a), "head"));
      if (letter == 'B') take(mapped(static_cast<int>(a), c_.packed() ? "sequence" : "batch"));
    }
    for (std::size_t a = 0; a + 1 < axes(); ++a) take(stored(static_cast<int>(a)));
    take(reversed());
    for (const auto& [other, x] : filters_.expectation()) {
      if (other == name_ || x.shape != e_.shape) continue;
      Places same(e_.truth.size());
      std::iota(same.begin(), same.end(), 0);
      take(moved(same, "", other));
    }
    return best;
  }

  double energy() const { return energy_; }
  double allowed() const { return std::max(kShare * energy_, kLeftToNoise * noise_); }

  Account factor() const {
    Direction d;
    d.id = "factor " + name_;
    d.d[name_] = e_.truth;
    Account a;
    a.tensor = name_;
    a.filter = filters_(d);
    a.factor = 1 + a.filter.coefficient;
    double squares = 0, fourth = 0;
    for (std::size_t i = 0; i < w_.size(); ++i) {
      const double s = w_[i] * e_.truth[i] * e_.truth[i];
      squares += s;
      fourth += s * s;
    }
    // The share of all tensors' energy is that of this one.
    a.left = std::max(0.0, energy_ - a.filter.explained * a.filter.energy);
    a.factor_error =
        squares > 0 ? std::hypot(a.filter.standard_error,
                                 std::sqrt(std::max(0.0, a.left - kLeftToNoise * noise_) / squares))
                    : 0;
    elements_ = fourth > 0 ? squares * squares / fourth : 0;
    return a;
  }
  /// To how many equal ones the elements that `factor` was found from amount.
  double elements() const { return elements_; }

 private:
  std::size_t axes() const { return std::min(e_.axes.size(), e_.shape.size()); }

  Account moved(Places source, std::string order, const std::string& other = "") const {
    Account a;
    a.tensor = name_;
    a.order = std::move(order);
    a.other = other;
    const std::vector<double>& from =
        other.empty() ? e_.truth : filters_.expectation().at(other).truth;
    for (std::size_t i = 0; i < source.size(); ++i) {
      const double difference = e_.truth[i] + error_[i] - from[source[i]];
      a.left += w_[i] * difference * difference;
    }
    a.source = std::move(source);
    return a;
  }

  Account none() const {
    Account a;
    a.left = kInf;
    return a;
  }

  /// Entries along an axis mixed up: for each the one that fits best.
  Account mapped(int axis, const std::string& word) const {
    const AxisView view(e_.shape, axis);
    constexpr std::int64_t kMost = 64;
    if (view.length < 2 || view.length > kMost || e_.truth.empty()) return none();
    Places map(view.length);
    for (std::int64_t h = 0; h < view.length; ++h) {
      const auto left = [&](std::int64_t from) {
        double sum = 0;
        for (std::int64_t o = 0; o < view.outer; ++o) {
          const std::int64_t to = (o * view.length + h) * view.inner;
          const std::int64_t at = (o * view.length + from) * view.inner;
          for (std::int64_t i = 0; i < view.inner; ++i) {
            const double d = e_.truth[to + i] + error_[to + i] - e_.truth[at + i];
            sum += w_[to + i] * d * d;
          }
        }
        return sum;
      };
      // An entry stays where it is unless another fits much better.
      double least = left(h) / 4 - static_cast<double>(view.outer * view.inner);
      map[h] = h;
      for (std::int64_t from = 0; from < view.length; ++from) {
        if (from == h) continue;
        const double one = left(from);
        if (one < least) least = one, map[h] = from;
      }
    }
    const std::string order = map_text(word, map);
    if (order.empty()) return none();
    Places source(e_.truth.size());
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(source.size()); ++i) {
      const std::int64_t h = i / view.inner % view.length;
      source[i] = i + (map[h] - h) * view.inner;
    }
    return moved(std::move(source), order);
  }

  /// Two neighbouring axes stored in the other order.
  Account stored(int axis) const {
    const std::int64_t first = e_.shape[axis], second = e_.shape[axis + 1];
    if (first < 2 || second < 2) return none();
    const std::int64_t inner = AxisView(e_.shape, axis + 1).inner;
    Places source(e_.truth.size());
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(source.size()); ++i) {
      const std::int64_t in = i % inner, a = i / inner % first, b = i / inner / first % second;
      source[i] = (i / inner / first / second * first * second + a * second + b) * inner + in;
    }
    std::string wrong, right;
    for (std::size_t a = 0; a < axes(); ++a) {
      right += (a ? "," : "") + std::string(1, e_.axes[a]);
      const std::size_t from = a == static_cast<std::size_t>(axis)       ? a + 1
                               : a == static_cast<std::size_t>(axis + 1) ? a - 1
                                                                         : a;
      wrong += (a ? "," : "") + std::string(1, e_.axes[from]);
    }
    const std::string order =
        wrong == right ? fmt::format("axes {} and {} of [{}] exchanged", axis, axis + 1, right)
                       : "stored as [" + wrong + "], not [" + right + "],";
    return moved(std::move(source), order);
  }

  Account reversed() const {
    const std::string of = c_.schema.find_output(name_) ? name_ : name_.substr(2);
    if (!has_time(c_, of) || facts::longest(c_) < 2) return none();
    const std::int64_t width = step_width(e_.shape);
    Places source(e_.truth.size());
    std::iota(source.begin(), source.end(), 0);
    for (const facts::Sequence& s : facts::sequences(c_)) {
      const std::int64_t row = s.batch * e_.shape[1] + s.start;
      for (std::int64_t t = 0; t < s.steps; ++t) {
        for (std::int64_t i = 0; i < width; ++i) {
          source[(row + t) * width + i] = (row + s.steps - 1 - t) * width + i;
        }
      }
    }
    return moved(std::move(source), "time runs backwards");
  }

  const ValidCase& c_;
  const Filters& filters_;
  const std::string name_;
  const ExpectedTensor& e_;
  const std::vector<double>&w_, &error_;
  const double energy_, noise_;
  mutable double elements_ = 0;
};

std::string list_text(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  }
  return text;
}

bool same_factor(const Account& a, const Account& b) {
  return std::fabs(a.factor - b.factor) <=
         1e-6 * std::fabs(a.factor) + kSizeErrors * std::hypot(a.factor_error, b.factor_error);
}

std::string factor_text(const std::vector<std::string>& names, const Account& a) {
  const bool one = names.size() == 1;
  const std::string who = list_text(names) + (one ? " is " : " are ");
  if (a.factor == 0) return who + "zero";
  const bool sign = std::fabs(a.factor + 1) <= 1e-6 + kSizeErrors * a.factor_error;
  return who + value_with_error(a.factor, a.factor_error) + " times what " + (one ? "it" : "they") +
         " should be" + (sign ? ": the sign is wrong" : "");
}

}  // namespace

std::string value_with_error(double value, double error) {
  constexpr int kMost = 9;
  constexpr double kManyDigits = 1e9;
  if (std::fabs(value) >= kManyDigits) return fmt::format("{:.3g} ± {:.0e}", value, error);
  if (!(error > 0) || !std::isfinite(error)) return fmt::format("{:.{}g}", value, kMost + 1);
  const int digits = static_cast<int>(-std::floor(std::log10(error)));
  if (digits > kMost) return fmt::format("{:.{}f}(1)", value, kMost);
  const int shown = std::max(0, digits);
  return fmt::format("{:.{}f}({:.0f})", value, shown, std::ceil(error * std::pow(10, shown)));
}

std::string map_text(const std::string& axis, const Places& source) {
  const auto n = static_cast<std::int64_t>(source.size());
  const auto is = [&](auto rule) {
    for (std::int64_t h = 0; h < n; ++h) {
      if (source[h] != rule(h)) return false;
    }
    return true;
  };
  if (is([](std::int64_t h) { return h; })) return "";
  const std::string many = axis == "batch" ? "batches" : axis + "s";
  Places off;
  for (std::int64_t h = 0; h < n; ++h) {
    if (source[h] != h) off.push_back(h);
  }
  if (off.size() == 2 && source[off[0]] == off[1] && source[off[1]] == off[0]) {
    return fmt::format("{} {} and {} exchanged", many, off[0], off[1]);
  }
  if (is([&](std::int64_t h) { return n - 1 - h; })) return many + " in reverse order";
  if (is([](std::int64_t h) { return h ^ 1; })) return many + " exchanged in pairs";
  if (is([&](std::int64_t) { return source[0]; })) {
    return fmt::format("every {} is that of {} {}", axis, axis, source[0]);
  }
  const std::string letter = axis == "head" ? "h" : axis == "batch" ? "b" : "s";
  const auto holds = [&](const std::string& what) {
    return fmt::format("{} {} is that of {} {}", axis, letter, axis, what);
  };
  for (std::int64_t d = 2; d < n; ++d) {
    if (is([&](std::int64_t h) { return h / d; })) return holds(fmt::format("{}/{}", letter, d));
    if (is([&](std::int64_t h) { return h % d; }))
      return holds(fmt::format("{} mod {}", letter, d));
  }
  for (std::int64_t r = 1; r < n; ++r) {
    if (is([&](std::int64_t h) { return (h + r) % n; })) {
      return holds(fmt::format("({} + {}) mod {}", letter, r, n));
    }
  }
  for (std::int64_t d = 2; d < n; ++d) {
    if (n % d != 0) continue;
    if (is([&](std::int64_t h) { return h % d * (n / d) + h / d; })) {
      return holds(fmt::format("({0} mod {1}) * {2} + {0}/{1}", letter, d, n / d));
    }
  }
  std::string text = fmt::format("{} 0, 1, … are those of {}", many, axis);
  constexpr std::int64_t kShown = 8;
  for (std::int64_t h = 0; h < std::min(n, kShown); ++h) {
    text += fmt::format("{} {}", h ? "," : "", source[h]);
  }
  return text + (n > kShown ? ", …" : "");
}

std::vector<Account> accounts(const ValidCase& c, const Filters& filters,
                              const std::set<std::string>& rejected) {
  std::vector<Account> found, weak;
  for (const auto& [name, e] : filters.expectation()) {
    const OutputSpec* out = c.schema.find_output(name);
    if (out && out->integer) continue;
    const Wrong wrong(c, filters, name);
    Account factor = wrong.factor();
    const bool is_factor =
        factor.filter.significance() > kFilterThreshold && factor.left <= wrong.allowed();
    if (is_factor && wrong.elements() >= kFewest) {
      found.push_back(std::move(factor));
      continue;
    }
    if (rejected.count(name) == 0) continue;
    if (auto account = wrong.best()) {
      Direction d = account_direction(filters.expectation(), {*account});
      account->filter = filters(d);
      found.push_back(std::move(*account));
    } else if (is_factor) {
      weak.push_back(std::move(factor));
    }
  }
  for (Account& a : weak) {
    const bool seen = std::any_of(found.begin(), found.end(), [&](const Account& b) {
      return b.source.empty() && same_factor(a, b);
    });
    if (seen) found.push_back(std::move(a));
  }
  return found;
}

std::string account_text(const std::vector<Account>& of) {
  std::vector<std::string> parts;
  std::vector<bool> told(of.size(), false);
  for (std::size_t i = 0; i < of.size(); ++i) {
    if (told[i]) continue;
    const Account& a = of[i];
    std::vector<std::string> names;
    const Account* sharpest = &a;
    for (std::size_t j = i; j < of.size(); ++j) {
      const Account& b = of[j];
      const bool same = a.source.empty() ? b.source.empty() && same_factor(a, b)
                                         : b.order == a.order && b.other.empty() && a.other.empty();
      if (told[j] || (j != i && !same)) continue;
      told[j] = true;
      names.push_back(b.tensor);
      if (b.source.empty() && b.factor_error < sharpest->factor_error) sharpest = &b;
    }
    if (!a.other.empty()) {
      const auto back = std::find_if(
          of.begin() + static_cast<std::ptrdiff_t>(i), of.end(),
          [&](const Account& b) { return b.tensor == a.other && b.other == a.tensor; });
      if (back != of.end()) {
        told[back - of.begin()] = true;
        parts.push_back(a.tensor + " and " + a.other + " exchanged");
      } else {
        parts.push_back(a.tensor + " holds what " + a.other + " should");
      }
    } else if (a.source.empty()) {
      parts.push_back(factor_text(names, *sharpest));
    } else {
      parts.push_back(a.order + " in " + list_text(names));
    }
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

Direction account_direction(const Expectation& expectation, const std::vector<Account>& of) {
  Direction direction;
  direction.sized = true;
  for (const Account& a : of) {
    const std::vector<double>& truth = expectation.at(a.tensor).truth;
    const std::vector<double>& from = a.other.empty() ? truth : expectation.at(a.other).truth;
    std::vector<double>& d = direction.d[a.tensor];
    d.resize(truth.size());
    for (std::size_t i = 0; i < d.size(); ++i) {
      d[i] = a.source.empty() ? (a.factor - 1) * truth[i] : from[a.source[i]] - truth[i];
    }
  }
  return direction;
}

}  // namespace assay
