#include "checks/verdict/mixed_up.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "checks/faults/facts.hpp"
#include "checks/faults/rearrange.hpp"
#include "reference/oracle/parallel.hpp"

namespace assay {
namespace {

// What a cause found by evaluation may leave of the error, and of that of any tensor, beside noise:
// what a kernel really does differs from it by roundings, of which bf16 ones are 2^-9. A tensor may
// be small beside the others and its rounding of another size than the reference's, so that it has
// a seventh of its error (the root of a fiftieth) left to that; two causes that differ by less are
// not told apart by one tensor. The tests of causes come out the same with a quarter and with five
// times as much.
constexpr double kShare = 0.001, kShareOfTensor = 0.02, kNoiseOfTensor = 4;

using Tensors = std::map<std::string, Tensor<double>>;
using Places = std::vector<std::int64_t>;

/// Query, key, value and the like.
bool is_vector(const InputSpec& in) {
  return in.role == Role::token && in.differentiable && !in.integer &&
         !std::isfinite(in.domain.lo) && !std::isfinite(in.domain.hi);
}

/// A way to misread a problem: what changes in it, and what a gradient taken automatically does
/// with the result.
struct Misreading {
  std::string id;
  std::function<void(Problem<double>&)> change = {};
  std::function<void(Result<double>&)> after = {};  // always
  std::function<void(Tensors&)> automatic = {};     // to the gradients; empty: nothing
  std::function<void(ValidCase&)> option = {};      // what is read for an option
};

Tensor<double> gathered(const Tensor<double>& t, int axis, const Places& map) {
  const AxisView view(t.shape, axis);
  Tensor<double> result(t.shape);
  for (std::int64_t i = 0; i < t.size(); ++i) {
    const std::int64_t h = i / view.inner % view.length;
    result.data[i] = t.data[i + (map[h] - h) * view.inner];
  }
  return result;
}

Tensor<double> scattered(const Tensor<double>& t, int axis, const Places& map) {
  const AxisView view(t.shape, axis);
  Tensor<double> result(t.shape);
  for (std::int64_t i = 0; i < t.size(); ++i) {
    const std::int64_t h = i / view.inner % view.length;
    result.data[i + (map[h] - h) * view.inner] += t.data[i];
  }
  return result;
}

/// The ways to mix up n entries that are tried.
std::vector<Places> maps(std::int64_t n) {
  std::vector<Places> all;
  const auto add = [&](auto rule) {
    Places map(n);
    for (std::int64_t h = 0; h < n; ++h) map[h] = rule(h);
    const bool identity = map_text("head", map).empty();
    if (!identity && std::find(all.begin(), all.end(), map) == all.end()) all.push_back(map);
  };
  add([&](std::int64_t h) { return (h ^ 1) < n ? h ^ 1 : h; });
  add([](std::int64_t) { return 0; });
  add([](std::int64_t h) { return h / 2; });
  add([&](std::int64_t h) { return h % ((n + 1) / 2); });
  add([&](std::int64_t h) { return n - 1 - h; });
  return all;
}

class Misreadings {
 public:
  explicit Misreadings(const ValidCase& c) : c_(c) {
    for (const InputSpec& in : c.schema.inputs) {
      const std::string name = given_name(c.data, in);
      if (!name.empty() && in.differentiable && !in.integer) given_.push_back({&in, name});
    }
    exchanges();
    for (const auto& [in, name] : given_) {
      entries(*in, name);
      sizes(*in, name);
    }
    backwards();
    options();
  }
  std::vector<Misreading> all;

 private:
  struct Given {
    const InputSpec* spec;
    std::string name;
  };

