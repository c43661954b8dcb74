// Faults of the chunk form of Momentum DeltaNet. They show that form whatever form is asked for.
#include <cmath>

#include "checks/faults/entry.hpp"
#include "checks/faults/facts.hpp"
#include "reference/recurrences/mdn.hpp"

namespace assay {
namespace {

/// Mdn whose chunk form finds the coefficients and the advance of F.
template <class F>
struct ChunkOf : Mdn {
  template <class Real>
  static void chunk(Context<Real>& c, const Block<Real>& x, std::int64_t count, Real* state,
                    Real* o, Real* saved) {
    MdnChunk<F>::chunk(c, x, count, state, o, saved);
  }
  template <class Real>
  static void chunk_adjoint(Context<Real>& c, const Block<Real>& x, std::int64_t count,
                            const Real* state_prev, const Real* saved, const Real* d_o,
                            Real* d_state, const Block<Real>& d_x) {
    MdnChunk<F>::chunk_adjoint(c, x, count, state_prev, saved, d_o, d_state, d_x);
  }
};

struct GammaDiagonalZeroed : ChunkOf<GammaDiagonalZeroed> {
  template <class Real>
  static MdnCoefficients<Real> coefficients(const Context<Real>& c, const MdnChunkInputs<Real>& x) {
    MdnCoefficients<Real> weights = Mdn::coefficients(c, x);
    weights.shift = 0;
    return weights;
  }
};

struct GammaRatioForm : ChunkOf<GammaRatioForm> {
  template <class Real>
  static MdnCoefficients<Real> coefficients(const Context<Real>& c, const MdnChunkInputs<Real>& x) {
    MdnCoefficients<Real> weights = Mdn::coefficients(c, x);
    for (std::int64_t i = 0; i < x.n; ++i) {
      const Real last = weights.gamma[i * x.n + i];
      for (std::int64_t j = 0; j <= i; ++j) {
        weights.gamma[i * x.n + j] = last / weights.gamma[i * x.n + j];
      }
    }
    return weights;
  }
};

// b_i = exp(A_i + ℓ_i) is right, so exp(U_i + ℓ_i) is b_i exp(U_i - A_i).
struct BFromLogMu : ChunkOf<BFromLogMu> {
  template <class Real>
  static MdnCoefficients<Real> coefficients(const Context<Real>& c, const MdnChunkInputs<Real>& x) {
    MdnCoefficients<Real> weights = Mdn::coefficients(c, x);
    Real difference = 0;
    for (std::int64_t i = 0; i < x.n; ++i) {
      difference += fn::log(x.mu[i]) - fn::log(x.alpha[i]);
      weights.b[i] *= fn::exp(difference);
    }
    return weights;
  }
};

// The log domain in working precision: in double the coefficients are those of fp32, because the
// loss is one of the working precision and double stands for exact arithmetic here.
struct LogDomainCancellation : ChunkOf<LogDomainCancellation> {
  static MdnCoefficients<Rounded> in_log_domain(const MdnChunkInputs<Rounded>& x) {
    return mdn_coefficients_log(x.n, x.alpha, x.beta, x.mu);
  }
  template <class Real>
  static MdnCoefficients<Real> coefficients(const Context<Real>&, const MdnChunkInputs<Real>& x) {
    if constexpr (std::is_same_v<Real, Rounded>) {
      return in_log_domain(x);
    } else {
      const FormatScope single(Format::fp32);
      const auto cast = [&](const Real* gate) {
        std::vector<Rounded> values;
        for (std::int64_t i = 0; i < x.n; ++i) values.push_back(Rounded::from(gate[i]));
        return values;
      };
      std::vector<Rounded> alpha = cast(x.alpha), beta = cast(x.beta), mu = cast(x.mu);
      const auto logs = mdn_coefficients_log(x.n, alpha.data(), beta.data(), mu.data());
      // m, ᾱ and μ̄ do not lose anything: only γ and b come from the log domain.
      MdnCoefficients<Real> weights = mdn_coefficients(x.n, x.alpha, x.beta, x.mu);
      for (std::size_t i = 0; i < logs.gamma.size(); ++i) weights.gamma[i] = logs.gamma[i].value();
      for (std::size_t i = 0; i < logs.b.size(); ++i) weights.b[i] = logs.b[i].value();
      return weights;
    }
  }
};

struct MuZeroNan : ChunkOf<MuZeroNan> {
  template <class Real>
  static MdnCoefficients<Real> coefficients(const Context<Real>& c, const MdnChunkInputs<Real>& x) {
    MdnCoefficients<Real> weights = Mdn::coefficients(c, x);
    for (std::int64_t i = 0; i < x.n; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) {
        Real& gamma = weights.gamma[i * x.n + j];
        gamma = gamma * weights.mu_bar[j] / weights.mu_bar[j];
      }
    }
    return weights;
  }
};

struct EtaMissingInState : ChunkOf<EtaMissingInState> {
  template <class Real>
  static void advance(const MdnChunkInputs<Real>& x, const MdnCoefficients<Real>& weights,
                      const Real* R, Real* S, Real* M) {
    std::vector<Real> M_unused(M, M + x.K * x.V), S_unused(S, S + x.K * x.V), ones(x.n, Real(1));
    MdnChunkInputs<Real> without = x;
    without.eta = ones.data();
    mdn_chunk_advance(without, weights, R, S, M_unused.data());
    mdn_chunk_advance(x, weights, R, S_unused.data(), M);
  }
};

struct ChunkStateOrder : ChunkOf<ChunkStateOrder> {
  template <class Real>
  static void advance(const MdnChunkInputs<Real>& x, const MdnCoefficients<Real>& weights,
                      const Real* R, Real* S, Real* M) {
    std::vector<Real> S_unused(S, S + x.K * x.V);
    mdn_chunk_advance(x, weights, R, S_unused.data(), M);
    std::vector<Real> M_next(M, M + x.K * x.V);
    mdn_chunk_advance(x, weights, R, S, M_next.data());
  }
};

struct CarryMomentumDropped : Mdn {
  template <class Real>
  static void chunk(Context<Real>& c, const Block<Real>& x, std::int64_t count, Real* state,
                    Real* o, Real* saved) {
    Real* M = state + c.K * c.V;
    for (std::int64_t i = 0; x.start() > 0 && i < c.K * c.V; ++i) M[i] = 0;
    Mdn::chunk(c, x, count, state, o, saved);
  }
};

// d_μ of the adjoint with M_0 = 0; everything else of the right one.
struct DmuWithinChunk : Mdn {
  template <class Real>
  static void chunk_adjoint(Context<Real>& c, const Block<Real>& x, std::int64_t count,
                            const Real* state_prev, const Real* saved, const Real* d_o,
                            Real* d_state, const Block<Real>& d_x) {
    const std::int64_t KV = c.K * c.V;
    std::vector<Real> S_only(state_prev, state_prev + 2 * KV), d_copy(d_state, d_state + 2 * KV);
    std::fill_n(S_only.begin() + KV, KV, Real(0));
    std::vector<std::vector<Real>> nowhere;
    std::vector<LocalInput<Real>> only_mu, all_but_mu;
    for (int i = 0; i <= 1 + eta; ++i) {
      nowhere.emplace_back(count * d_x.width(i));
      const LocalInput<Real> real{d_x(i), d_x.width(i), true};
      const LocalInput<Real> unused{nowhere.back().data(), d_x.width(i), true};
      only_mu.push_back(i == 1 + mu ? real : unused);
      all_but_mu.push_back(i == 1 + mu ? unused : real);
    }
    Mdn::chunk_adjoint(c, x, count, S_only.data(), saved, d_o, d_copy.data(),
                       Block<Real>(&only_mu, 0));
    Mdn::chunk_adjoint(c, x, count, state_prev, saved, d_o, d_state, Block<Real>(&all_but_mu, 0));
  }
};

template <class F>
void add_chunk(FaultList& list, const char* id, const char* title, const char* source,
               Applies applies) {
  add_fault(
      list, {id, title, source},
      [applies](const ValidCase& c) {
        return facts::is_op(c, {"mdn"}) && facts::longest(c) > 0 && applies(c);
      },
      WithEngine<FastWeightOperation<F>>{Form::chunk});
}

bool two_in_a_chunk(const ValidCase& c) { return facts::chunk(c) >= 2 && facts::longest(c) >= 2; }

/// Some chunk starts from a momentum that is not zero.
bool carries_momentum(const ValidCase& c) {
  return facts::has_value(c, "m0") || facts::longest(c) > facts::chunk(c);
}

/// Does M_0 enter S_n in some chunk: b_n = Σ_i β_i μ̄_i Π_{j>i} α_j is not 0?
bool momentum_enters(const ValidCase& c) {
  const std::int64_t H = facts::heads(c), rows = c.sizes['B'] * c.sizes['T'];
  const std::vector<double> gates[] = {facts::values(c, "alpha"), facts::values(c, "mu"),
                                       facts::values(c, "beta")};
  for (const facts::Sequence& s : facts::sequences(c)) {
    for (std::int64_t h = 0; h < H; ++h) {
      const auto gate = [&](int which, std::int64_t t) {
        const std::int64_t shared = static_cast<std::int64_t>(gates[which].size()) / rows;
        return gates[which][(s.batch * c.sizes['T'] + s.start + t) * shared + h / (H / shared)];
      };
      double b = 0, mu_bar = 1;
      for (std::int64_t t = 0; t < s.steps; ++t) {
        mu_bar *= gate(1, t);
        b = gate(0, t) * b + gate(2, t) * mu_bar;
        const bool ends = t + 1 == s.steps || (t + 1) % facts::chunk(c) == 0;
        if (ends && b != 0) return true;
        if (ends) b = 0, mu_bar = 1;
      }
    }
  }
  return false;
}

}  // namespace

