// Stored tensors and cases: exactly what a case file holds, before any engine reads it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

namespace assay {

using Shape = std::vector<std::int64_t>;

enum class DType { F64, F32, F16, BF16, I64, I32 };

std::string dtype_name(DType dtype);
std::size_t dtype_size(DType dtype);
bool is_integer(DType dtype);

/// The dtype of that name, or nothing.
std::optional<DType> parse_dtype(const std::string& name);

/// `value` rounded to nearest even in a floating dtype (overflow gives an infinity).
double round_to_dtype(double value, DType dtype);

/// Number of elements of a shape; the empty shape is a scalar (1). Throws std::length_error for a
/// negative axis or a product that leaves 63 bits (counting only the axes that are not 0).
std::int64_t element_count(const Shape& shape);
/// The same, nothing instead of the exception.
std::optional<std::int64_t> checked_element_count(const Shape& shape);
std::string shape_text(const Shape& shape);
/// Row-major index tuple of a flat index, as "[b,t,h]".
std::string index_text(const Shape& shape, std::int64_t flat);

/// A dense row-major tensor of any scalar.
template <class Real>
struct Tensor {
  Shape shape;
  std::vector<Real> data;

  Tensor() = default;
  explicit Tensor(Shape s) : shape(std::move(s)), data(element_count(shape)) {}
  std::int64_t size() const { return static_cast<std::int64_t>(data.size()); }
};

/// A tensor of a case. Every floating dtype of a case file is exactly a double, so `values` loses
/// nothing; integer tensors keep `integers` instead.
struct CaseTensor {
  DType dtype = DType::F64;
  Shape shape;
  std::vector<double> values;          // floating dtypes
  std::vector<std::int64_t> integers;  // I64, I32
};

using OptionValue = std::variant<bool, std::int64_t, double, std::string>;
using Options = std::map<std::string, OptionValue>;

/// One input of the whole machine: an operation, its tensors (inputs and cotangents `d_<output>`)
/// and options, as given. `validate` (schema.hpp) checks it against the operation's schema.
struct Case {
  std::string op;
  Options options;
  std::map<std::string, CaseTensor> tensors;
  std::string seed;                             // as written in the metadata, may be empty
  std::string source;                           // file name for messages
  std::map<std::string, std::string> metadata;  // other metadata of the file, kept as it is
};

/// Bad input: one line naming file, tensor, index, value, rule. The command line exits with 2.
struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace assay
