// What a candidate declares about its arithmetic. The tolerance of a verdict follows from this and
// from nothing else.
#pragma once

#include <string>
#include <vector>

#include "reference/case/schema.hpp"

namespace assay {

enum class Format;  // of reference/scalars/rounded.hpp

enum class NumberFormat { fp64, fp32, tf32, fp16, bf16 };

/// Unit roundoff of round-to-nearest: fp64 2^-53, fp32 2^-24, tf32 and fp16 2^-11, bf16 2^-8.
double unit_roundoff(NumberFormat format);
std::string format_name(NumberFormat format);
NumberFormat parse_format(const std::string& text);  // InputError for an unknown name
/// The dtype in which values of this format are stored (tf32 in F32).
DType storage_dtype(NumberFormat format);
/// The other way round; of whole numbers fp32.
NumberFormat stored_format(DType dtype);
/// The emulated format; fp64 is not emulated but computed in double, and given as fp32.
Format emulated_format(NumberFormat format);
double largest_number(NumberFormat format);
/// Half the distance between subnormal numbers of the format.
double smallest_spacing(NumberFormat format);
/// x rounded to nearest even in `format`.
double round_to(NumberFormat format, double x);

struct PrecisionModel {
  std::string name = "fp32";
  NumberFormat input = NumberFormat::fp32;        // of the tensors handed over
  NumberFormat operand = NumberFormat::fp32;      // of the operands of matrix products
  NumberFormat accumulator = NumberFormat::fp32;  // of sums
  NumberFormat state = NumberFormat::fp32;        // of the state carried from step to step
  NumberFormat gate = NumberFormat::fp32;         // of gate arithmetic and coefficients
  NumberFormat output = NumberFormat::fp32;       // of outputs and gradients
  NumberFormat final_state = NumberFormat::fp32;  // of final states, as they are handed over
  Form form = Form::recurrent;
  int chunk = 64;
  /// False: nobody said which form the kernel computes; both are allowed for.
  bool form_declared = false;
  /// Relative error of the candidate's transcendentals, as a bound (tanh.approx: 2^-11).
  double exp_error = 0x1p-22, tanh_error = 0x1p-22, softplus_error = 0x1p-22, rsqrt_error = 0x1p-22;
  bool truncating_accumulator = false;  // tensor-core truncation
  bool atomics = false;                 // run-to-run differences are expected
};

/// fp32: everything fp32. tf32: fp32 storage, tf32 operands. fp16 / bf16: input, operand and output
/// in that format, accumulator, state and gates fp32.
PrecisionModel preset_model(const std::string& name);
/// A preset name or a JSON file with the members above. InputError with one line otherwise.
PrecisionModel load_model(const std::string& name_or_file);
/// The preset that fits the dtypes of a case: the coarsest floating dtype among its inputs.
PrecisionModel infer_model(const Case& data);
std::string model_json(const PrecisionModel& model);

}  // namespace assay
