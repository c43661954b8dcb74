#include "kernels/common/cuda/made_gates.hpp"

#include "kernels/common/binding.hpp"

namespace assay::cuda {
namespace {

constexpr const char* kNames[] = {"a_alpha", "b_alpha", "a_mu", "b_mu"};
static_assert(MadeGates::a_alpha == 0 && MadeGates::b_alpha == 1 && MadeGates::a_mu == 2 &&
              MadeGates::b_mu == 3);

}  // namespace

void read_made_gates(const cpu::Call& call, std::int64_t heads, Strided& alpha, Strided& beta,
                     Strided& mu, Strided& eta, MadeGates& made) {
  made.given = cpu::find_view(call.inputs, "", "x_alpha") != nullptr;
  if (!made.given) return;
  const auto in = [&](const char* name, const char* axes) {
    return strided(cpu::find_view(call.inputs, "", name), axes, heads);
  };
  alpha = in("x_alpha", "BTH"), beta = in("x_beta", "BTH");
  mu = in("x_mu", "BTH"), eta = in("x_eta", "BTH");
  for (int i = 0; i < MadeGates::kParameters; ++i) made.parameter[i] = in(kNames[i], "H");
  made.s = static_cast<float>(call.options.s), made.tau = static_cast<float>(call.options.tau);
  made.log_mu_min = static_cast<float>(call.options.log_mu_min);
}

void find_parameter_gradients(const cpu::Call& call, std::int64_t heads,
                              Strided (&to)[MadeGates::kParameters]) {
  for (int i = 0; i < MadeGates::kParameters; ++i) {
    to[i] = strided(cpu::find_view(call.gradients, "d_", kNames[i]), "H", heads);
  }
}

}  // namespace assay::cuda
