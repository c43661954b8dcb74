// Faults of the delta rule with decay.
#include "checks/faults/entry.hpp"
#include "checks/faults/facts.hpp"
#include "reference/recurrences/gdn.hpp"
#include "reference/recurrences/kda.hpp"

namespace assay {
namespace {

// r = v - S'^T k on the state before it decays.
struct GdnResidualUndecayed : Gdn {
  template <class Real>
  static void step(Context<Real>& c, const Fields<Real>& x, Real* S, Real* r) {
    for (std::int64_t j = 0; j < c.V; ++j) r[j] = x[v][j];
    la::gemv_t_sub(c.K, c.V, S, x[k], r);
    Real* write = c.arena->zeros(c.V);
    la::axpy(c.V, *x[beta], r, write);
    la::scale_ger_add(c.K, c.V, *x[alpha], x[k], write, S);
  }
};

// S = D + k (v - β D^T k)^T: a delta rule with strength 1 that reads with the key β k.
struct GdnBetaOnPredictionOnly : Gdn {
  template <class Real>
  static void step(Context<Real>& c, const Fields<Real>& x, Real* S, Real* r) {
    la::scale(c.K * c.V, *x[alpha], S);
    Real* read_key = c.arena->zeros(c.K);
    la::axpy(c.K, *x[beta], x[k], read_key);
    delta_write(c, x[k], read_key, x[v], Real(1), S, r);
  }
};

// One decay for all channels, in both directions.
struct KdaScalarDecay : Kda {
  template <class Real>
  static Fields<Real> averaged(Context<Real>& c, const Fields<Real>& x) {
    Real mean = 0;
    for (std::int64_t i = 0; i < c.K; ++i) mean += x[alpha][i];
    mean = mean / Real(static_cast<int>(c.K));
    Fields<Real> changed = x;
    changed[alpha] = c.arena->zeros(c.K);
    for (std::int64_t i = 0; i < c.K; ++i) changed[alpha][i] = mean;
    return changed;
  }
  template <class Real>
  static void step(Context<Real>& c, const Fields<Real>& x, Real* S, Real* r) {
    Kda::step(c, averaged(c, x), S, r);
  }
  template <class Real>
  static void adjoint_step(Context<Real>& c, const Fields<Real>& x, const Real* S_prev,
                           const Real* S, const Real* r, Real* d_S, const Fields<Real>& d_x) {
    Kda::adjoint_step(c, averaged(c, x), S_prev, S, r, d_S, d_x);
  }
};

/// Does some channel of a step decay otherwise than the first?
bool decays_by_channel(const ValidCase& c) {
  const std::vector<double> alpha = facts::values(c, "alpha");
  const std::int64_t K = c.sizes['K'];
  for (std::size_t i = 0; i < alpha.size(); ++i) {
    if (alpha[i] != alpha[i / K * K]) return true;
  }
  return false;
}

}  // namespace

void add_delta_faults(FaultList& list) {
  add_fault(
      list, {"gdn.residual_undecayed", "v - S'^T k instead of v - (alpha S')^T k", "class"},
      [](const ValidCase& c) {
        return facts::is_op(c, {"gdn"}) && facts::remembers(c) &&
               facts::differs_from(c, "alpha", 1) && facts::has_value(c, "beta");
      },
      WithEngine<FastWeightOperation<GdnResidualUndecayed>>{Form::recurrent});
  add_fault(
      list, {"gdn.beta_on_prediction_only", "beta multiplies S^T k but not v", "class"},
      [](const ValidCase& c) {
        return facts::is_op(c, {"gdn"}) && facts::longest(c) > 0 &&
               facts::differs_from(c, "beta", 1);
      },
      WithEngine<FastWeightOperation<GdnBetaOnPredictionOnly>>{Form::recurrent});
  add_fault(
      list, {"kda.scalar_decay", "the decays of the channels are averaged", "class"},
      [](const ValidCase& c) {
        return facts::is_op(c, {"kda"}) && facts::remembers(c) && decays_by_channel(c);
      },
      WithEngine<FastWeightOperation<KdaScalarDecay>>{Form::recurrent});
}

}  // namespace assay
