#include "checks/verdict/precision_model.hpp"

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "reference/case/text.hpp"
#include "reference/scalars/rounded.hpp"

namespace assay {
namespace {

struct FormatRow {
  NumberFormat format;
  const char* name;
  double unit_roundoff;
  Format emulated;
  double largest;
  double smallest_spacing;  // half of it
};
constexpr std::array<FormatRow, 5> kFormats = {{
    {NumberFormat::fp64, "fp64", 0x1p-53, Format::fp32, std::numeric_limits<double>::max(),
     0x1p-1074},
    {NumberFormat::fp32, "fp32", 0x1p-24, Format::fp32, 0x1p128 * (1 - 0x1p-24), 0x1p-150},
    {NumberFormat::tf32, "tf32", 0x1p-11, Format::tf32, 0x1p128 * (1 - 0x1p-11), 0x1p-150},
    {NumberFormat::fp16, "fp16", 0x1p-11, Format::fp16, 65504, 0x1p-25},
    {NumberFormat::bf16, "bf16", 0x1p-8, Format::bf16, 0x1p128 * (1 - 0x1p-8), 0x1p-134},
}};

const FormatRow& row(NumberFormat format) {
  for (const FormatRow& r : kFormats) {
    if (r.format == format) return r;
  }
  throw std::invalid_argument("unknown number format");
}

const std::vector<std::string> kPresets = {"fp32", "tf32", "fp16", "bf16"};

PrecisionModel parse_model(const std::string& file) {
  std::ifstream stream(file);
  std::error_code error;
  if (!stream || !std::filesystem::is_regular_file(file, error)) {
    throw InputError("precision model '" + file + "': no preset (" + join(kPresets, ", ") +
                     ") and no readable file");
  }
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(stream);
  } catch (const nlohmann::json::exception& error) {
    const std::string what = error.what();  // "[json.exception…] reason"
    throw InputError(file +
                     ": not JSON: " + what.substr(std::min(what.find("] ") + 2, what.size())));
  }
  if (!json.is_object() || json.empty()) {
    throw InputError(file +
                     ": a precision model is a JSON object with \"preset\" or other members");
  }
  PrecisionModel model = json.contains("preset") && json["preset"].is_string()
                             ? preset_model(json["preset"].get<std::string>())
                             : PrecisionModel{};
  model.name = json.value("name", file);
  const std::map<std::string, NumberFormat*> formats = {{"input", &model.input},
                                                        {"operand", &model.operand},
                                                        {"accumulator", &model.accumulator},
                                                        {"state", &model.state},
                                                        {"gate", &model.gate},
                                                        {"output", &model.output},
                                                        {"final_state", &model.final_state}};
  const std::map<std::string, double*> errors = {{"exp_error", &model.exp_error},
                                                 {"tanh_error", &model.tanh_error},
                                                 {"softplus_error", &model.softplus_error},
                                                 {"rsqrt_error", &model.rsqrt_error}};
  const std::map<std::string, bool*> flags = {
      {"truncating_accumulator", &model.truncating_accumulator}, {"atomics", &model.atomics}};
  for (const auto& [key, value] : json.items()) {
    const auto refuse = [&](const std::string& rule) {
      throw InputError(file + ": '" + key + "' is " + value.dump() + ", must be " + rule);
    };
    if (key == "name" || key == "preset") {
      if (!value.is_string()) refuse("a string");
    } else if (formats.count(key)) {
      if (!value.is_string()) refuse("a number format");
      try {
        *formats.at(key) = parse_format(value.get<std::string>());
      } catch (const InputError& error) {
        throw InputError(file + ": '" + key + "': " + error.what());
      }
    } else if (errors.count(key)) {
      if (!value.is_number() || !(value.get<double>() >= 0 && value.get<double>() < 1)) {
        refuse("a number in [0, 1)");
      }
      *errors.at(key) = value.get<double>();
    } else if (flags.count(key)) {
      if (!value.is_boolean()) refuse("true or false");
      *flags.at(key) = value.get<bool>();
    } else if (key == "form") {
      if (!value.is_string()) refuse("recurrent or chunk");
      model.form = parse_form(value.get<std::string>());
      model.form_declared = true;
    } else if (key == "chunk") {
      if (!value.is_number_integer() || value.get<std::int64_t>() < 1 ||
          value.get<std::int64_t>() > 65536) {
        refuse("an integer from 1 to 65536");
      }
      model.chunk = value.get<int>();
    } else {
      throw InputError(file + ": '" + key + "' is no member of a precision model");
    }
  }
  if (!json.contains("final_state") && json.contains("state")) model.final_state = model.state;
  return model;
}

}  // namespace

