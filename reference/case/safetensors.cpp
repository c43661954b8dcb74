#include "reference/case/safetensors.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <tuple>
#include <vector>

#include "reference/case/encoding.hpp"
#include "reference/case/file_io.hpp"
#include "reference/case/json.hpp"
#include "reference/case/text.hpp"

namespace assay {
namespace {

using nlohmann::json;

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeader = 100'000'000;  // the limit of the format's own library
constexpr std::size_t kMaxAxes = 32;
constexpr const char* kMetadataKey = "__metadata__";

struct Entry {
  std::string name;
  DType dtype = DType::F64;
  Shape shape;
  std::uint64_t begin = 0, end = 0;  // bytes of the data section
};

std::string range_text(std::uint64_t begin, std::uint64_t end) {
  return "bytes " + std::to_string(begin) + ".." + std::to_string(end);
}

class Parser {
 public:
  Parser(std::string_view bytes, const std::string& source)
      : bytes_(bytes), source_(printable(source)) {}

  SafetensorsFile parse(std::uint64_t memory_limit) {
    const json header = parse_json_object(header_text(), source_ + ": header");
    SafetensorsFile file;
    std::vector<Entry> entries;
    for (const auto& [name, value] : header.items()) {
      if (name == kMetadataKey) {
        file.metadata = metadata(value);
      } else {
        entries.push_back(entry(name, value));
      }
    }
    check_cover(entries);
    check_memory(entries, memory_limit == 0 ? machine_memory() : memory_limit);
    for (Entry& e : entries) {
      CaseTensor& tensor = file.tensors[e.name];
      tensor.dtype = e.dtype;
      tensor.shape = std::move(e.shape);
      decode_elements(data_.data() + e.begin, tensor);
    }
    return file;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw InputError(source_ + ": " + what); }
  [[noreturn]] void fail(const std::string& name, const std::string& what) const {
    fail("tensor " + quote_name(name) + ": " + what);
  }

  /// Cuts `bytes_` into the header, which is returned, and the data.
  std::string_view header_text() {
    if (bytes_.empty()) fail("empty file");
    if (bytes_.size() < kLengthBytes) {
      fail("truncated: " + std::to_string(bytes_.size()) +
           " bytes, the header length alone takes 8");
    }
    std::uint64_t length = 0;
    std::memcpy(&length, bytes_.data(), kLengthBytes);
    const std::uint64_t rest = bytes_.size() - kLengthBytes;
    if (length > kMaxHeader) {
      fail("header length " + std::to_string(length) + " is above the limit of " +
           std::to_string(kMaxHeader) + " bytes; not a safetensors file?");
    }
    if (length > rest) {
      fail("truncated: header length " + std::to_string(length) + ", but only " +
           std::to_string(rest) + " bytes follow");
    }
    data_ = bytes_.substr(kLengthBytes + length);
    return bytes_.substr(kLengthBytes, length);
  }

  std::map<std::string, std::string> metadata(const json& value) const {
    if (!value.is_object()) fail("metadata: must be an object of strings");
    std::map<std::string, std::string> out;
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) {
        fail("metadata " + quote_name(key) + ": is " + std::string(text.type_name()) +
             ", must be a string");
      }
      out[key] = text.get<std::string>();
    }
    return out;
  }

  Entry entry(const std::string& name, const json& value) const {
    if (!value.is_object()) fail(name, "its header entry must be an object");
    for (const auto& [key, unused] : value.items()) {
      if (key != "dtype" && key != "shape" && key != "data_offsets") {
        fail(name, "unknown key " + quote_name(key) + " in its header entry");
      }
    }
    Entry e;
    e.name = name;
    const json& dtype = member(name, value, "dtype");
    const auto known =
        dtype.is_string() ? parse_dtype(dtype.get<std::string>()) : std::optional<DType>();
    if (!known) {
      fail(name, "dtype " + printable(dtype.dump(-1, ' ', true)) +
                     " is none of F64 F32 F16 BF16 I64 I32");
    }
    e.dtype = *known;
    e.shape = shape(name, member(name, value, "shape"));
    read_offsets(member(name, value, "data_offsets"), e);
    return e;
  }

  const json& member(const std::string& name, const json& value, const char* key) const {
    const auto found = value.find(key);
    if (found == value.end()) fail(name, "'" + std::string(key) + "' is missing");
    return *found;
  }

  /// A JSON integer from 0 to 2^63 - 1; 3.0 and 3e0 are no integers.
  std::int64_t length(const std::string& name, const json& value, const std::string& what) const {
    const bool too_large =
        value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{INT64_MAX};
    if (!value.is_number_integer() || too_large || value.get<std::int64_t>() < 0) {
      fail(name, what + " is " + printable(value.dump(-1, ' ', true), 40) +
                     ", must be an integer from 0 to 2^63 - 1");
    }
    return value.get<std::int64_t>();
  }

  Shape shape(const std::string& name, const json& value) const {
    if (!value.is_array()) fail(name, "'shape' must be an array");
    if (value.size() > kMaxAxes) {
      fail(name, std::to_string(value.size()) + " axes, at most " + std::to_string(kMaxAxes) +
                     " are read");
    }
    Shape out;
    for (std::size_t i = 0; i < value.size(); ++i) {
      out.push_back(length(name, value[i], "shape, axis " + std::to_string(i)));
    }
    return out;
  }

