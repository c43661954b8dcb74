// Faults of layout: which head, which order of axes, where a sequence ends.
#include "checks/faults/entry.hpp"
#include "checks/faults/facts.hpp"
#include "checks/faults/rearrange.hpp"

namespace assay {
namespace {

/// A shared tensor whose groups are mixed up: more than one head, fewer than there are states.
bool is_grouped(const ValidCase& c, const InputSpec& input) {
  if (given_name(c.data, input).empty() || facts::head_axis(c, input) < 0) return false;
  const std::int64_t shared = facts::heads(c, input.name);
  return shared > 1 && shared < facts::heads(c);
}

struct HeadGroupModulo {
  template <class Real>
  Result<Real> operator()(const Problem<Real>& problem, const RunOptions& options) const {
    const ValidCase& c = *problem.valid;
    ValidCase expanded = c;
    for (const InputSpec& in : c.schema.inputs) {
      if (!is_grouped(c, in)) continue;
      const std::int64_t shared = facts::heads(c, in.name);
      expand_heads(expanded, in.name, [shared](std::int64_t h) { return h % shared; });
    }
    Result<Real> result = evaluate(lift<Real>(expanded), options);
    for (auto& [name, d] : result.gradients) {
      const InputSpec& in = *c.schema.find_input(name);
      if (!is_grouped(c, in)) continue;
      const std::int64_t shared = facts::heads(c, in.name);
      d = contract_heads(d, facts::head_axis(c, in), shared,
                         [shared](std::int64_t h) { return h % shared; });
    }
    return result;
  }
};

/// Transposes the last two axes, of equal length.
template <class Real>
void transpose(Tensor<Real>& t) {
  const std::int64_t n = t.shape.back();
  for (std::int64_t at = 0; at < t.size(); at += n * n) {
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < i; ++j)
        std::swap(t.data[at + i * n + j], t.data[at + j * n + i]);
    }
  }
}

struct StateTransposed {
  template <class Real>
  Result<Real> operator()(Problem<Real> problem, const RunOptions& options) const {
    const ValidCase& c = *problem.valid;
    const auto each = [&](auto& tensors) {
      for (auto& [name, t] : tensors) {
        if (kind_of(c, name) == Kind::state) transpose(t);
      }
    };
    each(problem.inputs);
    each(problem.cotangents);
    Result<Real> result = evaluate(problem, options);
    each(result.outputs);
    each(result.gradients);
    return result;
  }
};

/// The first sequence starts from its own state, every other one from where the one before ended.
struct PackedLeak {
  template <class Real>
  Result<Real> operator()(const Problem<Real>& problem, const RunOptions& options) const {
    const ValidCase& c = *problem.valid;
    Result<Real> whole = zero_result(problem, options.gradients);
    std::map<std::string, Tensor<Real>> carried;
    for (std::int64_t s = 0; s < c.sequences(); ++s) {
      const ValidCase part = one_sequence(c, s);
      Problem<Real> local = lift<Real>(part);
      for (const auto& [name, state] : carried) local.inputs[name] = state;
      const Result<Real> result = evaluate(local, options);
      put_sequence(c, s, result, whole);
      for (const InputSpec& in : c.schema.inputs) {
        const std::string final = in.role == Role::state ? final_of(c, in.name) : "";
        if (!final.empty()) carried[in.name] = result.outputs.at(final);
      }
    }
    return whole;
  }
};

/// The rows that an incomplete last chunk would have written stay as they were: zeros, say.
struct TailUnwritten {
  template <class Real>
  Result<Real> operator()(const Problem<Real>& problem, const RunOptions& options) const {
    const ValidCase& c = *problem.valid;
    Result<Real> result = evaluate(problem, options);
    for (auto& [name, t] : result.outputs) {
      if (!has_time(c, name)) continue;
      const std::int64_t width = step_width(t.shape);
      for (const facts::Sequence& s : facts::sequences(c)) {
        const std::int64_t full = s.steps / facts::chunk(c) * facts::chunk(c);
        const std::int64_t row = s.batch * t.shape[1] + s.start;
        std::fill(t.data.begin() + (row + full) * width, t.data.begin() + (row + s.steps) * width,
                  Real(0));
      }
    }
    return result;
  }
};

bool has_tail(const ValidCase& c) {
  for (const facts::Sequence& s : facts::sequences(c)) {
    if (s.steps % facts::chunk(c) != 0) return true;
  }
  return false;
}

bool has_matrix_state(const ValidCase& c) {
  for (const InputSpec& in : c.schema.inputs) {
    if (in.role == Role::state && in.axes.ends_with("KV")) return true;
  }
  return false;
}

bool has_later_sequence(const ValidCase& c) {
  int filled = 0;
  for (const facts::Sequence& s : facts::sequences(c)) filled += s.steps > 0;
  return filled >= 2;
}

}  // namespace

void add_layout_faults(FaultList& list) {
  add_fault(
      list,
      {"*.head_group_modulo", "head h of a shared tensor read as h mod Hx, not h / (H/Hx)",
       "class"},
      [](const ValidCase& c) {
        if (!c.sizes.has('T') || facts::longest(c) == 0) return false;
        for (const InputSpec& in : c.schema.inputs) {
          if (is_grouped(c, in)) return true;
        }
        return false;
      },
      HeadGroupModulo{});
  add_fault(
      list, {"*.state_transposed", "the state is stored as [V,K]", "public kernel"},
      [](const ValidCase& c) {
        return has_matrix_state(c) && c.sizes['K'] == c.sizes['V'] && c.sizes['K'] > 1 &&
               (facts::longest(c) > 0 || facts::remembers(c));
      },
      StateTransposed{});
  add_fault(
      list, {"*.packed_leak", "the state crosses a boundary of cu_seqlens", "class"},
      [](const ValidCase& c) { return c.packed() && facts::has_state(c) && has_later_sequence(c); },
      PackedLeak{});
  add_fault(
      list, {"*.tail_unwritten", "rows after the last full chunk are not written", "public kernel"},
      [](const ValidCase& c) {
        bool token_output = false;
        for (const OutputSpec& out : c.schema.outputs) {
          token_output = token_output || (has_time(c, out.name) && !out.integer);
        }
        return token_output && has_tail(c);
      },
      TailUnwritten{});
}

}  // namespace assay
