// Random cases of any operation, made from its schema.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "reference/case/schema.hpp"

namespace assay {

/// The schema of the operation for a case as far as it is made (null: for no case). A function,
/// because the inputs of some operations depend on options and on tensors that are present.
using SchemaProvider = std::function<Schema(const Case*)>;

struct GenerateRequest {
  std::string op;
  /// Axis lengths, "B=1,T=65,H=2,K=64,V=32". "H.q=1" (or "Hq=1") gives one input fewer heads;
  /// "cu=0,0,3,65" packs sequences (B = 1, T follows). What is left out has a small default.
  std::string shape;
  /// Presets (`gate_presets`) and ranges "alpha=0.9:1", "log_mu=-5:0", "beta=1" of single inputs,
  /// also of inputs that are no gates.
  std::vector<std::string> gates;
  bool log_gates = false;  // give gates as logarithms where there is the choice
  DType dtype = DType::F32;
  std::uint64_t seed = 0;
  std::vector<std::string> options;  // "chunk=16"
  bool optional_inputs = true;
  std::vector<std::string> without;  // optional inputs to leave out all the same
  bool cotangents = true;
};

struct GatePreset {
  const char* name;
  const char* doc;
};
/// model, long, wide, edge, dead; the first is the default.
const std::vector<GatePreset>& gate_presets();

/// The same request gives the same bytes on every platform. The case is valid; throws InputError
/// for axes, names, options or values that are not.
Case generate(const SchemaProvider& schema, const GenerateRequest& request);

}  // namespace assay