  void exchanges() {
    for (std::size_t i = 0; i < given_.size(); ++i) {
      for (std::size_t j = i + 1; j < given_.size(); ++j) {
        const InputSpec &x = *given_[i].spec, &y = *given_[j].spec;
        const std::string &a = given_[i].name, &b = given_[j].name;
        const bool alike = x.role == y.role && (a == x.name) == (b == y.name) &&
                           is_gate(x) == is_gate(y) &&
                           c_.data.tensors.at(a).shape == c_.data.tensors.at(b).shape;
        if (!alike) continue;
        all.push_back({a + " and " + b + " exchanged",
                       [=](Problem<double>& p) { std::swap(p.inputs.at(a), p.inputs.at(b)); },
                       {},
                       [=](Tensors& d) { std::swap(d.at(a), d.at(b)); }});
        one_for_the_other(a, b);
        one_for_the_other(b, a);
      }
    }
  }

  void one_for_the_other(const std::string& a, const std::string& b) {
    all.push_back({a + " read as " + b,
                   [=](Problem<double>& p) { p.inputs.at(a) = p.inputs.at(b); },
                   {},
                   [=](Tensors& d) {
                     for (std::int64_t i = 0; i < d.at(a).size(); ++i) {
                       d.at(b).data[i] += d.at(a).data[i];
                     }
                     zero(d.at(a));
                   }});
  }

  /// Heads and batches of one input mixed up.
  void entries(const InputSpec& in, const std::string& name) {
    const Shape& shape = c_.data.tensors.at(name).shape;
    for (int axis = 0; axis < static_cast<int>(std::min(shape.size(), in.axes.size())); ++axis) {
      const char letter = in.axes[axis];
      const bool head = letter == c_.schema.head_axis;
      if (!head && letter != 'B') continue;
      const std::string word = head ? "head" : c_.packed() ? "sequence" : "batch";
      for (const Places& map : maps(shape[axis])) {
        all.push_back({name + " read with " + map_text(word, map),
                       [=](Problem<double>& p) {
                         p.inputs.at(name) = gathered(p.inputs.at(name), axis, map);
                       },
                       {},
                       [=](Tensors& d) { d.at(name) = scattered(d.at(name), axis, map); }});
      }
    }
  }

  /// An input that is not read, doubled, halved, or of the other sign.
  void sizes(const InputSpec& in, const std::string& name) {
    if (is_gate(in)) {
      const bool log = name != in.name;
      if (!log && in.domain.hi < 1) return;
      all.push_back({name + " not read, 1 in its place",
                     [=](Problem<double>& p) {
                       for (double& x : p.inputs.at(name).data) x = log ? 0 : 1;
                     },
                     {},
                     [=](Tensors& d) { zero(d.at(name)); }});
      return;
    }
    all.push_back({name + " not read, 0 in its place",
                   [=](Problem<double>& p) { zero(p.inputs.at(name)); },
                   {},
                   [=](Tensors& d) { zero(d.at(name)); }});
    for (const double factor : {2.0, 0.5, -1.0}) {
      all.push_back({fmt::format("{} read as {} times what it is", name, factor),
                     [=](Problem<double>& p) { scale(p.inputs.at(name), factor); },
                     {},
                     [=](Tensors& d) { scale(d.at(name), factor); }});
    }
  }

  void backwards() {
    if (!c_.sizes.has('T') || facts::longest(c_) < 2) return;
    const std::int64_t T = c_.sizes['T'], B = c_.sizes.has('B') ? c_.sizes['B'] : 1;
    Places source(B * T);
    for (std::int64_t i = 0; i < B * T; ++i) source[i] = i;
    for (const facts::Sequence& s : facts::sequences(c_)) {
      const std::int64_t row = s.batch * T + s.start;
      for (std::int64_t t = 0; t < s.steps; ++t) source[row + t] = row + s.steps - 1 - t;
    }
    all.push_back({"time running backwards", [=](Problem<double>& p) { reorder_time(p, source); },
                   [this, source](Result<double>& r) { reorder_time(c_, r, source); }});
  }

