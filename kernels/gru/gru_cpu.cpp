// GRU, PyTorch's equations, gates in the order r, z, n:
//
//   r, z = σ(a + u)     n = tanh(a_n + r ∘ u_n)     h = (1 - z) ∘ n + z ∘ h'     y = h
//   with a = W_ih x + b_ih, u = W_hh h' + b_hh
//
// Backward, g = d_h + d_y:
//   d_n = g (1-z)(1-n²)    d_z = g (h'-n) z(1-z)    d_r = d_n u_n r(1-r)    d_u_n = d_n r
//   d_h' = g z + W_hh^T d_u
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
    {"y", "BTHD", Role::token_output},
    {"h_final", "BHD", Role::final_state},
};
constexpr OpSpec kSpec{"gru", kTensors, std::size(kTensors)};

template <class Real>
class Gru {
 public:
  using Scalar = Real;
  explicit Gru(const Binding& b) : cell_{3, b.axis('D'), b.axis('E')}, D_(b.axis('D')) {}
  static Outcome check(const Binding& b) { return CellShape<Real>::check(b, 3); }
  std::int64_t state_part(int) const { return D_; }
  std::int64_t state_size() const { return D_; }
  std::int64_t block_steps(std::int64_t steps) const { return balanced_block(steps); }

  void forward(std::int64_t n, const Fields<Real>& in, Real* h, Real* const* out,
               Arena& arena) const {
    Real *a = arena.take<Real>(n * 3 * D_), *u = arena.take<Real>(3 * D_);
    Real* gates = arena.take<Real>(3 * D_);
    cell_.inputs(n, in, a);
    for (std::int64_t s = 0; s < n; ++s) {
      step(in, a + s * 3 * D_, h, u, gates, h);
      if (out[0]) copy(D_, h, out[0] + s * D_);
    }
  }

  void backward(std::int64_t n, const Fields<Real>& in, const Real* h0, Real* const* d_out,
                Real* d_h, const Fields<Real>& d, Arena& arena) const {
    const std::int64_t width = 3 * D_;
    Real *h = arena.take<Real>((n + 1) * D_), *a = arena.take<Real>(n * width);
    Real *u = arena.take<Real>(n * width), *gates = arena.take<Real>(n * width);
    copy(D_, h0, h);
    cell_.inputs(n, in, a);
    for (std::int64_t s = 0; s < n; ++s) {
      step(in, a + s * width, h + s * D_, u + s * width, gates + s * width, h + (s + 1) * D_);
    }
    for (std::int64_t s = n; s-- > 0;) {  // a and u become their own cotangents
      Real *d_a = a + s * width, *d_u = u + s * width;
      const Real *r = gates + s * width, *z = r + D_, *c = z + D_;
      const Real *before = h + s * D_, *d_y = d_out[0] + s * D_;
      for (std::int64_t j = 0; j < D_; ++j) {
        const Real g = d_h[j] + d_y[j], u_n = d_u[2 * D_ + j];
        const Real d_n = g * (Real(1) - z[j]) * ((Real(1) - c[j]) * (Real(1) + c[j]));
        d_a[j] = d_u[j] = d_n * u_n * r[j] * (Real(1) - r[j]);
        d_a[D_ + j] = d_u[D_ + j] = g * (before[j] - c[j]) * z[j] * (Real(1) - z[j]);
        d_a[2 * D_ + j] = d_n;
        d_u[2 * D_ + j] = d_n * r[j];
        d_h[j] = g * z[j];
      }
      add_transposed(width, D_, Real(1), in.data[cell_w_hh], d_u, d_h);
    }
    cell_.adjoint(n, in, h, a, u, d);
  }

 private:
  // gates [3,D] = r, z, n; u keeps the recurrent part. h and next may be the same.
  void step(const Fields<Real>& in, const Real* a, const Real* h, Real* u, Real* gates,
            Real* next) const {
    cell_.recurrent(in, h, u);
    Real *r = gates, *z = r + D_, *n = z + D_;
    for (std::int64_t j = 0; j < 2 * D_; ++j) gates[j] = sigmoid(a[j] + u[j]);
    for (std::int64_t j = 0; j < D_; ++j) n[j] = a[2 * D_ + j] + r[j] * u[2 * D_ + j];
    tanh_rows(D_, n);
    for (std::int64_t j = 0; j < D_; ++j) next[j] = (Real(1) - z[j]) * n[j] + z[j] * h[j];
  }
  CellShape<Real> cell_;
  std::int64_t D_;
};

}  // namespace

const OpKernel gru_kernel = sequence_kernel<Gru, kSpec>();

ASSAY_CPU_END
