// The forget gate of M²RNN, f = exp(-a softplus(x + b)), a >= 0 per head.
#include "kernels/common/elementary.hpp"
#include "kernels/common/kernels.hpp"
#include "kernels/common/sequence.hpp"

ASSAY_CPU_BEGIN

namespace {

enum Field { x, a, b };
constexpr TensorSpec kTensors[] = {
    {"x", "BTN", Role::token},
    {"a", "N", Role::param},
    {"b", "N", Role::param},
    {"f", "BTN", Role::token_output},
};
constexpr OpSpec kSpec{"m2rnn_gate", kTensors, std::size(kTensors)};

template <class Real>
class M2rnnGate {
 public:
  using Scalar = Real;
  explicit M2rnnGate(const Binding&) {}
  static Outcome check(const Binding&) { return {}; }
  std::int64_t state_part(int) const { return 0; }
  std::int64_t state_size() const { return 0; }
  std::int64_t block_steps(std::int64_t) const { return 1024; }

  void forward(std::int64_t n, const Fields<Real>& in, Real*, Real* const* out, Arena&) const {
    if (!out[0]) return;
    for (std::int64_t s = 0; s < n; ++s) out[0][s] = gate(in, s);
  }
  void backward(std::int64_t n, const Fields<Real>& in, const Real*, Real* const* d_out, Real*,
                const Fields<Real>& d, Arena&) const {
    for (std::int64_t s = 0; s < n; ++s) {
      decay_exponent_adjoint(in.data[x][s], *in.data[a], *in.data[b], gate(in, s) * d_out[0][s],
                             d.data[x][s], *d.data[a], *d.data[b]);
    }
  }

 private:
  static Real gate(const Fields<Real>& in, std::int64_t s) {
    return std::exp(decay_exponent(in.data[x][s], *in.data[a], *in.data[b]));
  }
};

}  // namespace

const OpKernel m2rnn_gate_kernel = sequence_kernel<M2rnnGate, kSpec>();

ASSAY_CPU_END
