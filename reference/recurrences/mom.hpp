// Mixture-of-Memories: M routed memories and, optionally, a shared one, over any update of the
// fast-weight family.   [MoM v4, Eqs. 3-8]
//
//   scores = softmax(logits);  chosen = the top_k largest (ties: the lower index)
//   g_m = score_m / Σ_chosen score  = softmax over the chosen logits
//   S_m <- update(S_m, x_m)  for m chosen; every other memory keeps its state bit for bit
//   o_t = scale (Σ_chosen g_m S_m^T q_t + S_shared^T q_t)
//
// The weight multiplies the read, never the write. Backward, with u = scale d_o:
//   d_g_m = u · S_m^T q     d_q += g_m S_m u     d_S_m += q (g_m u)^T
//   d_logit_m = g_m (d_g_m - Σ g d_g) for m chosen, 0 otherwise
//
// Chunk form, where the update has one: of C tokens, each memory takes those that chose it as a
// chunk of its own.   [MoM v4, Sec. 3.3]
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "reference/recurrences/fast_weight.hpp"
#include "reference/recurrences/top_k.hpp"

namespace assay {

/// Which input of mom feeds which input of the update.
struct MomLayout {
  struct Source {
    int mem = -1, shared = -1;  // per memory (leading axis M), or the shared memory's own
    bool param = false;         // one per head, for all memories
    bool is_key = false;
  };
  std::vector<Source> sources;
  bool shared = false;
};

struct Mom {
  enum Input { router_logits, q };

  static std::string update_name(const Case* data) {
    if (data) {
      const auto found = data->options.find("update");
      if (found != data->options.end() && std::holds_alternative<std::string>(found->second)) {
        return std::get<std::string>(found->second);
      }
    }
    return "gdn";
  }

  static bool is_bare(const InputSpec& in) {
    return in.role != Role::state && in.name != "q" && in.name != "skip" &&
           in.name != "q_correction";
  }

  /// Are there tensors of the shared memory? Without a case: as if, so that they are listed.
  static bool has_shared(const Case* data) {
    if (!data) return true;
    for (const auto& [name, tensor] : data->tensors) {
      if (name.size() > 7 && name.rfind("_shared") == name.size() - 7) return true;
    }
    return false;
  }

  static InputSpec renamed(InputSpec in, const std::string& suffix, bool per_memory) {
    in.name += suffix;
    if (!in.log_name.empty()) in.log_name += suffix;
    if (per_memory) in.axes.insert(in.axes.find('T') + 1, "M");
    in.doc += per_memory ? ", per routed memory" : ", of the shared memory";
    return in;
  }

  static Schema schema(const Case* data) {
    std::vector<std::string> updates;
    for (const Operation* operation : operations()) {
      const std::string name = operation->name();
      if (operation->is_fast_weight()) updates.push_back(name);
    }
    std::string update = update_name(data);
    if (std::find(updates.begin(), updates.end(), update) == updates.end()) update = "gdn";
    const Schema inner = find_operation(update).schema(nullptr);
    const bool shared = has_shared(data);

    Schema s;
    s.op = "mom";
    s.title = "Mixture-of-Memories: top-k routed memories over a fast-weight update";
    s.source = "[MoM v4, Eqs. 3-8]";
    s.inputs = {{"router_logits", "BTM", Role::token, "router logits", {}},
                {"q", "BTHK", Role::token, "query", {}}};
    for (const InputSpec& in : inner.inputs) {
      if (!is_bare(in)) continue;
      s.inputs.push_back(in.role == Role::token ? renamed(in, "_mem", true) : in);
    }
    for (const InputSpec& in : inner.inputs) {
      if (!shared || !is_bare(in) || in.role != Role::token) continue;
      s.inputs.push_back(renamed(in, "_shared", false));
      if (!data) s.inputs.back().optional = true;
    }
    for (const InputSpec& in : inner.inputs) {
      if (in.role != Role::state) continue;
      s.inputs.push_back(in);
      s.inputs.back().axes = "BRHKV";
      s.inputs.back().doc += " of every memory, the shared one last";
    }
    for (const OutputSpec& out : inner.outputs) {
      s.outputs.push_back(out);
      if (out.final_state) s.outputs.back().axes = "BRHKV";
    }
    s.derived = {{'R', 'M', shared ? 1 : 0}};
    for (const char* name : {"scale", "qk_l2norm", "l2norm_eps"}) {
      s.options.push_back(*inner.find_option(name));
    }
    if (std::find(inner.forms.begin(), inner.forms.end(), Form::chunk) != inner.forms.end()) {
      s.forms = {Form::recurrent, Form::chunk};
    }
    s.options.push_back({"chunk", OptionType::integer, OptionValue(std::int64_t{64}),
                         "chunk length C of the chunk form, where the update has one", 1, 65536});
    s.options.push_back({"top_k", OptionType::integer, OptionValue(std::int64_t{2}),
                         "memories selected per token", 1, 65536});
    s.options.push_back({"update", OptionType::string, OptionValue(std::string("gdn")),
                         "the fast-weight update of every memory", -kInf, kInf, updates});
    return s;
  }