  /// A number or a switch that is not read: its default in its place, or 0.
  void options() {
    for (const OptionSpec& option : c_.schema.options) {
      const auto given = c_.data.options.find(option.name);
      const auto& value = given == c_.data.options.end() ? option.default_value : given->second;
      const auto add = [&](const OptionValue& other, const std::string& text) {
        if (!value || *value == other) return;
        all.push_back(
            {"option " + option.name + " not read, " + text + " in its place",
             {},
             {},
             {},
             [name = option.name, other](ValidCase& c) { c.data.options[name] = other; }});
      };
      if (option.type == OptionType::boolean) {
        if (option.default_value) {
          add(*option.default_value, std::get<bool>(*option.default_value) ? "true" : "false");
        }
      } else if (option.type == OptionType::real) {
        double usual = 0;
        if (option.default_value) usual = std::get<double>(*option.default_value);
        if (usual != 0) add(usual, fmt::format("{:g}", usual));
        if (option.lo <= 0 && option.hi >= 0) add(0.0, "0");
      }
    }
  }

  static void zero(Tensor<double>& t) { std::fill(t.data.begin(), t.data.end(), 0.0); }
  static void scale(Tensor<double>& t, double factor) {
    for (double& x : t.data) x *= factor;
  }

  const ValidCase& c_;
  std::vector<Given> given_;
};

/// Does the direction account for every tensor's error? One with huge errors must not outshout
/// the others.
bool explains_each(const Filters& filters, const ErrorTensors& d, const std::string& but = "") {
  for (const auto& [name, error] : filters.error()) {
    if (name == but) continue;
    const auto found = d.find(name);
    const std::vector<double>& w = filters.weight(name);
    double left = 0;
    for (std::size_t i = 0; i < error.size(); ++i) {
      const double r = error[i] - (found == d.end() ? 0 : found->second[i]);
      left += w[i] * r * r;
    }
    const double noise = kNoiseOfTensor * (filters.noise(name) + 4);
    if (!(left <= std::max(kShareOfTensor * filters.energy(name), noise))) return false;
  }
  return true;
}

/// Of several directions that say the same, the filter of the one that leaves least.
class Least {
 public:
  explicit Least(const Filters& filters) : filters_(filters) {}

  void take(const std::string& id, const ErrorTensors& d) {
    const double left = left_of(d);
    if (!(left < left_)) return;
    left_ = left;
    best_.id = best_.says = id;
    best_.d = d;
  }
  /// Of a direction that fits, or one that explains nothing.
  FilterResult result() const {
    FilterResult r;
    if (!(left_ <= std::max(kShare * filters_.energy(), kLeftToNoise * filters_.noise()))) return r;
    if (!explains_each(filters_, best_.d)) return r;
    Direction d = best_;
    d.sized = true;
    r = filters_(d);
    return fits(r, kShare) ? r : FilterResult();
  }

 private:
  double left_of(const ErrorTensors& d) const {
    double left = 0;
    for (const auto& [name, error] : filters_.error()) {
      const auto found = d.find(name);
      const std::vector<double>& w = filters_.weight(name);
      for (std::size_t i = 0; i < error.size(); ++i) {
        const double r = error[i] - (found == d.end() ? 0 : found->second[i]);
        left += w[i] * r * r;
      }
    }
    return left;
  }

