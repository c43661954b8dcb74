#include "checks/faults/rearrange.hpp"

namespace assay {

void expand_heads(ValidCase& c, const std::string& input, const IndexMap& source) {
  const InputSpec* spec = c.schema.find_input(input);
  const std::string name = spec ? given_name(c.data, *spec) : "";
  const int axis = spec ? facts::head_axis(c, *spec) : -1;
  if (name.empty() || axis < 0) return;
  CaseTensor& t = c.data.tensors.at(name);
  const AxisView view(t.shape, axis);
  const std::int64_t H = facts::heads(c);
  std::vector<std::int64_t> rows;
  for (std::int64_t o = 0; o < view.outer; ++o) {
    for (std::int64_t h = 0; h < H; ++h) rows.push_back(o * view.length + source(h));
  }
  t.values = gather_rows(t.values, view.inner, rows);
  t.shape[axis] = H;
}

Kind kind_of(const ValidCase& c, const std::string& tensor) {
  if (const InputSpec* in = c.schema.find_input(tensor)) {
    return in->role == Role::token   ? Kind::token
           : in->role == Role::state ? Kind::state
                                     : Kind::whole;
  }
  const OutputSpec* out = c.schema.find_output(tensor);
  if (out == nullptr) return Kind::whole;
  return out->final_state ? Kind::state : out->axes.starts_with("BT") ? Kind::token : Kind::whole;
}

bool has_time(const ValidCase& c, const std::string& tensor) {
  return kind_of(c, tensor) == Kind::token;
}

Span span_of(const ValidCase& c, std::int64_t s, const Shape& shape, Kind kind) {
  const std::int64_t size = element_count(shape);
  if (kind == Kind::whole) return {0, size};
  if (kind == Kind::state) {
    const std::int64_t n = size / c.sequences();
    return {s * n, n};
  }
  const facts::Sequence sequence = facts::sequences(c)[s];
  const std::int64_t width = step_width(shape);
  return {(sequence.batch * shape[1] + sequence.start) * width, sequence.steps * width};
}

ValidCase one_sequence(const ValidCase& c, std::int64_t s) {
  ValidCase part = c;
  const facts::Sequence sequence = facts::sequences(c)[s];
  part.data.tensors.erase("cu_seqlens");
  part.cu_seqlens.clear();
  part.sizes.by_letter['B'] = 1;
  part.sizes.by_letter['T'] = sequence.steps;
  for (auto& [name, t] : part.data.tensors) {
    const bool is_input = c.schema.find_input(name) != nullptr;
    const Kind kind = kind_of(c, is_input ? name : name.substr(2));
    if (kind == Kind::whole) continue;
    const Span span = span_of(c, s, t.shape, kind);
    const auto cut = [&](auto& values) {
      if (values.empty()) return;
      values = std::decay_t<decltype(values)>(values.begin() + span.first,
                                              values.begin() + span.first + span.count);
    };
    cut(t.values);
    cut(t.integers);
    t.shape[0] = 1;
    if (kind == Kind::token) t.shape[1] = sequence.steps;
  }
  return part;
}

std::string final_of(const ValidCase& c, const std::string& state) {
  std::vector<std::string> states, finals;
  for (const InputSpec& in : c.schema.inputs) {
    if (in.role == Role::state) states.push_back(in.name);
  }
  for (const OutputSpec& out : c.schema.outputs) {
    if (out.final_state) finals.push_back(out.name);
  }
  const auto found = std::find(states.begin(), states.end(), state);
  const std::size_t at = found - states.begin();
  return at < finals.size() ? finals[at] : "";
}

}  // namespace assay
