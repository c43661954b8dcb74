// RMSNorm split over P tensor-parallel shards of D channels each; every shard contributes one
// scalar to an all-reduce forward (Σ x²) and one backward (Σ p x).   [M2RNN v2, App. C, Eqs. 26-33]
//
//   s = (Σ_shards Σ_i x_i² / d + eps)^{-1/2},  d = P D          y_i = s x_i w_i
//   r = Σ_shards Σ_i p_i x_i                                     d_x_i = s p_i - r s³ x_i / d
#pragma once

#include "reference/recurrences/rmsnorm.hpp"

namespace assay {

struct RmsnormTp : StepOperation<RmsnormTp> {
  enum Input { x, weight };

  static Schema schema(const Case*) {
    Schema s;
    s.op = "rmsnorm_tp";
    s.title = "RMSNorm over P shards, one scalar all-reduced each way";
    s.source = "[M2RNN v2, App. C, Eqs. 26-33]";
    s.inputs = {{"x", "BTPD", Role::token, "input, by shard", {}},
                {"weight", "PD", Role::param, "scale of each channel (default 1)", {}, true, 1}};
    s.outputs = {{"y", "BTPD", "normalised input"}};
    s.options = {rms_eps_option()};
    return s;
  }

  template <class Real>
  static std::int64_t saved_size(const Context<Real>&) {
    return 1;
  }

  template <class Real>
  static void step(Context<Real>& c, const Block<Real>& in, Real*, const Block<Real>& out,
                   Real* s) {
    const std::int64_t P = c.size('P'), D = c.size('D');
    Real reduced = 0;
    for (std::int64_t shard = 0; shard < P; ++shard) {
      Real local = 0;
      la::reduce_add(local, D, in(x) + shard * D, in(x) + shard * D);
      reduced += local;
    }
    *s = rms_scale(c, reduced, P * D);
    for (std::int64_t shard = 0; shard < P; ++shard) {
      const std::int64_t at = shard * D;
      rms_forward(D, in(x) + at, in(weight) + at, *s, out(0) + at);
    }
  }

  template <class Real>
  static void adjoint_step(Context<Real>& c, const Block<Real>& in, const Real*, const Real*,
                           const Real* s, const Block<Real>& d_out, Real*,
                           const Block<Real>& d_in) {
    const std::int64_t P = c.size('P'), D = c.size('D');
    Real reduced = 0;
    for (std::int64_t shard = 0; shard < P; ++shard) {
      const std::int64_t at = shard * D;
      reduced += rms_inner(D, in(x) + at, in(weight) + at, *s, d_out(0) + at, d_in(weight) + at);
    }
    for (std::int64_t shard = 0; shard < P; ++shard) {
      const std::int64_t at = shard * D;
      rms_backward(D, P * D, in(x) + at, in(weight) + at, *s, reduced, d_out(0) + at, d_in(x) + at);
    }
  }
};

}  // namespace assay

ASSAY_OPERATION(RmsnormTp, rmsnorm_tp)
