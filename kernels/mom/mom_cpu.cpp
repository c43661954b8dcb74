// Mixture-of-Memories over any update of the fast-weight family:
//
//   chosen = the top_k largest logits (ties: the lower index); g = softmax over the chosen logits
//   S_m <- update(S_m, x_m) for m chosen; every other memory keeps its state bit for bit
//   o_t = scale (Σ_chosen g_m S_m^T q_t + S_shared^T q_t)
//
// Backward, u = scale d_o:  d_g_m = u · S_m^T q,  d_q += g_m S_m u,  d_S_m += q (g_m u)^T.
//
// A block backward runs forward once more and logs the state of each memory before it is updated;
// then the updates are undone one by one.
#include <cstring>

#include "kernels/common/fast_weight.hpp"
#include "kernels/common/kernels.hpp"
#include "kernels/common/routing.hpp"
#include "kernels/mom/mom_spec.hpp"

ASSAY_CPU_BEGIN

namespace {

template <class Real, template <class> class U>
class Mom {
 public:
  using Scalar = Real;
  using Update = U<Real>;
  using Rows = FastWeightRows<Real>;

  explicit Mom(const Binding& b)
      : K_(b.axis('K')),
        V_(b.axis('V')),
        J_(b.axis('J') > 0 ? b.axis('J') : 1),
        M_(b.axis('M')),
        top_k_(b.options.top_k),
        normalise_(b.options.qk_l2norm),
        eps_(static_cast<Real>(b.options.l2norm_eps)),
        scale_(readout_scale<Real>(b)) {
    for (int i = 0; i < b.fields; ++i) {
      const TensorSpec& t = *b.field_spec[i];
      const bool of_shared = std::strstr(t.name, "_shared") != nullptr;
      if (of_shared) shared_ = true;
      for (FastWeightFields* f : {&mem_, &own_}) {
        if (t.role == Role::token && t.slot != Slot::q && (f == &own_) != of_shared) continue;
        switch (t.slot) {
          case Slot::q:
            f->q = i;
            break;
          case Slot::k:
            f->k = i;
            break;
          case Slot::p:
            f->p = i;
            break;
          case Slot::v:
            f->v = i;
            break;
          case Slot::decay:
            f->decay = i;
            break;
          case Slot::mu:
            f->mu = i;
            break;
          case Slot::beta:
            f->beta = i;
            break;
          case Slot::eta:
            f->eta = i;
            break;
          default:
            break;
        }
      }
    }
    R_ = M_ + (shared_ ? 1 : 0);
    slots_ = top_k_ + (shared_ ? 1 : 0);
  }

  static Outcome check(const Binding& b) {
    if (b.options.top_k >= 1 && b.options.top_k <= b.axis('M')) return {};
    return refuse(Status::bad_argument, "top_k is %lld of %lld memories",
                  static_cast<long long>(b.options.top_k), static_cast<long long>(b.axis('M')));
  }
  std::int64_t state_part(int) const { return R_ * K_ * V_; }
  std::int64_t state_size() const { return Update::kStates * R_ * K_ * V_; }
  std::int64_t block_steps(std::int64_t steps) const {
    const std::int64_t block = balanced_block(steps);  // the log holds top_k states per step
    return block < 64 ? block : 64;
  }

  void forward(std::int64_t n, const Fields<Real>& x, Real* state, Real* const* out,
               Arena& arena) const {
    Real* memories = arena.take<Real>(state_size());
    by_memory(state, memories, true);
    Real *saved = arena.take<Real>(saved_size(x)), *write = arena.take<Real>(V_);
    for (std::int64_t s = 0; s < n; ++s) {
      const ArenaScope scope(arena);
      const Step step(*this, x, s, nullptr, arena);
      Real* o = out[0] ? out[0] + s * V_ : nullptr;
      if (o) set(V_, Real(0), o);
      for (std::int64_t i = 0; i < slots_; ++i) {
        Real* S = memories + step.memory[i] * stride();
        Update::step(step.rows(*this, x, s, i, nullptr, arena), S, saved, write);
        if (o) add_transposed(K_, V_, step.weight[i] * scale_, S, step.q, o);
      }
    }
    by_memory(state, memories, false);
  }

