#include "reference/case/json.hpp"

#include <set>
#include <vector>

#include "reference/case/tensor.hpp"
#include "reference/case/text.hpp"

namespace assay {
namespace {

using nlohmann::json;
using Event = json::parse_event_t;

/// Follows the parser and objects to what the library would let pass.
class Watcher {
 public:
  Watcher(const std::string& where, const JsonLimits& limits) : where_(where), limits_(limits) {}

  bool operator()(Event event, const json& parsed) {
    switch (event) {
      case Event::object_start:
      case Event::array_start:
        if (!open_.empty()) count_element();
        if (static_cast<int>(open_.size()) >= limits_.depth) {
          fail("nested deeper than " + std::to_string(limits_.depth) + " levels");
        }
        open_.push_back({event == Event::array_start, 0, {}, {}});
        break;
      case Event::object_end:
      case Event::array_end:
        open_.pop_back();
        break;
      case Event::key:
        add_key(parsed.get_ref<const std::string&>());
        break;
      case Event::value:
        if (!open_.empty()) count_element();
        break;
    }
    return true;
  }

 private:
  struct Level {
    bool array;
    std::size_t elements;
    std::set<std::string> keys;
    std::string last_key;
  };

  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(where_ + ": " + what + path());
  }

  /// " in 'a' 'b'": the keys that lead to the level at hand.
  std::string path() const {
    std::string out;
    for (std::size_t i = 0; i + 1 < open_.size(); ++i) {
      if (!open_[i].array) out += (out.empty() ? " in " : " ") + quote_name(open_[i].last_key);
    }
    return out;
  }

  void count_element() {
    Level& level = open_.back();
    if (level.array && ++level.elements > limits_.array) {
      fail("an array of more than " + std::to_string(limits_.array) + " elements");
    }
  }

  void add_key(const std::string& key) {
    Level& level = open_.back();
    level.last_key = key;
    if (!level.keys.insert(key).second) fail("key " + quote_name(key) + " is given twice");
    if (level.keys.size() > limits_.entries) {
      fail("an object of more than " + std::to_string(limits_.entries) + " keys");
    }
  }

  const std::string& where_;
  const JsonLimits& limits_;
  std::vector<Level> open_;
};

/// The library's message without its own name and number.
std::string reason(const json::exception& error) {
  const std::string_view text = error.what();
  const std::size_t end = text.find("] ");
  return printable(end == std::string_view::npos ? text : text.substr(end + 2), 200);
}

}  // namespace

json parse_json_object(std::string_view text, const std::string& where, const JsonLimits& limits) {
  const auto fail = [&](const std::string& what) { throw InputError(where + ": " + what); };
  // The library takes a NUL for the end of the text and skips a byte order mark.
  const std::size_t nul = text.find('\0');
  if (nul != std::string_view::npos) fail("NUL byte at position " + std::to_string(nul));
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) fail("empty text, expected a JSON object");
  if (text[first] != '{') {
    fail("expected a JSON object, found '" + printable(text.substr(first), 20) + "'");
  }
  if (!is_utf8(text)) fail("not UTF-8");
  Watcher watcher(where, limits);
  try {
    return json::parse(text.begin(), text.end(),
                       [&](int, Event event, json& parsed) { return watcher(event, parsed); });
  } catch (const json::exception& error) {
    fail("malformed JSON: " + reason(error));
    throw;  // not reached
  }
}

}  // namespace assay
