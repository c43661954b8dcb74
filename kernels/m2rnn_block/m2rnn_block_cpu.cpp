// The M²RNN block:
//
//   q, k, v = SiLU(conv(x W_q)), SiLU(conv(x W_k)), SiLU(conv(x W_v))
//   f       = exp(-a softplus(x W_f + b))       g = SiLU(x W_g)        (neither is convolved)
//   y       = m2rnn(q, k, v, w, f, w_residual)
//   o       = RMSNorm(y ∘ g) W_o                (gate first, norm second, over all N V channels)
//
// Any weight may be shared by fewer heads than N. One unit of work is a sequence, since the norm
// and the projections couple the heads. State: H of all heads, then the windows of the
// convolutions.
#include "kernels/common/kernels.hpp"
#include "kernels/common/rms.hpp"
#include "kernels/m2rnn_block/block_streams.hpp"

ASSAY_CPU_BEGIN

namespace {

enum Field {
  x,
  w_q,
  w_k,
  w_v,
  w_f,
  w_g,
  conv_q,
  conv_k,
  conv_v,
  a,
  b,
  w,
  w_residual,
  norm_weight,
  w_o
};
constexpr TensorSpec kTensors[] = {
    {"x", "BTE", Role::token},
    {"w_q", "ENK", Role::param},
    {"w_k", "ENK", Role::param},
    {"w_v", "ENV", Role::param},
    {"w_f", "EN", Role::param},
    {"w_g", "ENV", Role::param},
    {"conv_q", "NKW", Role::param},
    {"conv_k", "NKW", Role::param},
    {"conv_v", "NVW", Role::param},
    {"a", "N", Role::param},
    {"b", "N", Role::param},
    {"w", "NVV", Role::param},
    {"w_residual", "NV", Role::param, Slot::none, nullptr, true},
    {"norm_weight", "NV", Role::param, Slot::none, nullptr, true, 1},
    {"w_o", "NVE", Role::param},
    {"h0", "BNKV", Role::state, Slot::none, nullptr, true},
    {"o", "BTE", Role::token_output},
    {"h_final", "BNKV", Role::final_state},
};
constexpr OpSpec kSpec{"m2rnn_block", kTensors, std::size(kTensors), false, true};

template <class Real>
class M2rnnBlock {
 public:
  using Scalar = Real;
  explicit M2rnnBlock(const Binding& bound)
      : N_(bound.H),
        E_(bound.axis('E')),
        K_(bound.axis('K')),
        V_(bound.axis('V')),
        W_(bound.axis('W')),
        eps_(static_cast<Real>(bound.options.eps)) {
    const std::int64_t widths[3] = {K_, K_, V_};
    for (int i = 0; i < 3; ++i) {
      stream_[i] =
          ConvStream<Real>(E_, widths[i], W_, bound.field[w_q + i].width / (E_ * widths[i]),
                           bound.field[conv_q + i].width / (widths[i] * W_));
    }
  }

  static Outcome check(const Binding& bound) {
    for (char axis : {'E', 'K', 'V', 'W'}) {
      if (bound.axis(axis) < 1) return refuse(Status::unsupported, "axis %c is empty", axis);
    }
    for (int i = 0; i < bound.fields; ++i) {
      const Operand& f = bound.field[i];
      if (i == x || !f.present) continue;
      std::int64_t per_head = 1;
      for (const char* letter = bound.field_spec[i]->axes; *letter; ++letter) {
        if (*letter != 'N') per_head *= bound.axis(*letter);
      }
      const std::int64_t heads = f.width / per_head;
      if (heads < 1 || bound.H % heads != 0) {
        return refuse(Status::bad_argument, "tensor '%s' has %lld heads, the state has %lld",
                      bound.field_spec[i]->name, static_cast<long long>(heads),
                      static_cast<long long>(bound.H));
      }
    }
    return {};
  }
  std::int64_t state_part(int) const { return N_ * K_ * V_; }
  std::int64_t state_size() const {
    std::int64_t size = N_ * K_ * V_;
    for (const ConvStream<Real>& s : stream_) size += s.window_size();
    return size;
  }
  std::int64_t block_steps(std::int64_t steps) const {
    const std::int64_t block = balanced_block(steps);
    return block < 64 ? block : 64;
  }

