// `assay eval`: the truth about a case, to a stated number of certain digits.
#include <fmt/format.h>

#include <optional>

#include "checks/cli/command.hpp"
#include "checks/output/evaluation_text.hpp"
#include "checks/output/interrupt.hpp"
#include "checks/output/json_output.hpp"
#include "checks/output/progress.hpp"
#include "reference/case/safetensors.hpp"
#include "reference/oracle/certify.hpp"

namespace assay::cli {
namespace {

struct EvalFlags {
  std::string file;
  int digits = 50;
  std::string form = "recurrent";
  std::optional<std::int64_t> chunk;
  std::string engine = "ball";
  bool gradients = false;
  bool json = false;
  bool strict = false;
  std::string out;
  int threads = 1;
};

CaseTensor as_f64(const DecimalTensor& tensor) {
  CaseTensor result;
  result.dtype = DType::F64;
  result.shape = tensor.shape;
  result.values = tensor.nearest;
  return result;
}

/// Outputs and gradients as nearest doubles, under the names of the JSON.
void write_tensors(const std::string& path, const Evaluation& evaluation, const ValidCase& c) {
  Case file;
  file.op = evaluation.op;
  file.options = c.data.options;
  file.seed = c.data.seed;
  for (const auto* tensors : {&evaluation.outputs, &evaluation.gradients}) {
    for (const auto& [name, tensor] : *tensors) file.tensors[name] = as_f64(tensor);
  }
  const Uninterrupted guard;
  write_case(path, file);
}

int run_eval(const EvalFlags& flags) {
  EvalRequest request;
  request.digits = flags.digits;
  request.form = parse_form(flags.form);
  request.engine = parse_engine(flags.engine);
  request.gradients = flags.gradients;
  request.threads = flags.threads;
  const ValidCase c = load_case(flags.file, flags.strict, [&](Case& data) {
    if (flags.chunk) data.options["chunk"] = *flags.chunk;
  });
  Evaluation evaluation;
  {
    Progress progress("assay eval " + c.schema.op);
    request.progress = progress.callback();
    evaluation = evaluate_certified(c, request);
  }
  std::vector<std::string> notes;
  for (const DomainNote& note : c.notes) notes.push_back(domain_note_text(note));
  evaluation.notes.insert(evaluation.notes.begin(), notes.begin(), notes.end());
  if (!flags.out.empty()) write_tensors(flags.out, evaluation, c);
  if (flags.json) {
    print_json(to_json(evaluation));
  } else {
    const std::string text = evaluation_text(evaluation);
    std::fwrite(text.data(), 1, text.size(), stdout);
    if (!flags.out.empty()) fmt::print("\nwritten to {}\n", flags.out);
  }
  return kWell;
}

}  // namespace

Command add_eval(CLI::App& parent) {
  auto flags = std::make_shared<EvalFlags>();
  CLI::App* app = parent.add_subcommand("eval", "The truth, to that many certain digits");
  app->add_option("file", flags->file, "case file (safetensors)")->required();
  app->add_option("--digits", flags->digits, "certain decimal digits of every value")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app->add_option("--form", flags->form, "recurrent, chunk or chunk_log")->capture_default_str();
  app->add_option("--chunk", flags->chunk, "chunk length, in place of the case's option");
  app->add_option("--engine", flags->engine, "ball, mpfr, rational or dd")->capture_default_str();
  app->add_flag("--grad", flags->gradients, "gradients too");
  app->add_flag("--json", flags->json, "print JSON with every value");
  app->add_option("--out", flags->out, "write the nearest doubles to this safetensors file");
  app->add_flag("--strict", flags->strict, "values outside their domain are an error");
  add_threads(*app, flags->threads);
  return {app, [flags] { return run_eval(*flags); }};
}

}  // namespace assay::cli