  static std::int64_t checked_top_k(const ValidCase& c) {
    const std::int64_t k = option_int(c, "top_k"), M = c.sizes['M'];
    if (k > M) {
      throw InputError("option 'top_k' is " + std::to_string(k) + " but there are only " +
                       std::to_string(M) + " memories (axis M of 'router_logits')");
    }
    return k;
  }

  /// A tie between a selected and an unselected memory: the gradient does not exist there.
  static std::vector<std::string> notes(const ValidCase& c) {
    const CaseTensor& logits = c.data.tensors.at("router_logits");
    const std::int64_t M = c.sizes['M'], k = checked_top_k(c);
    std::int64_t ties = 0, first = -1;
    for (std::int64_t t = 0; k < M && t * M < static_cast<std::int64_t>(logits.values.size());
         ++t) {
      const double* row = logits.values.data() + t * M;
      const std::vector<std::int64_t> order = select_top_k(M, k + 1, row);
      if (row[order[k - 1]] != row[order[k]]) continue;
      if (ties++ == 0) first = t * M + order[k];
    }
    if (ties == 0) return {};
    return {"router_logits: " + std::to_string(ties) +
            " tie(s) between a selected and an unselected memory, first at " +
            index_text(logits.shape, first) + "; the lower index wins, not differentiable there"};
  }

  static MomLayout layout(const ValidCase& c) {
    const Schema inner = find_operation(update_name(&c.data)).schema(nullptr);
    const auto index_of = [&](const std::string& name) {
      int index = 0;
      for (const InputSpec& in : c.schema.inputs) {
        if (in.name == name) return index;
        if (in.role != Role::state) ++index;
      }
      return -1;
    };
    MomLayout layout;
    layout.shared = c.sizes['R'] > c.sizes['M'];
    for (const InputSpec& in : inner.inputs) {
      if (!is_bare(in)) continue;
      MomLayout::Source source;
      source.param = in.role != Role::token;
      source.is_key = in.name == "k";
      source.mem = index_of(source.param ? in.name : in.name + "_mem");
      if (!source.param) source.shared = index_of(in.name + "_shared");
      layout.sources.push_back(source);
    }
    return layout;
  }

  template <class Real>
  static Engine<Real> make(const ValidCase& c);
};

/// The virtual functions after `unprepare` are the rules of the mixture; the fault dictionary
/// overrides one at a time.
template <class Real>
class MomRecurrence : public Recurrence<Real> {
 public:
  MomRecurrence(std::unique_ptr<Update<Real>> update, const ValidCase& c)
      : update_(std::move(update)),
        layout_(Mom::layout(c)),
        scale_(readout_scale<Real>(c)),
        eps_(fn::from_double<Real>(*option_real(c, "l2norm_eps"))),
        normalise_(option_bool(c, "qk_l2norm")),
        M_(c.sizes['M']),
        R_(c.sizes['R']),
        top_k_(Mom::checked_top_k(c)) {}

  bool splits_columns() const override { return true; }

  /// One slot per selected memory and one for the shared one; one per memory in the chunk form.
  std::int64_t saved_size(const Context<Real>& c, std::int64_t count) const override {
    if (c.form != Form::recurrent) return R_ * update_->chunk_saved_size(c, count);
    return (top_k_ + 1) * update_->saved_size(c);
  }

  void forward(Context<Real>& c, const Block<Real>& x, std::int64_t count, Real* state,
               const Block<Real>& out, Real* saved) const override {
    if (c.form != Form::recurrent) return chunk(c, x, count, state, out, saved);
    const std::int64_t slot = update_->saved_size(c);
    const Routing route = routing(x);
    Real* o = out(0);
    for (std::int64_t j = 0; c.readout && j < c.V; ++j) o[j] = 0;
    for (std::size_t i = 0; i < route.memories.size(); ++i) {
      const std::int64_t m = route.memories[i];
      std::vector<Real> parts = load(c, state, m);
      update_->step(c, written(c, x, m, route.weights[i]), parts.data(), saved + i * slot);
      store(c, parts, state, m);
      if (!c.readout) continue;
      Real* weighted_q = c.arena->zeros(c.K);
      la::axpy(c.K, route.weights[i], x(Mom::q), weighted_q);
      la::gemv_t_add(c.K, c.V, parts.data(), weighted_q, o);
    }
    if (c.readout) la::scale(c.V, scale_, o);
  }

