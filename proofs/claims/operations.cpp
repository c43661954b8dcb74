// What is claimed of every operation, from the registry alone: its adjoint, and that its forms
// agree. A new operation gets these claims by being registered.
#include "proofs/claims/claim.hpp"
#include "reference/oracle/registry.hpp"

namespace assay::proofs {
namespace {

Json operation_statement(const Schema& schema, const std::string& check, Form form) {
  Json options = Json::array();
  if (schema.find_option("chunk")) options.push_back("chunk=5");  // does not divide the length 16
  return {{"kind", "operation"},     {"op", schema.op}, {"check", check},
          {"form", form_name(form)}, {"shape", ""},     {"options", options}};
}

bool has_gradient(const Schema& schema) {
  for (const OutputSpec& output : schema.outputs) {
    if (!output.integer) return true;
  }
  return false;
}

}  // namespace

void claims_of_operations(ClaimList& list) {
  for (const Operation* operation : operations()) {
    const Schema schema = operation->schema(nullptr);
    if (!has_gradient(schema)) continue;
    Claim& adjoint = list.claim(schema.op + "/adjoint", schema.source,
                                "the hand-written adjoint is the transpose of the tangent map");
    adjoint.over(
        "every input and gate, exp, tanh and their like as free symbols; wrong formulas of "
        "degree below 2^27");
    for (const Form form : schema.forms) {
      // Random symbols lack log(a b) = log a + log b, which this form needs.
      if (form == Form::chunk_log) continue;
      adjoint.part(operation_statement(schema, "adjoint", form));
    }
    Json twice = operation_statement(schema, "adjoint", Form::recurrent);
    twice["factor"] = 2;
    adjoint.sibling("twice the adjoint is the transpose").part(twice);
    for (const Form form : schema.forms) {
      if (form != Form::chunk) continue;
      if (schema.op == "mdn") continue;  // claimed in full in mdn_chunk.cpp
      list.claim(schema.op + "/chunk-equals-recurrent", schema.source,
                 "chunk form and recurrent form give the same outputs, states and gradients")
          .over("T = 16, C = 5, K = V = 8, all inputs; wrong formulas of degree below 2^27")
          .part(operation_statement(schema, "forms", form))
          .sibling("twice the outputs of the chunk form are those of the recurrent one")
          .part([&] {
            Json wrong = operation_statement(schema, "forms", form);
            wrong["factor"] = 2;
            return wrong;
          }());
    }
  }
}

}  // namespace assay::proofs
