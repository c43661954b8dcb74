// Operations with a wrong adjoint, which the gradient checks must reject. They are bound through
// the templates of the real ones, for the scalars that the checks use.
#pragma once

#include <memory>
#include <stdexcept>
#include <type_traits>

#include "reference/recurrences/gdn.hpp"
#include "reference/recurrences/m2rnn.hpp"
#include "reference/recurrences/rnn.hpp"

namespace assay::planted {

template <class Op>
class Planted final : public Operation {
 public:
  Schema schema(const Case* data) const override { return Op::schema(data); }
  std::string name() const override { return Op::schema(nullptr).op; }
  bool is_fast_weight() const override { return false; }

#define ASSAY_MAKE(Real) \
  Engine<Real> make(const ValidCase& c, const Real*) const override { return make_for<Real>(c); }
  ASSAY_FOR_EACH_SCALAR(ASSAY_MAKE)
#undef ASSAY_MAKE

 private:
  template <class Real>
  static Engine<Real> make_for(const ValidCase& c) {
    constexpr bool kUsed = std::is_same_v<Real, Field> || std::is_same_v<Real, Dual<Field>> ||
                           std::is_same_v<Real, Ball>;
    if constexpr (!kUsed) {
      throw std::logic_error("planted operations exist over the scalars of the gradient checks");
    } else {
      Engine<Real> engine;
      if constexpr (requires { Op::spec(); }) {
        engine.recurrence = std::make_unique<FastWeight<Real>>(
            std::make_unique<UpdateOf<Op, Real>>(), Op::spec(), c);
      } else {
        engine.recurrence = std::make_unique<StepRecurrence<Op, Real>>();
      }
      return engine;
    }
  }
};

// gdn: the adjoint of gdn.hpp with one line wrong each.
enum class GdnFault { dropped_read, wrong_sign, stale_state, undecayed_state, chunk_sign };

template <GdnFault kFault>
struct FaultyGdn : Gdn {
  template <class Real>
  static void adjoint_step(Context<Real>& c, const Fields<Real>& x, const Real* S_prev,
                           const Real* S, const Real* r, Real* d_S, const Fields<Real>& d_x) {
    const std::int64_t KV = c.K * c.V;
    const Real* d_r =
        delta_write_adjoint(c, x[k], x[k], *x[beta], r, d_S, d_x[k], d_x[v], *d_x[beta]);
    if (kFault != GdnFault::dropped_read) {
      Real* read = c.arena->zeros(c.K);
      la::gemv_add(c.K, c.V, S_prev, d_r, read);
      for (std::int64_t i = 0; i < c.K; ++i) fn::mul_sub(d_x[k][i], *x[alpha], read[i]);
    }
    if (kFault == GdnFault::wrong_sign) {
      la::dot_sub(*d_x[alpha], KV, d_S, 1, S_prev, 1);
    } else {
      la::dot_add(*d_x[alpha], KV, d_S, 1, kFault == GdnFault::stale_state ? S : S_prev, 1);
    }
    if (kFault != GdnFault::undecayed_state) la::scale(KV, *x[alpha], d_S);
  }

  template <class Real>
  static void chunk_adjoint(Context<Real>& c, const Block<Real>& x, std::int64_t count,
                            const Real* state_prev, const Real* saved, const Real* d_o,
                            Real* d_state, const Block<Real>& d_x) {
    Gdn::chunk_adjoint(c, x, count, state_prev, saved, d_o, d_state, d_x);
    if (kFault != GdnFault::chunk_sign) return;
    for (std::int64_t s = 0; s < count; ++s) *d_x(1 + beta, s) = -*d_x(1 + beta, s);
  }
};

// m2rnn: the right adjoint, then the result of one term undone.
enum class M2rnnFault { dropped_residual, wrong_sign, stale_state, zero_gradient };

template <M2rnnFault kFault>
struct FaultyM2rnn : M2rnn {
  template <class Real>
  static void adjoint_step(Context<Real>& c, const Block<Real>& x, const Real* H_prev,
                           const Real* H, const Real* Z, const Block<Real>& d_out, Real* d_H,
                           const Block<Real>& d_x) {
    M2rnn::adjoint_step(c, x, H_prev, H, Z, d_out, d_H, d_x);
    const Real* u = d_out(y);
    if (kFault == M2rnnFault::dropped_residual) {
      for (std::int64_t j = 0; j < c.V; ++j) fn::mul_sub(d_x(v)[j], x(w_residual)[j], u[j]);
    } else if (kFault == M2rnnFault::wrong_sign) {
      *d_x(f) = -*d_x(f);
    } else if (kFault == M2rnnFault::zero_gradient) {
      for (std::int64_t j = 0; j < c.V; ++j) d_x(w_residual)[j] = 0;
    } else {
      Real* minus_u = c.arena->zeros(c.V);
      for (std::int64_t j = 0; j < c.V; ++j) minus_u[j] = -u[j];
      la::gemv_add(c.K, c.V, H, minus_u, d_x(q));
      la::gemv_add(c.K, c.V, H_prev, u, d_x(q));
    }
  }
};

/// Wrong in d_x at step 2 of every sequence only.
struct RnnWrongAtTwo : Rnn {
  template <class Real>
  static void adjoint_step(Context<Real>& c, const Block<Real>& in, const Real* h_prev,
                           const Real* h, const Real* saved, const Block<Real>& d_out, Real* d_h,
                           const Block<Real>& d_in) {
    Rnn::adjoint_step(c, in, h_prev, h, saved, d_out, d_h, d_in);
    if (in.start() == 2) *d_in(x) = *d_in(x) + *d_in(x);
  }
};

}  // namespace assay::planted
