// Dispatch of routed tokens into (batch, memory) segments.   [MoM v4, Sec. 3.3]
//
// The B T top_k (token, memory) pairs are sorted by segment b M + m; inside a segment time order is
// kept. token[i] = b T + t of packed row i; cu_seqlens bounds the segments; inverse[b,t,j] is the
// packed row of the j-th best memory of token (b,t), memory[b,t,j] that memory. Integers: there is
// nothing to differentiate.
#pragma once

#include <memory>

#include "reference/oracle/operation.hpp"
#include "reference/recurrences/top_k.hpp"

namespace assay {

inline std::int64_t routed_top_k(const ValidCase& c) {
  const std::int64_t k = option_int(c, "top_k"), M = c.sizes['M'];
  if (k > M) {
    throw InputError("option 'top_k' is " + std::to_string(k) + " but there are only " +
                     std::to_string(M) + " memories (axis M of 'router_logits')");
  }
  return k;
}

inline Schema routing_schema(const std::string& op, const std::string& title,
                             const std::string& source) {
  Schema s;
  s.op = op;
  s.title = title;
  s.source = source;
  s.inputs = {{"router_logits", "BTM", Role::token, "router logits", {}}};
  s.options = {{"top_k", OptionType::integer, OptionValue(std::int64_t{2}),
                "memories selected per token", 1, 65536}};
  s.packable = false;
  return s;
}

template <class Real>
class MomDispatchMap final : public WholeMap<Real> {
 public:
  void forward(const Problem<Real>& problem, Result<Real>& result) const override {
    const ValidCase& c = *problem.valid;
    const std::int64_t B = c.sizes['B'], T = c.sizes['T'], M = c.sizes['M'], k = routed_top_k(c);
    const std::vector<Real>& logits = problem.inputs.at("router_logits").data;
    if (result.outputs.at("token").size() != B * T * k ||
        result.outputs.at("cu_seqlens").size() != B * M + 1) {
      throw InputError("'router_logits': no axis of mom_dispatch may exceed 2^20");
    }
    std::vector<std::int64_t> memory(B * T * k), next(B * M + 1, 0);
    for (std::int64_t row = 0; row < B * T; ++row) {
      const auto chosen = select_top_k(M, k, logits.data() + row * M);
      for (std::int64_t j = 0; j < k; ++j) {
        memory[row * k + j] = chosen[j];
        ++next[row / T * M + chosen[j] + 1];
      }
    }
    for (std::int64_t s = 0; s < B * M; ++s) next[s + 1] += next[s];
    write(result, "cu_seqlens", next);
    std::vector<std::int64_t> token(B * T * k), inverse(B * T * k);
    for (std::int64_t row = 0; row < B * T; ++row) {
      for (std::int64_t j = 0; j < k; ++j) {
        const std::int64_t packed = next[row / T * M + memory[row * k + j]]++;
        token[packed] = row;
        inverse[row * k + j] = packed;
      }
    }
    write(result, "token", token);
    write(result, "inverse", inverse);
    write(result, "memory", memory);
  }
  void adjoint(const Problem<Real>&, Result<Real>&) const override {}

 private:
  static void write(Result<Real>& result, const char* name, const std::vector<std::int64_t>& v) {
    std::vector<Real>& data = result.outputs.at(name).data;
    for (std::size_t i = 0; i < v.size(); ++i) data[i] = Real(static_cast<int>(v[i]));
  }
};

struct MomDispatch {
  static Schema schema(const Case* data) {
    Schema s = routing_schema("mom_dispatch", "permutation of routed tokens into memory segments",
                              "[MoM v4, Sec. 3.3]");
    s.inputs[0].differentiable = false;
    std::int64_t B = 0, T = 0, M = 0, k = 2;
    if (data) {
      const auto logits = data->tensors.find("router_logits");
      if (logits != data->tensors.end() && logits->second.shape.size() == 3) {
        B = logits->second.shape[0];
        T = logits->second.shape[1];
        M = logits->second.shape[2];
      }
      const auto option = data->options.find("top_k");
      if (option != data->options.end() && std::holds_alternative<std::int64_t>(option->second)) {
        k = std::get<std::int64_t>(option->second);
      }
    }
    // Nothing is validated yet: products of what a hostile file says must not overflow. Shapes this
    // large are refused when the tensors are looked at.
    const auto bounded = [](std::int64_t n) {
      return std::clamp<std::int64_t>(n, 0, std::int64_t{1} << 20);
    };
    B = bounded(B), T = bounded(T), M = bounded(M), k = bounded(k);
    s.fixed_axes = {{'L', B * T * k}, {'S', B * M + 1}, {'X', k}};
    s.outputs = {{"token", "L", "flat token b T + t of each packed row", false, true},
                 {"cu_seqlens", "S", "segment bounds", false, true},
                 {"inverse", "BTX", "packed row of each selection", false, true},
                 {"memory", "BTX", "selected memories, best first", false, true}};
    return s;
  }

  template <class Real>
  static Engine<Real> make(const ValidCase&) {
    Engine<Real> engine;
    engine.whole = std::make_unique<MomDispatchMap<Real>>();
    return engine;
  }
};

}  // namespace assay

ASSAY_OPERATION(MomDispatch, mom_dispatch)