  void forward(std::int64_t n, const Fields<Real>& in, Real* state, Real* const* out,
               Arena& arena) const {
    const Inner t(*this, n, in, state, arena);
    Real *y = arena.take<Real>(n * N_ * V_), *y_h = arena.take<Real>(n * V_);
    for (std::int64_t h = 0; h < N_; ++h) {
      const ArenaScope scope(arena);
      m2rnn_forward(n, head_rows(in, t, h, n, arena), state + h * K_ * V_, y_h, arena);
      scatter(n, V_, N_ * V_, y_h, y + h * V_);
    }
    t.advance_windows(*this, n, state);
    if (!out[0]) return;
    set(n * E_, Real(0), out[0]);
    for (std::int64_t s = 0; s < n; ++s) {
      Real* row = y + s * N_ * V_;
      for (std::int64_t i = 0; i < N_ * V_; ++i) row[i] *= t.g[s * N_ * V_ + i];
      const Real scale = rms_scale(dot(N_ * V_, row, row), N_ * V_, eps_);
      for (std::int64_t h = 0; h < N_; ++h) {
        const Real* weight = shared(in, norm_weight, h, V_);
        for (std::int64_t j = 0; j < V_; ++j) row[h * V_ + j] *= scale * weight[j];
      }
    }
    for (std::int64_t h = 0; h < N_; ++h) {
      Matrix<Real>(out[0], n, E_).noalias() +=
          Strided<Real>(y + h * V_, n, V_, Eigen::OuterStride<>(N_ * V_)) *
          ConstMatrix<Real>(shared(in, w_o, h, V_ * E_), V_, E_);
    }
  }

  void backward(std::int64_t n, const Fields<Real>& in, const Real* state0, Real* const* d_out,
                Real* d_state, const Fields<Real>& d, Arena& arena) const {
    const std::int64_t NV = N_ * V_, KV = K_ * V_;
    const Inner t(*this, n, in, state0, arena);
    Real *y = arena.take<Real>(n * NV), *y_h = arena.take<Real>(n * V_);
    for (std::int64_t h = 0; h < N_; ++h) {
      const ArenaScope scope(arena);
      Real* H = arena.take<Real>(KV);
      copy(KV, state0 + h * KV, H);
      m2rnn_forward(n, head_rows(in, t, h, n, arena), H, y_h, arena);
      scatter(n, V_, NV, y_h, y + h * V_);
    }
    Real *d_y = arena.zeros<Real>(n * NV), *d_f = arena.zeros<Real>(n * N_);
    Real* d_act[3];
    for (int i = 0; i < 3; ++i) d_act[i] = arena.zeros<Real>(n * stream_[i].channels());
    output_adjoint(n, in, t, y, d_out[0], d_y, d, arena);
    for (std::int64_t h = 0; h < N_; ++h) {
      const ArenaScope scope(arena);
      const M2rnnRows<Real> rows = head_rows(in, t, h, n, arena);
      M2rnnRows<Real> d_rows = {K_,
                                V_,
                                arena.zeros<Real>(n * K_),
                                arena.zeros<Real>(n * K_),
                                arena.zeros<Real>(n * V_),
                                shared(d, w, h, V_ * V_),
                                arena.zeros<Real>(n),
                                shared(d, w_residual, h, V_)};
      gather(n, V_, NV, d_y + h * V_, y_h);
      m2rnn_backward(n, rows, state0 + h * KV, y_h, Real(-1), d_state + h * KV, d_rows, arena);
      Real* const parts[3] = {d_rows.q, d_rows.k, d_rows.v};
      for (int i = 0; i < 3; ++i) {
        const std::int64_t width = stream_[i].width(), at = stream_[i].head_of(h, N_) * width;
        for (std::int64_t s = 0; s < n; ++s) {
          axpy(width, Real(1), parts[i] + s * width, d_act[i] + s * stream_[i].channels() + at);
        }
      }
      for (std::int64_t s = 0; s < n; ++s) d_f[s * N_ + h] = d_rows.f[s];
    }
    forget_adjoint(n, in, t, d_f, d, arena);
    Real* d_window = d_state + N_ * KV;
    for (int i = 0; i < 3; ++i) {
      stream_[i].backward(n, in.data[x], in.data[w_q + i], in.data[conv_q + i], t.stream[i],
                          d_act[i], d_window, d.data[x], d.data[w_q + i], d.data[conv_q + i],
                          arena);
      d_window += stream_[i].window_size();
    }
  }

