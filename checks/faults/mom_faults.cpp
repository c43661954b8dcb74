// Faults of Mixture-of-Memories: routing, what is written, what is kept.
#include <algorithm>

#include "checks/faults/entry.hpp"
#include "checks/faults/facts.hpp"
#include "checks/faults/rearrange.hpp"
#include "reference/recurrences/mom.hpp"

namespace assay {
namespace {

template <template <class> class R>
struct MomWith {
  template <class Real>
  static Engine<Real> make(const ValidCase& c) {
    Engine<Real> engine;
    auto update = make_engine<Real>(find_operation(Mom::update_name(&c.data)), c).update;
    engine.recurrence = std::make_unique<R<Real>>(std::move(update), c);
    return engine;
  }
};

/// Names of the update's inputs, in the order of MomLayout::sources.
std::vector<std::string> update_inputs(const ValidCase& c) {
  std::vector<std::string> names;
  for (const InputSpec& in : find_operation(Mom::update_name(&c.data)).schema(nullptr).inputs) {
    if (Mom::is_bare(in)) names.push_back(in.name);
  }
  return names;
}

template <class Real>
struct RecurrenceOfMom : MomRecurrence<Real> {
  using Base = MomRecurrence<Real>;
  using typename Base::Routing;
  RecurrenceOfMom(std::unique_ptr<Update<Real>> update, const ValidCase& c)
      : Base(std::move(update), c), inputs(update_inputs(c)) {}

  int index_of(const char* name) const {
    const auto found = std::find(inputs.begin(), inputs.end(), name);
    return found == inputs.end() ? -1 : static_cast<int>(found - inputs.begin());
  }
  std::int64_t width(const Block<Real>& x, int i) const {
    const MomLayout::Source& source = this->layout_.sources[i];
    return source.param ? x.width(source.mem) : x.width(source.mem) / this->M_;
  }
  /// Input i times `factor`.
  void scale_field(Context<Real>& c, const Block<Real>& x, int i, const Real& factor,
                   Fields<Real>& f) const {
    if (i < 0) return;
    Real* scaled = c.arena->zeros(width(x, i));
    la::axpy(width(x, i), factor, f[i], scaled);
    f[i] = scaled;
  }

