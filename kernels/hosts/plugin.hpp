// A loaded plug-in: its table, checked, and the functions of the table called safely.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/abi/assay_kernel.h"

namespace assay::hosts {

struct Outcome {
  assay_status status = ASSAY_OK;
  std::string detail;  // one line; "" when all is well
};

class Plugin {
 public:
  /// Loads the library and checks its table. Throws std::runtime_error, one line.
  explicit Plugin(const std::string& path);

  const assay_table& table() const { return *table_; }
  /// Null when the plug-in does not list the operation.
  const assay_operation* find_operation(const std::string& name) const;

  Outcome supports(const assay_call& call) const;
  Outcome workspace_bytes(const assay_call& call, std::uint64_t& bytes) const;
  Outcome run(const assay_call& call) const;

 private:
  const assay_table* table_ = nullptr;
};

/// Everything wrong with a table, one line each.
std::vector<std::string> table_problems(const assay_table& table);

struct CapabilityName {
  std::uint64_t bit;
  const char* name;
};
const std::vector<CapabilityName>& capability_names();
/// "fp32"; null for a number that is no format.
const char* format_name(std::int32_t format);
/// "recurrent", "chunk", "chunk_log", "any"; null for a number that is no form.
const char* form_name(std::int32_t form);
const char* status_name(assay_status status);

}  // namespace assay::hosts
