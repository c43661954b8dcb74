#include "checks/verdict/properties.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <optional>

#include "checks/verdict/statistics.hpp"
#include "reference/case/text.hpp"
#include "reference/oracle/registry.hpp"
#include "reference/scalars/scalars.hpp"

namespace assay {
namespace {

using Values = std::map<std::string, std::vector<double>>;  // gradients as d_<input>

template <class Tensors>
void add_values(Values& all, const Tensors& tensors, const std::string& prefix) {
  for (const auto& [name, tensor] : tensors) all[prefix + name] = tensor.data;
}

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

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

/// Index along `axis` of a flat position, -1 where the tensor has no such axis.
struct AxisView {
  std::int64_t inner = 0, length = 0;
  AxisView(const Shape& shape, const std::string& axes, char letter) {
    const std::size_t at = axes.find(letter);
    if (at == std::string::npos || at >= shape.size()) return;
    length = shape[at];
    inner = 1;
    for (std::size_t a = at + 1; a < shape.size(); ++a) inner *= shape[a];
  }
  std::int64_t operator()(std::int64_t flat) const {
    return length > 0 ? flat / inner % length : -1;
  }
};

/// Axes of a tensor of the case, cotangents included.
std::string axes_of(const ValidCase& c, const std::string& name) {
  if (const InputSpec* in = c.schema.find_input(name)) return in->axes;
  if (name.rfind("d_", 0) != 0) return "";
  const OutputSpec* out = c.schema.find_output(name.substr(2));
  return out ? out->axes : "";
}

bool is_cotangent(const ValidCase& c, const std::string& name) {
  return c.schema.find_input(name) == nullptr;
}

/// Moves the selected values of every selected tensor on by one place among themselves: other data
/// that stays in its domain.
ValidCase changed(const ValidCase& c,
                  const std::function<bool(const std::string&)>& tensor_selected,
                  const std::function<bool(const Shape&, const std::string&, std::int64_t)>& at) {
  ValidCase out = c;
  for (auto& [name, tensor] : out.data.tensors) {
    if (tensor.values.empty() || !tensor_selected(name)) continue;
    const std::string axes = axes_of(c, name);
    std::vector<std::int64_t> chosen;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(tensor.values.size()); ++i) {
      if (at(tensor.shape, axes, i)) chosen.push_back(i);
    }
    if (chosen.size() < 2) continue;
    const double last = tensor.values[chosen.back()];
    for (std::size_t i = chosen.size() - 1; i > 0; --i) {
      tensor.values[chosen[i]] = tensor.values[chosen[i - 1]];
    }
    tensor.values[chosen[0]] = last;
  }
  return out;
}

class Examiner {
 public:
  Examiner(Candidate& candidate, const ValidCase& c, const PrecisionModel& model, bool gradients,
           const RunResult& first, const Expectation& expected)
      : candidate_(candidate),
        c_(c),
        model_(model),
        gradients_(gradients),
        first_(values_of(first)),
        expected_(expected),
        truth_(reference_values(c, gradients)) {}

