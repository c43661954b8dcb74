#include "proofs/checker/expression.hpp"

#include <cctype>
#include <type_traits>

#include "proofs/checker/interval.hpp"

namespace assay::checker {
namespace {

template <class Number>
Number call_function(const std::string& function, const Number& x) {
  if constexpr (std::is_same_v<Number, Interval>) {
    return x.apply(function);
  } else {
    throw Rejected("function '" + function + "' in an algebraic expression");
  }
}

// Sum = Product {(+|-) Product};  Product = Power {(*|/) Power};  Power = [-] Atom [^ integer]
template <class Number>
class Parser {
 public:
  Parser(const std::string& text, const std::map<std::string, Number>& names)
      : text_(text), names_(names) {}

  Number all() {
    Number value = sum(0);
    if (skip() != '\0') fail("something follows");
    return value;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Rejected("expression '" + text_ + "', character " + std::to_string(at_) + ": " + what);
  }
  char skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (skip() != c) return false;
    ++at_;
    return true;
  }
  Number sum(int depth) {
    if (depth > 64) fail("nested too deep");
    Number value = product(depth);
    while (true) {
      if (take('+')) {
        value = value + product(depth);
      } else if (take('-')) {
        value = value - product(depth);
      } else {
        return value;
      }
    }
  }
  Number product(int depth) {
    Number value = power(depth);
    while (true) {
      if (take('*')) {
        value = value * power(depth);
      } else if (take('/')) {
        value = value / power(depth);
      } else {
        return value;
      }
    }
  }
  Number power(int depth) {
    if (take('-')) return Number(-1) * power(depth);
    Number base = atom(depth);
    if (!take('^')) return base;
    const long exponent = number();
    if (exponent > 64) fail("an exponent beyond 64");
    Number value(1);
    for (long i = 0; i < exponent; ++i) value = value * base;
    return value;
  }
  Number atom(int depth) {
    if (take('(')) {
      Number value = sum(depth + 1);
      if (!take(')')) fail("a bracket is not closed");
      return value;
    }
    const char c = skip();
    if (std::isdigit(static_cast<unsigned char>(c))) return Number(number());
    std::string name;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) {
      name += text_[at_++];
    }
    if (skip() == '(' && !name.empty()) {
      ++at_;
      Number argument = sum(depth + 1);
      if (!take(')')) fail("a bracket is not closed");
      return call_function(name, argument);
    }
    const auto found = names_.find(name);
    if (found == names_.end()) fail("unknown name '" + name + "'");
    return found->second;
  }
  long number() {
    skip();
    std::string digits;
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) {
      digits += text_[at_++];
    }
    if (digits.empty() || digits.size() > 17) fail("an integer of up to 17 digits is expected");
    return std::stol(digits);
  }

  const std::string& text_;
  const std::map<std::string, Number>& names_;
  std::size_t at_ = 0;
};

}  // namespace

template <class Number>
Number evaluate(const std::string& text, const std::map<std::string, Number>& names) {
  return Parser<Number>(text, names).all();
}
template Fraction evaluate(const std::string&, const std::map<std::string, Fraction>&);
template Poly evaluate(const std::string&, const std::map<std::string, Poly>&);
template Exact evaluate(const std::string&, const std::map<std::string, Exact>&);
template Interval evaluate(const std::string&, const std::map<std::string, Interval>&);

Relation parse_relation(const std::string& text) {
  const std::size_t at = text.find('>');
  if (at == std::string::npos) throw Rejected("'" + text + "' has no >= or >");
  const bool strict = at + 1 >= text.size() || text[at + 1] != '=';
  return {text.substr(0, at), text.substr(at + (strict ? 1 : 2)), strict};
}

}  // namespace assay::checker
