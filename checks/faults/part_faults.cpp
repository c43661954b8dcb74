// Faults of the parts around the recurrences: the split norm and the M²RNN block.
#include "checks/faults/entry.hpp"
#include "checks/faults/facts.hpp"
#include "reference/recurrences/m2rnn_block.hpp"
#include "reference/recurrences/rmsnorm_tp.hpp"

namespace assay {
namespace {

// d_x_i = s p_i: as if r were 0.
struct CubicTermMissing : RmsnormTp {
  template <class Real>
  static void adjoint_step(Context<Real>& c, const Block<Real>& in, const Real*, const Real*,
                           const Real* s, const Block<Real>& d_out, Real*,
                           const Block<Real>& d_in) {
    const std::int64_t d = c.size('P') * c.size('D');
    rms_inner(d, in(x), in(weight), *s, d_out(0), d_in(weight));
    rms_backward(d, d, in(x), in(weight), *s, Real(0), d_out(0), d_in(x));
  }
};

/// Every shard normalises by what it holds itself, forward and backward.
struct LocalStatistics : RmsnormTp {
  template <class Real>
  static std::int64_t saved_size(const Context<Real>& c) {
    return c.size('P');
  }
  template <class Real>
  static void step(Context<Real>& c, const Block<Real>& in, Real*, const Block<Real>& out,
                   Real* s) {
    const std::int64_t D = c.size('D');
    for (std::int64_t shard = 0; shard < c.size('P'); ++shard) {
      const std::int64_t at = shard * D;
      Real local = 0;
      la::reduce_add(local, D, in(x) + at, in(x) + at);
      s[shard] = rms_scale(c, local, D);
      rms_forward(D, in(x) + at, in(weight) + at, s[shard], out(0) + at);
    }
  }
  template <class Real>
  static void adjoint_step(Context<Real>& c, const Block<Real>& in, const Real*, const Real*,
                           const Real* s, const Block<Real>& d_out, Real*,
                           const Block<Real>& d_in) {
    const std::int64_t D = c.size('D');
    for (std::int64_t shard = 0; shard < c.size('P'); ++shard) {
      const std::int64_t at = shard * D;
      const Real r =
          rms_inner(D, in(x) + at, in(weight) + at, s[shard], d_out(0) + at, d_in(weight) + at);
      rms_backward(D, D, in(x) + at, in(weight) + at, s[shard], r, d_out(0) + at, d_in(x) + at);
    }
  }
};

/// The block's step with the rules of F.
template <class F>
struct BlockOf : M2rnnBlock {
  template <class Real>
  static void step(Context<Real>& c, const Block<Real>& in, Real* H, const Block<Real>& out,
                   Real* saved) {
    M2rnnBlock::step<F>(c, in, H, out, saved);
  }
};

struct NormBeforeGate : BlockOf<NormBeforeGate> {
  template <class Real>
  static Real before_norm(const Real& y, const Real&) {
    return y;
  }
  template <class Real>
  static void after_norm(std::int64_t n, const Real* g, Real* normed) {
    for (std::int64_t j = 0; j < n; ++j) normed[j] *= g[j];
  }
};

// g has the width of v; the stream of v has passed its convolution and SiLU.
struct GateAfterConv : BlockOf<GateAfterConv> {
  template <class Real>
  static void gates(Context<Real>& c, const Plan& p, const Block<Real>& in, const Saved<Real>& z) {
    M2rnnBlock::gates(c, p, in, z);
    for (std::int64_t n = 0; n < p.N; ++n) {
      const Real* v = share(z.act[2], n, p.N, p.stream[2].heads, p.V);
      for (std::int64_t j = 0; j < p.V; ++j) z.g[n * p.V + j] = v[j];
    }
  }
};

Applies on(const char* op, Applies more) {
  return [op, more](const ValidCase& c) {
    return facts::is_op(c, {op}) && facts::longest(c) > 0 && more(c);
  };
}

bool always(const ValidCase&) { return true; }

}  // namespace

void add_part_faults(FaultList& list) {
  add_fault(
      list,
      {"rmsnorm_tp.cubic_term_missing", "the term - r s³ x / d is absent", "MoM/M2RNN App. C"},
      on("rmsnorm_tp", facts::any_cotangent), WithEngine<StepOperation<CubicTermMissing>>{});
  add_fault(list,
            {"rmsnorm_tp.local_statistics", "statistics are not all-reduced", "M2RNN v2, App. C"},
            on("rmsnorm_tp", [](const ValidCase& c) { return c.sizes['P'] > 1; }),
            WithEngine<StepOperation<LocalStatistics>>{});
  add_fault(
      list,
      {"m2rnn_block.norm_before_gate", "RMSNorm first, output gate second", "M2RNN v2, Eqs. 21-22"},
      on("m2rnn_block", always), WithEngine<StepOperation<NormBeforeGate>>{});
  add_fault(list,
            {"m2rnn_block.gate_after_conv", "g is taken from the convolved stream of v",
             "M2RNN v2, Fig. 2"},
            on("m2rnn_block", always), WithEngine<StepOperation<GateAfterConv>>{});
}

}  // namespace assay