void add_mdn_chunk_faults(FaultList& list) {
  add_chunk<GammaDiagonalZeroed>(list, "mdn.gamma_diagonal_zeroed",
                                 "Γ⁻ is Γ with its diagonal zeroed, not moved down a row",
                                 "MDN v1, p. 5", two_in_a_chunk);
  add_chunk<GammaRatioForm>(list, "mdn.gamma_ratio_form",
                            "write coefficients γ_tt / γ_t,:", "MDN v1, Eq. 8",
                            [](const ValidCase& c) {
                              return facts::all_positive(c, {"alpha", "beta"}) &&
                                     (two_in_a_chunk(c) || facts::differs_from(c, "beta", 1));
                            });
  add_chunk<BFromLogMu>(
      list, "mdn.b_from_log_mu", "b_i = exp(U_i + ℓ_i)", "MDN v1, Eq. 10 and App. D",
      [](const ValidCase& c) {
        return carries_momentum(c) && facts::all_positive(c, {"alpha", "mu", "beta"});
      });
  add_chunk<LogDomainCancellation>(
      list, "mdn.log_domain_cancellation",
      "coefficients by 1 - exp(ℓ_{j-1} - ℓ_i) in working precision", "MDN v1, App. D",
      [](const ValidCase& c) {
        return two_in_a_chunk(c) && facts::all_positive(c, {"alpha", "mu", "beta"});
      });
  add_chunk<MuZeroNan>(
      list, "mdn.mu_zero_nan", "coefficients divided by μ̄: NaN at mu = 0", "MDN v1, Table 4",
      [](const ValidCase& c) { return facts::any(c, "mu", [](double x) { return x == 0; }); });
  add_chunk<EtaMissingInState>(list, "mdn.eta_missing_in_state", "k instead of eta k in S_next",
                               "class", [](const ValidCase& c) {
                                 return facts::differs_from(c, "eta", 1) &&
                                        facts::has_value(c, "beta");
                               });
  add_chunk<ChunkStateOrder>(list, "mdn.chunk_state_order", "M_next is used to form S_next",
                             "class", momentum_enters);
  add_chunk<CarryMomentumDropped>(
      list, "mdn.carry_momentum_dropped", "M_0 of later chunks is ignored", "class",
      [](const ValidCase& c) { return facts::longest(c) > facts::chunk(c); });
  add_chunk<DmuWithinChunk>(
      list, "mdn.dmu_within_chunk", "d_mu misses the carried momentum", "class",
      [](const ValidCase& c) { return carries_momentum(c) && facts::any_cotangent(c); });
}

}  // namespace assay