 private:
  // Everything before the recurrence, for all steps of the block.
  struct Inner {
    typename ConvStream<Real>::Kept stream[3];
    Real *f_pre, *f, *g_pre, *g;  // [n,Nf], [n,N], [n,Ng V], [n,N V]

    Inner(const M2rnnBlock& op, std::int64_t n, const Fields<Real>& in, const Real* state,
          Arena& arena) {
      const std::int64_t N = op.N_, V = op.V_, E = op.E_;
      const Real* window = state + N * op.K_ * V;
      for (int i = 0; i < 3; ++i) {
        stream[i] = op.stream_[i].forward(n, in.data[x], in.data[w_q + i], in.data[conv_q + i],
                                          window, arena);
        window += op.stream_[i].window_size();
      }
      const std::int64_t Nf = in.width[w_f] / E, NgV = in.width[w_g] / E;
      f_pre = arena.take<Real>(n * Nf), g_pre = arena.take<Real>(n * NgV);
      f = arena.take<Real>(n * N), g = arena.take<Real>(n * N * V);
      const ConstMatrix<Real> input(in.data[x], n, E);
      Matrix<Real>(f_pre, n, Nf).noalias() = input * ConstMatrix<Real>(in.data[w_f], E, Nf);
      Matrix<Real>(g_pre, n, NgV).noalias() = input * ConstMatrix<Real>(in.data[w_g], E, NgV);
      for (std::int64_t s = 0; s < n; ++s) {
        for (std::int64_t h = 0; h < N; ++h) {
          f[s * N + h] = std::exp(decay_exponent(f_pre[s * Nf + h / (N / Nf)],
                                                 *op.shared(in, a, h, 1), *op.shared(in, b, h, 1)));
          const Real* pre = g_pre + s * NgV + h / (N / (NgV / V)) * V;
          for (std::int64_t j = 0; j < V; ++j) g[(s * N + h) * V + j] = silu(pre[j]);
        }
      }
    }
    void advance_windows(const M2rnnBlock& op, std::int64_t n, Real* state) const {
      Real* window = state + op.N_ * op.K_ * op.V_;
      for (int i = 0; i < 3; ++i) {
        const std::int64_t size = op.stream_[i].window_size();
        copy(size, stream[i].padded + n * op.stream_[i].channels(), window);
        window += size;
      }
    }
  };

  // The part of a parameter that head h uses; per_head elements per head.
  Real* shared(const Fields<Real>& in, int i, std::int64_t h, std::int64_t per_head) const {
    const std::int64_t heads = in.width[i] / per_head;
    return in.data[i] + h / (N_ / heads) * per_head;
  }
  static void gather(std::int64_t n, std::int64_t width, std::int64_t stride, const Real* from,
                     Real* to) {
    for (std::int64_t s = 0; s < n; ++s) copy(width, from + s * stride, to + s * width);
  }
  static void scatter(std::int64_t n, std::int64_t width, std::int64_t stride, const Real* from,
                      Real* to) {
    for (std::int64_t s = 0; s < n; ++s) copy(width, from + s * width, to + s * stride);
  }

  M2rnnRows<Real> head_rows(const Fields<Real>& in, const Inner& t, std::int64_t h, std::int64_t n,
                            Arena& arena) const {
    Real* parts[3];
    for (int i = 0; i < 3; ++i) {
      const std::int64_t width = stream_[i].width();
      parts[i] = arena.take<Real>(n * width);
      gather(n, width, stream_[i].channels(),
             t.stream[i].activation + stream_[i].head_of(h, N_) * width, parts[i]);
    }
    Real* f = arena.take<Real>(n);
    gather(n, 1, N_, t.f + h, f);
    return {K_,       V_,
            parts[0], parts[1],
            parts[2], shared(in, w, h, V_ * V_),
            f,        shared(in, w_residual, h, V_)};
  }

