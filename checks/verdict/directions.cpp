#include <algorithm>
#include <cmath>

#include "checks/faults/fault.hpp"
#include "checks/verdict/diagnosis.hpp"
#include "checks/verdict/mixed_up.hpp"
#include "reference/oracle/parallel.hpp"
#include "reference/scalars/scalars.hpp"

namespace assay {
namespace {

// A step small against any gate, large against the rounding of double.
constexpr double kStep = 0x1p-20;

}  // namespace

bool is_gate(const InputSpec& in) {
  return in.role != Role::state && std::isfinite(in.domain.hi) && in.domain.lo >= 0;
}

std::vector<Direction> directions(const ValidCase& c, const PrecisionModel& model, bool gradients,
                                  int threads, const std::vector<std::string>& without) {
  const RunOptions run{Form::recurrent, gradients, 1, {}};
  const Result<double> base = evaluate<double>(lift<double>(c), run);
  std::vector<const Fault*> applicable;
  for (const Fault* fault : faults()) {
    const bool left_out =
        std::find(without.begin(), without.end(), fault->info().id) != without.end();
    if (!left_out && fault->applies(c)) applicable.push_back(fault);
  }
  double unit = 0;
  for (const NumberFormat f : {model.operand, model.accumulator, model.state, model.gate}) {
    unit = std::max(unit, unit_roundoff(f));
  }
  std::vector<Direction> all(applicable.size());
  parallel_for(static_cast<std::int64_t>(applicable.size()), threads, [&](std::int64_t i) {
    all[i].id = applicable[i]->info().id;
    all[i].is_fault = all[i].sized = true;
    // So much of a fault is what rounding one factor by a few units does.
    all[i].allowed = 4 * unit;
    // Operands that are rounded alike have the same errors, which is no fault of theirs.
    all[i].rounding = applicable[i]->info().rounding;
    all[i].accuses =
        !all[i].rounding || unit_roundoff(model.operand) < unit_roundoff(NumberFormat::bf16);
    try {
      all[i].d = difference(applicable[i]->evaluate(c, run), base, 1);
    } catch (const InputError&) {
      // It makes something of the case that is none: a row of zeros that is to be normalised.
    }
  });
  for (const InputSpec& in : c.schema.inputs) {
    if (!is_gate(in)) continue;
    const bool linear = c.data.tensors.count(in.name) != 0;
    const bool log = !in.log_name.empty() && c.data.tensors.count(in.log_name) != 0;
    if (!linear && !log) continue;
    Direction d;
    d.id = "gate " + in.name;
    // A gate computed from its logarithm may be off by the same relative error everywhere.
    d.allowed = 2 * unit_roundoff(model.gate) + (log ? 2 * model.exp_error : 0);
    d.d = difference(with_factor(c, d.id, 1 + kStep, run), base, 1 / kStep);
    if (gradients && linear) d.d.erase("d_" + in.name);
    all.push_back(std::move(d));
  }
  if (c.schema.find_option("scale")) {
    Direction d;
    d.id = "option scale";
    d.allowed = 2 * unit_roundoff(model.gate) + model.rsqrt_error;
    d.d = difference(with_factor(c, d.id, 1 + kStep, run), base, 1 / kStep);
    all.push_back(std::move(d));
  }
  return all;
}

}  // namespace assay
