// Causal depthwise convolution with optional bias and SiLU:
//
//   a_t[d] = Σ_{j<W} weight[d,j] x_{t-(W-1)+j}[d] + bias[d]          y = a, or a σ(a)
//
// State: the last W-1 inputs, oldest first.
#include "kernels/common/conv.hpp"
#include "kernels/common/elementary.hpp"
#include "kernels/common/kernels.hpp"
#include "kernels/common/sequence.hpp"

ASSAY_CPU_BEGIN

namespace {

enum Field { x, weight, bias };
constexpr TensorSpec kTensors[] = {
    {"x", "BTD", Role::token},
    {"weight", "DW", Role::param},
    {"bias", "D", Role::param, Slot::none, nullptr, true},
    {"x0", "BwD", Role::state, Slot::none, nullptr, true},
    {"y", "BTD", Role::token_output},
    {"x_final", "BwD", Role::final_state},
};
constexpr OpSpec kSpec{"causal_conv1d", kTensors, std::size(kTensors)};

template <class Real>
class CausalConv1d {
 public:
  using Scalar = Real;
  explicit CausalConv1d(const Binding& b)
      : D_(b.axis('D')), W_(b.axis('W')), silu_(b.options.silu) {}
  static Outcome check(const Binding& b) {
    if (b.axis('W') < 1) return refuse(Status::unsupported, "W must be at least 1");
    bool window = false;
    for (const Operand* o : {b.state, b.d_state, b.final_state, b.d_final}) {
      window = window || o->present;
    }
    if (!window || b.axis('w') == b.axis('W') - 1) return {};
    return refuse(Status::bad_argument, "x0 and x_final must hold W - 1 = %lld inputs",
                  static_cast<long long>(b.axis('W') - 1));
  }
  std::int64_t state_part(int) const { return (W_ - 1) * D_; }
  std::int64_t state_size() const { return (W_ - 1) * D_; }
  std::int64_t block_steps(std::int64_t) const { return 128; }

  void forward(std::int64_t n, const Fields<Real>& in, Real* window, Real* const* out,
               Arena& arena) const {
    const Real* padded = pad(n, in, window, arena);
    if (out[0]) {
      activations(n, in, padded, out[0]);
      for (std::int64_t i = 0; silu_ && i < n * D_; ++i) out[0][i] = silu(out[0][i]);
    }
    copy(state_size(), padded + n * D_, window);
  }

  void backward(std::int64_t n, const Fields<Real>& in, const Real* window, Real* const* d_out,
                Real* d_window, const Fields<Real>& d, Arena& arena) const {
    const Real* padded = pad(n, in, window, arena);
    Real *d_a = arena.take<Real>(n * D_), *d_padded = arena.zeros<Real>((n + W_ - 1) * D_);
    if (silu_) {
      activations(n, in, padded, d_a);
      for (std::int64_t i = 0; i < n * D_; ++i) d_a[i] = d_out[0][i] * silu_slope(d_a[i]);
    } else {
      copy(n * D_, d_out[0], d_a);
    }
    copy(state_size(), d_window, d_padded + n * D_);
    conv_backward(n, D_, W_, in.data[weight], padded, d_a, d_padded, d.data[weight]);
    for (std::int64_t s = 0; s < n; ++s) axpy(D_, Real(1), d_a + s * D_, d.data[bias]);
    axpy(n * D_, Real(1), d_padded + state_size(), d.data[x]);
    copy(state_size(), d_padded, d_window);
  }

 private:
  const Real* pad(std::int64_t n, const Fields<Real>& in, const Real* window, Arena& arena) const {
    Real* padded = arena.take<Real>((n + W_ - 1) * D_);
    copy(state_size(), window, padded);
    copy(n * D_, in.data[x], padded + state_size());
    return padded;
  }
  void activations(std::int64_t n, const Fields<Real>& in, const Real* padded, Real* a) const {
    for (std::int64_t s = 0; s < n; ++s) copy(D_, in.data[bias], a + s * D_);
    conv_forward(n, D_, W_, in.data[weight], padded, a);
  }

  std::int64_t D_, W_;
  bool silu_;
};

}  // namespace

const OpKernel causal_conv1d_kernel = sequence_kernel<CausalConv1d, kSpec>();

ASSAY_CPU_END
