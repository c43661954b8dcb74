#include "checks/verdict/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "checks/verdict/accounts.hpp"
#include "checks/verdict/mixed_up.hpp"

namespace assay {
namespace {

// So much less must be left for a cause of another kind to be named before one of the dictionary.
constexpr double kClearlyLess = 0.5;

double share(const FilterResult& r) { return 100 * std::clamp(r.explained, 0.0, 1.0); }

std::string effective_text(const FilterResult& r) {
  const bool option = r.id.rfind("option ", 0) == 0;
  const double off = kSizeErrors * r.uncertainty();
  if (option && std::fabs(1 + r.coefficient) <= off && off <= kOwnSize) {
    return r.id + " taken as 0";
  }
  constexpr double kFar = 0.1;  // beyond, a factor says more than a difference
  if (std::fabs(r.coefficient) > kFar) {
    return fmt::format("effective {} {} times what it should be", r.id.substr(r.id.find(' ') + 1),
                       value_with_error(1 + r.coefficient, r.uncertainty()));
  }
  return fmt::format("effective {} too {} by {:.2e} ± {:.0e} relative",
                     r.id.substr(r.id.find(' ') + 1), r.coefficient < 0 ? "small" : "large",
                     std::fabs(r.coefficient), r.uncertainty());
}

class Explanation {
 public:
  Explanation(const ValidCase& c, const Filters& filters, std::vector<const Direction*> known,
              const JudgeRequest& request, Verdict& verdict)
      : c_(c), filters_(filters), known_(std::move(known)), request_(request), verdict_(verdict) {}

  void name() {
    constexpr double kSomething = 1;  // per cent: what is printed as 0 or 1 explains nothing
    const Blame first = confirmed_blame();
    const double left = first.on.empty() ? kInf : first.on[0].left;
    const bool explained = left <= kLeftToNoise * filters_.noise();
    const std::vector<Account> found = accounts_of_all();
    const double by_tensor = left_by(found);
    // With the dictionary's word for it, what the tensors show is said beside.
    const bool covered = explained || !(by_tensor < kClearlyLess * left);
    // Of a case with hardly a number that is not zero, the accounts together may be nothing.
    Direction d;
    FilterResult all;
    if (std::isfinite(by_tensor)) {
      d = account_direction(filters_.expectation(), found);
      all = filters_(d);
    }
    const bool nothing = !(share(all) >= kSomething);
    if (nothing || (covered && !say_more(d, by_tensor, first))) {
      if (!explained && name_mixed_up(left, found)) return;
      say(first);
      if (!first.on.empty() && first.on[0].is_fault && !nothing) {
        verdict_.cause += "; " + account_text(found);
      }
      return;
    }
    for (const Account& a : found) {
      FilterResult r = a.filter;
      r.id = a.source.empty() ? "factor " + a.tensor : "order " + a.tensor;
      verdict_.blamed.push_back(r.id);
      verdict_.filters.push_back(std::move(r));
    }
    const bool factors =
        std::all_of(found.begin(), found.end(), [](const Account& a) { return a.source.empty(); });
    verdict_.cause = fmt::format("{:.0f} % of the error: {}", share(all), account_text(found));
    if (!factors) {
      verdict_.cause +=
          fmt::format(" (coefficient {:.3f} ± {:.1e})", all.coefficient, all.uncertainty());
    }
  }

 private:
  /// Within the noise every small error is explained by anything. Accounts say more than a gate or
  /// a vector where they leave significantly less, and something that it does not say.
  bool say_more(const Direction& accounts, double by_tensor, const Blame& first) const {
    if (first.on.empty() || first.on[0].is_fault || !std::isfinite(by_tensor)) return false;
    const Direction* blamed = find(first.on[0].id);
    if (!blamed || !(by_tensor + kFilterThreshold * kFilterThreshold < first.on[0].left)) {
      return false;
    }
    return filters_.told_apart(accounts, *blamed) > kFilterThreshold;
  }

  /// The first blame that, if it is no fault, an evaluation confirms; with what is not told apart.
  Blame confirmed_blame() {
    constexpr int kMostTries = 4;
    std::vector<FilterResult> left = verdict_.filters;
    for (int tries = 0; tries < kMostTries; ++tries) {
      Blame b = blame(left);
      if (b.on.empty() || b.on[0].is_fault) return b;
      if (confirm(c_, filters_, request_.gradients, b.on[0])) {
        take(b.on[0]);
        add_alike(left, b);
        return b;
      }
      const std::string id = b.on[0].id;
      std::erase_if(left, [&](const FilterResult& r) { return r.id == id; });
    }
    return {};
  }

