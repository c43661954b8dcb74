#include "checks/gradcheck/field_problem.hpp"

namespace assay {

Problem<Field> random_field_problem(const ValidCase& c, Stream random) {
  Problem<Field> problem = lift<Field>(c);
  for (auto& [name, tensor] : problem.inputs) {
    const InputSpec* spec = c.schema.find_input(name);
    if (spec->integer || !spec->differentiable) continue;
    const bool log = name != spec->name;
    for (Field& value : tensor.data) {
      const double stored = value.shadow();
      const bool exact = log ? stored == 0 || stored == -kInf : stored == 0 || stored == 1;
      if (!exact) value = random_residue(random, stored);
    }
  }
  problem.cotangents.clear();
  for (const OutputSpec* output : differentiable_outputs(c)) {
    Tensor<Field> v(c.output_shape(*output));
    for (Field& value : v.data) value = random_residue(random);
    problem.cotangents.emplace(output->name, std::move(v));
  }
  return problem;
}

Problem<Dual<Field>> with_tangents(const Problem<Field>& problem) {
  Problem<Dual<Field>> dual;
  dual.valid = problem.valid;
  for (const auto& [name, tensor] : problem.inputs) {
    Tensor<Dual<Field>> copy(tensor.shape);
    for (std::int64_t i = 0; i < tensor.size(); ++i) copy.data[i].v = tensor.data[i];
    dual.inputs.emplace(name, std::move(copy));
  }
  return dual;
}

}  // namespace assay
