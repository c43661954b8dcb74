#include "kernels/hosts/safetensors_view.hpp"

#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace assay::hosts {

using nlohmann::json;

std::size_t element_bytes(std::string_view dtype) {
  if (dtype == "F64" || dtype == "I64") return 8;
  if (dtype == "F32" || dtype == "I32") return 4;
  if (dtype == "F16" || dtype == "BF16") return 2;
  return 0;
}

std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t length : shape) {
    if (length < 0 || __builtin_mul_overflow(count, length, &count)) {
      throw std::runtime_error("a shape has a negative axis or too many elements");
    }
  }
  return count;
}

std::vector<StoredTensor> read_safetensors(std::string_view file) {
  std::uint64_t length = 0;
  if (file.size() < sizeof length) throw std::runtime_error("safetensors: truncated");
  std::memcpy(&length, file.data(), sizeof length);
  if (length > file.size() - sizeof length) throw std::runtime_error("safetensors: truncated");
  const json header = json::parse(file.substr(sizeof length, length));
  const std::string_view data = file.substr(sizeof length + length);
  std::vector<StoredTensor> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    StoredTensor tensor{name, entry.at("dtype"), entry.at("shape"), {}};
    const auto begin = entry.at("data_offsets").at(0).get<std::uint64_t>();
    const auto end = entry.at("data_offsets").at(1).get<std::uint64_t>();
    const auto count = static_cast<std::uint64_t>(element_count(tensor.shape));
    const std::size_t unit = element_bytes(tensor.dtype);
    if (unit == 0 || begin > end || end > data.size() || end - begin != count * unit) {
      throw std::runtime_error("safetensors: tensor '" + name + "' has a wrong range");
    }
    tensor.bytes = data.substr(begin, end - begin);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

std::string write_safetensors(const std::vector<StoredTensor>& tensors) {
  json header = json::object();
  std::string data;
  for (const StoredTensor& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data.append(tensor.bytes);
  }
  const std::string text = header.dump();
  const std::uint64_t length = text.size();
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file + text + data;
}

}  // namespace assay::hosts