  void adjoint(Context<Real>& c, const Block<Real>& x, std::int64_t count, const Real* state_prev,
               const Real* state, const Real* saved, const Block<Real>& d_out, Real* d_state,
               const Block<Real>& d_x) const override {
    if (c.form != Form::recurrent) {
      return chunk_adjoint(c, x, count, state_prev, saved, d_out, d_state, d_x);
    }
    const std::int64_t slot = update_->saved_size(c);
    const Routing route = routing(x);
    Real* u = c.arena->zeros(c.V);
    la::axpy(c.V, scale_, d_out(0), u);
    std::vector<Real> d_weights(route.chosen.size());
    for (std::size_t i = 0; i < route.memories.size(); ++i) {
      const std::int64_t m = route.memories[i];
      const std::vector<Real> before = load(c, state_prev, m), after = load(c, state, m);
      std::vector<Real> d_parts = load(c, d_state, m);
      Real* weighted_u = c.arena->zeros(c.V);
      la::axpy(c.V, route.weights[i], u, weighted_u);
      la::gemv_add(c.K, c.V, after.data(), weighted_u, d_x(Mom::q));
      la::ger_add(c.K, c.V, x(Mom::q), weighted_u, d_parts.data());
      if (i < d_weights.size()) {
        Real* read = c.arena->zeros(c.V);
        la::gemv_t_add(c.K, c.V, after.data(), x(Mom::q), read);
        la::dot_add(d_weights[i], c.V, u, 1, read, 1);
      }
      update_->adjoint_step(c, fields(x, m), before.data(), after.data(), saved + i * slot,
                            d_parts.data(), fields(d_x, m));
      store(c, d_parts, d_state, m);
    }
    logits_adjoint(route, x, d_weights, d_x(Mom::router_logits));
  }

  /// Norms of q, then of the keys that are used: [steps, (top_k + 1) J]. Keys of memories that are
  /// not selected stay as they are; nothing reads them.
  void prepare(Context<Real>& c, const Block<Real>& x, std::int64_t steps,
               std::vector<Real>& tape) const override {
    if (!normalise_) return;
    walk_keys(c, x, steps, [&](Real* row, std::int64_t rows, const char* name) {
      const std::size_t at = tape.size();
      tape.resize(at + rows);
      l2norm_rows(rows, c.K, eps_, row, tape.data() + at, name);
    });
  }
  void unprepare(Context<Real>& c, const Block<Real>& x, std::int64_t steps,
                 const std::vector<Real>& tape, const Block<Real>& d_x) const override {
    if (!normalise_) return;
    std::vector<Real*> d_rows;
    walk_keys(c, d_x, x, steps,
              [&](Real* row, std::int64_t, const char*) { d_rows.push_back(row); });
    std::size_t at = 0, index = 0;
    walk_keys(c, x, steps, [&](Real* row, std::int64_t rows, const char*) {
      l2norm_rows_adjoint(rows, c.K, row, tape.data() + at, d_rows[index++]);
      at += rows;
    });
  }

 protected:
  struct Routing {
    std::vector<std::int64_t> chosen, memories;  // memories: chosen, then the shared one
    std::vector<Real> softmax, weights;          // weights: softmax, then 1
  };

  virtual Routing routing(const Block<Real>& x, std::int64_t s = 0) const {
    Routing r;
    r.chosen = select_top_k(M_, top_k_, x(Mom::router_logits, s));
    r.softmax = softmax_over(r.chosen, x(Mom::router_logits, s));
    r.memories = r.chosen;
    r.weights = r.softmax;
    if (layout_.shared) {
      r.memories.push_back(M_);
      r.weights.push_back(Real(1));
    }
    return r;
  }

  /// What is written into memory m, which is read with `weight`.
  virtual Fields<Real> written(Context<Real>&, const Block<Real>& x, std::int64_t m,
                               const Real& /*weight*/) const {
    return fields(x, m);
  }

  virtual void logits_adjoint(const Routing& route, const Block<Real>&,
                              const std::vector<Real>& d_weights, Real* d_logits) const {
    softmax_adjoint(route.chosen, route.softmax, d_weights, d_logits);
  }

