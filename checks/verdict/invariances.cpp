// Properties of one call: what other data elsewhere must not change.
#include <algorithm>
#include <cmath>

#include "checks/verdict/property_examiner.hpp"

namespace assay::properties {
namespace {

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

/// Reverses the batch axis of every tensor that has one.
template <class Data>
void reverse_batch(const Shape& shape, const std::string& axes, Data& data) {
  const AxisView batch(shape, axes, 'B');
  if (batch.length < 2) return;
  const auto rows = static_cast<std::int64_t>(data.size()) / batch.length;
  Data out(data.size());
  for (std::int64_t b = 0; b < batch.length; ++b) {
    std::copy_n(data.begin() + b * rows, rows, out.begin() + (batch.length - 1 - b) * rows);
  }
  data = std::move(out);
}

}  // namespace

void PropertyExaminer::invariance(const std::string& property, const ValidCase& other,
                                  const Where& concerned) {
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

void PropertyExaminer::causality() {
  const std::int64_t t0 = cut();
  if (t0 >= c_.sizes['T']) return;
  ValidCase future = changed(
      c_, [&](const std::string& name) { return !is_cotangent(c_, name); },
      [&](const Shape& shape, const std::string& axes, std::int64_t i) {
        return AxisView(shape, axes, 'T')(i) >= t0;
      });
  // Large values make a leak visible in every format; those that are large already stay.
  for (auto& [name, tensor] : future.data.tensors) {
    const InputSpec* in = c_.schema.find_input(name);
    if (!in || in->role != Role::token || !std::isinf(in->domain.hi) || name != in->name) continue;
    const AxisView time(tensor.shape, in->axes, 'T');
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(tensor.values.size()); ++i) {
      const double larger = 16 * tensor.values[i];
      if (time(i) < t0 || (name != "v" && name != "x")) continue;
      if (std::isfinite(round_to_dtype(larger, tensor.dtype))) tensor.values[i] = larger;
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

void PropertyExaminer::one_index(const std::string& property, char letter, std::int64_t index) {
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

void PropertyExaminer::sequences() {
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

void PropertyExaminer::heads() {
  const char letter = c_.schema.head_axis;
  if (!c_.sizes.has(letter) || c_.sizes[letter] < 2) return;
  one_index("independent heads", letter, c_.sizes[letter] - 1);
}

void PropertyExaminer::permutation() {
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

void PropertyExaminer::linearity() {
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

}  // namespace assay::properties
