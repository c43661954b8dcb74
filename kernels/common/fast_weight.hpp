// The fast-weight family, q k v in, o out, a matrix state S [K,V] (and M for mdn) between:
//
//   q <- q - d_h k (q_correction);  q <- q/|q|, k <- k/|k| (qk_l2norm);  k = 1 - f (hgrn2)
//   S_t = update(S_{t-1}, ...)                  o_t = scale S_t^T q_t [+ skip_h v_t]
//
// One engine for all members; what differs is the update and which inputs there are.
#pragma once

#include <cmath>

#include "kernels/common/fast_weight_step.hpp"
#include "kernels/common/sequence.hpp"

ASSAY_CPU_BEGIN

/// Which field of the operation is which; -1 where it has none.
struct FastWeightFields {
  int q = -1, k = -1, p = -1, v = -1, decay = -1, mu = -1, beta = -1, eta = -1, skip = -1,
      q_correction = -1;
};

inline FastWeightFields fast_weight_fields(const Binding& b) {
  FastWeightFields f;
  for (int i = 0; i < b.fields; ++i) {
    switch (b.field_spec[i]->slot) {
      case Slot::q:
        f.q = i;
        break;
      case Slot::k:
        f.k = i;
        break;
      case Slot::p:
        f.p = i;
        break;
      case Slot::v:
        f.v = i;
        break;
      case Slot::decay:
        f.decay = i;
        break;
      case Slot::mu:
        f.mu = i;
        break;
      case Slot::beta:
        f.beta = i;
        break;
      case Slot::eta:
        f.eta = i;
        break;
      case Slot::skip:
        f.skip = b.field[i].present ? i : -1;
        break;
      case Slot::q_correction:
        f.q_correction = b.field[i].present ? i : -1;
        break;
      default:
        break;
    }
  }
  return f;
}

/// x / |x| row by row, in place; keeps the norms, in double: squares of the smallest and the
/// largest numbers of fp32 are beyond its range. A zero row with eps 0 gives NaN, as 0/0 does.
template <class Real>
void normalise_rows(std::int64_t rows, std::int64_t K, Real eps, Real* x, double* norms) {
  for (std::int64_t r = 0; r < rows; ++r) {
    Real* row = x + r * K;
    double sum = eps;
    for (std::int64_t i = 0; i < K; ++i) sum += double{row[i]} * double{row[i]};
    norms[r] = std::sqrt(sum);
    const double inverse = 1 / norms[r];
    for (std::int64_t i = 0; i < K; ++i) row[i] = static_cast<Real>(row[i] * inverse);
  }
}
/// d_x = (d_y - y (y . d_y)) / n, in place of d_y.
template <class Real>
void normalise_rows_adjoint(std::int64_t rows, std::int64_t K, const Real* y, const double* norms,
                            Real* d) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const Real along = dot(K, y + r * K, d + r * K);
    const double inverse = 1 / norms[r];
    for (std::int64_t i = 0; i < K; ++i) {
      d[r * K + i] = static_cast<Real>((d[r * K + i] - y[r * K + i] * along) * inverse);
    }
  }
}

/// Read-out scale: as given, or K^-1/2.
template <class Real>
Real readout_scale(const Binding& b) {
  if (b.options.has_scale) return static_cast<Real>(b.options.scale);
  return Real(1) / std::sqrt(static_cast<Real>(b.axis('K')));
}

/// What prepare() keeps for its way back.
template <class Real>
struct Prepared {
  FastWeightRows<Real> rows;
  const Real* given_k = nullptr;  // before normalisation, with q_correction
  const double *q_norms = nullptr, *k_norms = nullptr;
};

template <class Real>
class FastWeightInputs {
 public:
  explicit FastWeightInputs(const Binding& b)
      : f_(fast_weight_fields(b)),
        K_(b.axis('K')),
        V_(b.axis('V')),
        J_(b.axis('J') > 0 ? b.axis('J') : 1),
        normalise_(b.options.qk_l2norm),
        eps_(static_cast<Real>(b.options.l2norm_eps)) {}

  const FastWeightFields& fields() const { return f_; }

  FastWeightRows<Real> rows(const Fields<Real>& x) const {
    const auto data = [&](int i) { return i < 0 ? nullptr : x.data[i]; };
    FastWeightRows<Real> r;
    r.K = K_, r.V = V_, r.J = J_;
    r.q = data(f_.q), r.k = data(f_.k), r.v = data(f_.v), r.beta = data(f_.beta);
    r.p = f_.p < 0 ? r.k : data(f_.p);
    r.decay = data(f_.decay), r.mu = data(f_.mu), r.eta = data(f_.eta);
    r.decay_width = f_.decay < 0 ? 0 : x.width[f_.decay];
    r.decay_stride = f_.decay < 0 || !x.per_token[f_.decay] ? 0 : r.decay_width;
    return r;
  }

  Prepared<Real> prepare(std::int64_t n, const Fields<Real>& x, Arena& arena) const {
    Prepared<Real> done;
    FastWeightRows<Real>& r = done.rows = rows(x);
    if (!r.k) {  // hgrn2
      r.k = r.p = arena.take<Real>(n * K_);
      for (std::int64_t i = 0; i < n * K_; ++i) r.k[i] = Real(1) - r.decay[i];
    }
    if (f_.q_correction >= 0) {
      Real* kept = arena.take<Real>(n * K_);
      copy(n * K_, r.k, kept);
      done.given_k = kept;
      axpy(n * K_, -*x.data[f_.q_correction], r.k, r.q);
    }
    if (!normalise_) return done;
    auto* norms = arena.take<double>(n * (1 + J_));
    done.q_norms = norms;
    normalise_rows(n, K_, eps_, r.q, norms);
    if (f_.k < 0) return done;
    done.k_norms = norms + n;
    normalise_rows(n * J_, K_, eps_, r.k, norms + n);
    return done;
  }