  void read_offsets(const json& value, Entry& e) const {
    if (!value.is_array() || value.size() != 2) {
      fail(e.name, "'data_offsets' must be an array of two integers");
    }
    e.begin = static_cast<std::uint64_t>(length(e.name, value[0], "data_offsets, begin"));
    e.end = static_cast<std::uint64_t>(length(e.name, value[1], "data_offsets, end"));
    const std::string range = range_text(e.begin, e.end);
    if (e.begin > e.end) fail(e.name, range + ": begin is after end");
    if (e.end > data_.size()) {
      fail(e.name, range + " reach beyond the data, which has " + std::to_string(data_.size()) +
                       " bytes (truncated?)");
    }
    const std::string what = dtype_name(e.dtype) + " of shape " + shape_text(e.shape);
    const auto count = checked_element_count(e.shape);
    if (!count || *count > INT64_MAX / static_cast<std::int64_t>(dtype_size(e.dtype))) {
      fail(e.name, what + " overflows 63 bits");
    }
    const std::uint64_t need = static_cast<std::uint64_t>(*count) * dtype_size(e.dtype);
    if (need != e.end - e.begin) {
      fail(e.name, range + " are " + std::to_string(e.end - e.begin) + " bytes, but " + what +
                       " takes " + std::to_string(need));
    }
  }

  /// The byte ranges, in order, must cover the data exactly.
  void check_cover(std::vector<Entry>& entries) const {
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
    });
    std::uint64_t covered = 0;
    const Entry* previous = nullptr;
    for (const Entry& e : entries) {
      if (e.begin < covered) {
        fail(e.name, range_text(e.begin, e.end) + " overlap tensor " + quote_name(previous->name) +
                         ", " + range_text(previous->begin, previous->end));
      }
      if (e.begin > covered) {
        fail(e.name, range_text(e.begin, e.end) + " leave a hole: " + range_text(covered, e.begin) +
                         " belong to no tensor");
      }
      covered = e.end;
      previous = &e;
    }
    if (covered != data_.size()) {
      fail("trailing bytes: the tensors end at byte " + std::to_string(covered) +
           " of the data, which has " + std::to_string(data_.size()));
    }
  }

  /// Elements are held as 8-byte numbers, so a 16-bit file grows fourfold. Checked beforehand:
  /// systems that promise more memory than they have kill the program instead of refusing.
  void check_memory(const std::vector<Entry>& entries, std::uint64_t limit) const {
    std::uint64_t need = bytes_.size();
    for (const Entry& e : entries) need += 8 * ((e.end - e.begin) / dtype_size(e.dtype));
    if (need > limit) {
      fail("reading it takes " + std::to_string(need) + " bytes of memory, the limit is " +
           std::to_string(limit));
    }
  }

  std::string_view bytes_;
  std::string source_;
  std::string_view data_;
};

json header_entry(const CaseTensor& tensor, std::uint64_t begin, std::uint64_t end) {
  return {
      {"dtype", dtype_name(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
}

}  // namespace

SafetensorsFile parse_safetensors(std::string_view bytes, const std::string& source,
                                  std::uint64_t memory_limit) {
  try {
    return Parser(bytes, source).parse(memory_limit);
  } catch (const std::bad_alloc&) {
    throw InputError(printable(source) + ": needs more memory than there is");
  }
}

SafetensorsFile read_safetensors(const std::string& path, std::uint64_t memory_limit) {
  const std::uint64_t limit = memory_limit == 0 ? machine_memory() : memory_limit;
  return parse_safetensors(read_file_bytes(path, limit), path, limit);
}

std::string safetensors_bytes(const SafetensorsFile& file) {
  // Wide elements first: with the header padded, every tensor is then aligned to its element size.
  std::vector<std::pair<std::string, const CaseTensor*>> order;
  for (const auto& [name, tensor] : file.tensors) order.emplace_back(name, &tensor);
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return dtype_size(a.second->dtype) > dtype_size(b.second->dtype);
  });
  json header = json::object();
  if (!file.metadata.empty()) header[kMetadataKey] = file.metadata;
  std::string data;
  for (const auto& [name, tensor] : order) {
    const std::string where = "tensor " + quote_name(name);
    const std::size_t held =
        is_integer(tensor->dtype) ? tensor->integers.size() : tensor->values.size();
    if (static_cast<std::int64_t>(held) != element_count(tensor->shape) || name == kMetadataKey) {
      throw std::invalid_argument("safetensors_bytes: " + where + " of shape " +
                                  shape_text(tensor->shape) + " holds " + std::to_string(held) +
                                  " elements, or is called " + kMetadataKey);
    }
    const std::uint64_t begin = data.size();
    encode_elements(*tensor, where, data);
    header[name] = header_entry(*tensor, begin, data.size());
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception&) {
    throw InputError("a name or metadata is not UTF-8");
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  std::string out(kLengthBytes, '\0');
  std::memcpy(out.data(), &length, kLengthBytes);
  return out + text + data;
}

void write_safetensors(const std::string& path, const SafetensorsFile& file) {
  std::string bytes;
  try {
    bytes = safetensors_bytes(file);
  } catch (const InputError& error) {
    throw InputError(printable(path) + ": cannot be written: " + error.what());
  }
  write_file_atomic(path, bytes);
}

}  // namespace assay
