#include "proofs/checker/json.hpp"

#include <algorithm>
#include <cctype>

namespace assay::checker {
namespace {

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Value document() {
    Value v = value(0);
    skip();
    if (at_ != text_.size()) fail("something follows the value");
    return v;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Rejected("not a certificate: byte " + std::to_string(at_) + ": " + what);
  }
  void skip() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) {
      ++at_;
    }
  }
  char peek() {
    skip();
    if (at_ == text_.size()) fail("the text ends");
    return text_[at_];
  }
  void expect(char c) {
    if (peek() != c) fail(std::string("expected ") + c);
    ++at_;
  }
  bool word(std::string_view w) {
    if (text_.substr(at_, w.size()) != w) return false;
    at_ += w.size();
    return true;
  }
  std::string string() {
    expect('"');
    std::string s;
    while (true) {
      if (at_ == text_.size()) fail("a string does not end");
      const char c = text_[at_++];
      if (c == '"') return s;
      if (static_cast<unsigned char>(c) < 0x20) fail("a control character in a string");
      if (c != '\\') {
        s += c;
        continue;
      }
      if (at_ == text_.size()) fail("a string does not end");
      const char e = text_[at_++];
      if (e == 'n') {
        s += '\n';
      } else if (e == '"' || e == '\\' || e == '/') {
        s += e;
      } else {
        fail("an escape that certificates do not use");
      }
    }
  }
  Value value(int depth) {
    if (depth > 32) fail("nested too deep");
    Value v;
    const char c = peek();
    if (c == '{') {
      v.type = Value::Type::object;
      ++at_;
      for (bool first = true; peek() != '}'; first = false) {
        if (!first) expect(',');
        if (peek() != '"') fail("expected a key");
        std::string key = string();
        expect(':');
        v.members.emplace_back(std::move(key), value(depth + 1));
      }
      ++at_;
      std::sort(v.members.begin(), v.members.end(),
                [](const auto& a, const auto& b) { return a.first < b.first; });
      for (std::size_t i = 1; i < v.members.size(); ++i) {
        if (v.members[i].first == v.members[i - 1].first) fail("a key is given twice");
      }
    } else if (c == '[') {
      v.type = Value::Type::array;
      ++at_;
      for (bool first = true; peek() != ']'; first = false) {
        if (!first) expect(',');
        v.items.push_back(value(depth + 1));
      }
      ++at_;
    } else if (c == '"') {
      v.type = Value::Type::string;
      v.text = string();
    } else if (c == '-' || std::isdigit(static_cast<unsigned char>(c))) {
      v.type = Value::Type::integer;
      if (c == '-') v.text += text_[at_++];
      const std::size_t digits = at_;
      while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) {
        v.text += text_[at_++];
      }
      if (at_ == digits || (text_[digits] == '0' && at_ > digits + 1)) fail("not an integer");
    } else if (word("true")) {
      v.type = Value::Type::boolean;
      v.text = "true";
    } else if (word("false")) {
      v.type = Value::Type::boolean;
      v.text = "false";
    } else if (!word("null")) {
      fail("not a value");
    }
    return v;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

void write_string(const std::string& s, std::string& out) {
  out += '"';
  for (const char c : s) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  out += '"';
}

void write(const Value& v, std::string& out) {
  bool first = true;
  switch (v.type) {
    case Value::Type::null:
      out += "null";
      break;
    case Value::Type::boolean:
    case Value::Type::integer:
      out += v.text;
      break;
    case Value::Type::string:
      write_string(v.text, out);
      break;
    case Value::Type::array:
      out += '[';
      for (const Value& item : v.items) {
        if (!first) out += ',';
        first = false;
        write(item, out);
      }
      out += ']';
      break;
    case Value::Type::object:
      out += '{';
      for (const auto& [key, member] : v.members) {
        if (!first) out += ',';
        first = false;
        write_string(key, out);
        out += ':';
        write(member, out);
      }
      out += '}';
      break;
  }
}

}  // namespace

const Value& Value::at(const std::string& key) const {
  for (const auto& [name, member] : object()) {
    if (name == key) return member;
  }
  throw Rejected("'" + key + "' is missing");
}

bool Value::has(const std::string& key) const {
  for (const auto& [name, member] : members) {
    if (name == key) return true;
  }
  return false;
}

const std::string& Value::string() const {
  if (type != Type::string) throw Rejected("a string is expected where there is " + dump());
  return text;
}

const std::vector<Value>& Value::array() const {
  if (type != Type::array) throw Rejected("a list is expected where there is " + dump());
  return items;
}

const std::vector<std::pair<std::string, Value>>& Value::object() const {
  if (type != Type::object) throw Rejected("an object is expected where there is " + dump());
  return members;
}

long Value::integer() const {
  if (type != Type::integer || text.size() > 17) {
    throw Rejected("an integer is expected where there is " + dump());
  }
  return std::stol(text);
}

bool Value::boolean() const {
  if (type != Type::boolean) throw Rejected("true or false is expected where there is " + dump());
  return text == "true";
}

std::string Value::dump() const {
  std::string out;
  write(*this, out);
  return out;
}

Value parse_json(std::string_view text) { return Reader(text).document(); }

}  // namespace assay::checker
