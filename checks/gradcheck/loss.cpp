#include "checks/gradcheck/loss.hpp"

#include <algorithm>
#include <cmath>

namespace assay {
namespace {

Ball pair(const Problem<Ball>& problem, const Result<Ball>& result) {
  Ball sum = 0;
  for (const auto& [name, v] : problem.cotangents) {
    const std::vector<Ball>& y = result.outputs.at(name).data;
    la::dot_add(sum, static_cast<long>(y.size()), v.data.data(), 1, y.data(), 1);
  }
  return sum;
}

}  // namespace

Loss::Loss(const CheckTask& task) : task_(task), point_(lift<Ball>(task.c)) {
  point_.cotangents.clear();
  for (const OutputSpec* output : differentiable_outputs(task.c)) {
    Stream random = task.stream("cotangent of " + output->name);
    Tensor<Ball> v(task.c.output_shape(*output));
    for (Ball& value : v.data) value = fn::from_double<Ball>(random.normal());
    point_.cotangents.emplace(output->name, std::move(v));
  }
}

Ball Loss::value(const Problem<Ball>& problem) const {
  return pair(problem, evaluate(task_.operation, problem, task_.run_options(false)));
}

Tensors Loss::gradients() const {
  return evaluate(task_.operation, point_, task_.run_options(true)).gradients;
}

UnitLoss::UnitLoss(const CheckTask& task, const Problem<Ball>& point)
    : task_(task), engine_(make_engine<Ball>(task.operation, task.c)) {
  const ValidCase& c = task.c;
  if (!engine_.whole) {
    units_ = make_units(c, task.form == Form::recurrent && engine_.recurrence->splits_columns());
  }
  for (const std::string& name : differentiable_inputs(c)) {
    const Tensor<Ball>& tensor = point.inputs.at(name);
    auto& readers = readers_[name];
    readers.resize(tensor.size());
    const InputSpec& spec = *c.schema.find_input(name);
    for (std::size_t u = 0; u < units_.size(); ++u) {
      const LocalLayout layout(c, tensor.shape, spec.axes, spec.role, units_[u]);
      const std::int64_t steps = spec.role == Role::token ? units_[u].steps : 1;
      for (std::int64_t t = 0; t < steps; ++t) {
        for (const std::int64_t offset : layout.local) {
          readers[layout.base + t * layout.time_stride + offset].push_back(static_cast<int>(u));
        }
      }
    }
  }
}

double UnitLoss::work() const {
  double work = 1;
  for (const Unit& unit : units_) {
    double width = 0;
    for (const InputSpec& spec : task_.c.schema.inputs) {
      const LocalLayout layout(task_.c, task_.c.input_shape(spec), spec.axes, spec.role, unit);
      width += static_cast<double>(layout.local.size());
    }
    work = std::max(work, width * static_cast<double>(unit.steps));
  }
  return work;
}

Ball UnitLoss::value(const Problem<Ball>& problem, const std::vector<int>& units) const {
  if (engine_.whole) {
    return pair(problem, evaluate(task_.operation, problem, task_.run_options(false)));
  }
  Ball sum = 0;
  for (const int u : units) sum += unit_value(problem, units_[u]);
  return sum;
}

Ball UnitLoss::unit_value(const Problem<Ball>& problem, const Unit& unit) const {
  const Recurrence<Ball>& recurrence = *engine_.recurrence;
  LocalProblem<Ball> local(problem, recurrence, unit, task_.form);
  Context<Ball>& context = local.context();
  const std::int64_t stride = task_.form == Form::recurrent ? 1 : option_int(task_.c, "chunk");
  std::vector<Ball> state = local.initial_state();
  std::vector<Ball> saved(recurrence.saved_size(context, stride));
  int outputs = 0;
  for (const OutputSpec& spec : task_.c.schema.outputs) outputs += spec.final_state ? 0 : 1;
  Ball sum = 0;
  for (std::int64_t t = 0; t < unit.steps; t += stride) {
    const std::int64_t count = std::min(stride, unit.steps - t);
    context.arena->release();
    recurrence.forward(context, local.inputs(t), count, state.data(), local.outputs(t),
                       saved.data());
    for (int i = 0; i < outputs; ++i) {
      const long n = static_cast<long>(count * local.outputs(t).width(i));
      la::dot_add(sum, n, local.cotangents(t)(i), 1, local.outputs(t)(i), 1);
    }
  }
  la::dot_add(sum, static_cast<long>(state.size()), local.final_cotangent().data(), 1, state.data(),
              1);
  return sum;
}

namespace {

// Good to far less than the slack that its callers add.
double log2_of(const mag_t bound) {
  if (mag_is_zero(bound)) return -kInf;
  return mag_is_inf(bound) ? kInf : mag_get_d_log2_approx(bound);
}

}  // namespace

double log2_lower(const Ball& x) {
  mag_t bound;
  mag_init(bound);
  arb_get_mag_lower(bound, x.raw());
  const double result = log2_of(bound) - 1e-6;
  mag_clear(bound);
  return result;
}

double log2_upper(const Ball& x) {
  mag_t bound;
  mag_init(bound);
  arb_get_mag(bound, x.raw());
  const double result = log2_of(bound) + 1e-6;
  mag_clear(bound);
  return result;
}

double log2_radius(const Ball& x) { return log2_of(arb_radref(x.raw())) + 1e-6; }

std::string ball_text(const Ball& x) {
  if (fn::is_zero(x)) return "0";
  return x.to_string(20);
}

Ball moved(const Ball& x, double u, long exponent) {
  if (u == 0) return x;
  Ball step = fn::from_double<Ball>(u);
  arb_mul_2exp_si(step.raw(), step.raw(), -exponent);
  return x + step;
}

}  // namespace assay
