// assay-host: loads a plug-in and serves its parent. PROTOCOL.md says how.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>

#include "kernels/hosts/call_frame.hpp"
#include "kernels/hosts/channel.hpp"
#include "kernels/hosts/crash_report.hpp"
#include "kernels/hosts/cuda_runtime.hpp"
#include "kernels/hosts/plugin.hpp"

namespace assay::hosts {
namespace {

using nlohmann::json;

constexpr int kProtocol = 1;

json precision_json(const assay_precision& p) {
  json out = {{"input", format_name(p.input)},
              {"operand", format_name(p.operand)},
              {"accumulator", format_name(p.accumulator)},
              {"state", format_name(p.state)},
              {"gate", format_name(p.gate)},
              {"output", format_name(p.output)},
              {"form", form_name(p.form)},
              {"chunk", p.chunk},
              {"truncating_accumulator", p.truncating_accumulator != 0},
              {"atomics", p.atomics != 0}};
  for (const auto& [name, bound] :
       {std::pair{"exp_error", p.exp_error}, std::pair{"tanh_error", p.tanh_error},
        std::pair{"softplus_error", p.softplus_error}, std::pair{"rsqrt_error", p.rsqrt_error}}) {
    if (bound > 0) out[name] = bound;
  }
  return out;
}

json describe(const Plugin& plugin) {
  const assay_table& table = plugin.table();
  json out = {{"protocol", kProtocol},
              {"status", "ran"},
              {"name", table.name},
              {"version", table.version != nullptr ? table.version : ""},
              {"device", table.device_type == ASSAY_DEVICE_CUDA ? "cuda" : "cpu"},
              {"operations", json::array()},
              {"models", json::array()}};
  for (int i = 0; i < table.num_operations; ++i) {
    const assay_operation& operation = table.operations[i];
    json names = json::array();
    for (const CapabilityName& capability : capability_names()) {
      if ((operation.capabilities & capability.bit) != 0) names.push_back(capability.name);
    }
    out["operations"].push_back({{"name", operation.name}, {"capabilities", names}});
  }
  for (int i = 0; i < table.num_precisions; ++i) {
    out["models"].push_back(precision_json(table.precisions[i]));
  }
  return out;
}

/// Why the plug-in cannot do the request by its own declaration; nothing when it can.
std::optional<std::string> undeclared(const assay_operation* operation, const json& request) {
  const std::string name = request.at("op");
  if (operation == nullptr) return "the plug-in does not list '" + name + "'";
  for (const std::string need : request.at("needs")) {
    for (const CapabilityName& capability : capability_names()) {
      if (need == capability.name && (operation->capabilities & capability.bit) == 0) {
        return "'" + name + "' is declared without the capability '" + need + "'";
      }
    }
  }
  return std::nullopt;
}

std::vector<TensorRequest> tensor_requests(const json& list) {
  std::vector<TensorRequest> out;
  for (const json& entry : list) {
    out.push_back({entry.at("name"), entry.at("dtype"), entry.at("shape")});
  }
  return out;
}

std::map<std::string, OptionValue> option_values(const json& options) {
  std::map<std::string, OptionValue> out;
  for (const auto& [name, value] : options.items()) {
    if (value.is_boolean()) {
      out[name] = value.get<bool>();
    } else if (value.is_number_integer()) {
      out[name] = value.get<std::int64_t>();
    } else if (value.is_number()) {
      out[name] = value.get<double>();
    } else {
      out[name] = value.get<std::string>();
    }
  }
  return out;
}

/// The strongest layout that the operation declares; nothing when it takes only contiguous tensors.
std::optional<Layout> strided_layout(const assay_operation& operation) {
  if ((operation.capabilities & ASSAY_CAN_STRIDED) != 0) return Layout::strided;
  if ((operation.capabilities & ASSAY_CAN_STRIDED_ROWS) != 0) return Layout::strided_rows;
  return std::nullopt;
}

CallRequest call_request(const json& request, std::string_view bytes) {
  CallRequest out;
  out.operation = request.at("op");
  std::map<std::string, StoredTensor> stored;
  for (StoredTensor& tensor : read_safetensors(bytes)) stored[tensor.name] = std::move(tensor);
  for (const std::string name : request.at("inputs")) out.inputs.push_back(stored.at(name));
  for (const std::string name : request.at("cotangents")) out.cotangents.push_back(stored.at(name));
  out.outputs = tensor_requests(request.at("outputs"));
  out.gradients = tensor_requests(request.at("gradients"));
  out.options = option_values(request.at("options"));
  out.chunk = request.at("chunk");
  out.fresh_buffers = request.at("fresh_buffers");
  for (std::int32_t form = ASSAY_FORM_ANY; form_name(form) != nullptr; ++form) {
    if (request.at("form") == form_name(form)) out.form = form;
  }
  return out;
}

std::string status_word(const Outcome& outcome) {
  switch (outcome.status) {
    case ASSAY_OK:
      return "ran";
    case ASSAY_UNSUPPORTED:
      return "unsupported";
    case ASSAY_OUT_OF_MEMORY:
      return "out_of_memory";
    default:
      return "failed";
  }
}

json run(const Plugin& plugin, CallFrame& frame, const json& request, Channel& channel) {
  const assay_operation* operation = plugin.find_operation(request.at("op"));
  if (const auto reason = undeclared(operation, request)) {
    return {{"status", "unsupported"}, {"detail", *reason}};
  }
  const std::string bytes = channel.request_bytes(request.at("bytes"));
  CallRequest wanted = call_request(request, bytes);
  if (request.at("strided")) {
    const auto layout = strided_layout(*operation);
    if (!layout) return {{"status", "unsupported"}, {"detail", "takes contiguous tensors only"}};
    wanted.layout = *layout;
  }
  const CallResult result = frame.call(wanted);
  json reply = {{"status", status_word(result.outcome)},
                {"detail", result.outcome.detail},
                {"seconds", result.seconds},
                {"hygiene", json::array()},
                {"leaving", result.device_lost}};
  for (const Finding& f : result.findings) {
    reply["hygiene"].push_back({{"kind", f.kind}, {"tensor", f.tensor}, {"detail", f.detail}});
  }
  if (result.outcome.status == ASSAY_OK) {
    const std::string file = write_safetensors(result.results);
    channel.write_reply_bytes(file);
    reply["bytes"] = file.size();
  }
  return reply;
}

json answer(const Plugin& plugin, std::optional<CallFrame>& frame, const json& request,
            Channel& channel) {
  try {
    // Before the description, so that a machine without a GPU has no candidate rather than a bad
    // one.
    if (!frame) frame.emplace(plugin);
    if (request.at("method") == "describe") return describe(plugin);
    return run(plugin, *frame, request, channel);
  } catch (const std::bad_alloc&) {
    return {{"status", "out_of_memory"}, {"detail", "no memory for the tensors of the call"}};
  } catch (const CudaError& error) {
    return {{"status", "failed"}, {"detail", error.what()}, {"leaving", true}};
  } catch (const std::exception& error) {
    return {{"status", "failed"}, {"detail", std::string("assay-host: ") + error.what()}};
  }
}

int serve(Channel channel, int control, const char* path) {
  channel.die_with_parent();
  report_crashes_to(control);
  std::optional<Plugin> plugin;
  std::string refusal;
  try {
    plugin.emplace(path);
  } catch (const std::exception& error) {
    refusal = error.what();
  }
  std::optional<CallFrame> frame;
  json request;
  while (channel.receive(request)) {
    json reply = plugin ? answer(*plugin, frame, request, channel)
                        : json{{"status", "failed"}, {"detail", refusal}, {"leaving", true}};
    reply["id"] = request.at("id");
    channel.send(reply);
    if (reply.value("leaving", false)) break;
  }
  // Not through exit(): what a plug-in registered there may hang or crash, and matters to nobody.
  std::fflush(nullptr);
  _Exit(0);
}

}  // namespace
}  // namespace assay::hosts

int main(int argc, char** argv) {
  if (argc != 6 || std::strcmp(argv[1], "--serve") != 0) {
    std::fprintf(stderr,
                 "assay-host runs kernels for the program `assay`, which starts it as\n"
                 "  assay-host --serve CONTROL_FD REQUEST_FD REPLY_FD plugin.so\n"
                 "To try a plug-in by hand, use assay-kernel-selftest.\n");
    return 2;
  }
  const int control = std::atoi(argv[2]);
  return assay::hosts::serve({control, std::atoi(argv[3]), std::atoi(argv[4])}, control, argv[5]);
}
