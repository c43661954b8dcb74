// The gates of Momentum DeltaNet from their pre-activations; equations in mdn_gate_rule.hpp.
#include "kernels/common/kernels.hpp"
#include "kernels/common/mdn_gate_rule.hpp"
#include "kernels/common/sequence.hpp"

ASSAY_CPU_BEGIN

namespace {

constexpr TensorSpec kTensors[] = {
    {"x_alpha", "BTH", Role::token},
    {"x_beta", "BTH", Role::token},
    {"x_mu", "BTH", Role::token},
    {"x_eta", "BTH", Role::token},
    {"a_alpha", "H", Role::param},
    {"b_alpha", "H", Role::param},
    {"a_mu", "H", Role::param},
    {"b_mu", "H", Role::param},
    {"log_alpha", "BTH", Role::token_output},
    {"beta", "BTH", Role::token_output},
    {"log_mu", "BTH", Role::token_output},
    {"eta", "BTH", Role::token_output},
};
constexpr OpSpec kSpec{"mdn_gates", kTensors, std::size(kTensors)};

template <class Real>
class MdnGates {
 public:
  using Scalar = Real;
  explicit MdnGates(const Binding& b) : rule_(b.options) {}
  static Outcome check(const Binding& b) { return MdnGateRule<Real>::check(b.options); }
  std::int64_t state_part(int) const { return 0; }
  std::int64_t state_size() const { return 0; }
  std::int64_t block_steps(std::int64_t) const { return 1024; }

  void forward(std::int64_t n, const Fields<Real>& in, Real*, Real* const* out, Arena&) const {
    rule_.forward(n, in.data, out);
  }
  void backward(std::int64_t n, const Fields<Real>& in, const Real*, Real* const* d_out, Real*,
                const Fields<Real>& d, Arena&) const {
    rule_.backward(n, in.data, d_out, d.data);
  }

 private:
  MdnGateRule<Real> rule_;
};

}  // namespace

const OpKernel mdn_gates_kernel = sequence_kernel<MdnGates, kSpec>();

ASSAY_CPU_END