  PropertyReport run() {
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

 private:
  /// The candidate on another case; nothing (with a note) when it does not come back.
  std::optional<Values> call(const std::string& property, const ValidCase& c) {
    if (report_.broken) return std::nullopt;
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

  /// Compares where `must_stay` holds. `got` and `want` are laid out like the expectation.
  void compare(const std::string& property, const Values& want, const Values& got,
               const std::function<bool(const std::string&, std::int64_t)>& must_stay,
               bool bits_expected) {
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
      report_.notes.push_back(
          fmt::format("{}: holds within rounding, not bit for bit ({}, {} of {})", property,
                      first_bits, other_bits, looked_at));
    }
  }

  using Where = std::function<bool(const std::string& name, const ExpectedTensor&, std::int64_t)>;

  /// `other` differs from the case where `concerned` does not hold. Where the reference agrees that
  /// nothing concerned changes (not every operation has every property), the candidate must too.
  void invariance(const std::string& property, const ValidCase& other, const Where& concerned) {
    const Values reference = reference_values(other, gradients_);
    bool moves = false;
    for (const auto& [name, e] : expected_) {
      const auto x = truth_.find(name), y = reference.find(name);
      if (x == truth_.end() || y == reference.end()) return;
      for (std::int64_t i = 0; i < static_cast<std::int64_t>(e.truth.size()); ++i) {
        const bool same = same_bits(x->second[i], y->second[i]);
        if (!same && concerned(name, e, i)) return;
        moves = moves || !same;
      }
    }
    if (!moves) return;  // says nothing
    const auto got = call(property, other);
    if (!got) return;
    compare(
        property, first_, *got,
        [&](const std::string& name, std::int64_t i) {
          return concerned(name, expected_.at(name), i);
        },
        true);
  }

  bool is_output(const std::string& name) const { return c_.schema.find_output(name) != nullptr; }

  /// A time in the last third that is no multiple of anything likely.
  std::int64_t cut() const { return std::max<std::int64_t>(1, c_.sizes['T'] * 2 / 3 | 1); }

  void causality() {
    const std::int64_t t0 = cut();
    if (t0 >= c_.sizes['T']) return;
    ValidCase future = changed(
        c_, [&](const std::string& name) { return !is_cotangent(c_, name); },
        [&](const Shape& shape, const std::string& axes, std::int64_t i) {
          return AxisView(shape, axes, 'T')(i) >= t0;
        });
    // Large values make a leak visible in every format.
    for (auto& [name, tensor] : future.data.tensors) {
      const InputSpec* in = c_.schema.find_input(name);
      if (!in || in->role != Role::token || !std::isinf(in->domain.hi) || name != in->name)
        continue;
      const AxisView time(tensor.shape, in->axes, 'T');
      for (std::int64_t i = 0; i < static_cast<std::int64_t>(tensor.values.size()); ++i) {
        if (time(i) >= t0 && (name == "v" || name == "x")) tensor.values[i] *= 16;
      }
    }
    invariance("causality", future,
               [&](const std::string& name, const ExpectedTensor& e, std::int64_t i) {
                 const std::int64_t t = AxisView(e.shape, e.axes, 'T')(i);
                 return is_output(name) && t >= 0 && t < t0;
               });
    if (!gradients_) return;
    invariance("causality of the gradients",
               changed(
                   c_, [&](const std::string& name) { return is_cotangent(c_, name); },
                   [&](const Shape& shape, const std::string& axes, std::int64_t i) {
                     const std::int64_t t = AxisView(shape, axes, 'T')(i);
                     return t >= 0 && t < t0;
                   }),
               [&](const std::string& name, const ExpectedTensor& e, std::int64_t i) {
                 return !is_output(name) && AxisView(e.shape, e.axes, 'T')(i) >= t0;
               });
  }

  void one_index(const std::string& property, char letter, std::int64_t index) {
    invariance(property,
               changed(
                   c_, [](const std::string&) { return true; },
                   [&](const Shape& shape, const std::string& axes, std::int64_t i) {
                     const AxisView view(shape, axes, letter);
                     return view.length == c_.sizes[letter] && view(i) == index;
                   }),
               [&](const std::string&, const ExpectedTensor& e, std::int64_t i) {
                 const AxisView view(e.shape, e.axes, letter);
                 return view.length == c_.sizes[letter] && view(i) != index;
               });
  }

  void sequences() {
    if (!c_.packed() && c_.sizes.has('B') && c_.sizes['B'] > 1) {
      one_index("independent sequences", 'B', c_.sizes['B'] - 1);
    }
    if (!c_.packed()) return;
    // The longest packed sequence gets other tokens.
    std::size_t longest = 0;
    const auto length = [&](std::size_t s) { return c_.cu_seqlens[s + 1] - c_.cu_seqlens[s]; };
    for (std::size_t s = 0; s + 1 < c_.cu_seqlens.size(); ++s) {
      if (length(s) > length(longest)) longest = s;
    }
    invariance("independent sequences",
               changed(
                   c_, [](const std::string&) { return true; },
                   [&](const Shape& shape, const std::string& axes, std::int64_t i) {
                     const std::int64_t t = AxisView(shape, axes, 'T')(i);
                     return t >= c_.cu_seqlens[longest] && t < c_.cu_seqlens[longest + 1];
                   }),
               [&](const std::string&, const ExpectedTensor& e, std::int64_t i) {
                 const std::int64_t t = AxisView(e.shape, e.axes, 'T')(i);
                 return t >= 0 && (t < c_.cu_seqlens[longest] || t >= c_.cu_seqlens[longest + 1]);
               });
  }

  void heads() {
    const char letter = c_.schema.head_axis;
    if (!c_.sizes.has(letter) || c_.sizes[letter] < 2) return;
    one_index("independent heads", letter, c_.sizes[letter] - 1);
  }

  /// Reverses the batch axis of every tensor that has one.
  template <class Data>
  static void reverse_batch(const Shape& shape, const std::string& axes, Data& data) {
    const AxisView batch(shape, axes, 'B');
    if (batch.length < 2) return;
    const auto rows = static_cast<std::int64_t>(data.size()) / batch.length;
    Data out(data.size());
    for (std::int64_t b = 0; b < batch.length; ++b) {
      std::copy_n(data.begin() + b * rows, rows, out.begin() + (batch.length - 1 - b) * rows);
    }
    data = std::move(out);
  }

  void permutation() {
    if (c_.packed() || !c_.sizes.has('B') || c_.sizes['B'] < 2) return;
    ValidCase other = c_;
    for (auto& [name, tensor] : other.data.tensors) {
      reverse_batch(tensor.shape, axes_of(c_, name), tensor.values);
      reverse_batch(tensor.shape, axes_of(c_, name), tensor.integers);
    }
    const auto turn_back = [&](Values values) {
      for (auto& [name, data] : values) {
        const auto e = expected_.find(name);
        if (e != expected_.end()) reverse_batch(e->second.shape, e->second.axes, data);
      }
      return values;
    };
    const Values reference = turn_back(reference_values(other, gradients_));
    const auto got = call("permutation of the batch", other);
    if (!got) return;
    // Sums over the batch come in another order, and a dispatch numbers its tokens.
    compare(
        "permutation of the batch", first_, turn_back(*got),
        [&](const std::string& name, std::int64_t i) {
          const auto t = truth_.find(name);
          return t != truth_.end() && same_bits(t->second[i], reference.at(name)[i]);
        },
        true);
  }

  void linearity() {
    ValidCase other = c_;
    bool any = false;
    for (auto& [name, tensor] : other.data.tensors) {
      const InputSpec* in = c_.schema.find_input(name);
      if (!in || !(in->role == Role::state || name.rfind("v", 0) == 0)) continue;
      for (double& x : tensor.values) x *= 2;
      any = any || !tensor.values.empty();
    }
    if (!any) return;
    const Values reference = reference_values(other, gradients_);
    for (const OutputSpec& out : c_.schema.outputs) {
      if (out.integer) continue;
      const auto &x = truth_.at(out.name), &y = reference.at(out.name);
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (y[i] != 2 * x[i]) return;  // not linear, or beyond the range of double
      }
    }
    auto got = call("linearity in the values", other);
    if (!got) return;
    // Gradients scale by a power of two too, or stay; those that do are compared.
    Values want = first_;
    std::map<std::string, bool> scales;
    for (const auto& [name, x] : truth_) {
      const auto& y = reference.at(name);
      bool twice = true;
      for (std::size_t i = 0; i < x.size(); ++i) twice = twice && y[i] == 2 * x[i];
      scales[name] = twice;
      if (twice && got->count(name)) {
        for (double& value : (*got)[name]) value /= 2;
      }
    }
    compare(
        "linearity in the values", want, *got,
        [&](const std::string& name, std::int64_t i) {
          // Powers of two are exact away from the ends of the format's range.
          const double size = std::fabs(expected_.at(name).truth[i]);
          return scales[name] && size > 0x1p-10 && size < 0x1p10;
        },
        true);
  }

