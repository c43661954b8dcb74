// LSTM, PyTorch's equations, gates in the order i, f, g, o; state h then c:
//
//   i, f, o = σ(a + u)     g = tanh(a + u)     c = f ∘ c' + i ∘ g     h = o ∘ tanh(c)     y = h
//
// Backward, e = d_h + d_y, t = tanh(c):
//   d_o = e t o(1-o)       d_c += e o (1-t²)
//   d_i = d_c g i(1-i)     d_f = d_c c' f(1-f)     d_g = d_c i (1-g²)     d_c' = d_c f
//   d_h' = W_hh^T d_u
#include "kernels/common/cell.hpp"
#include "kernels/common/kernels.hpp"

ASSAY_CPU_BEGIN

namespace {

constexpr TensorSpec kTensors[] = {
    {"x", "BTHE", Role::token},
    {"w_ih", "HGDE", Role::param},
    {"w_hh", "HGDD", Role::param},
    {"b_ih", "HGD", Role::param, Slot::none, nullptr, true},
    {"b_hh", "HGD", Role::param, Slot::none, nullptr, true},
    {"h0", "BHD", Role::state, Slot::none, nullptr, true},
    {"c0", "BHD", Role::state, Slot::none, nullptr, true},
    {"y", "BTHD", Role::token_output},
    {"h_final", "BHD", Role::final_state},
    {"c_final", "BHD", Role::final_state},
};
constexpr OpSpec kSpec{"lstm", kTensors, std::size(kTensors)};

template <class Real>
class Lstm {
 public:
  using Scalar = Real;
  explicit Lstm(const Binding& b) : cell_{4, b.axis('D'), b.axis('E')}, D_(b.axis('D')) {}
  static Outcome check(const Binding& b) { return CellShape<Real>::check(b, 4); }
  std::int64_t state_part(int) const { return D_; }
  std::int64_t state_size() const { return 2 * D_; }
  std::int64_t block_steps(std::int64_t steps) const { return balanced_block(steps); }

  void forward(std::int64_t n, const Fields<Real>& in, Real* state, Real* const* out,
               Arena& arena) const {
    Real *a = arena.take<Real>(n * 4 * D_), *gates = arena.take<Real>(5 * D_);
    cell_.inputs(n, in, a);
    for (std::int64_t s = 0; s < n; ++s) {
      step(in, a + s * 4 * D_, state, state + D_, gates, state, state + D_);
      if (out[0]) copy(D_, state, out[0] + s * D_);
    }
  }

  void backward(std::int64_t n, const Fields<Real>& in, const Real* state0, Real* const* d_out,
                Real* d_state, const Fields<Real>& d, Arena& arena) const {
    const std::int64_t width = 4 * D_, kept = 5 * D_;
    Real *h = arena.take<Real>((n + 1) * D_), *c = arena.take<Real>((n + 1) * D_);
    Real *a = arena.take<Real>(n * width), *gates = arena.take<Real>(n * kept);
    copy(D_, state0, h);
    copy(D_, state0 + D_, c);
    cell_.inputs(n, in, a);
    for (std::int64_t s = 0; s < n; ++s) {
      step(in, a + s * width, h + s * D_, c + s * D_, gates + s * kept, h + (s + 1) * D_,
           c + (s + 1) * D_);
    }
    Real *d_h = d_state, *d_c = d_state + D_;
    for (std::int64_t s = n; s-- > 0;) {
      Real* d_a = a + s * width;  // the same for the recurrent part
      const Real *i = gates + s * kept, *f = i + D_, *g = f + D_, *o = g + D_, *t = o + D_;
      const Real *before = c + s * D_, *d_y = d_out[0] + s * D_;
      for (std::int64_t j = 0; j < D_; ++j) {
        const Real e = d_h[j] + d_y[j];
        d_a[3 * D_ + j] = e * t[j] * o[j] * (Real(1) - o[j]);
        d_c[j] += e * o[j] * ((Real(1) - t[j]) * (Real(1) + t[j]));
        d_a[j] = d_c[j] * g[j] * i[j] * (Real(1) - i[j]);
        d_a[D_ + j] = d_c[j] * before[j] * f[j] * (Real(1) - f[j]);
        d_a[2 * D_ + j] = d_c[j] * i[j] * ((Real(1) - g[j]) * (Real(1) + g[j]));
        d_c[j] *= f[j];
        d_h[j] = 0;
      }
      add_transposed(width, D_, Real(1), in.data[cell_w_hh], d_a, d_h);
    }
    cell_.adjoint(n, in, h, a, a, d);
  }

 private:
  // gates [5,D] = i, f, g, o, tanh(c). State pointers before and after may be the same.
  void step(const Fields<Real>& in, const Real* a, const Real* h, const Real* c, Real* gates,
            Real* h_next, Real* c_next) const {
    Real *i = gates, *f = i + D_, *g = f + D_, *o = g + D_, *t = o + D_;
    cell_.recurrent(in, h, gates);
    for (std::int64_t j = 0; j < 4 * D_; ++j) gates[j] += a[j];
    for (std::int64_t j = 0; j < 2 * D_; ++j) gates[j] = sigmoid(gates[j]);
    tanh_rows(D_, g);
    for (std::int64_t j = 0; j < D_; ++j) {
      o[j] = sigmoid(o[j]);
      c_next[j] = t[j] = f[j] * c[j] + i[j] * g[j];
    }
    tanh_rows(D_, t);
    for (std::int64_t j = 0; j < D_; ++j) h_next[j] = o[j] * t[j];
  }
  CellShape<Real> cell_;
  std::int64_t D_;
};

}  // namespace

const OpKernel lstm_kernel = sequence_kernel<Lstm, kSpec>();

ASSAY_CPU_END
