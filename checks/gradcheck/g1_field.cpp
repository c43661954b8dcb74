// G1: <v, J u> = <J^T v, u> exactly, in the field of p = 2^61 - 1 elements, at random points.
//
// What a pass means. Forward recurrence and adjoint are rational functions of the inputs and of the
// values of exp, tanh, ..., which are random symbols here that keep their derivative rule and
// nothing else (field.hpp). The difference of the two sides is such a function, too. If it is not
// the zero function, say of degree d, it vanishes at a random point with probability at most
// (d + 1) / p (Schwartz-Zippel), so at n independent points with at most ((d + 1) / p)^n. The claim
// is about the formula at these shapes, options and branches, with the exact zeros and ones of the
// case in their places; d is not computed, it grows with T and stays far below p.
//
// Without error bounds a pass needs no tolerance, and a failure is certain.
#include <fmt/format.h>

#include "checks/gradcheck/field_problem.hpp"

namespace assay {
namespace {

constexpr int kPoints = 3;

class FieldPoint {
 public:
  FieldPoint(const CheckTask& task, int round)
      : task_(task),
        problem_(random_field_problem(task.c, task.stream("G1 point", round))),
        dual_(with_tangents(problem_)) {
    gradients_ = evaluate(task.operation, problem_, task.run_options(true)).gradients;
    Stream random = task.stream("G1 tangents", round);
    for (const std::string& name : differentiable_inputs(task.c)) {
      std::vector<Field>& u = tangents_[name];
      const CaseTensor& stored = task.c.data.tensors.at(name);
      for (std::int64_t i = 0; i < problem_.inputs.at(name).size(); ++i) {
        u.push_back(is_pinned(stored, i) ? Field(0) : random_residue(random));
      }
    }
  }

  /// <v, J u> for u restricted to the elements [first, last) of one tensor.
  Field forward(const std::string& name, std::int64_t first, std::int64_t last) {
    set_tangents(name, first, last);
    const Field sum = pair_outputs();
    clear_tangents(name, first, last);
    return sum;
  }
  /// <J^T v, u> for the same u.
  Field backward(const std::string& name, std::int64_t first, std::int64_t last) const {
    Field sum = 0;
    for (std::int64_t i = first; i < last; ++i) {
      sum += gradients_.at(name).data[i] * tangents_.at(name)[i];
    }
    return sum;
  }
  bool agrees(const std::string& name, std::int64_t first, std::int64_t last) {
    return forward(name, first, last) == backward(name, first, last);
  }
  std::int64_t size(const std::string& name) const { return gradients_.at(name).size(); }

  bool agrees_together() {
    Field sum = 0;
    for (const auto& [name, u] : tangents_) {
      set_tangents(name, 0, size(name));
      sum += backward(name, 0, size(name));
    }
    const bool agrees = pair_outputs() == sum;
    for (const auto& [name, u] : tangents_) clear_tangents(name, 0, size(name));
    return agrees;
  }

  /// The first wrong element. By halves: the mismatch is linear in the tangent, so a half without
  /// one holds no wrong element (up to the probability above).
  std::int64_t first_wrong(const std::string& name) {
    std::int64_t first = 0, last = size(name);
    while (last - first > 1) {
      const std::int64_t middle = first + (last - first) / 2;
      if (agrees(name, first, middle)) {
        first = middle;
      } else {
        last = middle;
      }
    }
    return first;
  }

  /// The gradient of a gate at log = -inf is 0. -1: it is, everywhere.
  std::int64_t wrong_pinned(const std::string& name) const {
    const CaseTensor& stored = task_.c.data.tensors.at(name);
    for (std::int64_t i = 0; i < size(name); ++i) {
      if (is_pinned(stored, i) && gradients_.at(name).data[i].residue() != 0) return i;
    }
    return -1;
  }

