// Every operation can be generated from its schema alone, in all the ways a schema allows.
#include <catch2/catch.hpp>

#include "reference/case/generate.hpp"
#include "reference/case/safetensors.hpp"
#include "reference/oracle/registry.hpp"
#include "reference/tests/case_fixtures.hpp"

using namespace assay;
using namespace assay::fixtures;

namespace {

/// Generates, writes, reads and validates.
Case made(const Operation& operation, const GenerateRequest& request) {
  const SchemaProvider provider = [&](const Case* data) { return operation.schema(data); };
  const Case c = generate(provider, request);
  const Case back = case_from_file(
      parse_safetensors(safetensors_bytes(file_from_case(c)), request.op), request.op);
  const ValidCase valid = validate(back, operation.schema(&back));
  CHECK(valid.notes.empty());
  for (const OutputSpec& output : valid.schema.outputs) {
    CHECK(back.tensors.count("d_" + output.name) == (request.cotangents && !output.integer));
  }
  return back;
}

}  // namespace

TEST_CASE("case/operations: every operation is generated in every way", "[case]") {
  for (const Operation* operation : operations()) {
    GenerateRequest r;
    r.op = operation->name();
    CAPTURE(r.op);
    made(*operation, r);
    for (const GatePreset& preset : gate_presets()) {
      r.gates = {preset.name};
      r.log_gates = !r.log_gates;
      r.dtype = r.log_gates ? DType::BF16 : DType::F16;
      made(*operation, r);
    }
    r.shape = "T=0";
    made(*operation, r);
    r.shape = "T=1";
    r.optional_inputs = r.cotangents = false;
    made(*operation, r);
    if (operation->schema(nullptr).packable) {
      r.shape = "cu=0,0,3,7";
      r.optional_inputs = r.cotangents = true;
      CHECK(made(*operation, r).tensors.at("cu_seqlens").integers.size() == 4);
    }
  }
}

TEST_CASE("case/operations: mom takes every fast-weight update, shared memory or not", "[case]") {
  const Operation& mom = find_operation("mom");
  for (const Operation* update : operations()) {
    if (!update->is_fast_weight()) continue;
    CAPTURE(update->name());
    GenerateRequest r;
    r.op = "mom";
    r.shape = "M=3,H=2";
    r.options = {"update=" + update->name(), "top_k=1"};
    const Case shared = made(mom, r);
    CHECK(shared.tensors.at("s0").shape[1] == 4);
    r.optional_inputs = false;
    const Case routed = made(mom, r);
    CHECK(routed.tensors.size() < shared.tensors.size());
    for (const auto& [name, tensor] : routed.tensors) {
      CHECK(name.find("_shared") == std::string::npos);
    }
  }
}

TEST_CASE("case/operations: the real traces are valid, the known quirk is noted", "[case]") {
  const auto notes = [](const std::string& name) {
    const Case c = read_case(ASSAY_SOURCE_DIR "/checks/samples/" + name + ".safetensors");
    return validate(c, find_operation(c.op).schema(&c)).notes;
  };
  CHECK(notes("m2rnn_s3").empty());
  CHECK(notes("mom_mqar").empty());
  REQUIRE(notes("mdn_mqar").size() == 1);
  CHECK(notes("mdn_mqar")[0].tensor == "log_mu");
  CHECK(notes("mdn_mqar")[0].count == 256);
}
