// Tensors in shared memory as safetensors, as far as a host needs them: views into the bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace assay::hosts {

using Shape = std::vector<std::int64_t>;

struct StoredTensor {
  std::string name;
  std::string dtype;  // F64 F32 F16 BF16 I64 I32
  Shape shape;
  std::string_view bytes;  // row-major
};

/// Bytes of one element; 0 for a dtype that is none of the six.
std::size_t element_bytes(std::string_view dtype);
std::int64_t element_count(const Shape& shape);

/// Reads what the parent wrote. Throws std::runtime_error when it is not that.
std::vector<StoredTensor> read_safetensors(std::string_view file);
/// The file with these tensors.
std::string write_safetensors(const std::vector<StoredTensor>& tensors);

}  // namespace assay::hosts
