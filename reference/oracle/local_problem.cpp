#include "reference/oracle/local_problem.hpp"

#include <algorithm>

#include "reference/scalars/bounded.hpp"
#include "reference/scalars/scalars.hpp"

namespace assay {
namespace {

// Column blocks let a case with one or two heads use all cores. The number depends on the shapes
// only, so that the order of every sum, and so every bit, is independent of the machine.
std::int64_t column_blocks(std::int64_t units, std::int64_t V) {
  constexpr std::int64_t kEnoughUnits = 8, kSmallestBlock = 32;
  if (units <= 0 || units >= kEnoughUnits) return 1;
  return std::clamp<std::int64_t>(V / kSmallestBlock, 1, (kEnoughUnits + units - 1) / units);
}

}  // namespace

std::vector<Unit> make_units(const ValidCase& c, bool split) {
  const std::int64_t sequences = c.sequences();
  const bool heads = c.schema.heads_are_independent && c.sizes.has(c.schema.head_axis);
  const std::int64_t H = heads ? c.sizes[c.schema.head_axis] : 1;
  const bool has_columns = c.sizes.has('V');
  const std::int64_t V = has_columns ? c.sizes['V'] : -1;
  const std::int64_t blocks = split && has_columns ? column_blocks(sequences * H, V) : 1;
  std::vector<Unit> units;
  for (std::int64_t s = 0; s < sequences; ++s) {
    for (std::int64_t h = 0; h < H; ++h) {
      for (std::int64_t n = 0; n < blocks; ++n) {
        Unit u;
        u.sequence = s;
        u.head = h;
        u.batch = c.packed() ? 0 : s;
        u.start = c.packed() ? c.cu_seqlens[s] : 0;
        u.steps = c.packed() ? c.cu_seqlens[s + 1] - u.start : c.sizes['T'];
        u.first_column = has_columns ? n * V / blocks : 0;
        u.columns = has_columns ? (n + 1) * V / blocks - u.first_column : -1;
        units.push_back(u);
      }
    }
  }
  return units;
}

LocalLayout::LocalLayout(const ValidCase& c, const Shape& shape, const std::string& axes, Role role,
                         const Unit& unit) {
  const std::size_t rank = axes.size();
  std::vector<std::int64_t> stride(rank, 1);
  for (std::size_t a = rank; a-- > 1;) stride[a - 1] = stride[a] * shape[a];

  std::vector<std::size_t> inner;
  for (std::size_t a = 0; a < rank; ++a) {
    const char letter = axes[a];
    if (letter == 'B') {
      base += (role == Role::state ? unit.sequence : unit.batch) * stride[a];
    } else if (letter == 'T') {
      time_stride = stride[a];
      base += unit.start * stride[a];
    } else if (letter == c.schema.head_axis && c.schema.heads_are_independent) {
      base += unit.head / (c.sizes[letter] / shape[a]) * stride[a];
    } else {
      inner.push_back(a);
    }
  }
  local.assign(1, 0);
  for (std::size_t a : inner) {
    const bool columns = axes[a] == 'V' && axes.find('V') == axes.rfind('V');
    const std::int64_t first = columns ? unit.first_column : 0;
    const std::int64_t n = columns ? unit.columns : shape[a];
    std::vector<std::int64_t> next;
    next.reserve(local.size() * n);
    for (std::int64_t offset : local) {
      for (std::int64_t i = 0; i < n; ++i) next.push_back(offset + (first + i) * stride[a]);
    }
    local = std::move(next);
  }
}

template <class Real>
LocalProblem<Real>::LocalProblem(const Problem<Real>& problem, const Recurrence<Real>& recurrence,
                                 const Unit& unit, Form form)
    : problem_(problem), unit_(unit) {
  const ValidCase& c = *problem.valid;
  context_.problem = &c;
  context_.K = c.sizes.has('K') ? c.sizes['K'] : 0;
  context_.V = unit.columns < 0 ? 0 : unit.columns;
  context_.first_column = unit.first_column;
  context_.form = form;
  context_.arena = &arena_;
  gather_inputs();
  gather_outputs();
  const std::int64_t hidden = recurrence.hidden_state_size(context_);
  state0_.resize(state0_.size() + hidden);
  d_final_.resize(d_final_.size() + hidden);
  recurrence.prepare(context_, inputs(0), unit.steps, tape_);
}

template <class Real>
void LocalProblem<Real>::gather_inputs() {
  const ValidCase& c = *problem_.valid;
  for (const InputSpec& spec : c.schema.inputs) {
    const bool is_state = spec.role == Role::state;
    auto found = problem_.inputs.find(spec.name);
    Slot slot{&spec, nullptr, false};
    if (found == problem_.inputs.end() && !spec.log_name.empty()) {
      found = problem_.inputs.find(spec.log_name);
      slot.is_log = found != problem_.inputs.end();
    }
    if (found != problem_.inputs.end()) slot.tensor = &found->second;

    const Shape shape = slot.tensor ? slot.tensor->shape : c.input_shape(spec);
    const LocalLayout layout(c, shape, spec.axes, spec.role, unit_);
    const std::int64_t width = static_cast<std::int64_t>(layout.local.size());
    const std::int64_t steps = spec.role == Role::token ? unit_.steps : 1;
    std::vector<Real> values(width * steps);
    const Real missing = fn::from_double<Real>(spec.default_value);
    for (std::int64_t t = 0; t < steps; ++t) {
      for (std::int64_t j = 0; j < width; ++j) {
        Real& value = values[t * width + j];
        if (!slot.tensor) {
          value = missing;
          continue;
        }
        value = slot.tensor->data[layout.base + t * layout.time_stride + layout.local[j]];
        if (slot.is_log) value = fn::exp(value);
      }
    }
    if (is_state) {
      state_slots_.push_back(slot);
      state0_.insert(state0_.end(), values.begin(), values.end());
      continue;
    }
    slots_.push_back(slot);
    storage_.push_back(std::move(values));
    fields_.push_back({storage_.back().data(), width, spec.role == Role::token});
  }
  // Moving a vector keeps its buffer, so the pointers above stay valid.
}

template <class Real>
void LocalProblem<Real>::gather_outputs() {
  const ValidCase& c = *problem_.valid;
  for (const OutputSpec& spec : c.schema.outputs) {
    const Shape shape = c.output_shape(spec);
    const Role role = spec.final_state ? Role::state : Role::token;
    const LocalLayout layout(c, shape, spec.axes, role, unit_);
    const std::int64_t width = static_cast<std::int64_t>(layout.local.size());
    const std::int64_t steps = spec.final_state ? 1 : unit_.steps;
    std::vector<Real> cotangent(width * steps);
    auto found = problem_.cotangents.find(spec.name);
    if (found != problem_.cotangents.end()) {
      for (std::int64_t t = 0; t < steps; ++t) {
        for (std::int64_t j = 0; j < width; ++j) {
          cotangent[t * width + j] =
              found->second.data[layout.base + t * layout.time_stride + layout.local[j]];
        }
      }
    }
    if (spec.final_state) {
      d_final_.insert(d_final_.end(), cotangent.begin(), cotangent.end());
      continue;
    }
    out_storage_.emplace_back(width * steps);
    d_out_storage_.push_back(std::move(cotangent));
    out_.push_back({out_storage_.back().data(), width, true});
    d_out_.push_back({d_out_storage_.back().data(), width, true});
  }
}

template <class Real>
void LocalProblem<Real>::start_gradients() {
  d_storage_.clear();
  d_fields_.clear();
  for (std::size_t i = 0; i < storage_.size(); ++i) {
    d_storage_.emplace_back(storage_[i].size());
    d_fields_.push_back({d_storage_.back().data(), fields_[i].width, fields_[i].per_token});
  }
}

template <class Real>
void LocalProblem<Real>::finish_gradients(const Recurrence<Real>& recurrence) {
  recurrence.unprepare(context_, inputs(0), unit_.steps, tape_, gradients(0));
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].is_log) continue;
    // alpha = exp(log_alpha): d log_alpha = alpha d alpha, and 0 at log_alpha = -inf.
    for (std::size_t j = 0; j < storage_[i].size(); ++j) {
      if (fn::is_zero(storage_[i][j])) {
        d_storage_[i][j] = 0;
      } else {
        d_storage_[i][j] *= storage_[i][j];
      }
    }
  }
}

