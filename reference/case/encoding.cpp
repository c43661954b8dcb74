#include "reference/case/encoding.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "reference/case/text.hpp"
#include "reference/scalars/rounded.hpp"

namespace assay {
namespace {

static_assert(std::endian::native == std::endian::little,
              "elements are copied as they lie in the file, which is little-endian");

template <class Stored>
Stored load(const char* bytes, std::int64_t i) {
  Stored value;
  std::memcpy(&value, bytes + i * static_cast<std::int64_t>(sizeof(Stored)), sizeof(Stored));
  return value;
}

template <class Stored>
void append(std::string& bytes, Stored value) {
  char raw[sizeof(Stored)];
  std::memcpy(raw, &value, sizeof(Stored));
  bytes.append(raw, sizeof(Stored));
}

template <class Stored, class Value, class Convert>
void decode_as(const char* bytes, std::int64_t count, std::vector<Value>& values, Convert convert) {
  values.resize(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) values[i] = convert(load<Stored>(bytes, i));
}

void append_float(std::string& bytes, double value, DType dtype) {
  switch (dtype) {
    case DType::F64:
      return append(bytes, value);
    case DType::F32:
      return append(bytes, static_cast<float>(value));
    case DType::F16:
      return append(bytes, double_to_fp16_bits(value));
    case DType::BF16:
      return append(bytes, double_to_bf16_bits(value));
    default:
      throw std::invalid_argument("append_float: " + dtype_name(dtype) + " is no float");
  }
}

[[noreturn]] void fail(const CaseTensor& tensor, const std::string& where, std::size_t i,
                       const std::string& value) {
  throw InputError(where + ": index " + index_text(tensor.shape, static_cast<std::int64_t>(i)) +
                   ", value " + value + ": not a value of " + dtype_name(tensor.dtype));
}

}  // namespace

double round_to_dtype(double value, DType dtype) {
  switch (dtype) {
    case DType::F64:
      return value;
    case DType::F32:
      return round_to(Format::fp32, value);
    case DType::F16:
      return round_to(Format::fp16, value);
    case DType::BF16:
      return round_to(Format::bf16, value);
    default:
      throw std::invalid_argument("round_to_dtype: " + dtype_name(dtype) + " is no float");
  }
}

void decode_elements(const char* bytes, CaseTensor& tensor) {
  const std::int64_t count = element_count(tensor.shape);
  const auto keep = [](auto x) { return x; };
  switch (tensor.dtype) {
    case DType::F64:
      return decode_as<double>(bytes, count, tensor.values, keep);
    case DType::F32:
      return decode_as<float>(bytes, count, tensor.values, keep);
    case DType::F16:
      return decode_as<std::uint16_t>(bytes, count, tensor.values, fp16_bits_to_float);
    case DType::BF16:
      return decode_as<std::uint16_t>(bytes, count, tensor.values, bf16_bits_to_float);
    case DType::I64:
      return decode_as<std::int64_t>(bytes, count, tensor.integers, keep);
    case DType::I32:
      return decode_as<std::int32_t>(bytes, count, tensor.integers, keep);
  }
}

void encode_elements(const CaseTensor& tensor, const std::string& where, std::string& bytes) {
  if (is_integer(tensor.dtype)) {
    using Narrow = std::numeric_limits<std::int32_t>;
    const bool narrow = tensor.dtype == DType::I32;
    for (std::size_t i = 0; i < tensor.integers.size(); ++i) {
      const std::int64_t value = tensor.integers[i];
      if (!narrow) {
        append(bytes, value);
      } else if (value < Narrow::min() || value > Narrow::max()) {
        fail(tensor, where, i, std::to_string(value));
      } else {
        append(bytes, static_cast<std::int32_t>(value));
      }
    }
    return;
  }
  for (std::size_t i = 0; i < tensor.values.size(); ++i) {
    const double value = tensor.values[i];
    // Written so that a NaN, which equals nothing, may be stored.
    const bool exact = std::isnan(value) || round_to_dtype(value, tensor.dtype) == value;
    if (!exact) fail(tensor, where, i, number_text(value));
    append_float(bytes, value, tensor.dtype);
  }
}

}  // namespace assay
