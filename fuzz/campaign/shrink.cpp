#include "fuzz/campaign/shrink.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

#include "fuzz/campaign/slice.hpp"
#include "reference/case/validate.hpp"

namespace assay {
namespace {

using Candidates = std::vector<std::function<std::optional<ValidCase>(const ValidCase&)>>;

/// Free axes of the case but batch, time and heads.
std::vector<char> widths(const ValidCase& c) {
  std::vector<char> letters;
  for (const auto& [letter, length] : c.sizes.by_letter) {
    const bool derived = std::any_of(c.schema.derived.begin(), c.schema.derived.end(),
                                     [&](const DerivedAxis& d) { return d.axis == letter; });
    if (letter == 'B' || letter == 'S' || letter == 'T' || letter == c.schema.head_axis) continue;
    if (!derived && !c.schema.fixed_axes.count(letter) && length > 1) letters.push_back(letter);
  }
  return letters;
}

/// Parts of an axis worth trying, small ones first.
std::vector<std::pair<std::int64_t, std::int64_t>> parts(std::int64_t n, bool heads) {
  std::vector<std::pair<std::int64_t, std::int64_t>> out;
  if (n < 2) return out;
  const std::int64_t singles = std::min<std::int64_t>(n, 4);
  for (std::int64_t i = 0; i < singles; ++i) out.push_back({n - 1 - i, 1});
  if (n > 4) out.push_back({0, 1});
  for (std::int64_t size : {std::int64_t{2}, std::int64_t{4}, n / 2, n - 1}) {
    if (size <= 1 || size >= n || (heads && n % size != 0)) continue;
    out.push_back({0, size});
    out.push_back({n - size, size});
  }
  return out;
}

bool try_first(const ValidCase& from, const std::function<bool(ValidCase)>& accept,
               const Candidates& candidates) {
  for (const auto& make : candidates) {
    auto smaller = make(from);
    if (smaller && accept(std::move(*smaller))) return true;
  }
  return false;
}

Candidates axis_candidates(const ValidCase& c, char axis) {
  Candidates out;
  if (!c.sizes.has(axis)) return out;
  for (const auto& [first, count] : parts(c.sizes[axis], axis == c.schema.head_axis)) {
    out.push_back([=](const ValidCase& v) { return keep_range(v, axis, first, count); });
  }
  return out;
}

/// Two axes of one length together: what exists for squares only.
Candidates square_candidates(const ValidCase& c) {
  Candidates out;
  const std::vector<char> letters = widths(c);
  for (std::size_t i = 0; i < letters.size(); ++i) {
    for (std::size_t j = i + 1; j < letters.size(); ++j) {
      const char a = letters[i], b = letters[j];
      if (c.sizes[a] != c.sizes[b]) continue;
      for (const auto& [first, count] : parts(c.sizes[a], false)) {
        out.push_back([=](const ValidCase& v) -> std::optional<ValidCase> {
          const auto half = keep_range(v, a, first, count);
          return half ? keep_range(*half, b, first, count) : std::nullopt;
        });
      }
    }
  }
  return out;
}

Candidates sequence_candidates(const ValidCase& c) {
  Candidates out;
  if (c.packed()) {
    out.push_back([](const ValidCase& v) { return unpacked(v); });
    for (std::int64_t s = 0; s < c.sequences(); ++s) {
      out.push_back([=](const ValidCase& v) { return drop_sequence(v, s); });
    }
  }
  return out;
}

Candidates omission_candidates(const ValidCase& c) {
  Candidates out;
  for (const auto& [name, value] : c.data.options) {
    out.push_back([name = name](const ValidCase& v) { return drop_option(v, name); });
  }
  for (const auto& [name, tensor] : c.data.tensors) {
    out.push_back([name = name](const ValidCase& v) { return drop_tensor(v, name); });
  }
  return out;
}

/// The case with the values of one tensor replaced; nothing when that changes nothing.
template <class Change>
std::optional<ValidCase> with_values(const ValidCase& c, const std::string& name, Change change) {
  Case data = c.data;
  CaseTensor& t = data.tensors.at(name);
  const std::vector<double> before = t.values;
  change(t);
  for (double& x : t.values) x = round_to_dtype(x, t.dtype);
  if (t.values == before) return std::nullopt;
  return revalidated(std::move(data));
}

double nearest_short(double x, const Domain& domain) {
  static const std::vector<double> list = {0, 1, -1, 0.5, -0.5, 2, -2, 0.25, -0.25, 3, -3, 4, -4};
  double best = 0, distance = kInf;
  for (const double s : list) {
    if (!(s >= domain.lo && s <= domain.hi)) continue;
    if (std::fabs(s - x) < distance) best = s, distance = std::fabs(s - x);
  }
  return std::isfinite(distance) ? best : x;
}

Domain domain_of_tensor(const ValidCase& c, const std::string& name) {
  const InputSpec* in = c.schema.find_input(name);
  return in ? domain_of(*in, name) : Domain{};
}

/// Whole tensors at once: 0, 1, unit vectors, the short list.
Candidates tensor_candidates(const ValidCase& c) {
  Candidates out;
  for (const auto& [key, tensor] : c.data.tensors) {
    if (tensor.values.empty()) continue;
    const std::string name = key;
    const Domain domain = domain_of_tensor(c, name);
    for (const double level : {0.0, 1.0}) {
      if (!(level >= domain.lo && level <= domain.hi)) continue;
      const bool already = std::all_of(tensor.values.begin(), tensor.values.end(),
                                       [](double x) { return x == 0 || x == 1; });
      if (level == 1 && already) continue;  // zeros are simpler than ones
      out.push_back([=](const ValidCase& v) {
        return with_values(
            v, name, [&](CaseTensor& t) { std::fill(t.values.begin(), t.values.end(), level); });
      });
    }
    const bool open = !std::isfinite(domain.lo) && !std::isfinite(domain.hi);
    if (open && tensor.shape.size() > 1 && tensor.shape.back() > 1) {
      out.push_back([=](const ValidCase& v) {
        return with_values(v, name, [&](CaseTensor& t) {
          const auto width = static_cast<std::size_t>(t.shape.back());
          const bool unit = std::all_of(t.values.begin(), t.values.end(),
                                        [](double x) { return x == 0 || x == 1; });
          if (unit) return;
          for (std::size_t i = 0; i < t.values.size(); ++i) t.values[i] = i % width == 0 ? 1 : 0;
        });
      });
    }
    out.push_back([=](const ValidCase& v) {
      return with_values(v, name, [&](CaseTensor& t) {
        for (double& x : t.values) {
          if (std::isfinite(x)) x = nearest_short(x, domain);
        }
      });
    });
  }
  return out;
}

class Shrinker {
 public:
  Shrinker(const CheckCase& c, const std::function<bool(const CheckCase&)>& shows,
           const ShrinkRequest& request)
      : shows_(shows), request_(request), result_{c} {}

