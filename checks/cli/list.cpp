// `assay list`: what there is.
#include <fmt/format.h>

#include <algorithm>

#include "checks/candidate/scheme.hpp"
#include "checks/cli/command.hpp"
#include "checks/faults/fault.hpp"
#include "checks/output/json_output.hpp"
#include "proofs/engine/prove.hpp"
#include "reference/oracle/registry.hpp"

namespace assay::cli {
namespace {

struct ListFlags {
  std::string what;
  std::string name;
  bool json = false;
};

std::string forms_text(const Schema& schema) {
  std::string text;
  for (Form form : schema.forms) text += (text.empty() ? "" : ", ") + form_name(form);
  return text;
}

std::string option_default(const OptionSpec& option) {
  return option.default_value ? to_json(*option.default_value).dump() : "-";
}

void print_table() {
  for (const Operation* operation : operations()) {
    const Schema schema = operation->schema(nullptr);
    fmt::print("{:<20} {} {}\n", schema.op, schema.title, schema.source);
    if (schema.forms.size() > 1) fmt::print("{:<20} forms: {}\n", "", forms_text(schema));
  }
}

void print_one(const Schema& schema) {
  fmt::print("{}: {} {}\nforms: {}{}\n\n", schema.op, schema.title, schema.source,
             forms_text(schema), schema.packable ? "; accepts cu_seqlens" : "");
  fmt::print("{:<16} {}\n", "input", "axes");
  for (const InputSpec& input : schema.inputs) {
    const std::string log = input.log_name.empty() ? "" : " (or " + input.log_name + ")";
    fmt::print("{:<16} {:<10} {}{}{}\n", input.name, input.axes, input.doc, log,
               input.optional ? fmt::format(" (optional, else {})", input.default_value) : "");
  }
  fmt::print("\n{:<16} {}\n", "output", "axes");
  for (const OutputSpec& output : schema.outputs) {
    fmt::print("{:<16} {:<10} {}\n", output.name, output.axes, output.doc);
  }
  if (schema.options.empty()) return;
  fmt::print("\n{:<16} {}\n", "option", "default");
  for (const OptionSpec& option : schema.options) {
    fmt::print("{:<16} {:<10} {}\n", option.name, option_default(option), option.doc);
  }
}

int run_list_ops(const ListFlags& flags) {
  if (flags.json) {
    Json document = json_document();
    document["ops"] = Json::array();
    for (const Operation* operation : operations()) {
      const Schema schema = operation->schema(nullptr);
      if (flags.name.empty() || flags.name == schema.op) document["ops"].push_back(to_json(schema));
    }
    if (!flags.name.empty()) find_operation(flags.name);  // throws when there is none
    print_json(document);
  } else if (flags.name.empty()) {
    print_table();
  } else {
    print_one(find_operation(flags.name).schema(nullptr));
  }
  return kWell;
}

int run_list_faults(const ListFlags& flags) {
  std::vector<const Fault*> chosen = faults();
  if (!flags.name.empty()) chosen = {&find_fault(flags.name)};  // throws when there is none
  if (flags.json) {
    Json document = json_document();
    document["faults"] = Json::array();
    for (const Fault* fault : chosen) {
      const FaultInfo& info = fault->info();
      document["faults"].push_back(
          {{"id", info.id}, {"title", info.title}, {"source", info.source}});
    }
    print_json(document);
    return kWell;
  }
  for (const Fault* fault : chosen) {
    fmt::print("{:<36} {} [{}]\n", fault->info().id, fault->info().title, fault->info().source);
  }
  return kWell;
}

int run_list_claims(const ListFlags& flags) {
  std::vector<std::string> patterns;
  if (!flags.name.empty()) patterns.push_back(flags.name);
  const auto chosen = proofs::select_claims(patterns);  // throws when there is none
  if (flags.json) {
    Json document = json_document();
    document["claims"] = Json::array();
    for (const proofs::Claim* claim : chosen) {
      document["claims"].push_back({{"id", claim->id},
                                    {"source", claim->source},
                                    {"statement", claim->says},
                                    {"domain", claim->domain},
                                    {"false_sibling", claim->sibling_says}});
    }
    print_json(document);
    return kWell;
  }
  for (const proofs::Claim* claim : chosen) {
    fmt::print("{:<36} {} {}\n", claim->id, claim->says, claim->source);
    if (flags.name.empty()) continue;
    fmt::print("{:<36} domain: {}\n", "", claim->domain);
    fmt::print("{:<36} false sibling: {}\n", "", claim->sibling_says);
  }
  return kWell;
}

int run_list(const ListFlags& flags) {
  if (flags.what == "ops") return run_list_ops(flags);
  if (flags.what == "faults") return run_list_faults(flags);
  if (flags.what == "claims") return run_list_claims(flags);
  Json document = json_document();
  document["candidates"] = Json::array();
  for (const CandidateScheme& scheme : candidate_schemes()) {
    if (scheme.prefix == "python-fd") continue;  // for programs, not for people
    document["candidates"].push_back({{"form", scheme.form}, {"doc", scheme.doc}});
    if (!flags.json) fmt::print("{:<56} {}\n", scheme.form, scheme.doc);
  }
  if (flags.json) print_json(document);
  return kWell;
}

}  // namespace

Command add_list(CLI::App& parent) {
  auto flags = std::make_shared<ListFlags>();
  CLI::App* app = parent.add_subcommand("list", "What there is");
  app->add_option("what", flags->what, "ops, faults, claims or candidates")
      ->required()
      ->check(CLI::IsMember({"ops", "faults", "claims", "candidates"}));
  app->add_option("name", flags->name, "one entry, in full");
  app->add_flag("--json", flags->json, "print JSON");
  return {app, [flags] { return run_list(*flags); }};
}

}  // namespace assay::cli
