// Faults of cumulative decays: which steps they take in.
#include "checks/faults/entry.hpp"
#include "checks/faults/facts.hpp"
#include "checks/faults/rearrange.hpp"

namespace assay {
namespace {

/// Flat steps b T + t that are followed by their predecessor's decay: source[t] = t - 1 inside a
/// chunk, -1 at its start.
std::vector<std::int64_t> steps_before(const ValidCase& c) {
  std::vector<std::int64_t> source(c.sizes['B'] * c.sizes['T']);
  for (const facts::Sequence& s : facts::sequences(c)) {
    for (std::int64_t t = 0; t < s.steps; ++t) {
      const std::int64_t row = s.batch * c.sizes['T'] + s.start + t;
      source[row] = t % facts::chunk(c) == 0 ? -1 : row - 1;
    }
  }
  return source;
}

/// "alpha" and its like, given by step.
bool is_cumulative(const ValidCase& c, const std::string& name) {
  const InputSpec* in = c.schema.find_input(name);
  return in != nullptr && in->role == Role::token && facts::base_name(in->name) == "alpha";
}

/// The cumulative decay of a chunk leaves out the step itself: every step decays by its
/// predecessor's gate, the first of a chunk not at all.
struct DecayExclusive {
  template <class Real>
  Result<Real> operator()(Problem<Real> problem, const RunOptions& options) const {
    const ValidCase& c = *problem.valid;
    const std::vector<std::int64_t> source = steps_before(c);
    for (auto& [name, t] : problem.inputs) {
      if (!is_cumulative(c, name)) continue;
      const bool linear = c.schema.find_input(name)->name == name;
      const std::int64_t width = step_width(t.shape);
      const std::vector<Real> old = t.data;
      for (std::size_t row = 0; row < source.size(); ++row) {
        for (std::int64_t i = 0; i < width; ++i) {
          t.data[row * width + i] =
              source[row] < 0 ? Real(linear ? 1 : 0) : old[source[row] * width + i];
        }
      }
    }
    Result<Real> result = evaluate(problem, options);
    for (auto& [name, t] : result.gradients) {
      if (!is_cumulative(c, name)) continue;
      const std::int64_t width = step_width(t.shape);
      std::vector<Real> given(t.data.size(), Real(0));
      for (std::size_t row = 0; row < source.size(); ++row) {
        for (std::int64_t i = 0; source[row] >= 0 && i < width; ++i) {
          given[source[row] * width + i] = t.data[row * width + i];
        }
      }
      t.data = given;
    }
    return result;
  }
};

bool shifted_decay_differs(const ValidCase& c) {
  if (!facts::is_matrix_memory(c)) return false;
  bool initial = false;
  for (const InputSpec& in : c.schema.inputs) {
    initial = initial || (in.role == Role::state && facts::has_value(c, in.name));
  }
  for (const InputSpec& in : c.schema.inputs) {
    if (!is_cumulative(c, in.name) || given_name(c.data, in).empty()) continue;
    const std::vector<double> alpha = facts::values(c, in.name);
    const std::vector<std::int64_t> source = steps_before(c);
    const std::int64_t width = source.empty() ? 0 : alpha.size() / source.size();
    for (const facts::Sequence& s : facts::sequences(c)) {
      // The first step of a sequence decays an initial state, if there is one.
      for (std::int64_t t = initial ? 0 : 1; t < s.steps; ++t) {
        const std::int64_t row = s.batch * c.sizes['T'] + s.start + t;
        for (std::int64_t i = 0; i < width; ++i) {
          const double before = source[row] < 0 ? 1 : alpha[source[row] * width + i];
          if (before != alpha[row * width + i]) return true;
        }
      }
    }
  }
  return false;
}

/// Every sequence with steps behind its end up to a full chunk: they repeat the last step, decays
/// included, and write nothing (v, beta and eta are 0).
ValidCase padded_to_chunks(const ValidCase& c) {
  ValidCase padded = c;
  const std::int64_t C = facts::chunk(c), T = c.sizes['T'];
  std::vector<std::int64_t> source, bounds = {0};
  std::vector<bool> is_padding;
  for (const facts::Sequence& s : facts::sequences(c)) {
    const std::int64_t full = (s.steps + C - 1) / C * C;
    for (std::int64_t t = 0; t < full; ++t) {
      source.push_back(s.batch * T + s.start + std::min(t, s.steps - 1));
      is_padding.push_back(t >= s.steps);
    }
    bounds.push_back(static_cast<std::int64_t>(source.size()));
  }
  const std::int64_t steps = static_cast<std::int64_t>(source.size()) / c.sizes['B'];
  padded.sizes.by_letter['T'] = steps;
  if (c.packed()) padded.cu_seqlens = bounds;
  for (const InputSpec& in : c.schema.inputs) {
    std::string name = given_name(c.data, in);
    if (in.role != Role::token) continue;
    const std::string base = facts::base_name(in.name);
    if (name.empty() && base != "eta") continue;
    if (name.empty()) {
      name = in.name;
      CaseTensor& ones = padded.data.tensors[name];
      ones.shape = c.input_shape(in);
      ones.values.assign(element_count(ones.shape), 1);
    }
    CaseTensor& t = padded.data.tensors.at(name);
    const std::int64_t width = step_width(t.shape);
    t.values = gather_rows(t.values, width, source);
    t.shape[1] = steps;
    const bool writes = base == "v" || base == "beta" || base == "eta";
    for (std::size_t row = 0; writes && row < source.size(); ++row) {
      if (is_padding[row]) std::fill_n(t.values.begin() + row * width, width, 0.0);
    }
  }
  return padded;
}

/// Final states after the padding; everything else is right.
struct TailChunkDecays {
  template <class Real>
  Result<Real> operator()(const Problem<Real>& problem, const RunOptions& options) const {
    const ValidCase& c = *problem.valid;
    Result<Real> result = evaluate(problem, options);
    ValidCase padded = padded_to_chunks(c);
    std::erase_if(padded.data.tensors,
                  [&](const auto& entry) { return c.schema.find_input(entry.first) == nullptr; });
    // A write strength of 0 is nothing for the log domain.
    const RunOptions forward{Form::recurrent, false, options.threads, {}};
    const Result<Real> end = evaluate(lift<Real>(padded), forward);
    for (const OutputSpec& out : c.schema.outputs) {
      if (out.final_state) result.outputs.at(out.name) = end.outputs.at(out.name);
    }
    return result;
  }
};

bool tail_decays(const ValidCase& c) {
  if (!facts::is_matrix_memory(c)) return false;
  const std::int64_t T = c.sizes['T'];
  for (const InputSpec& in : c.schema.inputs) {
    if (!facts::is_decay(in) || given_name(c.data, in).empty()) continue;
    const std::vector<double> decay = facts::values(c, in.name);
    const std::int64_t rows = in.role == Role::token ? c.sizes['B'] * T : 1;
    const std::int64_t width = rows == 0 ? 0 : decay.size() / rows;
    for (const facts::Sequence& s : facts::sequences(c)) {
      if (s.steps % facts::chunk(c) == 0) continue;
      const std::int64_t row = in.role == Role::token ? s.batch * T + s.start + s.steps - 1 : 0;
      for (std::int64_t i = 0; i < width; ++i) {
        if (decay[row * width + i] != 1) return true;
      }
    }
  }
  return false;
}

}  // namespace

void add_time_faults(FaultList& list) {
  add_fault(list, {"*.decay_exclusive", "the cumulative decay is off by one step", "class"},
            shifted_decay_differs, DecayExclusive{});
  add_fault(
      list,
      {"*.tail_chunk_decays", "padded steps of the last chunk decay the final state", "class"},
      tail_decays, TailChunkDecays{});
}

}  // namespace assay
