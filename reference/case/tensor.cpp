#include "reference/case/tensor.hpp"

#include <limits>

namespace assay {
namespace {

struct DTypeEntry {
  DType dtype;
  const char* name;
  std::size_t size;
  bool integer;
};

constexpr DTypeEntry kDTypes[] = {
    {DType::F64, "F64", 8, false},   {DType::F32, "F32", 4, false}, {DType::F16, "F16", 2, false},
    {DType::BF16, "BF16", 2, false}, {DType::I64, "I64", 8, true},  {DType::I32, "I32", 4, true},
};

const DTypeEntry& entry(DType dtype) {
  for (const DTypeEntry& e : kDTypes) {
    if (e.dtype == dtype) return e;
  }
  throw std::invalid_argument("dtype: " + std::to_string(static_cast<int>(dtype)) +
                              " is no value of DType");
}

}  // namespace

std::string dtype_name(DType dtype) { return entry(dtype).name; }
std::size_t dtype_size(DType dtype) { return entry(dtype).size; }
bool is_integer(DType dtype) { return entry(dtype).integer; }

std::optional<DType> parse_dtype(const std::string& name) {
  for (const DTypeEntry& e : kDTypes) {
    if (name == e.name) return e.dtype;
  }
  return std::nullopt;
}

std::optional<std::int64_t> checked_element_count(const Shape& shape) {
  // Zeros are left out of the overflow check's product, not skipped by an early return: [2^62,8,0]
  // has no elements, yet every stride computed from it would overflow.
  std::int64_t product = 1;
  bool empty = false;
  for (std::int64_t length : shape) {
    if (length < 0) return std::nullopt;
    if (length == 0) {
      empty = true;
    } else if (product > std::numeric_limits<std::int64_t>::max() / length) {
      return std::nullopt;
    } else {
      product *= length;
    }
  }
  return empty ? 0 : product;
}

std::int64_t element_count(const Shape& shape) {
  const auto count = checked_element_count(shape);
  if (!count) {
    throw std::length_error("element_count: shape " + shape_text(shape) +
                            " has a negative axis or more than 2^63 - 1 elements");
  }
  return *count;
}

std::string shape_text(const Shape& shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    out += (i == 0 ? "" : ",") + std::to_string(shape[i]);
  }
  return out + "]";
}

std::string index_text(const Shape& shape, std::int64_t flat) {
  Shape index(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    if (shape[axis] <= 0) {
      throw std::invalid_argument("index_text: shape " + shape_text(shape) + " has no elements");
    }
    index[axis] = flat % shape[axis];
    flat /= shape[axis];
  }
  return shape_text(index);
}

}  // namespace assay
