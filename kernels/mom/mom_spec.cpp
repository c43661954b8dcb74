#include "kernels/mom/mom_spec.hpp"

#include <cstdio>
#include <cstring>

ASSAY_CPU_BEGIN

bool has_shared_memory(const Call& call) {
  constexpr char kSuffix[] = "_shared";
  for (int i = 0; i < call.inputs.count; ++i) {
    const char* name = call.inputs.views[i].name;
    const std::size_t length = std::strlen(name), suffix = sizeof kSuffix - 1;
    if (length > suffix && std::strcmp(name + length - suffix, kSuffix) == 0) return true;
  }
  return false;
}

const char* MomSpec::text(const char* name, const char* suffix) {
  char* to = texts_[texts_used_++];
  std::snprintf(to, kLength, "%s%s", name, suffix);
  return to;
}

void MomSpec::add(const TensorSpec& t, const char* suffix, bool per_memory) {
  TensorSpec& to = tensors_[spec_.count++];
  to = t;
  if (*suffix) {
    to.name = text(t.name, suffix);
    if (t.log_name) to.log_name = text(t.log_name, suffix);
  }
  if (!per_memory) return;
  // Tokens: M follows T. States: R follows B.
  const char* after = std::strchr(t.axes, t.role == Role::token ? 'T' : 'B') + 1;
  char* axes = texts_[texts_used_++];
  std::snprintf(axes, kLength, "%.*s%c%s", static_cast<int>(after - t.axes), t.axes,
                t.role == Role::token ? 'M' : 'R', after);
  to.axes = axes;
}

MomSpec::MomSpec(const OpSpec& update, bool shared) {
  add({"router_logits", "BTM", Role::token}, "", false);
  const auto each = [&](Role role, const auto& visit) {
    for (int i = 0; i < update.count; ++i) {
      const TensorSpec& t = update.tensors[i];
      // Read-out extras of the update are no part of a memory.
      if (t.role != role || t.slot == Slot::skip || t.slot == Slot::q_correction) continue;
      visit(t);
    }
  };
  each(Role::token, [&](const TensorSpec& t) {
    if (t.slot == Slot::q) add(t, "", false);
  });
  each(Role::token, [&](const TensorSpec& t) {
    if (t.slot != Slot::q) add(t, "_mem", true);
  });
  if (shared) {
    each(Role::token, [&](const TensorSpec& t) {
      if (t.slot != Slot::q) add(t, "_shared", false);
    });
  }
  each(Role::param, [&](const TensorSpec& t) { add(t, "", false); });
  each(Role::state, [&](const TensorSpec& t) { add(t, "", true); });
  each(Role::token_output, [&](const TensorSpec& t) { add(t, "", false); });
  each(Role::final_state, [&](const TensorSpec& t) { add(t, "", true); });
}

ASSAY_CPU_END