template <class Real>
void LocalProblem<Real>::store_outputs(const std::vector<Real>& final_state,
                                       Result<Real>& result) const {
  const ValidCase& c = *problem_.valid;
  std::size_t step_output = 0;
  std::int64_t state_offset = 0;
  for (const OutputSpec& spec : c.schema.outputs) {
    Tensor<Real>& target = result.outputs.at(spec.name);
    const Role role = spec.final_state ? Role::state : Role::token;
    const LocalLayout layout(c, target.shape, spec.axes, role, unit_);
    const std::int64_t width = static_cast<std::int64_t>(layout.local.size());
    const std::int64_t steps = spec.final_state ? 1 : unit_.steps;
    const Real* source =
        spec.final_state ? final_state.data() + state_offset : out_storage_[step_output].data();
    for (std::int64_t t = 0; t < steps; ++t) {
      for (std::int64_t j = 0; j < width; ++j) {
        target.data[layout.base + t * layout.time_stride + layout.local[j]] = source[t * width + j];
      }
    }
    if (spec.final_state) {
      state_offset += width;
    } else {
      ++step_output;
    }
  }
}

template <class Real>
void LocalProblem<Real>::add_gradients(const std::vector<Real>& d_state0,
                                       Result<Real>& result) const {
  const ValidCase& c = *problem_.valid;
  auto add = [&](const Slot& slot, const Real* source, std::int64_t steps) {
    const std::string& name = slot.is_log ? slot.spec->log_name : slot.spec->name;
    auto target = result.gradients.find(name);
    const Shape shape = slot.tensor ? slot.tensor->shape : c.input_shape(*slot.spec);
    const LocalLayout layout(c, shape, slot.spec->axes, slot.spec->role, unit_);
    const std::int64_t width = static_cast<std::int64_t>(layout.local.size());
    if (target != result.gradients.end()) {
      for (std::int64_t t = 0; t < steps; ++t) {
        for (std::int64_t j = 0; j < width; ++j) {
          target->second.data[layout.base + t * layout.time_stride + layout.local[j]] +=
              source[t * width + j];
        }
      }
    }
    return width;
  };
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    add(slots_[i], d_storage_[i].data(), slots_[i].spec->role == Role::token ? unit_.steps : 1);
  }
  std::int64_t offset = 0;
  for (const Slot& slot : state_slots_) offset += add(slot, d_state0.data() + offset, 1);
}

template <class Real>
void LocalProblem<Real>::drop_inputs() {
  storage_.clear();
  out_storage_.clear();
  d_out_storage_.clear();
  tape_.clear();
  arena_ = Arena<Real>();
}

#define ASSAY_INSTANTIATE(Real) template class LocalProblem<Real>;
ASSAY_FOR_EACH_SCALAR(ASSAY_INSTANTIATE)
#undef ASSAY_INSTANTIATE
template class LocalProblem<Bounded>;

}  // namespace assay
