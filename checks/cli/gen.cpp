// `assay gen`: makes a random case of an operation.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "checks/cli/command.hpp"
#include "checks/output/interrupt.hpp"
#include "reference/case/generate.hpp"
#include "reference/case/safetensors.hpp"
#include "reference/oracle/registry.hpp"

namespace assay::cli {
namespace {

struct GenFlags {
  GenerateRequest request;
  std::string dtype = "F32";
  std::string out;
  bool no_optional = false;
  bool no_cotangents = false;
};

DType floating_dtype(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const std::optional<DType> dtype = parse_dtype(name);
  if (!dtype || is_integer(*dtype)) {
    throw InputError(fmt::format("--dtype: '{}' is none of F64, F32, F16, BF16", name));
  }
  return *dtype;
}

int run_gen(const GenFlags& flags) {
  GenerateRequest request = flags.request;
  request.dtype = floating_dtype(flags.dtype);
  request.optional_inputs = !flags.no_optional;
  request.cotangents = !flags.no_cotangents;
  const Operation& operation = find_operation(request.op);
  const Case made = generate([&](const Case* data) { return operation.schema(data); }, request);
  {
    const Uninterrupted guard;
    write_case(flags.out, made);
  }
  for (const auto& [name, tensor] : made.tensors) {
    fmt::print("{:<18} {:<5} {}\n", name, dtype_name(tensor.dtype), shape_text(tensor.shape));
  }
  fmt::print("written to {}\n", flags.out);
  return kWell;
}

std::string presets_text() {
  std::string text = "ranges name=lo:hi of single inputs, or a preset:";
  for (const GatePreset& preset : gate_presets()) {
    text += fmt::format("\n{} ({})", preset.name, preset.doc);
  }
  return text;
}

}  // namespace

Command add_gen(CLI::App& parent) {
  auto flags = std::make_shared<GenFlags>();
  GenerateRequest& request = flags->request;
  CLI::App* app = parent.add_subcommand("gen", "Makes a random case");
  app->add_option("op", request.op, "operation")->required();
  app->add_option("--shape", request.shape,
                  "axes, e.g. B=1,T=65,H=2,K=64,V=32; H.q=1: fewer heads for q; cu=0,3,65: packed");
  app->add_option("--gates", request.gates, presets_text())->delimiter(',');
  app->add_flag("--log-gates", request.log_gates,
                "give gates as logarithms where there is a choice");
  app->add_option("--dtype", flags->dtype, "F64, F32, F16 or BF16")->capture_default_str();
  add_seed(*app, request.seed, "same seed, same bytes");
  app->add_option("--option", request.options, "option of the operation, name=value");
  app->add_option("--without", request.without, "optional inputs to leave out")->delimiter(',');
  app->add_flag("--no-optional", flags->no_optional, "leave out all optional inputs");
  app->add_flag("--no-cotangents", flags->no_cotangents, "leave out the cotangents of outputs");
  app->add_option("--out", flags->out, "the file to write (safetensors)")
      ->check(named_folder())
      ->required();
  return {app, [flags] { return run_gen(*flags); }};
}

}  // namespace assay::cli
