// How an operation describes its tensors to the kernels' driver.
#pragma once

#include <cstdint>

#include "kernels/common/variant.hpp"

ASSAY_CPU_BEGIN

enum class Role : std::uint8_t {
  token,         // input with a time axis
  param,         // input without batch and time
  state,         // initial state; its partner among the outputs is the next final_state in order
  token_output,  // output with a time axis
  final_state,   // output
};

/// What a tensor means to the fast-weight engine; other operations go by position.
enum class Slot : std::uint8_t { none, q, k, p, v, decay, mu, beta, eta, skip, q_correction };

/// Axes are one letter each: B batch (or packed sequence, for states), T time, H or N heads, M and
/// R memories, everything else belongs to the row of one step and one head. An axis of heads may be
/// shorter than H where it divides H, except in states.
struct TensorSpec {
  const char* name;
  const char* axes;
  Role role;
  Slot slot = Slot::none;
  const char* log_name = nullptr;  // the name under which the logarithm may be given instead
  bool optional = false;
  double missing = 0;  // value of an optional input that is not there
};

inline constexpr int kMaxTensors = 20;  // inputs or outputs of one operation

/// Inputs without states come first, in the order the operation counts its fields; then states,
/// outputs, final states, in any order among the groups.
struct OpSpec {
  const char* op;
  const TensorSpec* tensors;
  int count;
  bool chunk_form = false;
  bool coupled_heads = false;  // one unit of work is a whole sequence instead of one head of it
};

ASSAY_CPU_END
