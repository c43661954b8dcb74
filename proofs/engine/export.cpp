// Counterexamples as case files: what a program drew becomes the tensors of its operation.
#include <cmath>

#include "proofs/engine/gate_box.hpp"
#include "proofs/engine/prove.hpp"
#include "reference/oracle/registry.hpp"

namespace assay::proofs {
namespace {

double number(const Json& text) {
  return Functions<Rational>::to_double(Rational(Rational::Number(text.get<std::string>())));
}

struct TensorOfProgram {
  const char* variable;  // as the program draws it: variable_0, variable_1, ...
  const char* tensor;
  Shape shape;
};

void add_tensor(Case& c, const Json& point, const TensorOfProgram& t) {
  CaseTensor tensor;
  tensor.shape = t.shape;
  for (std::int64_t i = 0; i < element_count(t.shape); ++i) {
    const std::string name = std::string(t.variable) + "_" + std::to_string(i);
    tensor.values.push_back(point.contains(name) ? number(point.at(name)) : 0.0);
  }
  c.tensors[t.tensor] = std::move(tensor);
}

void add_ones(Case& c, const std::string& tensor, const Shape& shape) {
  CaseTensor t;
  t.shape = shape;
  t.values.assign(element_count(shape), 1.0);
  c.tensors[tensor] = std::move(t);
}

Case from_program(const Json& s, const Json& proof) {
  const Json& p = s.at("parameters");
  const Json& point = proof.at("point");
  const std::string program = s.at("program");
  const auto size = [&](const char* name) { return std::stol(p.at(name).get<std::string>()); };
  const long K = p.contains("K") ? size("K") : 1, V = size("V");
  Case c;
  c.options["scale"] = 1.0;
  if (program.rfind("mdn_", 0) == 0) {
    const long T = p.contains("T") ? size("T") : program == "mdn_residual" ? 1 : 2;
    c.op = "mdn";
    for (const TensorOfProgram& t :
         std::initializer_list<TensorOfProgram>{{"q", "q", {1, T, 1, K}},
                                                {"k", "k", {1, T, 1, K}},
                                                {"v", "v", {1, T, 1, V}},
                                                {"alpha", "alpha", {1, T, 1}},
                                                {"mu", "mu", {1, T, 1}},
                                                {"beta", "beta", {1, T, 1}},
                                                {"eta", "eta", {1, T, 1}},
                                                {"s0", "s0", {1, 1, K, V}},
                                                {"m0", "m0", {1, 1, K, V}}}) {
      add_tensor(c, point, t);
    }
    if (p.contains("C")) c.options["chunk"] = std::int64_t{size("C")};
    add_ones(c, "d_o", {1, T, 1, V});
  } else if (program == "m2rnn_algorithm2") {
    const long T = size("T");
    c.op = "m2rnn";
    c.options.clear();
    for (const TensorOfProgram& t :
         std::initializer_list<TensorOfProgram>{{"q", "q", {1, T, 1, K}},
                                                {"k", "k", {1, T, 1, K}},
                                                {"v", "v", {1, T, 1, V}},
                                                {"w", "w", {1, V, V}},
                                                {"f", "f", {1, T, 1}},
                                                {"h0", "h0", {1, 1, K, V}},
                                                {"d_y", "d_y", {1, T, 1, V}}}) {
      add_tensor(c, point, t);
    }
  }
  return c;
}

}  // namespace

Case cycle_case(const std::vector<Step>& steps, long periods) {
  const long T = periods * static_cast<long>(steps.size());
  Case c;
  c.op = "mdn";
  c.options["scale"] = 1.0;
  CaseTensor q, k, v, s0, alpha, beta, mu, eta;
  for (CaseTensor* t : {&q, &k}) t->shape = {1, T, 1, 2};
  for (CaseTensor* t : {&alpha, &beta, &mu, &eta}) t->shape = {1, T, 1};
  v.shape = {1, T, 1, 1};
  s0.shape = {1, 1, 2, 1};
  s0.values = {1, 0};
  const auto value = [](const Rational& x) { return Functions<Rational>::to_double(x); };
  for (long t = 0; t < T; ++t) {
    const Step& g = steps[t % steps.size()];
    alpha.values.push_back(value(g.alpha));
    beta.values.push_back(value(g.beta));
    mu.values.push_back(value(g.mu));
    eta.values.push_back(value(g.eta));
    q.values.insert(q.values.end(), {1.0, 0.0});
    k.values.insert(k.values.end(), {g.along ? 1.0 : 0.0, g.along ? 0.0 : 1.0});
    v.values.push_back(0);
  }
  c.tensors = {{"q", q},         {"k", k},   {"v", v},       {"s0", s0},
               {"alpha", alpha}, {"mu", mu}, {"beta", beta}, {"eta", eta}};
  return c;
}

std::vector<ExportedCase> counterexamples(const Outcome& outcome) {
  std::vector<ExportedCase> cases;
  for (std::size_t i = 0; i < outcome.parts.size(); ++i) {
    const Part& part = outcome.claim->parts[i];
    const Found& found = outcome.parts[i];
    const std::string kind = part.statement.at("kind");
    Case c;
    if (kind == "program" && found.answer == Answer::refuted) {
      c = from_program(part.statement, found.proof);
    } else if (kind == "cycle" && found.answer == Answer::proved) {
      std::vector<Step> steps;
      for (const Json& row : found.proof.at("steps")) {
        const auto gate = [&](int i) {
          return Rational(Rational::Number(row.at(i).get<std::string>()));
        };
        steps.push_back({gate(0), gate(1), gate(2), gate(3), row.at(4) == "e1"});
      }
      c = cycle_case(steps, 4);
    }
    if (c.op.empty()) continue;
    c.metadata["assay.claim"] = outcome.claim->id;
    c.metadata["assay.note"] = found.detail;
    std::string name = file_stem(outcome.claim->id);
    if (kind == "cycle") name += "_" + std::to_string(i + 1);
    cases.push_back({name, std::move(c)});
  }
  return cases;
}

}  // namespace assay::proofs
