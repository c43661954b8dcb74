#include "checks/verdict/dtypes.hpp"

#include <algorithm>

namespace assay {
namespace {

bool can_hold(DType dtype, NumberFormat format) {
  const NumberFormat own = stored_format(dtype);
  return unit_roundoff(own) <= unit_roundoff(format) &&
         largest_number(own) >= largest_number(format);
}

/// Does the model compute in fp64, or does the case hand over F64?
bool knows_f64(const ValidCase& c, const PrecisionModel& m) {
  const auto formats = {m.input, m.operand, m.accumulator, m.state,
                        m.gate,  m.output,  m.final_state};
  return std::find(formats.begin(), formats.end(), NumberFormat::fp64) != formats.end() ||
         std::any_of(c.data.tensors.begin(), c.data.tensors.end(),
                     [](const auto& named) { return named.second.dtype == DType::F64; });
}

}  // namespace

NumberFormat input_format(const ValidCase& c, const PrecisionModel& model, const std::string& d_x) {
  if (d_x.rfind("d_", 0) != 0) return model.output;
  const auto input = c.data.tensors.find(d_x.substr(2));
  return input == c.data.tensors.end() ? model.output : stored_format(input->second.dtype);
}

std::vector<HygieneFinding> wrong_dtypes(const ValidCase& c, const PrecisionModel& model,
                                         const RunResult& result) {
  std::vector<HygieneFinding> findings;
  const bool f64 = result.saved || knows_f64(c, model);
  for (const auto& [name, dtype] : result.stored) {
    const OutputSpec* out = c.schema.find_output(name);
    const bool state = out && out->final_state, whole = out && out->integer;
    const NumberFormat format = state ? model.final_state : model.output;
    bool right;
    if (whole) {
      right = is_integer(dtype) || (result.saved && dtype == DType::F64);
    } else if (is_integer(dtype)) {
      right = false;
    } else if (dtype == DType::F64) {
      right = f64;
    } else {
      right = can_hold(dtype, format) || (state && can_hold(dtype, model.output)) ||
              (!out && can_hold(dtype, input_format(c, model, name)));
    }
    if (right) continue;
    findings.push_back({"wrong dtype", name,
                        "is " + dtype_name(dtype) + ", must be " +
                            dtype_name(whole ? DType::I64 : storage_dtype(format)) +
                            (whole ? "" : " under " + model.name)});
  }
  return findings;
}

}  // namespace assay
