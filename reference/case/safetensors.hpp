// safetensors files, and case files on top of them.
//
// Layout: 8 bytes header length N (little-endian), N bytes JSON
// {"name": {"dtype": "F32", "shape": [..], "data_offsets": [begin, end]}, .., "__metadata__":
// {..}}, then the data; the tensors' byte ranges cover it without holes or overlap.
//
// The reader takes nothing on trust: whatever is wrong ends in an InputError of one line that names
// file, tensor, index, value and rule. It does not judge numbers; NaN and infinities are
// `validate`'s business (schema.hpp).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "reference/case/tensor.hpp"

namespace assay {

struct SafetensorsFile {
  std::map<std::string, std::string> metadata;
  std::map<std::string, CaseTensor> tensors;
};

/// Reads a file. `memory_limit` (bytes, 0: the memory of this machine) bounds the file's size plus
/// the size of the tensors as doubles.
SafetensorsFile read_safetensors(const std::string& path, std::uint64_t memory_limit = 0);

/// The same from memory; `source` names the bytes in messages.
SafetensorsFile parse_safetensors(std::string_view bytes, const std::string& source,
                                  std::uint64_t memory_limit = 0);

/// Writes to a temporary file beside `path` and renames it, so that a reader sees the old file or
/// the new one. Throws InputError when the file cannot be written or an element has no value in its
/// tensor's dtype.
void write_safetensors(const std::string& path, const SafetensorsFile& file);

/// The bytes of the file: the same for the same contents, data 8-byte aligned.
std::string safetensors_bytes(const SafetensorsFile& file);

/// A case as a file and back. Metadata: `assay.op` and `assay.version` ("1") are required,
/// `assay.options` (JSON) and `assay.seed` may be absent, other keys are kept.
Case read_case(const std::string& path);
void write_case(const std::string& path, const Case& c);
Case case_from_file(SafetensorsFile file, const std::string& source);
SafetensorsFile file_from_case(const Case& c);

}  // namespace assay
