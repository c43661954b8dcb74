// JSON read with suspicion: what a lying or hostile file may hold is refused, not interpreted.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace assay {

/// Limits on a JSON text. They bound the memory that parsing can take before the contents are
/// looked at.
struct JsonLimits {
  int depth = 3;                  // nested objects and arrays
  std::size_t array = 64;         // elements of one array
  std::size_t entries = 100'000;  // keys of one object
};

/// Parses a JSON object. Throws InputError, one line starting with `where`, for anything malformed:
/// syntax, not an object, a key given twice, bytes that are not UTF-8, a NUL, the limits.
nlohmann::json parse_json_object(std::string_view text, const std::string& where,
                                 const JsonLimits& limits = {});

}  // namespace assay