  std::string state_of(const OutputSpec& out) const {
    constexpr std::string_view kSuffix = "_final";
    if (!out.final_state || !std::string_view(out.name).ends_with(kSuffix)) return "";
    const std::string name = out.name.substr(0, out.name.size() - kSuffix.size()) + "0";
    return c_.schema.find_input(name) ? name : "";
  }

  /// Steps [from, to) of the case; the states and their cotangents are left out.
  Case part(std::int64_t from, std::int64_t to) const {
    Case out = c_.data;
    out.tensors.clear();
    out.seed.clear();
    for (const auto& [name, tensor] : c_.data.tensors) {
      if (name == "cu_seqlens") continue;
      const std::string axes = axes_of(c_, name);
      const InputSpec* in = c_.schema.find_input(name);
      const bool token = axes.find('T') != std::string::npos;
      if (!token && (!in || in->role == Role::state)) continue;
      CaseTensor& slice = out.tensors[name];
      slice.dtype = tensor.dtype;
      slice.shape = tensor.shape;
      if (!token) {
        slice = tensor;
        continue;
      }
      const AxisView time(tensor.shape, axes, 'T');
      slice.shape[axes.find('T')] = to - from;
      for (std::int64_t i = 0; i < static_cast<std::int64_t>(tensor.values.size()); ++i) {
        if (time(i) >= from && time(i) < to) slice.values.push_back(tensor.values[i]);
      }
    }
    return out;
  }

