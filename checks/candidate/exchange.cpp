#include "checks/candidate/exchange.hpp"

namespace assay {
namespace {

using nlohmann::json;

json option_json(const OptionValue& value) {
  return std::visit([](const auto& x) { return json(x); }, value);
}

/// Options that the case does not give but that have a default, and those that it gives.
json options_json(const ValidCase& c, bool given) {
  json out = json::object();
  for (const OptionSpec& option : c.schema.options) {
    const auto found = c.data.options.find(option.name);
    if (found != c.data.options.end()) {
      if (given) out[option.name] = option_json(found->second);
    } else if (!given && option.default_value) {
      out[option.name] = option_json(*option.default_value);
    }
  }
  return out;
}

/// Capabilities of the kernel interface that the case takes.
json needs_json(const ValidCase& c, bool gradients) {
  std::set<std::string> needs = {"forward"};
  if (gradients) needs.insert("backward");
  if (c.packed()) needs.insert("packed");
  for (const InputSpec& spec : c.schema.inputs) {
    const std::string name = given_name(c.data, spec);
    if (name.empty()) continue;
    if (!spec.log_name.empty()) needs.insert(name == spec.log_name ? "log_gates" : "linear_gates");
    if (spec.role == Role::state) needs.insert("initial_state");
    const std::size_t head = spec.axes.find(c.schema.head_axis);
    if (head == std::string::npos) continue;
    const Shape& shape = c.data.tensors.at(name).shape;
    if (shape.at(head) != c.sizes[c.schema.head_axis]) needs.insert("head_groups");
  }
  return needs;
}

json wanted(const std::string& name, DType dtype, const Shape& shape) {
  return {{"name", name}, {"dtype", dtype_name(dtype)}, {"shape", shape}};
}

/// Moves a stored tensor into `results`, as exact doubles; or says what is wrong with it.
void take(const std::string& stored_name, const std::string& name, const Shape& shape,
          SafetensorsFile& file, const std::set<std::string>& declined,
          std::map<std::string, Tensor<double>>& results, RunResult& result) {
  const auto found = file.tensors.find(stored_name);
  if (found == file.tensors.end()) {
    if (declined.count(stored_name) == 0) {
      result.hygiene.push_back({"not written", stored_name, "the candidate gave none"});
    }
    return;
  }
  CaseTensor& stored = found->second;
  if (stored.shape != shape) {
    result.hygiene.push_back(
        {"wrong shape", stored_name, shape_text(stored.shape) + ", must be " + shape_text(shape)});
    return;
  }
  Tensor<double>& tensor = results[name];
  tensor.shape = shape;
  result.stored[stored_name] = stored.dtype;
  if (is_integer(stored.dtype)) {
    tensor.data.assign(stored.integers.begin(), stored.integers.end());
  } else {
    tensor.data = std::move(stored.values);
  }
}

}  // namespace

std::vector<std::string> gradient_names(const ValidCase& c) {
  std::vector<std::string> names;
  for (const InputSpec& spec : c.schema.inputs) {
    const std::string name = given_name(c.data, spec);
    if (!name.empty() && spec.differentiable && !spec.integer) names.push_back(name);
  }
  return names;
}

json request_json(const ValidCase& c, const RunRequest& request) {
  json out = {{"method", "run"},
              {"op", c.data.op},
              {"inputs", json::array()},
              {"cotangents", json::array()},
              {"outputs", json::array()},
              {"gradients", json::array()},
              {"options", options_json(c, true)},
              {"defaults", options_json(c, false)},
              {"form", request.form.form},
              {"chunk", request.form.chunk},
              {"needs", needs_json(c, request.gradients)},
              {"strided", request.layout.strided},
              {"fresh_buffers", request.layout.fresh_buffers}};
  for (const InputSpec& spec : c.schema.inputs) {
    const std::string name = given_name(c.data, spec);
    if (!name.empty()) out["inputs"].push_back(name);
  }
  if (c.packed()) out["inputs"].push_back("cu_seqlens");
  for (const OutputSpec& spec : c.schema.outputs) {
    const DType dtype = spec.integer       ? DType::I64
                        : spec.final_state ? request.final_state
                                           : request.output;
    out["outputs"].push_back(wanted(spec.name, dtype, c.output_shape(spec)));
    // Without gradients the cotangents are nobody's business.
    if (request.gradients && c.data.tensors.count("d_" + spec.name) != 0) {
      out["cotangents"].push_back("d_" + spec.name);
    }
  }
  if (!request.gradients) return out;
  for (const std::string& name : gradient_names(c)) {
    const CaseTensor& input = c.data.tensors.at(name);
    out["gradients"].push_back(wanted("d_" + name, input.dtype, input.shape));
  }
  return out;
}

std::string request_tensors(const ValidCase& c) {
  SafetensorsFile file;
  file.tensors = c.data.tensors;
  return safetensors_bytes(file);
}

void take_tensors(const ValidCase& c, bool gradients, SafetensorsFile file,
                  const std::set<std::string>& declined, RunResult& result) {
  for (const OutputSpec& spec : c.schema.outputs) {
    take(spec.name, spec.name, c.output_shape(spec), file, declined, result.outputs, result);
  }
  if (!gradients) return;
  for (const std::string& name : gradient_names(c)) {
    take("d_" + name, name, c.data.tensors.at(name).shape, file, declined, result.gradients,
         result);
  }
}

}  // namespace assay
