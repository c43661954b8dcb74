// M²RNN, the matrix-state non-linear RNN; the equations stand in common/m2rnn_cell.hpp.
//
// With `state_grad_clip` c the cotangent of the state is clamped to [-c, c] at every step, before
// the step's own terms are added (also at the last one; the cotangent of h0 is not clamped).
#include "kernels/common/kernels.hpp"
#include "kernels/common/m2rnn_cell.hpp"
#include "kernels/common/sequence.hpp"

ASSAY_CPU_BEGIN

namespace {

enum Field { q, k, v, w, f, w_residual };
constexpr TensorSpec kTensors[] = {
    {"q", "BTNK", Role::token},
    {"k", "BTNK", Role::token},
    {"v", "BTNV", Role::token},
    {"w", "NVV", Role::param},
    {"f", "BTN", Role::token},
    {"w_residual", "NV", Role::param, Slot::none, nullptr, true},
    {"h0", "BNKV", Role::state, Slot::none, nullptr, true},
    {"y", "BTNV", Role::token_output},
    {"h_final", "BNKV", Role::final_state},
};
constexpr OpSpec kSpec{"m2rnn", kTensors, std::size(kTensors)};

template <class Real>
class M2rnn {
 public:
  using Scalar = Real;
  explicit M2rnn(const Binding& b)
      : K_(b.axis('K')),
        V_(b.axis('V')),
        clip_(b.options.has_state_grad_clip ? static_cast<Real>(b.options.state_grad_clip)
                                            : Real(-1)) {}
  static Outcome check(const Binding& b) {
    if (b.options.has_state_grad_clip && !(b.options.state_grad_clip >= 0)) {
      return refuse(Status::bad_argument, "state_grad_clip must not be negative");
    }
    return {};
  }
  std::int64_t state_part(int) const { return K_ * V_; }
  std::int64_t state_size() const { return K_ * V_; }
  std::int64_t block_steps(std::int64_t steps) const { return balanced_block(steps); }

  void forward(std::int64_t n, const Fields<Real>& x, Real* H, Real* const* out,
               Arena& arena) const {
    m2rnn_forward(n, rows(x), H, out[0], arena);
  }
  void backward(std::int64_t n, const Fields<Real>& x, const Real* H0, Real* const* d_out,
                Real* d_H, const Fields<Real>& d, Arena& arena) const {
    m2rnn_backward(n, rows(x), H0, d_out[0], clip_, d_H, rows(d), arena);
  }

 private:
  M2rnnRows<Real> rows(const Fields<Real>& x) const {
    return {K_, V_, x.data[q], x.data[k], x.data[v], x.data[w], x.data[f], x.data[w_residual]};
  }
  std::int64_t K_, V_;
  Real clip_;
};

}  // namespace

const OpKernel m2rnn_kernel = sequence_kernel<M2rnn, kSpec>();

ASSAY_CPU_END
