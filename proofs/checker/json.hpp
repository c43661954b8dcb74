// The JSON that certificates are written in: objects, arrays, strings, integers, booleans, null.
// Own reader, so that the checker depends on nothing but GMP.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace assay::checker {

/// What is wrong with a certificate, one line.
struct Rejected : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Value {
 public:
  enum class Type { null, boolean, integer, string, array, object };
  Type type = Type::null;
  std::string text;                                    // of a string, integer or boolean
  std::vector<Value> items;                            // of an array
  std::vector<std::pair<std::string, Value>> members;  // of an object, keys ascending

  // Each throws Rejected naming what is missing or of the wrong type.
  const Value& at(const std::string& key) const;
  bool has(const std::string& key) const;
  const std::string& string() const;
  const std::vector<Value>& array() const;
  const std::vector<std::pair<std::string, Value>>& object() const;
  long integer() const;
  bool boolean() const;
  const std::string& string(const std::string& key) const { return at(key).string(); }
  const std::vector<Value>& array(const std::string& key) const { return at(key).array(); }

  /// Canonical text: no blanks, keys ascending.
  std::string dump() const;
};

/// Throws Rejected for anything that is not exactly one such value, keys given twice included.
Value parse_json(std::string_view text);

}  // namespace assay::checker