  void backward(std::int64_t n, const Fields<Real>& x, const Real* state0, Real* const* d_out,
                Real* d_state, const Fields<Real>& d_x, Arena& arena) const {
    const std::int64_t kept = saved_size(x), logged = n * slots_;
    Real *memories = arena.take<Real>(state_size()), *d_memories = arena.take<Real>(state_size());
    by_memory(const_cast<Real*>(state0), memories, true);
    by_memory(d_state, d_memories, true);
    Real *before = arena.take<Real>(logged * stride()), *saved = arena.take<Real>(logged * kept);
    auto* norms = arena.take<double>(n * norms_per_step());
    Real* write = arena.take<Real>(V_);
    // Normalised in place in this pass, and left so for the way back.
    for (std::int64_t s = 0; s < n; ++s) {
      const ArenaScope scope(arena);
      double* norms_s = norms + s * norms_per_step();
      const Step step(*this, x, s, norms_s, arena);
      for (std::int64_t i = 0; i < slots_; ++i) {
        const std::int64_t at = s * slots_ + i;
        Real* S = memories + step.memory[i] * stride();
        copy(stride(), S, before + at * stride());
        Update::step(step.rows(*this, x, s, i, norms_s, arena), S, saved + at * kept, write);
      }
    }
    for (std::int64_t s = n; s-- > 0;) {
      const ArenaScope scope(arena);
      step_adjoint(x, s, d_out[0] + s * V_, before + s * slots_ * stride(),
                   saved + s * slots_ * kept, norms + s * norms_per_step(), memories, d_memories,
                   d_x, arena);
    }
    by_memory(d_state, d_memories, false);
  }

 private:
  // The routing of one step. q is normalised here, unless it was (already == true).
  struct Step {
    std::int64_t *chosen, *memory;
    Real *weight, *q;
    Step(const Mom& mom, const Fields<Real>& x, std::int64_t s, double* norms, Arena& arena,
         bool already = false) {
      memory = chosen = arena.take<std::int64_t>(mom.slots_);
      weight = arena.take<Real>(mom.slots_);
      const Real* logits = x.at(0, s);
      select_top_k(mom.M_, mom.top_k_, logits, chosen);
      softmax_chosen(mom.top_k_, chosen, logits, weight);
      if (mom.shared_) {
        memory[mom.top_k_] = mom.M_;
        weight[mom.top_k_] = 1;
      }
      q = x.at(mom.mem_.q, s);
      if (!mom.normalise_ || already) return;
      double unused;
      normalise_rows(1, mom.K_, mom.eps_, q, norms ? norms : &unused);
    }
    // The rows of slot i, its key normalised in place; norms [1 + slots J] null: not kept.
    Rows rows(const Mom& mom, const Fields<Real>& x, std::int64_t s, std::int64_t i, double* norms,
              Arena& arena) const {
      Rows r = mom.rows(x, s, memory[i]);
      if (!r.k) {  // hgrn2
        r.k = r.p = arena.take<Real>(mom.K_);
        for (std::int64_t j = 0; j < mom.K_; ++j) r.k[j] = Real(1) - r.decay[j];
      } else if (mom.normalise_) {
        double* to = norms ? norms + 1 + i * mom.J_ : arena.take<double>(mom.J_);
        normalise_rows(mom.J_, mom.K_, mom.eps_, r.k, to);
      }
      return r;
    }
  };

  void step_adjoint(const Fields<Real>& x, std::int64_t s, const Real* d_o, const Real* before,
                    const Real* saved, const double* norms, Real* memories, Real* d_memories,
                    const Fields<Real>& d_x, Arena& arena) const {
    const Step step(*this, x, s, nullptr, arena, true);
    Real *u = arena.take<Real>(V_), *d_weight = arena.take<Real>(slots_);
    Real *read = arena.take<Real>(V_), *d_q = d_x.at(mem_.q, s);
    const std::int64_t kept = saved_size(x);
    for (std::int64_t i = 0; i < slots_; ++i) {
      const std::int64_t m = step.memory[i];
      Real *S = memories + m * stride(), *d_S = d_memories + m * stride();
      set(V_, Real(0), read);
      add_transposed(K_, V_, scale_, S, step.q, read);
      d_weight[i] = dot(V_, d_o, read);
      scaled(V_, scale_ * step.weight[i], d_o, u);
      add_product(K_, V_, Real(1), S, u, d_q);
      add_outer(K_, V_, Real(1), step.q, u, d_S);
      Rows r = rows(x, s, m), d = rows(d_x, s, m);
      if (!r.k) {
        r.k = r.p = arena.take<Real>(K_);
        for (std::int64_t j = 0; j < K_; ++j) r.k[j] = Real(1) - r.decay[j];
        d.k = d.p = arena.zeros<Real>(K_);
      }
      Update::adjoint(r, before + i * stride(), S, saved + i * kept, d_S, d, arena);
      copy(stride(), before + i * stride(), S);
      if (mem_.k < 0) {
        for (std::int64_t j = 0; j < K_; ++j) d.decay[j] -= d.k[j];
      } else if (normalise_) {
        normalise_rows_adjoint(J_, K_, r.k, norms + 1 + i * J_, d.k);
      }
    }
    softmax_chosen_adjoint(top_k_, step.chosen, step.weight, d_weight, d_x.at(0, s));
    if (normalise_) normalise_rows_adjoint(1, K_, step.q, norms, d_q);
  }