  /// Gradients of the rows, with a k of their own where the operation has none (hgrn2).
  FastWeightRows<Real> gradients(std::int64_t n, const Fields<Real>& d, Arena& arena) const {
    FastWeightRows<Real> r = rows(d);
    if (!r.k) r.k = r.p = arena.zeros<Real>(n * K_);
    return r;
  }

  void unprepare(std::int64_t n, const Prepared<Real>& done, const Fields<Real>& x,
                 const FastWeightRows<Real>& d, const Fields<Real>& d_x) const {
    if (done.q_norms) normalise_rows_adjoint(n, K_, done.rows.q, done.q_norms, d.q);
    if (done.k_norms) normalise_rows_adjoint(n * J_, K_, done.rows.k, done.k_norms, d.k);
    if (f_.q_correction >= 0) {
      axpy(n * K_, -*x.data[f_.q_correction], d.q, d.k);
      *d_x.data[f_.q_correction] -= dot(n * K_, done.given_k, d.q);
    }
    if (f_.k < 0) {
      for (std::int64_t i = 0; i < n * K_; ++i) d.decay[i] -= d.k[i];
    }
  }

 private:
  FastWeightFields f_;
  std::int64_t K_, V_, J_;
  bool normalise_;
  Real eps_;
};

/// U: an update of fast_weight_step.hpp, perhaps with chunk_forward and chunk_backward over n
/// steps.
template <class Real, template <class> class U>
class FastWeight {
 public:
  using Scalar = Real;

  explicit FastWeight(const Binding& b)
      : inputs_(b),
        scale_(readout_scale<Real>(b)),
        KV_(b.axis('K') * b.axis('V')),
        V_(b.axis('V')),
        chunk_(kHasChunk && b.chunked() ? b.options.chunk : 0) {}

  static Outcome check(const Binding& b) {
    if (b.axis('K') < 1) return refuse(Status::unsupported, "K must be at least 1");
    return {};
  }
  std::int64_t state_part(int) const { return KV_; }
  std::int64_t state_size() const { return U<Real>::kStates * KV_; }

  /// The chunk, or about sqrt(T) steps: states at block starts plus states inside one block.
  std::int64_t block_steps(std::int64_t steps) const {
    return chunk_ > 0 ? chunk_ : balanced_block(steps);
  }

  void forward(std::int64_t n, const Fields<Real>& x, Real* state, Real* const* out,
               Arena& arena) const;
  void backward(std::int64_t n, const Fields<Real>& x, const Real* state0, Real* const* d_out,
                Real* d_state, const Fields<Real>& d_x, Arena& arena) const;

 private:
  static constexpr bool kHasChunk = requires { &U<Real>::chunk_forward; };

  FastWeightInputs<Real> inputs_;
  Real scale_;
  std::int64_t KV_, V_, chunk_;
};

// Outside of the class, or every user of an explicit instantiation would compile them again.
template <class Real, template <class> class U>
void FastWeight<Real, U>::forward(std::int64_t n, const Fields<Real>& x, Real* state,
                                  Real* const* out, Arena& arena) const {
  const Prepared<Real> in = inputs_.prepare(n, x, arena);
  Real* o = out[0];
  if constexpr (kHasChunk) {
    if (chunk_ > 0) U<Real>::chunk_forward(n, in.rows, state, o, arena);
  }
  if (chunk_ == 0) recurrent_forward<Real, U<Real>>(n, in.rows, state, o, arena);
  if (!o) return;
  for (std::int64_t i = 0; i < n * V_; ++i) o[i] *= scale_;
  if (inputs_.fields().skip >= 0) axpy(n * V_, *x.data[inputs_.fields().skip], in.rows.v, o);
}

template <class Real, template <class> class U>
void FastWeight<Real, U>::backward(std::int64_t n, const Fields<Real>& x, const Real* state0,
                                   Real* const* d_out, Real* d_state, const Fields<Real>& d_x,
                                   Arena& arena) const {
  const Prepared<Real> in = inputs_.prepare(n, x, arena);
  const FastWeightRows<Real> d = inputs_.gradients(n, d_x, arena);
  const int skip = inputs_.fields().skip;
  if (skip >= 0) {
    *d_x.data[skip] += dot(n * V_, in.rows.v, d_out[0]);
    axpy(n * V_, *x.data[skip], d_out[0], d.v);
  }
  Real* u = arena.take<Real>(n * V_);
  scaled(n * V_, scale_, d_out[0], u);
  if constexpr (kHasChunk) {
    if (chunk_ > 0) U<Real>::chunk_backward(n, in.rows, state0, u, d_state, d, arena);
  }
  if (chunk_ == 0) recurrent_backward<Real, U<Real>>(n, in.rows, state0, u, d_state, d, arena);
  inputs_.unprepare(n, in, x, d, d_x);
}

template <class Real>
using DeltaWeights = FastWeight<Real, Delta>;

template <class Real>
using AdditiveWeights = FastWeight<Real, Additive>;

// Each pair of update and scalar is compiled once, for all operations that use it.
extern template void run_sequences<FastWeight<float, Additive>>(const Binding&, const Call&);
extern template void run_sequences<FastWeight<double, Additive>>(const Binding&, const Call&);
extern template void run_sequences<FastWeight<float, Delta>>(const Binding&, const Call&);
extern template void run_sequences<FastWeight<double, Delta>>(const Binding&, const Call&);

ASSAY_CPU_END