  Fields<Real> fields(const Block<Real>& x, std::int64_t m, std::int64_t s = 0) const {
    Fields<Real> f{};
    for (std::size_t i = 0; i < layout_.sources.size(); ++i) {
      const MomLayout::Source& source = layout_.sources[i];
      if (source.param) {
        f[i] = x(source.mem);
      } else if (m == M_) {
        f[i] = x(source.shared, s);
      } else {
        f[i] = x(source.mem, s) + m * (x.width(source.mem) / M_);
      }
    }
    return f;
  }

  // ---- The chunk form --------------------------------------------------------------------------

  /// What one memory is given of a chunk: the inputs of its update, q first, side by side.
  struct Share {
    std::vector<std::int64_t> steps, slots;  // of the chunk; of the routing at that step
    std::vector<std::vector<Real>> storage;
    std::vector<LocalInput<Real>> inputs;
    std::int64_t count() const { return static_cast<std::int64_t>(steps.size()); }
    Block<Real> block() const { return Block<Real>(&inputs, 0); }
  };

  std::vector<Routing> routings(const Block<Real>& x, std::int64_t count) const {
    std::vector<Routing> all;
    for (std::int64_t s = 0; s < count; ++s) all.push_back(routing(x, s));
    return all;
  }

  std::int64_t width_of(const Block<Real>& x, int input, std::int64_t m) const {
    if (input == 0) return x.width(Mom::q);
    const MomLayout::Source& source = layout_.sources[input - 1];
    if (source.param) return x.width(source.mem);
    return m == M_ ? x.width(source.shared) : x.width(source.mem) / M_;
  }

  /// The rows of input `input` of the update at step s for memory m.
  Real* row(const Block<Real>& x, int input, std::int64_t m, std::int64_t s) const {
    return input == 0 ? x(Mom::q, s) : fields(x, m, s)[input - 1];
  }

  Share share(const Block<Real>& x, const std::vector<Routing>& routes, std::int64_t m,
              bool zeros) const {
    Share out;
    for (std::size_t s = 0; s < routes.size(); ++s) {
      for (std::size_t i = 0; i < routes[s].memories.size(); ++i) {
        if (routes[s].memories[i] != m) continue;
        out.steps.push_back(static_cast<std::int64_t>(s));
        out.slots.push_back(static_cast<std::int64_t>(i));
      }
    }
    const int inputs = 1 + static_cast<int>(layout_.sources.size());
    out.storage.resize(inputs);
    for (int i = 0; i < inputs; ++i) {
      const std::int64_t width = width_of(x, i, m);
      const bool param = i > 0 && layout_.sources[i - 1].param;
      std::vector<Real>& rows = out.storage[i];
      rows.assign(width * (param ? 1 : out.count()), Real(0));
      for (std::int64_t n = 0; !zeros && n < (param ? 1 : out.count()); ++n) {
        std::copy_n(row(x, i, m, param ? 0 : out.steps[n]), width, rows.data() + n * width);
      }
    }
    for (int i = 0; i < inputs; ++i) {
      const bool param = i > 0 && layout_.sources[i - 1].param;
      out.inputs.push_back({out.storage[i].data(), width_of(x, i, m), !param});
    }
    return out;
  }

  void chunk(Context<Real>& c, const Block<Real>& x, std::int64_t count, Real* state,
             const Block<Real>& out, Real* saved) const {
    const std::vector<Routing> routes = routings(x, count);
    const std::int64_t slot = update_->chunk_saved_size(c, count);
    Real* o = out(0);
    for (std::int64_t j = 0; c.readout && j < count * c.V; ++j) o[j] = 0;
    for (std::int64_t m = 0; m < R_; ++m) {
      const Share own = share(x, routes, m, false);
      if (own.count() == 0) continue;
      std::vector<Real> parts = load(c, state, m), read(own.count() * c.V, Real(0));
      update_->chunk(c, own.block(), own.count(), parts.data(), c.readout ? read.data() : nullptr,
                     saved + m * slot);
      store(c, parts, state, m);
      for (std::int64_t n = 0; c.readout && n < own.count(); ++n) {
        la::axpy(c.V, routes[own.steps[n]].weights[own.slots[n]], read.data() + n * c.V,
                 o + own.steps[n] * c.V);
      }
    }
    if (c.readout) la::scale(count * c.V, scale_, o);
  }