  // W_o, norm and gate backward; y [n,N,V] holds the recurrence's outputs.
  void output_adjoint(std::int64_t n, const Fields<Real>& in, const Inner& t, const Real* y,
                      const Real* d_o, Real* d_y, const Fields<Real>& d, Arena& arena) const {
    const ArenaScope scope(arena);
    const std::int64_t NV = N_ * V_, NgV = in.width[w_g] / E_;
    Real *gated = arena.take<Real>(n * NV), *normed = arena.take<Real>(n * NV);
    Real *scale = arena.take<Real>(n), *d_pre = arena.zeros<Real>(n * NgV);
    Real* p = arena.take<Real>(NV);
    for (std::int64_t s = 0; s < n; ++s) {
      Real* row = gated + s * NV;
      for (std::int64_t i = 0; i < NV; ++i) row[i] = y[s * NV + i] * t.g[s * NV + i];
      scale[s] = rms_scale(dot(NV, row, row), NV, eps_);
      for (std::int64_t i = 0; i < NV; ++i) {
        normed[s * NV + i] = scale[s] * row[i] * shared(in, norm_weight, i / V_, V_)[i % V_];
      }
    }
    const ConstMatrix<Real> out(d_o, n, E_);
    for (std::int64_t h = 0; h < N_; ++h) {  // d_y holds the cotangent of the normed rows first
      Real* weight = shared(in, w_o, h, V_ * E_);
      Matrix<Real>(shared(d, w_o, h, V_ * E_), V_, E_).noalias() +=
          Strided<Real>(normed + h * V_, n, V_, Eigen::OuterStride<>(NV)).transpose() * out;
      Strided<Real>(d_y + h * V_, n, V_, Eigen::OuterStride<>(NV)).noalias() =
          out * ConstMatrix<Real>(weight, V_, E_).transpose();
    }
    for (std::int64_t s = 0; s < n; ++s) {
      const Real *row = gated + s * NV, factor = scale[s];
      Real* d_row = d_y + s * NV;
      for (std::int64_t i = 0; i < NV; ++i) {
        p[i] = shared(in, norm_weight, i / V_, V_)[i % V_] * d_row[i];
        shared(d, norm_weight, i / V_, V_)[i % V_] += factor * row[i] * d_row[i];
      }
      const Real cubic = dot(NV, p, row) * factor * factor * factor / static_cast<Real>(NV);
      for (std::int64_t i = 0; i < NV; ++i) {
        const Real d_gated = factor * p[i] - cubic * row[i];
        const std::int64_t at = s * NgV + i / V_ / (N_ / (NgV / V_)) * V_ + i % V_;
        d_pre[at] += d_gated * y[s * NV + i] * silu_slope(t.g_pre[at]);
        d_row[i] = d_gated * t.g[s * NV + i];
      }
    }
    project_adjoint(n, E_, NgV, in.data[x], in.data[w_g], d_pre, d.data[x], d.data[w_g]);
  }

  void forget_adjoint(std::int64_t n, const Fields<Real>& in, const Inner& t, const Real* d_f,
                      const Fields<Real>& d, Arena& arena) const {
    const ArenaScope scope(arena);
    const std::int64_t Nf = in.width[w_f] / E_;
    Real* d_pre = arena.zeros<Real>(n * Nf);
    for (std::int64_t s = 0; s < n; ++s) {
      for (std::int64_t h = 0; h < N_; ++h) {
        const std::int64_t at = s * Nf + h / (N_ / Nf);
        decay_exponent_adjoint(t.f_pre[at], *shared(in, a, h, 1), *shared(in, b, h, 1),
                               t.f[s * N_ + h] * d_f[s * N_ + h], d_pre[at], *shared(d, a, h, 1),
                               *shared(d, b, h, 1));
      }
    }
    project_adjoint(n, E_, Nf, in.data[x], in.data[w_f], d_pre, d.data[x], d.data[w_f]);
  }

  std::int64_t N_, E_, K_, V_, W_;
  Real eps_;
  ConvStream<Real> stream_[3];
};

}  // namespace

const OpKernel m2rnn_block_kernel = sequence_kernel<M2rnnBlock, kSpec>();

ASSAY_CPU_END