  std::vector<std::string> inputs;
};

// The factor of the outer product: eta of mdn, else beta, else v.
template <class Real>
struct WeightOnWrite : RecurrenceOfMom<Real> {
  using RecurrenceOfMom<Real>::RecurrenceOfMom;
  Fields<Real> written(Context<Real>& c, const Block<Real>& x, std::int64_t m,
                       const Real& weight) const override {
    Fields<Real> f = this->fields(x, m);
    for (const char* name : {"eta", "beta", "v"}) {
      const int i = this->index_of(name);
      if (i < 0) continue;
      this->scale_field(c, x, i, weight, f);
      break;
    }
    return f;
  }
};

template <class Real>
struct UnselectedDecays : RecurrenceOfMom<Real> {
  using RecurrenceOfMom<Real>::RecurrenceOfMom;
  void forward(Context<Real>& c, const Block<Real>& x, std::int64_t count, Real* state,
               const Block<Real>& out, Real* saved) const override {
    RecurrenceOfMom<Real>::forward(c, x, count, state, out, saved);
    const auto chosen = this->routing(x).chosen;
    Real* nowhere = c.arena->zeros(this->update_->saved_size(c));
    for (std::int64_t m = 0; m < this->M_; ++m) {
      if (std::find(chosen.begin(), chosen.end(), m) != chosen.end()) continue;
      Fields<Real> f = this->fields(x, m);
      for (const char* name : {"v", "beta", "eta"}) {
        this->scale_field(c, x, this->index_of(name), Real(0), f);
      }
      std::vector<Real> parts = this->load(c, state, m);
      this->update_->step(c, f, parts.data(), nowhere);
      this->store(c, parts, state, m);
    }
  }
};

std::vector<std::int64_t> first_integers(std::int64_t n) {
  std::vector<std::int64_t> all(n);
  for (std::int64_t i = 0; i < n; ++i) all[i] = i;
  return all;
}

/// softmax over all memories, not only the chosen ones.
template <class Real>
std::vector<Real> scores(std::int64_t M, const Real* logits) {
  return softmax_over(first_integers(M), logits);
}

template <class Real>
struct NotRenormalised : RecurrenceOfMom<Real> {
  using RecurrenceOfMom<Real>::RecurrenceOfMom;
  typename RecurrenceOfMom<Real>::Routing routing(const Block<Real>& x,
                                                  std::int64_t s) const override {
    auto r = MomRecurrence<Real>::routing(x, s);
    const std::vector<Real> all = scores(this->M_, x(Mom::router_logits, s));
    for (std::size_t i = 0; i < r.chosen.size(); ++i) {
      r.softmax[i] = r.weights[i] = all[r.chosen[i]];
    }
    return r;
  }
};

template <class Real>
struct LogitGradUnnormalised : RecurrenceOfMom<Real> {
  using RecurrenceOfMom<Real>::RecurrenceOfMom;
  void logits_adjoint(const typename RecurrenceOfMom<Real>::Routing& route, const Block<Real>& x,
                      const std::vector<Real>& d_weights, Real* d_logits) const override {
    const std::vector<Real> all = scores(this->M_, x(Mom::router_logits));
    std::vector<Real> d_all(this->M_, Real(0));
    for (std::size_t i = 0; i < route.chosen.size(); ++i) d_all[route.chosen[i]] = d_weights[i];
    softmax_adjoint(first_integers(this->M_), all, d_all, d_logits);
  }
};

template <class Real>
struct StatesMerged : RecurrenceOfMom<Real> {
  using RecurrenceOfMom<Real>::RecurrenceOfMom;
  void forward(Context<Real>& c, const Block<Real>& x, std::int64_t count, Real* state,
               const Block<Real>& out, Real* saved) const override {
    RecurrenceOfMom<Real>::forward(c, x, count, state, out, saved);
    const auto route = this->routing(x);
    std::vector<Real> mixed(this->update_->state_count() * c.K * c.V, Real(0));
    for (std::size_t i = 0; i < route.chosen.size(); ++i) {
      const std::vector<Real> parts = this->load(c, state, route.chosen[i]);
      la::axpy(static_cast<long>(mixed.size()), route.weights[i], parts.data(), mixed.data());
    }
    for (std::int64_t m : route.chosen) this->store(c, mixed, state, m);
  }
};

/// The shared memory as one more candidate, with the logit 0.
template <class Real>
struct SharedInTopK : RecurrenceOfMom<Real> {
  using RecurrenceOfMom<Real>::RecurrenceOfMom;
  typename RecurrenceOfMom<Real>::Routing routing(const Block<Real>& x,
                                                  std::int64_t s) const override {
    const Real* given = x(Mom::router_logits, s);
    std::vector<Real> logits(given, given + this->M_);
    logits.push_back(Real(0));
    typename RecurrenceOfMom<Real>::Routing r;
    r.chosen = select_top_k(this->M_ + 1, this->top_k_, logits.data());
    r.softmax = softmax_over(r.chosen, logits.data());
    r.memories = r.chosen;
    r.weights = r.softmax;
    return r;
  }
  void logits_adjoint(const typename RecurrenceOfMom<Real>::Routing& route, const Block<Real>&,
                      const std::vector<Real>& d_weights, Real* d_logits) const override {
    std::vector<Real> d(this->M_ + 1, Real(0));
    softmax_adjoint(route.chosen, route.softmax, d_weights, d.data());
    for (std::int64_t m = 0; m < this->M_; ++m) d_logits[m] += d[m];
  }
};

/// Which memories each token chooses, by flat step b T + t.
std::vector<std::vector<std::int64_t>> choices(const ValidCase& c) {
  const std::vector<double>& logits = c.data.tensors.at("router_logits").values;
  const std::int64_t M = c.sizes['M'];
  std::vector<std::vector<std::int64_t>> all;
  for (std::size_t at = 0; at < logits.size(); at += M) {
    all.push_back(select_top_k(M, option_int(c, "top_k"), logits.data() + at));
  }
  return all;
}

bool has_shared(const ValidCase& c) { return c.sizes['R'] > c.sizes['M']; }

/// Steps 2 i and 2 i + 1 of a sequence in exchanged order.
std::vector<std::int64_t> exchanged_pairs(const ValidCase& c) {
  std::vector<std::int64_t> source(c.sizes['B'] * c.sizes['T']);
  for (const facts::Sequence& s : facts::sequences(c)) {
    const std::int64_t row = s.batch * c.sizes['T'] + s.start;
    for (std::int64_t t = 0; t < s.steps; ++t) {
      const std::int64_t other = t ^ 1;
      source[row + t] = row + (other < s.steps ? other : t);
    }
  }
  return source;
}

/// Every memory (the shared one too) receives its tokens with neighbours exchanged.
struct OrderBroken {
  template <class Real>
  Result<Real> operator()(Problem<Real> problem, const RunOptions& options) const {
    const std::vector<std::int64_t> source = exchanged_pairs(*problem.valid);
    reorder_time(problem, source);
    Result<Real> result = evaluate(problem, options);
    reorder_time(*problem.valid, result, source);  // its own inverse
    return result;
  }
};

/// Memory m of a sequence starts where the segment before it, of memory m - 1 or of the last memory
/// of the sequence before, has ended. Segments without tokens are passed over.
struct SegmentLeak {
  template <class Real>
  Result<Real> operator()(Problem<Real> problem, const RunOptions& options) const {
    const ValidCase& c = *problem.valid;
    const Result<Real> zeros = zero_result(problem, options.gradients);
    std::map<std::string, std::vector<Real>> carried;
    for (const InputSpec& in : c.schema.inputs) {
      if (in.role != Role::state) continue;
      problem.inputs.emplace(in.name, Tensor<Real>(c.input_shape(in)));
    }
    for (std::int64_t s = 0; s < c.sequences(); ++s) {
      const ValidCase part = one_sequence(c, s);
      const std::vector<bool> used = used_memories(part);
      for (std::int64_t m = 0; m < c.sizes['M']; ++m) {
        if (!used[m]) continue;
        for (const auto& [name, state] : carried) {
          std::copy(state.begin(), state.end(), memory(c, problem.inputs.at(name), s, m));
        }
        carry(problem, part, s, m, carried);
      }
    }
    Result<Real> result = evaluate(problem, options);
    std::erase_if(result.gradients,
                  [&](const auto& d) { return zeros.gradients.count(d.first) == 0; });
    return result;
  }