  const Filters& filters_;
  double left_ = kInf;
  Direction best_;
};

}  // namespace

Result<double> with_factor(const ValidCase& c, const std::string& id, double factor,
                           const RunOptions& run) {
  const std::string name = id.substr(id.find(' ') + 1);
  if (id.rfind("option ", 0) == 0) {
    ValidCase changed = c;
    const double given = option_real(c, name).value_or(
        c.sizes.has('K') ? 1 / std::sqrt(static_cast<double>(c.sizes['K'])) : 1);
    changed.data.options[name] = given * factor;
    return evaluate<double>(lift<double>(changed), run);
  }
  const InputSpec& in = *c.schema.find_input(name);
  const std::string tensor = given_name(c.data, in);
  Problem<double> problem = lift<double>(c);
  for (double& x : problem.inputs.at(tensor).data) {
    x = tensor == in.name ? x * factor : x + std::log(factor);
  }
  return evaluate<double>(problem, run);
}

ErrorTensors difference(const Result<double>& a, const Result<double>& b, double factor) {
  ErrorTensors d;
  const auto add = [&](const std::string& name, const Tensor<double>& x, const Tensor<double>& y) {
    std::vector<double>& out = d[name];
    out.resize(x.data.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      const double e = (x.data[i] - y.data[i]) * factor;
      out[i] = std::isfinite(e) ? e : 0;
    }
  };
  for (const auto& [name, t] : a.outputs) add(name, t, b.outputs.at(name));
  for (const auto& [name, t] : a.gradients) add("d_" + name, t, b.gradients.at(name));
  return d;
}

std::vector<FilterResult> mixed_up(const ValidCase& c, const Filters& filters, bool gradients,
                                   int threads) {
  const RunOptions run{Form::recurrent, gradients, 1, {}};
  const Result<double> base = evaluate<double>(lift<double>(c), run);
  const Misreadings misreadings(c);
  std::vector<FilterResult> results(misreadings.all.size());
  parallel_for(static_cast<std::int64_t>(results.size()), threads, [&](std::int64_t i) {
    const Misreading& m = misreadings.all[i];
    Result<double> result;
    try {
      ValidCase read = c;
      if (m.option) m.option(read);
      Problem<double> problem = lift<double>(read);
      if (m.change) m.change(problem);
      result = evaluate<double>(problem, run);
    } catch (const InputError&) {
      return;  // no case any more: a vector of zeros that is to be normalised
    }
    if (m.after) m.after(result);
    Least least(filters);
    least.take(m.id, difference(result, base, 1));
    if (gradients) {
      Result<double> one = result;
      one.gradients = base.gradients;
      least.take(m.id + " in the forward pass alone", difference(one, base, 1));
      one = result;
      one.outputs = base.outputs;
      least.take(m.id + " in the backward pass alone", difference(one, base, 1));
      if (m.automatic) {
        one = std::move(result);
        m.automatic(one.gradients);
        least.take(m.id, difference(one, base, 1));
      }
    }
    results[i] = least.result();
  });
  std::erase_if(results, [](const FilterResult& r) { return r.id.empty(); });
  std::stable_sort(results.begin(), results.end(),
                   [](const FilterResult& a, const FilterResult& b) { return a.left < b.left; });
  return results;
}

FilterResult followed(const ValidCase& c, const Filters& filters, const std::vector<Account>& of) {
  const RunOptions run{Form::recurrent, true, 1, {}};
  Problem<double> problem = lift<double>(c);
  std::vector<Account> outputs;
  for (const Account& a : of) {
    if (!c.schema.find_output(a.tensor)) continue;
    if (!a.other.empty()) return {};
    outputs.push_back(a);
    const auto found = problem.cotangents.find(a.tensor);
    if (found == problem.cotangents.end()) continue;
    Tensor<double> changed(found->second.shape);
    for (std::int64_t i = 0; i < changed.size(); ++i) {
      if (a.source.empty()) {
        changed.data[i] = a.factor * found->second.data[i];
      } else {
        changed.data[a.source[i]] += found->second.data[i];
      }
    }
    found->second = std::move(changed);
  }
  if (outputs.empty()) return {};
  const Result<double> base = evaluate<double>(lift<double>(c), run);
  Result<double> result = evaluate<double>(problem, run);
  result.outputs = base.outputs;
  ErrorTensors d = difference(result, base, 1);
  for (auto& [name, part] : account_direction(filters.expectation(), outputs).d) {
    d[name] = std::move(part);
  }
  Least least(filters);
  least.take(account_text(outputs) + ", and the gradients follow", d);
  return least.result();
}

std::vector<Direction> vector_directions(const ValidCase& c, const Filters& filters, bool gradients,
                                         int threads) {
  constexpr double kStep = 0x1p-20;
  const RunOptions run{Form::recurrent, gradients, 1, {}};
  std::vector<Direction> all;
  for (const InputSpec& in : c.schema.inputs) {
    if (!is_vector(in) || c.data.tensors.count(in.name) == 0) continue;
    Direction d;
    d.id = "input " + in.name;
    d.accuses = false;
    all.push_back(std::move(d));
  }
  for (const OptionSpec& option : c.schema.options) {
    // The scale is among the directions that accuse.
    if (option.type != OptionType::real || option.name == "scale") continue;
    const auto value = option_real(c, option.name);
    if (!value || *value == 0 || !std::isfinite(*value)) continue;
    Direction d;
    d.id = "option " + option.name;
    d.accuses = false;
    all.push_back(std::move(d));
  }
  if (all.empty()) return all;
  const Result<double> base = evaluate<double>(lift<double>(c), run);
  parallel_for(static_cast<std::int64_t>(all.size()), threads, [&](std::int64_t i) {
    const std::string name = all[i].id.substr(all[i].id.find(' ') + 1);
    all[i].d = difference(with_factor(c, all[i].id, 1 + kStep, run), base, 1 / kStep);
    const auto own = base.gradients.find(name);
    if (own == base.gradients.end()) return;
    // The gradient may be that of what the kernel made of the tensor, or of the tensor.
    Direction automatic = all[i];
    std::vector<double>& d = automatic.d.at("d_" + name);
    for (std::size_t j = 0; j < d.size(); ++j) d[j] += own->second.data[j];
    if (filters(automatic).left < filters(all[i]).left) all[i] = std::move(automatic);
  });
  return all;
}

bool confirm(const ValidCase& c, const Filters& filters, bool gradients, FilterResult& r) {
  constexpr int kMostSteps = 4;
  const RunOptions run{Form::recurrent, gradients, 1, {}};
  const Result<double> base = evaluate<double>(lift<double>(c), run);
  const std::string name = r.id.substr(r.id.find(' ') + 1);
  FilterResult best;
  best.left = kInf;
  ErrorTensors best_d;
  // An option may be taken as 0, where its line passes through what is none any more.
  const OptionSpec* option = r.id.rfind("option ", 0) == 0 ? c.schema.find_option(name) : nullptr;
  const bool to_zero = option && option->lo <= 0 && option->hi >= 0;
  const auto possible = [&](double x) { return to_zero ? std::max(x, -1.0) : x; };
  double size = possible(r.coefficient);
  for (int step = 0; step < kMostSteps && (size > -1 || (to_zero && size == -1)); ++step) {
    Result<double> result;
    try {
      result = with_factor(c, r.id, 1 + size, run);
    } catch (const InputError&) {
      break;  // no case any more: a vector of zeros that is to be normalised
    }
    Direction d;
    d.sized = true;
    d.d = difference(result, base, 1);
    FilterResult fitted;
    fitted.left = kInf;
    const auto take = [&] {
      const FilterResult one = filters(d);
      if (one.left < best.left) best_d = d.d;
      if (one.left < fitted.left) fitted = one;
    };
    take();
    const auto own = result.gradients.find(name);
    if (own != result.gradients.end()) {
      d.d.erase("d_" + name);  // close to that of the truth
      take();
      for (double& x : own->second.data) x *= 1 + size;  // of what the kernel was given
      d.d = difference(result, base, 1);
      take();
    }
    if (fitted.left < best.left) {
      best = fitted;
      best.standard_error = fitted.standard_error * std::fabs(size);
      best.misfit = fitted.misfit * std::fabs(size);
      // What was evaluated at 0 and fits is 0, not a little beside it.
      best.coefficient = to_zero && size == -1 ? -1 : size * fitted.coefficient;
    }
    if (!(std::fabs(fitted.coefficient - 1) > std::max(1e-3, fitted.standard_error))) break;
    if (!std::isfinite(fitted.coefficient)) break;
    size = possible(size * fitted.coefficient);
  }
  const double most = std::max(kShareOfTensor * filters.energy(), kLeftToNoise * filters.noise());
  if (!(best.left <= most) || !explains_each(filters, best_d, "d_" + name)) return false;
  r.coefficient = best.coefficient;
  r.standard_error = best.standard_error;
  r.misfit = best.misfit;
  r.explained = best.explained;
  r.left = best.left;
  return true;
}

}  // namespace assay
