#include "checks/verdict/hard_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "checks/verdict/bound_walk.hpp"
#include "reference/oracle/parallel.hpp"

namespace assay {
namespace {

constexpr double kNoBound = std::numeric_limits<double>::infinity();
/// Beyond these the bound is refused: bytes of kept states of one unit, multiply-adds of all
/// ellipsoids, terms of one sum (kOutward covers 2^26).
constexpr double kMostBytes = 256 * 1048576.0, kMostWork = 4e10, kMostTerms = 0x1p26;

BoundModel bound_model(const PrecisionModel& m) {
  BoundModel b;
  if (unit_roundoff(m.operand) > unit_roundoff(m.accumulator)) {
    b.operand = unit_roundoff(m.operand);
    b.operand_format = emulated_format(m.operand);
    // Tensor cores keep fp16 subnormals; the other formats may be flushed.
    b.operand_tiny = m.operand == NumberFormat::fp16 ? 0x1p-25 : 0x1p-126;
  }
  b.accumulator = unit_roundoff(m.accumulator) * (m.truncating_accumulator ? 2 : 1);
  b.elementwise = std::max(unit_roundoff(m.state), unit_roundoff(m.gate));
  NumberFormat coarsest = m.accumulator;
  for (NumberFormat f : {m.state, m.gate}) {
    if (unit_roundoff(f) > unit_roundoff(coarsest)) coarsest = f;
  }
  b.given_exactly = coarsest == NumberFormat::fp64;
  b.given_format = emulated_format(coarsest);
  b.exp_error = m.exp_error;
  b.tanh_error = m.tanh_error;
  b.softplus_error = m.softplus_error;
  b.rsqrt_error = m.rsqrt_error;
  b.tiny = b.given_exactly ? 0x1p-1022 : 0x1p-126;
  for (NumberFormat f : {m.accumulator, m.state, m.gate}) {
    if (f == NumberFormat::fp16) b.tiny = 0x1p-24;
  }
  return b;
}

std::vector<std::string> tensor_names(const ValidCase& c, bool gradients) {
  std::vector<std::string> names;
  for (const OutputSpec& out : c.schema.outputs) names.push_back(out.name);
  if (!gradients) return names;
  for (const auto& [name, tensor] : c.data.tensors) {
    const InputSpec* in = c.schema.find_input(name);
    if (in && in->differentiable) names.push_back("d_" + name);
  }
  return names;
}

HardBounds refused(const ValidCase& c, bool gradients, const std::string& why) {
  HardBounds bounds;
  for (const std::string& name : tensor_names(c, gradients)) bounds[name].none = why;
  return bounds;
}

std::int64_t length(const ValidCase& c, char axis) { return c.sizes.has(axis) ? c.sizes[axis] : 1; }

/// Why the walk would take too long or too much memory; empty when it does not.
std::string too_large(const ValidCase& c, const std::vector<Unit>& units, StateBlocks blocks,
                      bool gradients) {
  const auto K = static_cast<double>(length(c, 'K')), V = static_cast<double>(length(c, 'V'));
  double steps = 0, longest = 0;
  for (const Unit& u : units) {
    steps += static_cast<double>(u.steps);
    longest = std::max(longest, static_cast<double>(u.steps));
  }
  double states = 0;
  for (const InputSpec& in : c.schema.inputs) states += in.role == Role::state;
  double order = states * K, count = 1, size = states * K * V;
  if (blocks == StateBlocks::rows) order = V, count = K;
  if (blocks == StateBlocks::whole) order = size = states * static_cast<double>(length(c, 'D'));
  if ((longest + 1) * size * 16 > kMostBytes) return "the states do not fit into 256 MiB";
  if (steps * size > kMostTerms) return "sums over all steps are too long";
  const double work = steps * count * 1.5 * order * order * order * (gradients ? 2 : 1);
  if (work > kMostWork) return "the case is too large for matrices of every step";
  return "";
}

/// The bound of the returned numbers: |error| plus the rounding into the output format.
ErrorBound returned(const std::vector<Bounded>& values, NumberFormat format) {
  ErrorBound b;
  b.bound.reserve(values.size());
  const BoundModel& m = detail::tls_bound;
  double top = 0;
  for (Bounded x : values) {
    if (x.is_exact_zero()) {
      b.bound.push_back(0);
      continue;
    }
    x.r += 2 * m.elementwise;  // spare roundings of the kernel
    const double error = x.total() * kOutward, reach = std::fabs(x.v) + 2 * error;
    double bound =
        error + std::max(unit_roundoff(format) * reach, smallest_spacing(format)) + m.tiny;
    if (!(reach <= largest_number(format))) bound = kNoBound;
    b.bound.push_back(bound * kOutward);
    top = std::max(top, std::fabs(x.v));
  }
  // Beyond the largest element of its tensor a bound would pass zeros.
  const bool any = std::any_of(b.bound.begin(), b.bound.end(), [&](double x) { return x <= top; });
  if (!any && top > 0) {
    b.bound.clear();
    b.none = "the bound exceeds the tensor itself";
  }
  return b;
}

}  // namespace

HardBounds hard_bound(const ValidCase& c, const PrecisionModel& model,
                      const HardBoundRequest& request) {
  const BoundModel declared_model = bound_model(model);
  const BoundScope scope(declared_model);
  std::string why;
  const auto engine = bounded_engine(c, why);
  if (!engine) return refused(c, request.gradients, why);
  // The fast-weight family is often computed in chunks, also where the reference does not; the
  // others go step by step in any case.
  if (engine->blocks == StateBlocks::columns) {
    if (!model.form_declared) {
      return refused(c, request.gradients, "the model does not declare its form");
    }
    if (model.form != Form::recurrent) {
      return refused(c, request.gradients, "no derivation covers the chunk form");
    }
  }
  // Whole heads: a sum over columns may be taken in any order, all columns at once.
  const std::vector<Unit> units = make_units(c, false);
  why = too_large(c, units, engine->blocks, request.gradients);
  if (!why.empty()) return refused(c, request.gradients, why);

  const Problem<Bounded> problem = lift<Bounded>(c);
  Problem<Bounded> exact_problem;
  {
    const BoundScope exactly(double_bound_model());
    exact_problem = lift<Bounded>(c);
  }
  Result<Bounded> result;
  for (const OutputSpec& out : c.schema.outputs) {
    result.outputs.emplace(out.name, Tensor<Bounded>(c.output_shape(out)));
  }
  for (const auto& [name, tensor] : problem.inputs) {
    if (request.gradients && c.schema.find_input(name)->differentiable) {
      result.gradients.emplace(name, Tensor<Bounded>(tensor.shape));
    }
  }
  const bool clipped =
      c.schema.find_option("state_grad_clip") && option_real(c, "state_grad_clip").has_value();
  std::vector<std::unique_ptr<LocalProblem<Bounded>>> locals(units.size());
  std::vector<std::vector<Bounded>> d_states(units.size());
  parallel_for(static_cast<std::int64_t>(units.size()), request.threads, [&](std::int64_t u) {
    const BoundScope inner(declared_model);
    auto local = std::make_unique<LocalProblem<Bounded>>(problem, *engine->recurrence, units[u],
                                                         Form::recurrent);
    std::unique_ptr<LocalProblem<Bounded>> exact;
    {
      const BoundScope exactly(double_bound_model());
      exact = std::make_unique<LocalProblem<Bounded>>(exact_problem, *engine->recurrence, units[u],
                                                      Form::recurrent);
    }
    BoundWalk walk(*engine, *local, *exact, unit_roundoff(model.state),
                   largest_number(model.state));
    local->store_outputs(walk.forward(), result);
    if (!request.gradients) return;
    local->start_gradients();
    d_states[u] = walk.backward(clipped);
    local->finish_gradients(*engine->recurrence);
    local->drop_inputs();
    locals[u] = std::move(local);
  });
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (locals[u]) locals[u]->add_gradients(d_states[u], result);
    locals[u].reset();
  }
  HardBounds bounds;
  const auto keep = [&](const std::string& name, const Tensor<Bounded>& t) {
    const auto format = request.formats.find(name);
    bounds[name] =
        returned(t.data, format == request.formats.end() ? model.output : format->second);
  };
  for (const auto& [name, t] : result.outputs) keep(name, t);
  for (const auto& [name, t] : result.gradients) keep("d_" + name, t);
  return bounds;
}

}  // namespace assay