  std::string describe(const std::string& name, std::int64_t i) {
    const Field tangent = tangents_.at(name)[i];
    const std::string adjoint = std::to_string(gradients_.at(name).data[i].residue());
    const std::string where = name + index_text(gradients_.at(name).shape, i);
    if (tangent == Field(0)) return where + ": the adjoint has " + adjoint + ", must be 0";
    const Field derivative = forward(name, i, i + 1) / tangent;
    return fmt::format("{}: the derivative is {}, the adjoint has {} (mod 2^61 - 1)", where,
                       derivative.residue(), adjoint);
  }

 private:
  void set_tangents(const std::string& name, std::int64_t first, std::int64_t last) {
    std::vector<Dual<Field>>& x = dual_.inputs.at(name).data;
    for (std::int64_t i = first; i < last; ++i) x[i].d = tangents_.at(name)[i];
  }
  void clear_tangents(const std::string& name, std::int64_t first, std::int64_t last) {
    std::vector<Dual<Field>>& x = dual_.inputs.at(name).data;
    for (std::int64_t i = first; i < last; ++i) x[i].d = 0;
  }
  Field pair_outputs() {
    const auto outputs = evaluate(task_.operation, dual_, task_.run_options(false)).outputs;
    Field sum = 0;
    for (const auto& [name, v] : problem_.cotangents) {
      const std::vector<Dual<Field>>& y = outputs.at(name).data;
      for (std::size_t i = 0; i < y.size(); ++i) sum += v.data[i] * y[i].d;
    }
    return sum;
  }

  const CheckTask& task_;
  Problem<Field> problem_;
  Problem<Dual<Field>> dual_;
  std::map<std::string, Tensor<Field>> gradients_;
  std::map<std::string, std::vector<Field>> tangents_;
};

void report(CheckOutcome& outcome, FieldPoint& point, const CheckTask& task,
            const std::string& name, std::int64_t i) {
  if (outcome.status != CheckOutcome::Status::failed) {
    outcome.status = CheckOutcome::Status::failed;
    outcome.worst_tensor = name;
    outcome.worst_index = index_text(task.c.data.tensors.at(name).shape, i);
  }
  outcome.lines.push_back(point.describe(name, i));
}

CheckOutcome test_field(const CheckTask& task) {
  const std::vector<std::string> names = differentiable_inputs(task.c);
  CheckOutcome outcome;
  int points = 0, wrong = 0;
  while (points < kPoints && (points == 0 || !task.out_of_time())) {
    FieldPoint point(task, points++);
    for (const std::string& name : names) {
      const std::int64_t pinned = point.wrong_pinned(name);
      const bool agrees = point.agrees(name, 0, point.size(name));
      if (pinned >= 0) report(outcome, point, task, name, pinned);
      if (!agrees) report(outcome, point, task, name, point.first_wrong(name));
      wrong += pinned >= 0 || !agrees;
    }
    if (outcome.status == CheckOutcome::Status::failed) break;
    if (!point.agrees_together()) {
      outcome.status = CheckOutcome::Status::failed;
      outcome.lines.push_back("no input alone, but all together: the forward pass is not linear");
      break;
    }
    task.progress(static_cast<double>(points) / kPoints);
  }
  if (outcome.status == CheckOutcome::Status::failed) {
    outcome.detail = fmt::format("<v, J u> != <J^T v, u>: {} of {} inputs", wrong, names.size());
    return outcome;
  }
  outcome.detail = fmt::format(
      "<v, J u> = <J^T v, u> at {} random points of F_p, {} inputs; wrong formulas of degree d "
      "pass "
      "with probability <= ((d+1)/2^61)^{}",
      points, names.size(), points);
  return outcome;
}

}  // namespace

CheckOutcome check_field(const CheckTask& task) {
  if (task.form == Form::chunk_log) {
    return skipped("its forward pass needs log(a b) = log a + log b, which random symbols lack");
  }
  try {
    return test_field(task);
  } catch (const std::domain_error& error) {
    return skipped(std::string("undecided: ") + error.what());
  }
}

}  // namespace assay