  void chunk_adjoint(Context<Real>& c, const Block<Real>& x, std::int64_t count,
                     const Real* state_prev, const Real* saved, const Block<Real>& d_out,
                     Real* d_state, const Block<Real>& d_x) const {
    const std::vector<Routing> routes = routings(x, count);
    const std::int64_t slot = update_->chunk_saved_size(c, count);
    std::vector<Real> u(count * c.V, Real(0));
    la::axpy(count * c.V, scale_, d_out(0), u.data());
    std::vector<std::vector<Real>> d_weights;
    for (const Routing& r : routes) d_weights.emplace_back(r.chosen.size(), Real(0));
    for (std::int64_t m = 0; m < R_; ++m) {
      const Share own = share(x, routes, m, false), d_own = share(x, routes, m, true);
      if (own.count() == 0) continue;
      const std::vector<Real> before = load(c, state_prev, m);
      std::vector<Real> parts = before, d_parts = load(c, d_state, m);
      std::vector<Real> read(own.count() * c.V, Real(0)), d_read(own.count() * c.V, Real(0));
      std::vector<Real> again(slot, Real(0));
      update_->chunk(c, own.block(), own.count(), parts.data(), read.data(), again.data());
      for (std::int64_t n = 0; n < own.count(); ++n) {
        const std::int64_t s = own.steps[n], i = own.slots[n];
        la::axpy(c.V, routes[s].weights[i], u.data() + s * c.V, d_read.data() + n * c.V);
        if (i >= static_cast<std::int64_t>(d_weights[s].size())) continue;
        la::dot_add(d_weights[s][i], c.V, u.data() + s * c.V, 1, read.data() + n * c.V, 1);
      }
      update_->chunk_adjoint(c, own.block(), own.count(), before.data(), saved + m * slot,
                             d_read.data(), d_parts.data(), d_own.block());
      store(c, d_parts, d_state, m);
      for (std::size_t i = 0; i < d_own.inputs.size(); ++i) {
        const LocalInput<Real>& d = d_own.inputs[i];
        const int input = static_cast<int>(i);
        for (std::int64_t n = 0; n < (d.per_token ? own.count() : 1); ++n) {
          la::axpy(d.width, Real(1), d.at(n), row(d_x, input, m, own.steps[n]));
        }
      }
    }
    for (std::int64_t s = 0; s < count; ++s) {
      logits_adjoint(routes[s], x.from(s), d_weights[s], d_x(Mom::router_logits, s));
    }
  }

  template <class Visit>
  void walk_keys(Context<Real>& c, const Block<Real>& x, std::int64_t steps, Visit visit) const {
    walk_keys(c, x, x, steps, visit);
  }
  // Visits q and the keys in use, in `data`, as `inputs` route them.
  template <class Visit>
  void walk_keys(Context<Real>& c, const Block<Real>& data, const Block<Real>& inputs,
                 std::int64_t steps, Visit visit) const {
    for (std::int64_t s = 0; s < steps; ++s) {
      visit(data(Mom::q, s), 1, "q");
      for (std::size_t i = 0; i < layout_.sources.size(); ++i) {
        const MomLayout::Source& source = layout_.sources[i];
        if (!source.is_key) continue;
        const std::int64_t rows = data.width(source.mem) / M_ / c.K;
        for (std::int64_t m : routing(inputs, s).memories) {
          visit(fields(data, m, s)[i], rows, m == M_ ? "k_shared" : "k_mem");
        }
      }
    }
  }

  // The state tensors are [R,K,V] each; the update wants the parts of one memory side by side.
  std::vector<Real> load(const Context<Real>& c, const Real* state, std::int64_t m) const {
    const std::int64_t KV = c.K * c.V;
    std::vector<Real> parts;
    parts.reserve(update_->state_count() * KV);
    for (int p = 0; p < update_->state_count(); ++p) {
      const Real* part = state + (p * R_ + m) * KV;
      parts.insert(parts.end(), part, part + KV);
    }
    return parts;
  }
  void store(const Context<Real>& c, const std::vector<Real>& parts, Real* state,
             std::int64_t m) const {
    const std::int64_t KV = c.K * c.V;
    for (int p = 0; p < update_->state_count(); ++p) {
      std::copy_n(parts.data() + p * KV, KV, state + (p * R_ + m) * KV);
    }
  }

  std::unique_ptr<Update<Real>> update_;
  MomLayout layout_;
  Real scale_, eps_;
  bool normalise_;
  std::int64_t M_, R_, top_k_;
};

template <class Real>
Engine<Real> Mom::make(const ValidCase& c) {
  Engine<Real> engine;
  auto update = make_engine<Real>(find_operation(update_name(&c.data)), c).update;
  engine.recurrence = std::make_unique<MomRecurrence<Real>>(std::move(update), c);
  return engine;
}

}  // namespace assay

ASSAY_OPERATION(Mom, mom)