  ValidCase valid(Case data) const {
    const Schema schema = find_operation(data.op).schema(&data);
    return validate(std::move(data), schema);
  }

  /// The states of the first part become those of the second; nothing where a value does not fit
  /// into the dtype of the case.
  static bool put(Case& data, const std::string& name, const Shape& shape, DType dtype,
                  const std::vector<double>& values) {
    for (double x : values) {
      if (!std::isfinite(x) || !same_bits(round_to_dtype(x, dtype), x)) return false;
    }
    data.tensors[name] = {dtype, shape, values, {}};
    return true;
  }

  DType state_dtype(const std::string& state) const {
    if (const auto found = c_.data.tensors.find(state); found != c_.data.tensors.end()) {
      return found->second.dtype;
    }
    for (const InputSpec& in : c_.schema.inputs) {
      const auto found = c_.data.tensors.find(in.name);
      if (!in.integer && found != c_.data.tensors.end()) return found->second.dtype;
    }
    return DType::F32;
  }

  /// Both halves in order, the second from the states of the first, handed on as `dtype` or, where
  /// that is none, as the case has them. Outputs only.
  template <class Run>
  std::optional<Values> halves(std::int64_t t0, std::optional<DType> dtype, Run run) const {
    Case first = part(0, t0), second = part(t0, c_.sizes['T']);
    std::vector<std::pair<std::string, std::string>> states;  // output, input
    for (const OutputSpec& out : c_.schema.outputs) {
      if (!out.final_state) continue;
      const std::string state = state_of(out);
      if (state.empty()) return std::nullopt;
      states.emplace_back(out.name, state);
      const auto given = c_.data.tensors.find(state);
      if (given != c_.data.tensors.end()) first.tensors[state] = given->second;
    }
    if (states.empty()) return std::nullopt;
    const auto a = run(valid(first));
    if (!a) return std::nullopt;
    for (const auto& [output, state] : states) {
      const auto found = a->find(output);
      if (found == a->end()) return std::nullopt;
      const Shape& shape = expected_.at(output).shape;
      if (!put(second, state, shape, dtype.value_or(state_dtype(state)), found->second) &&
          !put(second, state, shape, DType::F32, found->second)) {
        return std::nullopt;
      }
    }
    const auto b = run(valid(second));
    if (!b) return std::nullopt;
    Values joined;
    for (const OutputSpec& out : c_.schema.outputs) {
      if (!a->count(out.name) || !b->count(out.name)) continue;
      const std::string axes = out.axes;
      const std::size_t at = axes.find('T');
      if (at == std::string::npos) {
        joined[out.name] = b->at(out.name);
        continue;
      }
      const Shape& shape = expected_.at(out.name).shape;
      std::int64_t inner = 1, outer = 1;
      for (std::size_t i = 0; i < at; ++i) outer *= shape[i];
      for (std::size_t i = at + 1; i < shape.size(); ++i) inner *= shape[i];
      const std::int64_t T = shape[at];
      std::vector<double>& to = joined[out.name];
      for (std::int64_t o = 0; o < outer; ++o) {
        const auto x = a->at(out.name).begin() + o * t0 * inner;
        const auto y = b->at(out.name).begin() + o * (T - t0) * inner;
        to.insert(to.end(), x, x + t0 * inner);
        to.insert(to.end(), y, y + (T - t0) * inner);
      }
    }
    return joined;
  }