  ShrinkResult run() {
    bool changed = true;
    while (changed && !over()) {
      changed = false;
      changed = exhaust(sequence_candidates) || changed;
      changed = exhaust([](const ValidCase& c) { return axis_candidates(c, 'B'); }) || changed;
      changed = tokens() || changed;
      changed =
          exhaust([](const ValidCase& c) { return axis_candidates(c, c.schema.head_axis); }) ||
          changed;
      for (const char letter : widths(valid())) {
        changed =
            exhaust([&](const ValidCase& c) { return axis_candidates(c, letter); }) || changed;
      }
      changed = exhaust(square_candidates) || changed;
      changed = exhaust(omission_candidates) || changed;
      if (result_.minimal.exact) continue;
      if (changed) continue;  // numbers are looked at when the shape is small
      changed = exhaust(tensor_candidates);
    }
    if (!result_.minimal.exact) elements();
    result_.capped = over();
    return std::move(result_);
  }

 private:
  using Clock = std::chrono::steady_clock;

  const ValidCase& valid() const { return result_.minimal.valid; }

  bool over() const {
    if (result_.steps >= request_.steps || (request_.stop && request_.stop())) return true;
    const std::chrono::duration<double> spent = Clock::now() - start_;
    return request_.seconds > 0 && spent.count() > request_.seconds;
  }

  bool accept(ValidCase smaller) {
    if (over()) return false;
    ++result_.steps;
    if (request_.progress) {
      request_.progress(static_cast<double>(result_.steps) / static_cast<double>(request_.steps),
                        fmt::format("shrinking, {} steps", result_.steps));
    }
    CheckCase candidate{std::move(smaller), result_.minimal.why, result_.minimal.exact,
                        result_.minimal.number};
    if (!shows_(candidate)) return false;
    result_.minimal = std::move(candidate);
    ++result_.accepted;
    return true;
  }

  template <class Make>
  bool exhaust(Make make) {
    bool any = false;
    while (!over() &&
           try_first(
               valid(), [&](ValidCase v) { return accept(std::move(v)); }, make(valid()))) {
      any = true;
    }
    return any;
  }