  /// Gates and vectors that explain the error as well as the one that is blamed.
  void add_alike(const std::vector<FilterResult>& all, Blame& b) {
    constexpr int kMostTries = 3;
    // Lines of large errors are told apart by how they bend; evaluated, they may be the same.
    constexpr double kAsMuch = 0.99, kSame = 1.5;
    const Direction* best = find(b.on[0].id);
    int tries = 0;
    for (FilterResult r : all) {
      const bool other = !r.is_fault && r.id != b.on[0].id && r.significance() > kFilterThreshold;
      if (!other || tries >= kMostTries) continue;
      const Direction* d = find(r.id);
      if (!best || !d) continue;
      const bool as_much = r.explained >= kAsMuch * b.on[0].explained;
      if (!as_much && filters_.told_apart(*best, *d) > kSizeErrors) continue;
      ++tries;
      if (!confirm(c_, filters_, request_.gradients, r)) continue;
      if (as_much && !(r.left <= kSame * b.on[0].left + 1e-12 * r.energy)) continue;
      take(r);
      b.on.push_back(std::move(r));
    }
  }

  const Direction* find(const std::string& id) const {
    for (const Direction* d : known_) {
      if (d->id == id) return d;
    }
    return nullptr;
  }

  void take(const FilterResult& r) {
    for (FilterResult& f : verdict_.filters) {
      if (f.id == r.id) f = r;
    }
  }

  std::vector<Account> accounts_of_all() const {
    std::set<std::string> rejected;
    for (const TensorVerdict& t : verdict_.tensors) {
      if (!t.stats.accepted()) rejected.insert(t.name);
    }
    return accounts(c_, filters_, rejected);
  }

  /// What the accounts leave of the whole error; infinite if they leave a rejected tensor without.
  double left_by(const std::vector<Account>& found) const {
    if (found.empty()) return kInf;
    double left = filters_.energy();
    for (const Account& a : found) left += a.left - filters_.energy(a.tensor);
    for (const TensorVerdict& t : verdict_.tensors) {
      const bool told =
          t.stats.accepted() || std::any_of(found.begin(), found.end(),
                                            [&](const Account& a) { return a.tensor == t.name; });
      if (!told) return kInf;
    }
    return left;
  }

  bool name_mixed_up(double left, const std::vector<Account>& found) {
    std::vector<FilterResult> all;
    if (request_.gradients) {
      all.push_back(followed(c_, filters_, found));
      if (all[0].id.empty()) all.clear();
    }
    if (all.empty()) all = mixed_up(c_, filters_, request_.gradients, request_.threads);
    if (all.empty() || !(all[0].left < kClearlyLess * left)) return false;
    const FilterResult& r = all[0];
    verdict_.cause = fmt::format("{:.0f} % of the error: {} (coefficient {:.3f} ± {:.1e})",
                                 share(r), r.says, r.coefficient, r.uncertainty());
    constexpr double kSame = 1.5;
    constexpr std::size_t kMostNamed = 4;
    for (const FilterResult& same : all) {
      if (same.left > kSame * r.left + 1e-12 * r.energy) break;
      if (verdict_.blamed.size() == kMostNamed) break;
      if (!verdict_.blamed.empty()) {
        verdict_.cause +=
            (verdict_.blamed.size() == 1 ? "; in this case the same as " : ", ") + same.says;
      }
      verdict_.blamed.push_back(same.id);
      verdict_.filters.push_back(same);
    }
    return true;
  }

  void say(const Blame& found) {
    if (found.on.empty()) return;
    for (const FilterResult& r : found.on) verdict_.blamed.push_back(r.id);
    const FilterResult& r = found.on[0];
    if (!r.is_fault) {
      verdict_.cause = effective_text(r);
      for (std::size_t i = 1; i < found.on.size(); ++i) {
        verdict_.cause += ", or " + effective_text(found.on[i]);
      }
      verdict_.cause += fmt::format(" ({:.0f} % of the error{})", share(r),
                                    found.on.size() > 1 ? "; this case does not tell which" : "");
      return;
    }
    verdict_.cause = fmt::format("{:.0f} % of the error is {} (coefficient {:.3f} ± {:.1e})",
                                 share(r), r.id, r.coefficient, r.uncertainty());
    for (std::size_t i = 1; i < found.on.size(); ++i) {
      verdict_.cause += (i == 1 ? "; in this case the same as " : ", ") + found.on[i].id;
    }
  }

  const ValidCase& c_;
  const Filters& filters_;
  const std::vector<const Direction*> known_;
  const JudgeRequest& request_;
  Verdict& verdict_;
};

}  // namespace

void name_cause(const ValidCase& c, const Filters& filters, const std::vector<Direction>& known,
                const JudgeRequest& request, Verdict& verdict) {
  if (!std::isfinite(filters.energy())) return;  // no share of such an error can be told
  const std::vector<Direction> vectors =
      vector_directions(c, filters, request.gradients, request.threads);
  std::vector<const Direction*> all;
  for (const Direction& d : known) all.push_back(&d);
  for (const Direction& d : vectors) {
    all.push_back(&d);
    FilterResult r = filters(d);
    if (r.significance() > kFilterThreshold) verdict.filters.push_back(std::move(r));
  }
  std::stable_sort(
      verdict.filters.begin(), verdict.filters.end(),
      [](const FilterResult& a, const FilterResult& b) { return a.explained > b.explained; });
  Explanation(c, filters, std::move(all), request, verdict).name();
}

}  // namespace assay
