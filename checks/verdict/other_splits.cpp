// Properties of several calls: the same work split otherwise.
#include <algorithm>
#include <cmath>

#include "checks/verdict/property_examiner.hpp"
#include "reference/oracle/registry.hpp"
#include "reference/scalars/scalars.hpp"

namespace assay::properties {
namespace {

/// The states of the first part become those of the second; nothing where a value does not fit
/// into the dtype of the case.
bool put(Case& data, const std::string& name, const Shape& shape, DType dtype,
         const std::vector<double>& values) {
  for (double x : values) {
    if (!std::isfinite(x) || !same_bits(round_to_dtype(x, dtype), x)) return false;
  }
  data.tensors[name] = {dtype, shape, values, {}};
  return true;
}

}  // namespace

std::string PropertyExaminer::state_of(const OutputSpec& out) const {
  constexpr std::string_view kSuffix = "_final";
  if (!out.final_state || !std::string_view(out.name).ends_with(kSuffix)) return "";
  const std::string name = out.name.substr(0, out.name.size() - kSuffix.size()) + "0";
  return c_.schema.find_input(name) ? name : "";
}

Case PropertyExaminer::part(std::int64_t from, std::int64_t to) const {
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

ValidCase PropertyExaminer::valid(Case data) const {
  const Schema schema = find_operation(data.op).schema(&data);
  return validate(std::move(data), schema);
}

DType PropertyExaminer::state_dtype(const std::string& state) const {
  if (const auto found = c_.data.tensors.find(state); found != c_.data.tensors.end()) {
    return found->second.dtype;
  }
  for (const InputSpec& in : c_.schema.inputs) {
    const auto found = c_.data.tensors.find(in.name);
    if (!in.integer && found != c_.data.tensors.end()) return found->second.dtype;
  }
  return DType::F32;
}

std::optional<Values> PropertyExaminer::halves(
    std::int64_t t0, std::optional<DType> dtype,
    const std::function<std::optional<Values>(const ValidCase&)>& run) const {
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

void PropertyExaminer::two_halves() {
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

void PropertyExaminer::one_by_one() {
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
        slice.values.assign(given->second.values.begin() + static_cast<std::int64_t>(s) * rows,
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

void PropertyExaminer::chunk_lengths() {
  if (!c_.schema.find_option("chunk") || model_.form == Form::recurrent) return;
  for (const std::int64_t chunk : {std::int64_t{16}, std::int64_t{32}}) {
    if (chunk == model_.chunk) continue;
    ValidCase other = c_;
    other.data.options["chunk"] = chunk;
    const auto got = call("chunk lengths agree", other);
    if (!got) return;
    compare(
        "chunk lengths agree", first_, *got, [](const std::string&, std::int64_t) { return true; },
        false);
  }
}

}  // namespace assay::properties
