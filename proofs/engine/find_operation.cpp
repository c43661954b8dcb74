// A registered operation at random points of F_p: input by input, so that a failure is named.
#include <algorithm>

#include "proofs/common/sha256.hpp"
#include "proofs/engine/find.hpp"
#include "reference/case/generate.hpp"
#include "reference/oracle/registry.hpp"

namespace assay::proofs {
namespace {

constexpr const char* kSeed = "2026";
constexpr int kPoints = 3;

Field residue(int point, const std::string& what, double shadow) {
  const std::string digest =
      sha256(std::string("assay point ") + kSeed + " " + std::to_string(point) + " " + what);
  return Field::from_parts(std::stoull(digest.substr(0, 16), nullptr, 16), shadow);
}

ValidCase case_of(const Json& s, const Operation& operation) {
  GenerateRequest request;
  request.op = operation.name();
  request.shape = s.at("shape");
  request.options = s.at("options").get<std::vector<std::string>>();
  request.gates = {"model"};
  request.dtype = DType::F64;
  request.seed = 1;
  const auto schema = [&](const Case* data) { return operation.schema(data); };
  Case made = generate(schema, request);
  const Schema its = operation.schema(&made);
  return validate(std::move(made), its);
}

Problem<Field> random_point(const ValidCase& c, int point) {
  Problem<Field> problem = lift<Field>(c);
  for (const InputSpec& spec : c.schema.inputs) {
    const std::string name = given_name(c.data, spec);
    if (name.empty() || spec.integer || !spec.differentiable) continue;
    Tensor<Field>& tensor = problem.inputs.at(name);
    for (std::size_t i = 0; i < tensor.data.size(); ++i) {
      const double x = tensor.data[i].shadow();
      const bool special = name == spec.name ? x == 0 || x == 1 : x == 0 || x == -kInf;
      if (!special) tensor.data[i] = residue(point, name + " " + std::to_string(i), x);
    }
  }
  problem.cotangents.clear();
  for (const OutputSpec& spec : c.schema.outputs) {
    if (spec.integer) continue;
    Tensor<Field>& v = problem.cotangents[spec.name];
    v = Tensor<Field>(c.output_shape(spec));
    for (std::size_t i = 0; i < v.data.size(); ++i) {
      v.data[i] = residue(point, "d_" + spec.name + " " + std::to_string(i), 0);
    }
  }
  return problem;
}

Problem<Dual<Field>> still(const Problem<Field>& problem) {
  Problem<Dual<Field>> dual;
  dual.valid = problem.valid;
  for (const auto& [name, tensor] : problem.inputs) {
    Tensor<Dual<Field>>& x = dual.inputs[name];
    x = Tensor<Dual<Field>>(tensor.shape);
    for (std::size_t i = 0; i < tensor.data.size(); ++i) x.data[i].v = tensor.data[i];
  }
  return dual;
}

std::string text_of(const std::map<std::string, Tensor<Field>>& tensors) {
  std::string text;
  for (const auto& [name, tensor] : tensors) {
    for (const Field& x : tensor.data) text += std::to_string(x.residue()) + "\n";
  }
  return text;
}

Found probable(Json values, const std::string& detail) {
  Found found;
  found.answer = Answer::probable;
  found.method = "random points of F_p";
  found.detail = detail;
  found.proof = {{"seed", kSeed}, {"points", kPoints}, {"values", std::move(values)}};
  return found;
}

Found failed(const std::string& detail) {
  Found found;
  found.method = "random points of F_p";
  found.detail = detail;
  return found;
}

Found adjoint(const Json& s, const Operation& operation, const ValidCase& c) {
  RunOptions forward, backward;
  forward.form = backward.form = parse_form(s.at("form"));
  backward.gradients = true;
  Json values = Json::array();
  std::size_t inputs = 0;
  for (int n = 0; n < kPoints; ++n) {
    const Problem<Field> problem = random_point(c, n);
    const auto gradients = evaluate(operation, problem, backward).gradients;
    Problem<Dual<Field>> dual = still(problem);
    Json row = Json::object();
    for (const InputSpec& spec : c.schema.inputs) {
      const std::string name = given_name(c.data, spec);
      if (name.empty() || spec.integer || !spec.differentiable) continue;
      std::vector<Dual<Field>>& x = dual.inputs.at(name).data;
      Field adjoint_side = 0, tangent_side = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (name != spec.name && x[i].v.shadow() == -kInf) continue;
        x[i].d = residue(n, "tangent " + name + " " + std::to_string(i), 0);
        adjoint_side += x[i].d * gradients.at(name).data[i];
      }
      const auto outputs = evaluate(operation, dual, forward).outputs;
      for (const auto& [output, v] : problem.cotangents) {
        const auto& y = outputs.at(output).data;
        for (std::size_t i = 0; i < y.size(); ++i) tangent_side += v.data[i] * y[i].d;
      }
      for (Dual<Field>& value : x) value.d = 0;
      if (!(adjoint_side * Field(s.value("factor", 1)) == tangent_side)) {
        return failed("<v, J u> is not <J^T v, u> for u in the direction of " + name);
      }
      row[name] = std::to_string(adjoint_side.residue());
    }
    inputs = row.size();
    values.push_back(std::move(row));
  }
  return probable(std::move(values), std::to_string(inputs) + " inputs at " +
                                         std::to_string(kPoints) +
                                         " points, error < 2^-100 for degrees below 2^27");
}

void multiply(Result<Field>& result, int factor) {
  for (auto& [name, tensor] : result.outputs) {
    for (Field& x : tensor.data) x *= Field(factor);
  }
}

Found forms(const Json& s, const Operation& operation, const ValidCase& c) {
  Json values = Json::array();
  for (int n = 0; n < kPoints; ++n) {
    const Problem<Field> problem = random_point(c, n);
    RunOptions recurrent, other;
    recurrent.gradients = other.gradients = true;
    other.form = parse_form(s.at("form"));
    auto left = evaluate(operation, problem, other);
    multiply(left, s.value("factor", 1));
    const auto right = evaluate(operation, problem, recurrent);
    const std::string text = text_of(left.outputs) + text_of(left.gradients);
    if (text != text_of(right.outputs) + text_of(right.gradients)) {
      return failed("the forms differ");
    }
    values.push_back(sha256(text));
  }
  return probable(std::move(values),
                  "outputs and gradients at 3 points, error < 2^-100 for "
                  "degrees below 2^27");
}

Found shards(const Json& s, const Operation& operation, const ValidCase& c) {
  const Operation& whole = assay::find_operation(s.at("whole").get<std::string>());
  const auto flat = [](const Shape& shape) {
    Shape result(shape.begin(), shape.end() - 2);
    result.push_back(shape[shape.size() - 2] * shape.back());
    return result;
  };
  Case together = c.data;
  together.op = whole.name();
  for (auto& [name, tensor] : together.tensors) tensor.shape = flat(tensor.shape);
  const Schema schema = whole.schema(&together);
  const ValidCase other = validate(std::move(together), schema);
  Json values = Json::array();
  for (int n = 0; n < kPoints; ++n) {
    const Problem<Field> problem = random_point(c, n);
    Problem<Field> rows = problem;
    rows.valid = &other;
    for (auto& [name, tensor] : rows.inputs) tensor.shape = flat(tensor.shape);
    for (auto& [name, tensor] : rows.cotangents) tensor.shape = flat(tensor.shape);
    RunOptions options;
    options.gradients = true;
    auto left = evaluate(operation, problem, options);
    const auto right = evaluate(whole, rows, options);
    multiply(left, s.value("factor", 1));
    const std::string text = text_of(left.outputs) + text_of(left.gradients);
    if (text != text_of(right.outputs) + text_of(right.gradients)) {
      return failed("shards and whole differ");
    }
    values.push_back(sha256(text));
  }
  return probable(std::move(values),
                  "outputs and gradients at 3 points, error < 2^-100 for "
                  "degrees below 2^27");
}

/// The definition by sorting, for every order of the logits, against what the operation gives.
/// `reversed`: time order inside a segment the other way round, which is false.
Found dispatch(const Json& s, const Operation& operation, const ValidCase& c) {
  const std::int64_t B = c.sizes['B'], T = c.sizes['T'], M = c.sizes['M'];
  const std::int64_t k = option_int(c, "top_k");
  const bool reversed = s.value("reversed", false);
  Problem<double> problem = lift<double>(c);
  std::vector<double>& logits = problem.inputs.at("router_logits").data;
  std::int64_t total = 1;
  for (std::size_t i = 0; i < logits.size(); ++i) total *= M;
  std::string digest;
  for (std::int64_t n = 0; n < total; ++n) {
    std::int64_t rest = n;
    for (double& x : logits) {
      x = static_cast<double>(rest % M);
      rest /= M;
    }
    struct Row {
      std::int64_t segment, token, rank;
    };
    std::vector<Row> rows;
    for (std::int64_t token = 0; token < B * T; ++token) {
      std::vector<std::int64_t> order(M);
      for (std::int64_t m = 0; m < M; ++m) order[m] = m;
      std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
        return logits[token * M + a] > logits[token * M + b];
      });
      for (std::int64_t j = 0; j < k; ++j) rows.push_back({token / T * M + order[j], token, j});
    }
    std::stable_sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) {
      return a.segment < b.segment || (reversed && a.segment == b.segment && a.token > b.token);
    });
    const auto out = evaluate(operation, problem, {}).outputs;
    bool same = true;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::int64_t at = rows[i].token * k + rows[i].rank;
      same = same && out.at("token").data[i] == static_cast<double>(rows[i].token) &&
             out.at("inverse").data[at] == static_cast<double>(i) &&
             out.at("memory").data[at] == static_cast<double>(rows[i].segment % M);
    }
    if (!same) return failed("order " + std::to_string(n) + " is dispatched otherwise");
    for (const auto& [name, tensor] : out) {
      for (const double x : tensor.data) digest += std::to_string(static_cast<long>(x)) + " ";
    }
    digest = sha256(digest);
  }
  Found found;
  found.answer = Answer::proved;
  found.method = "all cases";
  found.detail = "all " + std::to_string(total) + " orders of the logits";
  found.proof = {{"cases", total}, {"digest", digest}};
  return found;
}

}  // namespace

Found find_operation(const Json& s, bool holds, const Json&) {
  if (!holds) return failed("refutations of this kind are program counterexamples");
  const Operation& operation = assay::find_operation(s.at("op").get<std::string>());
  const ValidCase c = case_of(s, operation);
  const std::string check = s.at("check");
  if (check == "adjoint") return adjoint(s, operation, c);
  if (check == "forms") return forms(s, operation, c);
  if (check == "shards") return shards(s, operation, c);
  if (check == "dispatch") return dispatch(s, operation, c);
  throw std::invalid_argument("proofs: unknown check " + check);
}

}  // namespace assay::proofs
