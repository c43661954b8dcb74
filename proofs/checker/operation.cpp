// Statements about a registered operation at random points of the field: its adjoint is the
// transpose of its tangent map; its chunk forms agree with the recurrent one; the sharded RMSNorm
// is the whole one. The operation itself is that of reference/; which point, which direction and
// what is compared is decided here.
#include "proofs/checker/check.hpp"
#include "proofs/common/sha256.hpp"
#include "reference/case/generate.hpp"
#include "reference/oracle/registry.hpp"

namespace assay::checker {
namespace {

/// The element of the field that `what` stands for under the certificate's seed.
Field element(const std::string& seed, long point, const std::string& what, double shadow = 0) {
  const std::string digest =
      proofs::sha256("assay point " + seed + " " + std::to_string(point) + " " + what);
  return Field::from_parts(std::stoull(digest.substr(0, 16), nullptr, 16), shadow);
}

std::vector<std::string> strings(const Value& statement, const char* key) {
  std::vector<std::string> list;
  for (const Value& v : statement.array(key)) list.push_back(v.string());
  return list;
}

ValidCase make_case(const Value& statement, const Operation& operation) {
  GenerateRequest request;
  request.op = operation.name();
  request.shape = statement.string("shape");
  request.options = strings(statement, "options");
  request.gates = {"model"};
  request.dtype = DType::F64;
  request.seed = 1;
  const auto schema = [&](const Case* data) { return operation.schema(data); };
  Case c = generate(schema, request);
  const Schema its = operation.schema(&c);
  return validate(std::move(c), its);
}

bool stays(double stored, bool is_logarithm) {
  return is_logarithm ? stored == 0 || stored == -kInf : stored == 0 || stored == 1;
}

/// The case with every differentiable number replaced by a residue; 0 and 1 stay.
Problem<Field> at_point(const ValidCase& c, const std::string& seed, long point) {
  Problem<Field> problem = lift<Field>(c);
  for (auto& [name, tensor] : problem.inputs) {
    const InputSpec* spec = c.schema.find_input(name);
    if (spec->integer || !spec->differentiable) continue;
    for (std::int64_t i = 0; i < tensor.size(); ++i) {
      const double stored = tensor.data[i].shadow();
      if (stays(stored, name != spec->name)) continue;
      tensor.data[i] = element(seed, point, name + " " + std::to_string(i), stored);
    }
  }
  problem.cotangents.clear();
  for (const OutputSpec& output : c.schema.outputs) {
    if (output.integer) continue;
    Tensor<Field> v(c.output_shape(output));
    for (std::int64_t i = 0; i < v.size(); ++i) {
      v.data[i] = element(seed, point, "d_" + output.name + " " + std::to_string(i));
    }
    problem.cotangents.emplace(output.name, std::move(v));
  }
  return problem;
}

Form form_of(const Value& statement) { return parse_form(statement.string("form")); }

/// All inputs move at once; what each contributes by the adjoint must be what the certificate says.
std::string check_adjoint(const Value& statement, const Operation& operation, const ValidCase& c,
                          const Value& proof) {
  const std::string& seed = proof.string("seed");
  const long points = proof.at("points").integer();
  if (points < 3 || points > 16) throw Rejected("a number of points below 3");
  const auto& values = proof.array("values");
  if (static_cast<long>(values.size()) != points) throw Rejected("a point lacks its values");
  RunOptions options;
  options.form = form_of(statement);
  for (long n = 0; n < points; ++n) {
    const Problem<Field> problem = at_point(c, seed, n);
    RunOptions backward = options;
    backward.gradients = true;
    const auto gradients = evaluate(operation, problem, backward).gradients;
    Problem<Dual<Field>> moved;
    moved.valid = problem.valid;
    Field total = 0;
    const auto& stated = values[n].object();
    std::size_t inputs = 0;
    for (const auto& [name, tensor] : problem.inputs) {
      Tensor<Dual<Field>> x(tensor.shape);
      const InputSpec* spec = c.schema.find_input(name);
      const bool moves = !spec->integer && spec->differentiable;
      Field pairing = 0;
      for (std::int64_t i = 0; i < tensor.size(); ++i) {
        x.data[i].v = tensor.data[i];
        if (!moves || (name != spec->name && tensor.data[i].shadow() == -kInf)) continue;
        x.data[i].d = element(seed, n, "tangent " + name + " " + std::to_string(i));
        pairing += x.data[i].d * gradients.at(name).data[i];
      }
      moved.inputs.emplace(name, std::move(x));
      if (!moves) continue;
      total += pairing;
      if (inputs >= stated.size() || stated[inputs].first != name ||
          stated[inputs].second.string() != std::to_string(pairing.residue())) {
        throw Rejected("the value of " + name + " at point " + std::to_string(n) + " is " +
                       std::to_string(pairing.residue()));
      }
      ++inputs;
    }
    if (inputs != stated.size() || inputs == 0) throw Rejected("values of other inputs");
    const auto outputs = evaluate(operation, moved, options).outputs;
    Field forward = 0;
    for (const auto& [name, v] : problem.cotangents) {
      for (std::int64_t i = 0; i < v.size(); ++i) {
        forward += v.data[i] * outputs.at(name).data[i].d;
      }
    }
    // A statement may claim a multiple, to see that it is refused.
    if (statement.has("factor")) total *= Field(statement.at("factor").integer());
    if (!(forward == total)) {
      throw Rejected("<v, J u> is not <J^T v, u> at point " + std::to_string(n));
    }
  }
  return "<v, J u> = <J^T v, u> for all inputs at once at " + std::to_string(points) + " points";
}

std::string values_of(const std::map<std::string, Tensor<Field>>& tensors) {
  std::string text;
  for (const auto& [name, tensor] : tensors) {
    for (const Field& x : tensor.data) text += std::to_string(x.residue()) + "\n";
  }
  return text;
}

void scale(Result<Field>& result, Field factor) {
  for (auto& [name, tensor] : result.outputs) {
    for (Field& x : tensor.data) x *= factor;
  }
}

std::string check_forms(const Value& statement, const Operation& operation, const ValidCase& c,
                        const Value& proof) {
  const long points = proof.at("points").integer();
  const auto& values = proof.array("values");
  if (points < 3 || points > 16 || static_cast<long>(values.size()) != points) {
    throw Rejected("a number of points below 3, or other values");
  }
  for (long n = 0; n < points; ++n) {
    const Problem<Field> problem = at_point(c, proof.string("seed"), n);
    RunOptions recurrent, other;
    recurrent.gradients = other.gradients = true;
    other.form = form_of(statement);
    auto left = evaluate(operation, problem, other);
    const auto right = evaluate(operation, problem, recurrent);
    if (statement.has("factor")) scale(left, Field(statement.at("factor").integer()));
    const std::string outputs = values_of(left.outputs), gradients = values_of(left.gradients);
    if (outputs != values_of(right.outputs) || gradients != values_of(right.gradients)) {
      throw Rejected("the forms differ at point " + std::to_string(n));
    }
    if (proofs::sha256(outputs + gradients) != values[n].string()) {
      throw Rejected("the values are others");
    }
  }
  return "outputs and gradients of both forms agree at " + std::to_string(points) + " points";
}

/// rmsnorm_tp [.., P, D] against rmsnorm of the rows put together, P from the shape.
std::string check_shards(const Value& statement, const Operation& operation, const ValidCase& c,
                         const Value& proof) {
  const long points = proof.at("points").integer();
  const auto& values = proof.array("values");
  if (points < 3 || points > 16 || static_cast<long>(values.size()) != points) {
    throw Rejected("a number of points below 3, or other values");
  }
  const Operation& whole = find_operation(statement.string("whole"));
  const auto joined = [](Shape shape) {
    shape[shape.size() - 2] *= shape.back();
    shape.pop_back();
    return shape;
  };
  Case together = c.data;
  together.op = whole.name();
  for (auto& [name, tensor] : together.tensors) tensor.shape = joined(tensor.shape);
  const Schema schema = whole.schema(&together);
  const ValidCase other = validate(std::move(together), schema);
  for (long n = 0; n < points; ++n) {
    const Problem<Field> shards = at_point(c, proof.string("seed"), n);
    Problem<Field> rows = shards;
    rows.valid = &other;
    for (auto* tensors : {&rows.inputs, &rows.cotangents}) {
      for (auto& [name, tensor] : *tensors) tensor.shape = joined(tensor.shape);
    }
    RunOptions options;
    options.gradients = true;
    auto left = evaluate(operation, shards, options);
    const auto right = evaluate(whole, rows, options);
    if (statement.has("factor")) scale(left, Field(statement.at("factor").integer()));
    const std::string text = values_of(left.outputs) + values_of(left.gradients);
    if (text != values_of(right.outputs) + values_of(right.gradients)) {
      throw Rejected("the shards differ from the whole at point " + std::to_string(n));
    }
    if (proofs::sha256(text) != values[n].string()) throw Rejected("the values are others");
  }
  return "outputs and gradients of shards and whole agree at " + std::to_string(points) + " points";
}

/// Every order, with ties, of the logits of every token: values 0 .. M-1 each. The permutation
/// depends on comparisons alone, so that this is every case of the shape.
std::string check_dispatch(const Operation& operation, const ValidCase& c, const Value& proof) {
  const long B = c.sizes['B'], T = c.sizes['T'], M = c.sizes['M'];
  const long k = option_int(c, "top_k");
  Problem<double> problem = lift<double>(c);
  std::vector<double>& logits = problem.inputs.at("router_logits").data;
  logits.assign(logits.size(), 0);
  long cases = 0;
  std::string digests;
  while (true) {
    const auto out = evaluate(operation, problem, {}).outputs;
    const auto at = [&](const char* name, long i) {
      return static_cast<long>(out.at(name).data.at(i));
    };
    std::vector<bool> used(B * T * k);
    for (long row = 0; row < B * T; ++row) {
      std::vector<bool> chosen(M);
      for (long j = 0; j < k; ++j) {
        const long memory = at("memory", row * k + j), packed = at("inverse", row * k + j);
        const long segment = row / T * M + memory;
        if (memory < 0 || memory >= M || chosen[memory]) throw Rejected("a memory chosen twice");
        chosen[memory] = true;
        if (packed < at("cu_seqlens", segment) || packed >= at("cu_seqlens", segment + 1) ||
            used[packed] || at("token", packed) != row) {
          throw Rejected("a token that is not where its memory's segment is");
        }
        used[packed] = true;
      }
      for (long a = 0; a < M; ++a) {
        for (long b = 0; b < M; ++b) {
          const double x = logits[row * M + a], y = logits[row * M + b];
          if (chosen[a] && !chosen[b] && (x < y || (x == y && a > b))) {
            throw Rejected("a memory chosen before a better one");
          }
        }
      }
    }
    for (long segment = 0; segment < B * M; ++segment) {
      for (long i = at("cu_seqlens", segment) + 1; i < at("cu_seqlens", segment + 1); ++i) {
        if (at("token", i) <= at("token", i - 1)) throw Rejected("time order is broken");
      }
    }
    if (at("cu_seqlens", 0) != 0 || at("cu_seqlens", B * M) != B * T * k) {
      throw Rejected("the segments do not cover the rows");
    }
    for (const auto& [name, tensor] : out) {
      for (const double x : tensor.data) digests += std::to_string(static_cast<long>(x)) + " ";
    }
    digests = proofs::sha256(digests);
    ++cases;
    std::size_t i = 0;  // the next order
    while (i < logits.size() && ++logits[i] == static_cast<double>(M)) logits[i++] = 0;
    if (i == logits.size()) break;
  }
  if (cases != proof.at("cases").integer() || digests != proof.string("digest")) {
    throw Rejected("another number of cases, or other outputs");
  }
  return "all " + std::to_string(cases) + " orders of the logits";
}

}  // namespace

std::string check_operation(const Value& statement, bool holds, const Value& proof) {
  if (!holds) throw Rejected("refutations of this kind are program counterexamples");
  const Operation& operation = find_operation(statement.string("op"));
  const ValidCase c = make_case(statement, operation);
  const std::string& check = statement.string("check");
  if (check == "adjoint") return check_adjoint(statement, operation, c, proof);
  if (check == "forms") return check_forms(statement, operation, c, proof);
  if (check == "shards") return check_shards(statement, operation, c, proof);
  if (check == "dispatch") return check_dispatch(operation, c, proof);
  throw Rejected("unknown check '" + check + "'");
}

}  // namespace assay::checker
