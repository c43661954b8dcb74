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
// In the chunk form each memory runs the chunk form of its update over its own tokens, C at a time:
// a kernel packs them so.
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
    if (inner.find_option("chunk")) s.forms = {Form::recurrent, Form::chunk};
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
        top_k_(Mom::checked_top_k(c)),
        chunk_(c.schema.find_option("chunk") ? option_int(c, "chunk") : 1) {}

  bool splits_columns() const override { return true; }

  bool chunks_itself() const override { return true; }

  /// One slot per selected memory and one for the shared one. Chunks are computed again.
  std::int64_t saved_size(const Context<Real>& c, std::int64_t) const override {
    if (c.form != Form::recurrent) return 0;
    return (top_k_ + 1) * update_->saved_size(c);
  }

  void forward(Context<Real>& c, const Block<Real>& x, std::int64_t count, Real* state,
               const Block<Real>& out, Real* saved) const override {
    if (c.form != Form::recurrent) return forward_chunks(c, x, count, state, out);
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
      return adjoint_chunks(c, x, count, state_prev, d_out, d_state, d_x);
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

  /// Up to C tokens that one memory gets, one behind the other, as the update's own inputs.
  struct Segment {
    std::vector<std::int64_t> steps;
    std::vector<std::size_t> ranks;  // of the memory among the token's memories
    std::vector<std::vector<Real>> data;
    std::vector<LocalInput<Real>> inputs;  // q, then the update's
    std::int64_t size() const { return static_cast<std::int64_t>(steps.size()); }
    Block<Real> block() const { return Block<Real>(&inputs, 0); }
  };
  std::vector<Segment> segments(Context<Real>& c, const Block<Real>& x,
                                const std::vector<Routing>& routes, std::int64_t m) const {
    std::vector<Segment> all;
    for (std::size_t s = 0; s < routes.size(); ++s) {
      const std::vector<std::int64_t>& memories = routes[s].memories;
      const auto found = std::find(memories.begin(), memories.end(), m);
      if (found == memories.end()) continue;
      if (all.empty() || all.back().size() == chunk_) all.emplace_back();
      all.back().steps.push_back(static_cast<std::int64_t>(s));
      all.back().ranks.push_back(found - memories.begin());
    }
    for (Segment& g : all) fill(c, x, routes, m, g);
    return all;
  }
  void fill(Context<Real>& c, const Block<Real>& x, const std::vector<Routing>& routes,
            std::int64_t m, Segment& g) const {
    g.data.resize(1 + layout_.sources.size());
    for (std::size_t j = 0; j < g.steps.size(); ++j) {
      const Block<Real> at = x.from(g.steps[j]);
      const Fields<Real> f = written(c, at, m, routes[g.steps[j]].weights[g.ranks[j]]);
      g.data[0].insert(g.data[0].end(), at(Mom::q), at(Mom::q) + c.K);
      for (std::size_t i = 0; i < layout_.sources.size(); ++i) {
        const std::int64_t width = source_width(x, i, m);
        if (layout_.sources[i].param && j > 0) continue;
        g.data[1 + i].insert(g.data[1 + i].end(), f[i], f[i] + width);
      }
    }
    describe(c, x, m, g);
  }
  /// Zeros of the same layout, for cotangents.
  Segment cotangents_like(const Context<Real>& c, const Block<Real>& x, std::int64_t m,
                          const Segment& given) const {
    Segment g;
    g.steps = given.steps;
    for (const std::vector<Real>& data : given.data) g.data.emplace_back(data.size());
    describe(c, x, m, g);
    return g;
  }
  void describe(const Context<Real>& c, const Block<Real>& x, std::int64_t m, Segment& g) const {
    g.inputs = {{g.data[0].data(), c.K, true}};
    for (std::size_t i = 0; i < layout_.sources.size(); ++i) {
      g.inputs.push_back({g.data[1 + i].data(), source_width(x, i, m), !layout_.sources[i].param});
    }
  }
  std::int64_t source_width(const Block<Real>& x, std::size_t i, std::int64_t m) const {
    const MomLayout::Source& source = layout_.sources[i];
    if (source.param) return x.width(source.mem);
    return m == M_ ? x.width(source.shared) : x.width(source.mem) / M_;
  }
  std::vector<Routing> routings(const Block<Real>& x, std::int64_t count) const {
    std::vector<Routing> routes;
    for (std::int64_t s = 0; s < count; ++s) routes.push_back(routing(x, s));
    return routes;
  }

  void forward_chunks(Context<Real>& c, const Block<Real>& x, std::int64_t count, Real* state,
                      const Block<Real>& out) const {
    const std::vector<Routing> routes = routings(x, count);
    Real* o = out(0);
    for (std::int64_t j = 0; c.readout && j < count * c.V; ++j) o[j] = 0;
    std::vector<Real> saved(update_->chunk_saved_size(c, chunk_));
    for (std::int64_t m = 0; m < R_; ++m) {
      std::vector<Real> parts = load(c, state, m);
      for (const Segment& g : segments(c, x, routes, m)) {
        std::vector<Real> read(c.readout ? g.size() * c.V : 0);
        update_->chunk(c, g.block(), g.size(), parts.data(), c.readout ? read.data() : nullptr,
                       saved.data());
        for (std::int64_t j = 0; c.readout && j < g.size(); ++j) {
          const Real& weight = routes[g.steps[j]].weights[g.ranks[j]];
          la::axpy(c.V, weight, read.data() + j * c.V, o + g.steps[j] * c.V);
        }
      }
      store(c, parts, state, m);
    }
    if (c.readout) la::scale(count * c.V, scale_, o);
  }

  void adjoint_chunks(Context<Real>& c, const Block<Real>& x, std::int64_t count,
                      const Real* state_prev, const Block<Real>& d_out, Real* d_state,
                      const Block<Real>& d_x) const {
    const std::vector<Routing> routes = routings(x, count);
    std::vector<Real> u(count * c.V);
    la::axpy(count * c.V, scale_, d_out(0), u.data());
    std::vector<std::vector<Real>> d_weights(count);
    for (std::int64_t s = 0; s < count; ++s) d_weights[s].resize(routes[s].chosen.size());
    std::vector<Real> saved(update_->chunk_saved_size(c, chunk_));
    for (std::int64_t m = 0; m < R_; ++m) {
      const std::vector<Segment> all = segments(c, x, routes, m);
      std::vector<std::vector<Real>> before = {load(c, state_prev, m)};
      for (std::size_t n = 0; n + 1 < all.size(); ++n) {
        std::vector<Real> parts = before.back();
        update_->chunk(c, all[n].block(), all[n].size(), parts.data(), nullptr, saved.data());
        before.push_back(std::move(parts));
      }
      std::vector<Real> d_parts = load(c, d_state, m);
      for (std::size_t n = all.size(); n-- > 0;) {
        const Segment& g = all[n];
        std::vector<Real> after = before[n], read(g.size() * c.V), d_read(g.size() * c.V);
        update_->chunk(c, g.block(), g.size(), after.data(), read.data(), saved.data());
        for (std::int64_t j = 0; j < g.size(); ++j) {
          const std::int64_t s = g.steps[j];
          la::axpy(c.V, routes[s].weights[g.ranks[j]], u.data() + s * c.V, d_read.data() + j * c.V);
          if (m == M_) continue;
          la::dot_add(d_weights[s][g.ranks[j]], c.V, u.data() + s * c.V, 1, read.data() + j * c.V,
                      1);
        }
        const Segment d = cotangents_like(c, x, m, g);
        update_->chunk_adjoint(c, g.block(), g.size(), before[n].data(), saved.data(),
                               d_read.data(), d_parts.data(), d.block());
        add_inputs(c, d_x, m, d);
      }
      store(c, d_parts, d_state, m);
    }
    for (std::int64_t s = 0; s < count; ++s) {
      logits_adjoint(routes[s], x.from(s), d_weights[s], d_x(Mom::router_logits, s));
    }
  }

  /// Adds the cotangents of one memory's inputs to those of the tokens.
  void add_inputs(const Context<Real>& c, const Block<Real>& d_x, std::int64_t m,
                  const Segment& d) const {
    for (std::int64_t j = 0; j < d.size(); ++j) {
      const std::int64_t s = d.steps[j];
      const Fields<Real> to = fields(d_x, m, s);
      for (std::int64_t k = 0; k < c.K; ++k) d_x(Mom::q, s)[k] += d.data[0][j * c.K + k];
      for (std::size_t i = 0; i < layout_.sources.size(); ++i) {
        if (layout_.sources[i].param && j > 0) continue;
        const std::int64_t width = source_width(d_x, i, m);
        for (std::int64_t k = 0; k < width; ++k) to[i][k] += d.data[1 + i][j * width + k];
      }
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
  std::int64_t M_, R_, top_k_, chunk_;
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
