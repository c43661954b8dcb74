// Momentum DeltaNet from the pre-activations of its gates, a block of steps at a time:
//
//   log α, β, log μ, η = the rule of mdn_gates      o, S, M = mdn(q, k, v, α, μ, β, η)
//   d_log α = α d_α, d_log μ = μ d_μ, and back through the rule
#include "kernels/common/fast_weight_tensors.hpp"
#include "kernels/common/kernels.hpp"
#include "kernels/common/mdn_chunk.hpp"
#include "kernels/common/mdn_gate_rule.hpp"

ASSAY_CPU_BEGIN

namespace {

// mdn's engine finds its gates by their slots.
enum Field { q, k, v, x_alpha, x_mu, x_beta, x_eta, q_correction, a_alpha, b_alpha, a_mu, b_mu };
constexpr TensorSpec kTensors[] = {
    kQuery,
    kKey,
    kValue,
    {"x_alpha", "BTH", Role::token, Slot::decay},
    {"x_mu", "BTH", Role::token, Slot::mu},
    {"x_beta", "BTH", Role::token, Slot::beta},
    {"x_eta", "BTH", Role::token, Slot::eta},
    kQueryCorrection,
    {"a_alpha", "H", Role::param},
    {"b_alpha", "H", Role::param},
    {"a_mu", "H", Role::param},
    {"b_mu", "H", Role::param},
    kInitialState,
    kInitialMomentum,
    kReadOut,
    kFinalState,
    kFinalMomentum,
};
constexpr OpSpec kSpec = op_spec("mdn_fused_gates", kTensors, true);

template <class Real>
class MdnFusedGates {
  using Rule = MdnGateRule<Real>;
  static constexpr Field kGate[Rule::kOutputs] = {x_alpha, x_beta, x_mu, x_eta};
  static constexpr Field kInput[Rule::kInputs] = {x_alpha, x_beta,  x_mu, x_eta,
                                                  a_alpha, b_alpha, a_mu, b_mu};

 public:
  using Scalar = Real;
  explicit MdnFusedGates(const Binding& b) : mdn_(b), rule_(b.options) {}
  static Outcome check(const Binding& b) {
    if (const Outcome o = Rule::check(b.options); o.status != Status::ok) return o;
    return ChunkedMomentumWeights<Real>::check(b);
  }
  std::int64_t state_part(int p) const { return mdn_.state_part(p); }
  std::int64_t state_size() const { return mdn_.state_size(); }
  std::int64_t block_steps(std::int64_t steps) const { return mdn_.block_steps(steps); }

  void forward(std::int64_t n, const Fields<Real>& x, Real* state, Real* const* out,
               Arena& arena) const {
    mdn_.forward(n, with_gates(n, x, arena), state, out, arena);
  }

  void backward(std::int64_t n, const Fields<Real>& x, const Real* state0, Real* const* d_out,
                Real* d_state, const Fields<Real>& d, Arena& arena) const {
    const Fields<Real> gated = with_gates(n, x, arena);
    Fields<Real> d_gated = d;
    for (const Field gate : kGate) d_gated.data[gate] = arena.zeros<Real>(n);
    mdn_.backward(n, gated, state0, d_out, d_state, d_gated, arena);
    for (const Field log : {x_alpha, x_mu}) {  // 0 where the gate is 0, whatever its gradient is
      const Real* gate = gated.data[log];
      Real* to = d_gated.data[log];
      for (std::int64_t t = 0; t < n; ++t) to[t] = gate[t] == Real(0) ? Real(0) : gate[t] * to[t];
    }
    const Real *in[Rule::kInputs], *d_gates[Rule::kOutputs];
    Real* d_in[Rule::kInputs];
    for (int i = 0; i < Rule::kOutputs; ++i) d_gates[i] = d_gated.data[kGate[i]];
    for (int i = 0; i < Rule::kInputs; ++i) in[i] = x.data[kInput[i]], d_in[i] = d.data[kInput[i]];
    rule_.backward(n, in, d_gates, d_in);
  }

 private:
  /// x with memory of their own for the gates.
  Fields<Real> with_gates(std::int64_t n, const Fields<Real>& x, Arena& arena) const {
    Fields<Real> gated = x;
    const Real* in[Rule::kInputs];
    Real* out[Rule::kOutputs];
    for (int i = 0; i < Rule::kInputs; ++i) in[i] = x.data[kInput[i]];
    for (int i = 0; i < Rule::kOutputs; ++i) {
      out[i] = gated.data[kGate[i]] = arena.take<Real>(n);
    }
    rule_.forward(n, in, out);
    for (const typename Rule::Output log : {Rule::log_alpha, Rule::log_mu}) {
      for (std::int64_t t = 0; t < n; ++t) out[log][t] = std::exp(out[log][t]);
    }
    return gated;
  }

  ChunkedMomentumWeights<Real> mdn_;
  Rule rule_;
};

}  // namespace

const OpKernel mdn_fused_gates_kernel = sequence_kernel<MdnFusedGates, kSpec>();

ASSAY_CPU_END
