#include "checks/output/json_output.hpp"

#include <cmath>
#include <cstdio>

namespace assay {
namespace {

// JSON has no infinities: an open side of an interval is null.
Json bound(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

std::string role_name(Role role) {
  switch (role) {
    case Role::token:
      return "token";
    case Role::param:
      return "param";
    case Role::state:
      return "state";
  }
  return "";
}

std::string type_name(OptionType type) {
  switch (type) {
    case OptionType::boolean:
      return "boolean";
    case OptionType::integer:
      return "integer";
    case OptionType::real:
      return "real";
    case OptionType::string:
      return "string";
  }
  return "";
}

Json input_json(const InputSpec& input) {
  Json json = {{"name", input.name},
               {"axes", input.axes},
               {"role", role_name(input.role)},
               {"doc", input.doc},
               {"domain", {bound(input.domain.lo), bound(input.domain.hi)}},
               {"optional", input.optional},
               {"differentiable", input.differentiable}};
  if (input.optional) json["default"] = input.default_value;
  if (!input.log_name.empty()) json["log_name"] = input.log_name;
  return json;
}

Json output_json(const OutputSpec& output) {
  return {{"name", output.name},
          {"axes", output.axes},
          {"doc", output.doc},
          {"final_state", output.final_state},
          {"integer", output.integer}};
}

Json option_json(const OptionSpec& option) {
  Json json = {{"name", option.name}, {"type", type_name(option.type)}, {"doc", option.doc}};
  json["default"] = option.default_value ? to_json(*option.default_value) : Json(nullptr);
  if (!option.choices.empty()) json["choices"] = option.choices;
  if (option.type == OptionType::integer || option.type == OptionType::real) {
    json["range"] = {bound(option.lo), bound(option.hi)};
  }
  return json;
}

template <class Specs>
Json list_json(const Specs& specs, Json (*one)(const typename Specs::value_type&)) {
  Json list = Json::array();
  for (const auto& spec : specs) list.push_back(one(spec));
  return list;
}

Json tensors_json(const std::map<std::string, DecimalTensor>& tensors) {
  Json json = Json::object();
  for (const auto& [name, tensor] : tensors) {
    json[name] = {{"shape", tensor.shape}, {"values", tensor.values}};
  }
  return json;
}

}  // namespace

Json json_document() { return {{"schema_version", kJsonSchemaVersion}}; }

Json to_json(const OptionValue& value) {
  return std::visit([](const auto& v) { return Json(v); }, value);
}

Json to_json(const Schema& schema) {
  Json forms = Json::array();
  for (Form form : schema.forms) forms.push_back(form_name(form));
  return {{"name", schema.op},
          {"title", schema.title},
          {"source", schema.source},
          {"forms", forms},
          {"packable", schema.packable},
          {"inputs", list_json(schema.inputs, input_json)},
          {"outputs", list_json(schema.outputs, output_json)},
          {"options", list_json(schema.options, option_json)}};
}

Json to_json(const Evaluation& evaluation) {
  Json json = json_document();
  json["op"] = evaluation.op;
  json["digits"] = evaluation.digits;
  json["engine"] = engine_name(evaluation.engine);
  json["form"] = form_name(evaluation.form);
  json["bits"] = evaluation.bits;
  json["outputs"] = tensors_json(evaluation.outputs);
  json["gradients"] = tensors_json(evaluation.gradients);
  json["notes"] = evaluation.notes;
  return json;
}

std::string status_name(CheckOutcome::Status status) {
  switch (status) {
    case CheckOutcome::Status::passed:
      return "passed";
    case CheckOutcome::Status::failed:
      return "failed";
    case CheckOutcome::Status::skipped:
      return "skipped";
  }
  return "";
}

Json to_json(const GradcheckReport& report) {
  Json outcomes = Json::array();
  for (const CheckOutcome& outcome : report.outcomes) {
    outcomes.push_back({{"check", outcome.check},
                        {"status", status_name(outcome.status)},
                        {"detail", outcome.detail},
                        {"worst_tensor", outcome.worst_tensor},
                        {"worst_index", outcome.worst_index},
                        {"lines", outcome.lines}});
  }
  return {{"op", report.op}, {"failed", report.failed()}, {"outcomes", outcomes}};
}

void print_json(const Json& document) {
  // Names and messages may come from a file: bytes that are no UTF-8 must not end the program.
  const std::string text = document.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fputc('\n', stdout);
}

}  // namespace assay