double unit_roundoff(NumberFormat format) { return row(format).unit_roundoff; }
std::string format_name(NumberFormat format) { return row(format).name; }
Format emulated_format(NumberFormat format) { return row(format).emulated; }
double largest_number(NumberFormat format) { return row(format).largest; }
double smallest_spacing(NumberFormat format) { return row(format).smallest_spacing; }

NumberFormat parse_format(const std::string& text) {
  for (const FormatRow& r : kFormats) {
    if (text == r.name) return r.format;
  }
  throw InputError("unknown number format '" + text + "'; known: fp64, fp32, tf32, fp16, bf16");
}

DType storage_dtype(NumberFormat format) {
  switch (format) {
    case NumberFormat::fp64:
      return DType::F64;
    case NumberFormat::fp16:
      return DType::F16;
    case NumberFormat::bf16:
      return DType::BF16;
    default:
      return DType::F32;
  }
}

NumberFormat stored_format(DType dtype) {
  switch (dtype) {
    case DType::F64:
      return NumberFormat::fp64;
    case DType::F16:
      return NumberFormat::fp16;
    case DType::BF16:
      return NumberFormat::bf16;
    default:
      return NumberFormat::fp32;
  }
}

double round_to(NumberFormat format, double x) {
  return format == NumberFormat::fp64 ? x : round_to(emulated_format(format), x);
}

PrecisionModel preset_model(const std::string& name) {
  PrecisionModel model;
  model.name = name;
  if (name == "fp32") return model;
  if (name == "tf32") {
    model.operand = NumberFormat::tf32;
    return model;
  }
  if (name != "fp16" && name != "bf16") {
    throw InputError("unknown precision model '" + name + "'; known: " + join(kPresets, ", "));
  }
  model.input = model.operand = model.output = parse_format(name);
  return model;
}

PrecisionModel load_model(const std::string& name_or_file) {
  for (const std::string& preset : kPresets) {
    if (preset == name_or_file) return preset_model(preset);
  }
  return parse_model(name_or_file);
}

PrecisionModel infer_model(const Case& data) {
  bool bf16 = false, fp16 = false;
  for (const auto& [name, tensor] : data.tensors) {
    bf16 = bf16 || tensor.dtype == DType::BF16;
    fp16 = fp16 || tensor.dtype == DType::F16;
  }
  return preset_model(bf16 ? "bf16" : fp16 ? "fp16" : "fp32");
}

std::string model_json(const PrecisionModel& m) {
  nlohmann::ordered_json json{{"name", m.name},
                              {"input", format_name(m.input)},
                              {"operand", format_name(m.operand)},
                              {"accumulator", format_name(m.accumulator)},
                              {"state", format_name(m.state)},
                              {"gate", format_name(m.gate)},
                              {"output", format_name(m.output)},
                              {"final_state", format_name(m.final_state)},
                              {"chunk", m.chunk},
                              {"exp_error", m.exp_error},
                              {"tanh_error", m.tanh_error},
                              {"softplus_error", m.softplus_error},
                              {"rsqrt_error", m.rsqrt_error},
                              {"truncating_accumulator", m.truncating_accumulator},
                              {"atomics", m.atomics}};
  if (m.form_declared) json["form"] = form_name(m.form);
  return json.dump();
}

}  // namespace assay
