// mom over one step of every sequence: a kernel of its own (mom_decode.cu).
#include <cmath>

#include "kernels/mom/mom_plan.hpp"

namespace assay::cuda {

using cpu::Call;
using cpu::find_view;
using cpu::Slot;
using cpu::View;
using cpu::ViewList;

bool step_fits(const Call& call, const MomPlan& plan) {
  const cpu::Binding& b = plan.binding;
  const std::int64_t V = b.axis('V');
  return call.gradients.count == 0 && !find_view(call.inputs, "", "cu_seqlens") &&
         b.axis('T') == 1 && b.axis('K') >= 1 && b.axis('K') <= kDecodeMaxK && V <= 1 << 20 &&
         b.H <= 65535 && b.axis('B') * plan.routing.R() * (V / 64 + 1) < 1 << 30;
}

void plan_step(const Call& call, MomPlan& plan, Workspace& memory) {
  const cpu::Binding& b = plan.binding;
  take_routing(plan.routing, memory, false);
  MomDecode& d = plan.decode;
  d.routing = plan.routing;
  DecodeParams& p = d.p;
  p.H = static_cast<int>(b.H);
  p.K = static_cast<int>(b.axis('K')), p.V = static_cast<int>(b.axis('V'));
  p.momentum = plan.update.momentum;
  p.normalise = call.options.qk_l2norm, p.eps = static_cast<float>(call.options.l2norm_eps);
  p.scale = call.options.has_scale ? static_cast<float>(call.options.scale)
                                   : 1.0f / std::sqrt(static_cast<float>(p.K));
  for (int i = 0; i < plan.sources; ++i) {
    const MomSource& s = plan.source[i];
    const MomField f = packed_field(s, b, false);
    const auto put = [&](MomField::Side& mem, MomField::Side& shared) {
      mem = f.mem, shared = f.shared;
    };
    switch (s.spec->slot) {
      case Slot::q:
        p.q = f.mem.tensor;
        break;
      case Slot::k:
        put(d.k, d.k_shared);
        break;
      case Slot::v:
        put(d.v, d.v_shared);
        break;
      case Slot::decay:
        put(d.alpha, d.alpha_shared), p.alpha_is_log = s.is_log;
        break;
      case Slot::mu:
        put(d.mu, d.mu_shared), p.mu_is_log = s.is_log;
        break;
      case Slot::beta:
        put(d.beta, d.beta_shared);
        break;
      default:
        put(d.eta, d.eta_shared);
        break;
    }
  }
  const auto state = [&](const ViewList& list, const char* name, std::int64_t& to_memory) {
    const View* v = find_view(list, "", name);
    if (!v) return Strided{};
    to_memory = v->stride[1] * bytes_of(v->dtype);
    const View one = without_axis(*v, 1);
    return strided(&one, "BHKV", b.H);
  };
  p.s0 = state(call.inputs, "s0", d.s0_memory), p.m0 = state(call.inputs, "m0", d.m0_memory);
  p.s_final = state(call.outputs, "s_final", d.s_final_memory);
  p.m_final = state(call.outputs, "m_final", d.m_final_memory);
  if (const View* o = find_view(call.outputs, "", "o")) {
    d.packed = memory.take<float>(d.routing.rows() * b.H * p.V);
    plan.output = {d.routing,  reinterpret_cast<const char*>(d.packed),
                   DType::f32, strided(o, "BTHV", b.H),
                   b.H * p.V,  true};
  }
}

}  // namespace assay::cuda