  void two_halves() {
    if (c_.packed()) return;
    const std::int64_t t0 = cut();
    if (t0 >= c_.sizes['T']) return;
    const std::string property = "two halves through the states";
    const auto reference =
        halves(t0, DType::F64, [&](const ValidCase& half) -> std::optional<Values> {
          return reference_values(half, false);
        });
    if (!reference) return;
    for (const auto& [name, x] : *reference) {
      const ExpectedTensor& e = expected_.at(name);
      double largest = 0;
      for (double truth : e.truth) largest = std::max(largest, std::fabs(truth));
      for (std::size_t i = 0; i < x.size(); ++i) {
        // Some operations keep something the states do not hold, if only a little of it.
        const double scale = std::fabs(e.truth[i]) + largest;
        if (!(std::fabs(x[i] - e.truth[i]) <=
              std::min(1e-9 * scale, 0.1 * e.sigma[i] + 1e-15 * scale))) {
          return;
        }
      }
    }
    const auto got = halves(t0, std::nullopt, [&](const ValidCase& half) -> std::optional<Values> {
      RunResult r = candidate_.run(half, false);
      if (r.status == RunStatus::ran) return values_of(r);
      if (r.status != RunStatus::unsupported && !report_.broken) {
        report_.broken = std::move(r);
        report_.broken_in = property;
      }
      return std::nullopt;
    });
    if (!got) {
      report_.notes.push_back(property + ": not tried, the states cannot be handed on");
      return;
    }
    compare(
        property, first_, *got, [](const std::string&, std::int64_t) { return true; }, false);
  }

  void one_by_one() {
    if (!c_.packed()) return;
    const std::string property = "packed = one by one";
    Values joined;
    for (std::size_t s = 0; s + 1 < c_.cu_seqlens.size(); ++s) {
      const std::int64_t from = c_.cu_seqlens[s], to = c_.cu_seqlens[s + 1];
      Case one = part(from, to);
      for (const OutputSpec& out : c_.schema.outputs) {
        const std::string state = state_of(out);
        for (const std::string& name : {state, "d_" + out.name}) {
          const auto given = c_.data.tensors.find(name);
          if (name.empty() || !out.final_state || given == c_.data.tensors.end()) continue;
          CaseTensor slice = given->second;
          const std::int64_t rows = static_cast<std::int64_t>(slice.values.size()) / slice.shape[0];
          slice.shape[0] = 1;
          slice.values.assign(
              given->second.values.begin() + static_cast<std::int64_t>(s) * rows,
              given->second.values.begin() + static_cast<std::int64_t>(s + 1) * rows);
          one.tensors[name] = std::move(slice);
        }
      }
      const auto got = call(property, valid(std::move(one)));
      if (!got) return;
      for (const auto& [name, values] : *got) {
        std::vector<double>& to_values = joined[name];
        to_values.insert(to_values.end(), values.begin(), values.end());
      }
    }
    // Parameters sum over the sequences; the rest is laid out one behind the other.
    compare(
        property, first_, joined,
        [&](const std::string& name, std::int64_t) {
          const std::string& axes = expected_.at(name).axes;
          return axes.find('T') != std::string::npos || axes.find('B') != std::string::npos;
        },
        false);
  }

  void chunk_lengths() {
    if (!c_.schema.find_option("chunk") || model_.form == Form::recurrent) return;
    for (const std::int64_t chunk : {std::int64_t{16}, std::int64_t{32}}) {
      if (chunk == model_.chunk) continue;
      ValidCase other = c_;
      other.data.options["chunk"] = chunk;
      const auto got = call("chunk lengths agree", other);
      if (!got) return;
      compare(
          "chunk lengths agree", first_, *got,
          [](const std::string&, std::int64_t) { return true; }, false);
    }
  }

  Candidate& candidate_;
  const ValidCase& c_;
  const PrecisionModel& model_;
  const bool gradients_;
  const Values first_;
  const Expectation& expected_;
  const Values truth_;
  PropertyReport report_;
};

}  // namespace

PropertyReport examine_properties(Candidate& candidate, const ValidCase& c,
                                  const PrecisionModel& model, bool gradients,
                                  const RunResult& first, const Expectation& expected) {
  return Examiner(candidate, c, model, gradients, first, expected).run();
}

}  // namespace assay