  std::int64_t length() const { return valid().sizes.has('T') ? valid().sizes['T'] : 0; }

  bool keep_tokens(std::int64_t first, std::int64_t count) {
    auto smaller = keep_range(valid(), 'T', first, count);
    return smaller && accept(std::move(*smaller));
  }

  /// The shortest prefix by bisection, then the shortest suffix of it; then a few tokens inside.
  bool tokens() {
    const std::int64_t before = length();
    if (before == 0) return false;
    for (const bool front : {true, false}) {
      std::int64_t lo = -1, hi = length();  // hi shows, lo does not
      while (hi - lo > 1 && !over()) {
        const std::int64_t middle = lo < 0 && hi > 1 ? (hi <= 4 ? hi - 1 : hi / 2) : (lo + hi) / 2;
        if (keep_tokens(front ? 0 : length() - middle, middle)) {
          hi = middle;
        } else {
          lo = middle;
        }
      }
    }
    // Not every length below shows what a longer one does: one token less, wherever it is.
    for (std::int64_t t = length() - 1; t >= 0 && length() <= 80 && !over(); --t) {
      std::vector<std::int64_t> keep;
      for (std::int64_t i = 0; i < length(); ++i) {
        if (i != t) keep.push_back(i);
      }
      auto smaller = keep_indices(valid(), 'T', keep);
      if (smaller) accept(std::move(*smaller));
    }
    return length() < before;
  }

  /// Single numbers, where there are few.
  void elements() {
    constexpr std::size_t kMost = 48;
    std::vector<std::string> names;
    for (const auto& [name, tensor] : valid().data.tensors) {
      if (!tensor.values.empty() && tensor.values.size() <= kMost) names.push_back(name);
    }
    for (const std::string& name : names) {
      const Domain domain = domain_of_tensor(valid(), name);
      for (std::size_t i = 0; i < valid().data.tensors.at(name).values.size(); ++i) {
        for (const double level :
             {0.0, 1.0, nearest_short(valid().data.tensors.at(name).values[i], domain)}) {
          const double now = valid().data.tensors.at(name).values[i];
          if (over()) return;
          if (now == 0 || (now == 1 && level != 0)) break;
          if (!(level >= domain.lo && level <= domain.hi)) continue;
          auto simpler = with_values(valid(), name, [&](CaseTensor& t) { t.values[i] = level; });
          if (simpler && accept(std::move(*simpler))) break;
        }
      }
    }
  }

  const std::function<bool(const CheckCase&)>& shows_;
  const ShrinkRequest& request_;
  const Clock::time_point start_ = Clock::now();
  ShrinkResult result_;
};

}  // namespace

ShrinkResult shrink(const CheckCase& c, const std::function<bool(const CheckCase&)>& shows,
                    const ShrinkRequest& request) {
  return Shrinker(c, shows, request).run();
}

std::vector<ValidCase> smaller_cases(const ValidCase& c) {
  std::vector<ValidCase> all;
  const auto add = [&](const Candidates& candidates) {
    for (const auto& make : candidates) {
      if (auto smaller = make(c)) all.push_back(std::move(*smaller));
    }
  };
  add(sequence_candidates(c));
  add(axis_candidates(c, 'B'));
  add(axis_candidates(c, 'T'));
  add(axis_candidates(c, c.schema.head_axis));
  for (const char letter : widths(c)) add(axis_candidates(c, letter));
  add(square_candidates(c));
  add(omission_candidates(c));
  add(tensor_candidates(c));
  return all;
}

std::string tile_edges(const ValidCase& c, std::int64_t chunk) {
  std::vector<std::string> edges;
  const auto look = [&](char axis, std::int64_t tile, const char* what) {
    if (!c.sizes.has(axis)) return false;
    const std::int64_t n = c.sizes[axis];
    if (tile < 2 || n < tile - 1) return false;
    const std::int64_t rest = n % tile;
    if (rest > 1 && rest != tile - 1) return false;
    edges.push_back(fmt::format("{} = {} = {} x {}{}, at the edge of a {}", axis, n, (n + 1) / tile,
                                tile,
                                rest == 1   ? " + 1"
                                : rest == 0 ? ""
                                            : " - 1",
                                what));
    return true;
  };
  look('T', chunk, "chunk");
  for (const char axis : {'K', 'V', 'D'}) {
    for (const std::int64_t tile : {128, 64, 32, 16}) {
      if (look(axis, tile, "tile")) break;
    }
  }
  std::string text;
  for (const std::string& edge : edges) text += (text.empty() ? "" : "; ") + edge;
  return text;
}

}  // namespace assay