  // The rows of memory m at step s (of one step: strides do not matter), keys as they are.
  Rows rows(const Fields<Real>& x, std::int64_t s, std::int64_t m) const {
    const FastWeightFields& f = m == M_ ? own_ : mem_;
    const auto data = [&](int i) -> Real* {
      if (i < 0) return nullptr;
      if (m == M_ || !x.per_token[i]) return x.at(i, s);
      return x.at(i, s) + m * (x.width[i] / M_);
    };
    Rows r;
    r.K = K_, r.V = V_, r.J = J_;
    r.k = data(f.k), r.v = data(f.v), r.beta = data(f.beta);
    r.p = f.p < 0 ? r.k : data(f.p);
    r.decay = data(f.decay), r.mu = data(f.mu), r.eta = data(f.eta);
    if (f.decay >= 0) {
      r.decay_width = x.width[f.decay] / (m == M_ || !x.per_token[f.decay] ? 1 : M_);
    }
    return r;
  }

  std::int64_t stride() const { return Update::kStates * K_ * V_; }
  std::int64_t norms_per_step() const { return 1 + slots_ * J_; }
  std::int64_t saved_size(const Fields<Real>& x) const { return Update::saved_size(rows(x, 0, 0)); }

  // State tensors hold [R,K,V] each; an update wants the parts of one memory side by side.
  void by_memory(Real* tensors, Real* memories, bool load) const {
    const std::int64_t KV = K_ * V_;
    for (int part = 0; part < Update::kStates; ++part) {
      for (std::int64_t m = 0; m < R_; ++m) {
        Real* a = tensors + (part * R_ + m) * KV;
        Real* b = memories + m * stride() + part * KV;
        copy(KV, load ? a : b, load ? b : a);
      }
    }
  }

  std::int64_t K_, V_, J_, M_, R_ = 0, top_k_, slots_ = 0;
  bool shared_ = false, normalise_;
  Real eps_, scale_;
  FastWeightFields mem_, own_;
};

template <class Real>
using MomAdditive = Mom<Real, Additive>;
template <class Real>
using MomDelta = Mom<Real, Delta>;
template <class Real>
using MomMomentum = Mom<Real, Momentum>;

/// The update's description, or null if there is no such member.
const OpSpec* find_update(const char* name) {
#define ASSAY_CPU_ADDRESS(op) &op##_spec,
  static const OpSpec* const all[] = {ASSAY_CPU_FAST_WEIGHTS(ASSAY_CPU_ADDRESS)};
#undef ASSAY_CPU_ADDRESS
  for (const OpSpec* spec : all) {
    if (std::strcmp(spec->op, name) == 0) return spec;
  }
  return nullptr;
}

// What the update's tensors say about it: a momentum, a write strength, or neither.
Outcome mom(const Call& call, std::size_t* bytes) {
  const OpSpec* update = find_update(call.options.update);
  if (!update) {
    return refuse(Status::unsupported, "mom: no update '%s'", call.options.update);
  }
  bool momentum = false, delta = false;
  for (int i = 0; i < update->count; ++i) {
    momentum = momentum || update->tensors[i].slot == Slot::mu;
    delta = delta || update->tensors[i].slot == Slot::beta;
  }
  const MomSpec described(*update, has_shared_memory(call));
  const OpSpec& spec = described.spec();
  Binding b;
  if (momentum) {
    return bytes ? plan_sequences<MomMomentum>(spec, call, b, bytes)
                 : call_sequences<MomMomentum>(spec, call);
  }
  if (delta) {
    return bytes ? plan_sequences<MomDelta>(spec, call, b, bytes)
                 : call_sequences<MomDelta>(spec, call);
  }
  return bytes ? plan_sequences<MomAdditive>(spec, call, b, bytes)
               : call_sequences<MomAdditive>(spec, call);
}

}  // namespace

const OpKernel mom_kernel{"mom", false,
                          [](const Call& call, std::size_t* bytes) { return mom(call, bytes); },
                          [](const Call& call) { return mom(call, nullptr); }};

ASSAY_CPU_END
