#include "kernels/hosts/plugin.hpp"

#include <dlfcn.h>

#include <array>
#include <cstring>
#include <new>
#include <stdexcept>

namespace assay::hosts {
namespace {

constexpr const char* kSymbol = "assay_kernel_table";

/// Calls a function of the plug-in; what it throws against the rules becomes a status.
template <class Function>
Outcome guarded(const char* name, Function&& function) {
  const auto broke_out = [&](const std::string& what) {
    return std::string(name) + ": an exception left the plug-in: " + what;
  };
  try {
    return {function(), ""};
  } catch (const std::bad_alloc& error) {
    return {ASSAY_OUT_OF_MEMORY, broke_out(error.what())};
  } catch (const std::exception& error) {
    return {ASSAY_FAILED, broke_out(error.what())};
  } catch (...) {
    return {ASSAY_FAILED, broke_out("not a std::exception")};
  }
}

/// Adds the name of a bad status and the plug-in's own words for it.
Outcome explained(Outcome outcome, const char* name, const assay_table& table) {
  if (outcome.status == ASSAY_OK || !outcome.detail.empty()) return outcome;
  outcome.detail = std::string(name) + " returned " + status_name(outcome.status);
  const char* words = table.last_error != nullptr ? table.last_error() : nullptr;
  if (words != nullptr && *words != '\0') outcome.detail += std::string(": ") + words;
  return outcome;
}

bool is_fraction(double x) { return x >= 0 && x < 1; }

void check_precision(const assay_precision& p, const std::string& where,
                     std::vector<std::string>& problems) {
  for (const auto& [member, format] :
       {std::pair{"input", p.input}, std::pair{"operand", p.operand},
        std::pair{"accumulator", p.accumulator}, std::pair{"state", p.state},
        std::pair{"gate", p.gate}, std::pair{"output", p.output}}) {
    if (format_name(format) == nullptr) {
      problems.push_back(where + "." + member + " is " + std::to_string(format) + ", no format");
    }
  }
  if (form_name(p.form) == nullptr || p.form == ASSAY_FORM_ANY) {
    problems.push_back(where + ".form is " + std::to_string(p.form) + ", no form");
  }
  if (p.chunk < 0) problems.push_back(where + ".chunk is negative");
  if (!is_fraction(p.exp_error) || !is_fraction(p.tanh_error) || !is_fraction(p.softplus_error) ||
      !is_fraction(p.rsqrt_error)) {
    problems.push_back(where + ": an error bound lies outside [0, 1)");
  }
}

}  // namespace

const std::vector<CapabilityName>& capability_names() {
  static const std::vector<CapabilityName> names = {
      {ASSAY_CAN_FORWARD, "forward"},
      {ASSAY_CAN_BACKWARD, "backward"},
      {ASSAY_CAN_PACKED, "packed"},
      {ASSAY_CAN_HEAD_GROUPS, "head_groups"},
      {ASSAY_CAN_LOG_GATES, "log_gates"},
      {ASSAY_CAN_LINEAR_GATES, "linear_gates"},
      {ASSAY_CAN_INITIAL_STATE, "initial_state"},
      {ASSAY_CAN_STRIDED_ROWS, "strided_rows"},
      {ASSAY_CAN_STRIDED, "strided"},
  };
  return names;
}

const char* format_name(std::int32_t format) {
  constexpr std::array<const char*, 6> names = {nullptr, "fp64", "fp32", "tf32", "fp16", "bf16"};
  return format >= 0 && format < 6 ? names[static_cast<std::size_t>(format)] : nullptr;
}

const char* form_name(std::int32_t form) {
  constexpr std::array<const char*, 4> names = {"any", "recurrent", "chunk", "chunk_log"};
  return form >= 0 && form < 4 ? names[static_cast<std::size_t>(form)] : nullptr;
}

const char* status_name(assay_status status) {
  constexpr std::array<const char*, 6> names = {"ASSAY_OK",           "ASSAY_UNSUPPORTED",
                                                "ASSAY_INVALID",      "ASSAY_OUT_OF_MEMORY",
                                                "ASSAY_DEVICE_ERROR", "ASSAY_FAILED"};
  const auto number = static_cast<unsigned>(status);
  return number < names.size() ? names[number] : "a number that is no status";
}

std::vector<std::string> table_problems(const assay_table& table) {
  // Of another version nothing but the first two members may be read.
  if (table.abi_version != ASSAY_ABI_VERSION) {
    return {"abi_version is " + std::to_string(table.abi_version) + ", this program speaks " +
            std::to_string(ASSAY_ABI_VERSION)};
  }
  if (table.struct_size < sizeof(assay_table)) {
    return {"struct_size is " + std::to_string(table.struct_size) + ", must be at least " +
            std::to_string(sizeof(assay_table))};
  }
  std::vector<std::string> problems;
  const auto require = [&](bool holds, const char* what) {
    if (!holds) problems.emplace_back(what);
    return holds;
  };
  require(table.name != nullptr && *table.name != '\0', "name is empty");
  require(table.device_type == ASSAY_DEVICE_CPU || table.device_type == ASSAY_DEVICE_CUDA,
          "device_type is neither CPU nor CUDA");
  require(table.supports != nullptr, "supports is NULL");
  require(table.run != nullptr, "run is NULL");
  if (require(table.num_operations > 0 && table.operations != nullptr, "no operations")) {
    for (int i = 0; i < table.num_operations; ++i) {
      const assay_operation& operation = table.operations[i];
      const std::string where = "operations[" + std::to_string(i) + "]";
      if (operation.name == nullptr || *operation.name == '\0') {
        problems.push_back(where + ".name is empty");
      } else if ((operation.capabilities & (ASSAY_CAN_FORWARD | ASSAY_CAN_BACKWARD)) == 0) {
        problems.push_back(where + " can neither forward nor backward");
      }
    }
  }
  if (require(table.num_precisions > 0 && table.precisions != nullptr, "no precisions")) {
    for (int i = 0; i < table.num_precisions; ++i) {
      check_precision(table.precisions[i], "precisions[" + std::to_string(i) + "]", problems);
    }
  }
  return problems;
}

Plugin::Plugin(const std::string& path) {
  // Deep binding would give the plug-in its own malloc; local symbols suffice to keep it apart.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  table_ = static_cast<const assay_table*>(dlsym(library, kSymbol));
  if (table_ == nullptr) {
    throw std::runtime_error(path + ": exports no '" + kSymbol + "'");
  }
  const std::vector<std::string> problems = table_problems(*table_);
  if (!problems.empty()) throw std::runtime_error(path + ": table: " + problems.front());
}

const assay_operation* Plugin::find_operation(const std::string& name) const {
  for (int i = 0; i < table_->num_operations; ++i) {
    if (name == table_->operations[i].name) return &table_->operations[i];
  }
  return nullptr;
}

Outcome Plugin::supports(const assay_call& call) const {
  char reason[512] = "";
  Outcome outcome =
      guarded("supports", [&] { return table_->supports(&call, reason, sizeof reason); });
  reason[sizeof reason - 1] = '\0';
  if (outcome.status != ASSAY_OK && outcome.detail.empty()) outcome.detail = reason;
  return explained(std::move(outcome), "supports", *table_);
}

Outcome Plugin::workspace_bytes(const assay_call& call, std::uint64_t& bytes) const {
  bytes = 0;
  if (table_->workspace_bytes == nullptr) return {};
  return explained(
      guarded("workspace_bytes", [&] { return table_->workspace_bytes(&call, &bytes); }),
      "workspace_bytes", *table_);
}

Outcome Plugin::run(const assay_call& call) const {
  return explained(guarded("run", [&] { return table_->run(&call); }), "run", *table_);
}

}  // namespace assay::hosts