  static std::vector<bool> used_memories(const ValidCase& part) {
    std::vector<bool> used(part.sizes['M'], false);
    for (const auto& chosen : choices(part)) {
      for (std::int64_t m : chosen) used[m] = true;
    }
    return used;
  }

 private:
  /// The state [H,K,V] of memory m in a tensor [S,R,H,K,V].
  template <class Real>
  static auto memory(const ValidCase& c, Tensor<Real>& t, std::int64_t s, std::int64_t m) {
    const std::int64_t n = t.size() / (c.sequences() * c.sizes['R']);
    return t.data.begin() + (s * c.sizes['R'] + m) * n;
  }
  /// Final states of memory m of sequence s under the initial states of `problem`.
  template <class Real>
  static void carry(Problem<Real>& problem, const ValidCase& part, std::int64_t s, std::int64_t m,
                    std::map<std::string, std::vector<Real>>& carried) {
    const ValidCase& c = *problem.valid;
    Problem<Real> local = lift<Real>(part);
    for (const InputSpec& in : c.schema.inputs) {
      if (in.role != Role::state) continue;
      const Tensor<Real>& all = problem.inputs.at(in.name);
      Tensor<Real> own(part.input_shape(in));
      std::copy_n(all.data.begin() + s * own.size(), own.size(), own.data.begin());
      local.inputs[in.name] = own;
    }
    Result<Real> result = evaluate(local, RunOptions{});
    for (const InputSpec& in : c.schema.inputs) {
      if (in.role != Role::state) continue;
      Tensor<Real>& end = result.outputs.at(final_of(c, in.name));
      const std::int64_t n = end.size() / c.sizes['R'];
      carried[in.name].assign(end.data.begin() + m * n, end.data.begin() + (m + 1) * n);
    }
  }
};

Applies mom_when(Applies more) {
  return [more](const ValidCase& c) {
    return facts::is_op(c, {"mom"}) && facts::longest(c) > 0 && more(c);
  };
}

bool leaves_out(const ValidCase& c) { return option_int(c, "top_k") < c.sizes['M']; }
bool mixes(const ValidCase& c) { return option_int(c, "top_k") >= 2; }

/// A memory that holds something is left out, and its update has a decay.
bool skips_a_filled_memory(const ValidCase& c) {
  bool decays = false, initial = false;
  for (const InputSpec& in : c.schema.inputs) {
    decays = decays || (facts::is_decay(in) && facts::differs_from(c, in.name, 1));
    initial = initial || (in.role == Role::state && facts::has_value(c, in.name));
  }
  if (!decays) return false;
  const auto chosen = choices(c);
  for (const facts::Sequence& s : facts::sequences(c)) {
    std::vector<bool> filled(c.sizes['M'], initial);
    for (std::int64_t t = 0; t < s.steps; ++t) {
      const auto& now = chosen[s.batch * c.sizes['T'] + s.start + t];
      for (std::int64_t m = 0; m < c.sizes['M']; ++m) {
        const bool selected = std::find(now.begin(), now.end(), m) != now.end();
        if (!selected && filled[m]) return true;
        filled[m] = filled[m] || selected;
      }
    }
  }
  return false;
}

/// Two neighbours whose order is exchanged meet in one memory.
bool order_matters(const ValidCase& c) {
  const auto chosen = choices(c);
  for (const facts::Sequence& s : facts::sequences(c)) {
    const std::int64_t row = s.batch * c.sizes['T'] + s.start;
    for (std::int64_t t = 0; t + 1 < s.steps; t += 2) {
      if (has_shared(c)) return true;
      for (std::int64_t m : chosen[row + t]) {
        const auto& next = chosen[row + t + 1];
        if (std::find(next.begin(), next.end(), m) != next.end()) return true;
      }
    }
  }
  return false;
}

bool has_two_segments(const ValidCase& c) {
  std::int64_t filled = 0;
  for (std::int64_t s = 0; s < c.sequences(); ++s) {
    const std::vector<bool> used = SegmentLeak::used_memories(one_sequence(c, s));
    filled += std::count(used.begin(), used.end(), true);
  }
  return filled >= 2;
}

template <template <class> class R>
void add_rule(FaultList& list, const char* id, const char* title, const char* source,
              Applies applies) {
  add_fault(list, {id, title, source}, mom_when(std::move(applies)), WithEngine<MomWith<R>>{});
}

}  // namespace

void add_mom_faults(FaultList& list) {
  add_rule<WeightOnWrite>(list, "mom.weight_on_write",
                          "the routing weight multiplies the outer product", "MoM v4, Sec. 2.2",
                          mixes);
  add_rule<UnselectedDecays>(list, "mom.unselected_decays",
                             "memories that were not selected decay all the same",
                             "MoM v4, Sec. 3.2.2", skips_a_filled_memory);
  add_rule<NotRenormalised>(list, "mom.not_renormalised",
                            "softmax scores used without renormalisation", "MoM v4, Eq. 4",
                            leaves_out);
  add_rule<StatesMerged>(list, "mom.states_merged",
                         "the mixed state overwrites the individual states", "MoM v4, Eq. 7",
                         mixes);
  add_rule<SharedInTopK>(list, "mom.shared_in_top_k",
                         "the shared memory competes for selection, with the logit 0",
                         "MoM v4, Sec. 3.2", has_shared);
  add_rule<LogitGradUnnormalised>(
      list, "mom.logit_grad_unnormalised", "d_router_logits ignores the renormalisation", "class",
      [](const ValidCase& c) { return leaves_out(c) && facts::has_value(c, "d_o"); });
  add_fault(list,
            {"mom.order_broken", "tokens of a memory are processed out of time order",
             "MoM v4, Sec. 3.3"},
            mom_when(order_matters), OrderBroken{});
  add_fault(list,
            {"mom.segment_leak", "the state crosses (batch, memory) segments", "MoM v4, Sec. 3.3"},
            mom_when(has_two_segments), SegmentLeak{});
}

}  // namespace assay
