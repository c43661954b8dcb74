// The vector tanh RNN, h_t = tanh(h_{t-1} W + x_t), y_t = h_t (row vectors).
//
// Backward: g_t = (d_h + d_y) ∘ (1 - h_t²), d_x = g_t, d_h' = W g_t, d_w = Σ h_{t-1}^T g_t.
#include "kernels/common/elementary.hpp"
#include "kernels/common/kernels.hpp"
#include "kernels/common/linalg.hpp"
#include "kernels/common/sequence.hpp"

ASSAY_CPU_BEGIN

namespace {

enum Field { x, w };
constexpr TensorSpec kTensors[] = {
    {"x", "BTHD", Role::token},
    {"w", "HDD", Role::param},
    {"h0", "BHD", Role::state, Slot::none, nullptr, true},
    {"y", "BTHD", Role::token_output},
    {"h_final", "BHD", Role::final_state},
};
constexpr OpSpec kSpec{"rnn", kTensors, std::size(kTensors)};

template <class Real>
class Rnn {
 public:
  using Scalar = Real;
  explicit Rnn(const Binding& b) : D_(b.axis('D')) {}
  static Outcome check(const Binding&) { return {}; }
  std::int64_t state_part(int) const { return D_; }
  std::int64_t state_size() const { return D_; }
  std::int64_t block_steps(std::int64_t steps) const { return balanced_block(steps); }

  void forward(std::int64_t n, const Fields<Real>& in, Real* h, Real* const* out,
               Arena& arena) const {
    Real* next = arena.take<Real>(D_);
    for (std::int64_t s = 0; s < n; ++s) {
      step(in, s, h, next);
      copy(D_, next, h);
      if (out[0]) copy(D_, h, out[0] + s * D_);
    }
  }

  void backward(std::int64_t n, const Fields<Real>& in, const Real* h0, Real* const* d_out,
                Real* d_h, const Fields<Real>& d, Arena& arena) const {
    Real* h = arena.take<Real>((n + 1) * D_);
    copy(D_, h0, h);
    for (std::int64_t s = 0; s < n; ++s) step(in, s, h + s * D_, h + (s + 1) * D_);
    for (std::int64_t s = n; s-- > 0;) {
      Real* g = d.data[x] + s * D_;
      const Real *h_s = h + (s + 1) * D_, *d_y = d_out[0] + s * D_;
      for (std::int64_t j = 0; j < D_; ++j) {
        g[j] = (d_h[j] + d_y[j]) * ((Real(1) - h_s[j]) * (Real(1) + h_s[j]));
        d_h[j] = 0;
      }
      add_product(D_, D_, Real(1), in.data[w], g, d_h);
    }
    Matrix<Real>(d.data[w], D_, D_).noalias() +=
        ConstMatrix<Real>(h, n, D_).transpose() * ConstMatrix<Real>(d.data[x], n, D_);
  }

 private:
  void step(const Fields<Real>& in, std::int64_t s, const Real* h, Real* next) const {
    copy(D_, in.data[x] + s * D_, next);
    add_transposed(D_, D_, Real(1), in.data[w], h, next);
    tanh_rows(D_, next);
  }
  std::int64_t D_;
};

}  // namespace

const OpKernel rnn_kernel = sequence_kernel<Rnn, kSpec>();

ASSAY_CPU_END
