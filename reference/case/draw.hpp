// How the numbers of a generated tensor are drawn.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "reference/case/random.hpp"
#include "reference/case/schema.hpp"

namespace assay {

enum class Preset { model, long_memory, wide, edge, dead };

/// What a user asked of the values: a preset, and ranges of single tensors.
struct ValuePlan {
  struct Range {
    double lo, hi;
  };
  Preset preset = Preset::model;
  std::map<std::string, Range> ranges;  // by the tensor's name
};

/// Reads "long", "alpha=0.9:1", "log_mu=-inf". Throws InputError.
ValuePlan parse_value_plan(const std::vector<std::string>& texts);

/// One value of the tensor `name` of `input`, before rounding to its dtype. `last` is the length of
/// its last axis.
double draw_value(Stream& random, const Schema& schema, const InputSpec& input,
                  const std::string& name, std::int64_t last, const ValuePlan& plan);

}  // namespace assay
