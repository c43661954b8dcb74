#include "proofs/engine/expression.hpp"

#include <flint/fmpq.h>

#include <stdexcept>

namespace assay::proofs {
namespace {

struct Token {
  enum Kind { number, name, sign, end } kind;
  std::string text;
};

std::vector<Token> tokens_of(const std::string& text) {
  std::vector<Token> tokens;
  for (std::size_t i = 0; i < text.size();) {
    const auto run = [&](const char* set) {
      const std::size_t stop = std::min(text.find_first_not_of(set, i), text.size());
      std::string part = text.substr(i, stop - i);
      i = stop;
      return part;
    };
    static const std::string digits = "0123456789";
    static const std::string letters =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    if (text[i] == ' ') {
      ++i;
    } else if (digits.find(text[i]) != std::string::npos) {
      tokens.push_back({Token::number, run(digits.c_str())});
    } else if (letters.find(text[i]) != std::string::npos) {
      tokens.push_back({Token::name, run(letters.c_str())});
    } else {
      tokens.push_back({Token::sign, std::string(1, text[i++])});
    }
  }
  tokens.push_back({Token::end, ""});
  return tokens;
}

int precedence(const std::string& op) {
  if (op == "+" || op == "-") return 1;
  if (op == "*" || op == "/") return 2;
  return 0;
}

template <class Number>
struct Climber {
  std::string text;
  std::vector<Token> tokens;
  const Names<Number>& names;
  Number (*constant)(const Rational&);
  std::size_t at = 0;

  [[noreturn]] void fail() const {
    throw std::invalid_argument("expression '" + text + "': unexpected '" + tokens[at].text + "'");
  }
  Number operand() {
    const Token token = tokens[at++];
    Number value{};
    if (token.text == "-" && token.kind == Token::sign) return constant(-1) * operand();
    if (token.text == "(" && token.kind == Token::sign) {
      value = climb(1);
      if (tokens[at++].text != ")") fail();
    } else if (token.kind == Token::number) {
      value = constant(Rational(Rational::Number(token.text)));
    } else if (token.kind == Token::name && tokens[at].text == "(") {
      ++at;
      value = call(token.text, climb(1));
      if (tokens[at++].text != ")") fail();
    } else {
      const auto found = names.find(token.text);
      if (token.kind != Token::name || found == names.end()) {
        --at;
        fail();
      }
      value = found->second;
    }
    if (tokens[at].text != "^") return value;
    const int exponent = std::stoi(tokens[at + 1].text);
    at += 2;
    Number power = constant(1);
    for (int i = 0; i < exponent; ++i) power = power * value;
    return power;
  }
  Number call(const std::string& function, const Number& x) const {
    if constexpr (std::is_same_v<Number, Ball>) {
      if (function == "exp") return fn::exp(x);
      if (function == "log") return fn::log(x);
      if (function == "tanh") return fn::tanh(x);
      if (function == "sigmoid") return fn::sigmoid(x);
      if (function == "softplus") return fn::softplus(x);
    }
    throw std::invalid_argument("expression '" + text + "': no function " + function);
  }
  Number climb(int least) {
    Number value = operand();
    while (precedence(tokens[at].text) >= least) {
      const std::string op = tokens[at++].text;
      const Number right = climb(precedence(op) + 1);
      value = op == "+"   ? value + right
              : op == "-" ? value - right
              : op == "*" ? value * right
                          : value / right;
    }
    return value;
  }
  Number all() {
    Number value = climb(1);
    if (tokens[at].kind != Token::end) fail();
    return value;
  }
};

}  // namespace

Quotient operator+(const Quotient& a, const Quotient& b) {
  if (a.den == b.den) return {a.num + b.num, a.den};
  return {a.num * b.den + b.num * a.den, a.den * b.den};
}
Quotient operator-(const Quotient& a, const Quotient& b) { return a + Quotient{-b.num, b.den}; }
Quotient operator*(const Quotient& a, const Quotient& b) { return {a.num * b.num, a.den * b.den}; }
Quotient operator/(const Quotient& a, const Quotient& b) {
  if (b.num.is_zero()) throw std::invalid_argument("expression: a division by 0");
  return {a.num * b.den, a.den * b.num};
}

Quotient parse_quotient(const std::string& text, const Names<Quotient>& names) {
  return Climber<Quotient>{text, tokens_of(text), names,
                           [](const Rational& c) {
                             return Quotient{Symbol(c), 1};
                           }}
      .all();
}
Symbol parse_polynomial(const std::string& text, const Names<Symbol>& names) {
  return Climber<Symbol>{text, tokens_of(text), names, [](const Rational& c) { return Symbol(c); }}
      .all();
}
Rational parse_value(const std::string& text, const Names<Rational>& names) {
  return Climber<Rational>{text, tokens_of(text), names, [](const Rational& c) { return c; }}.all();
}

Ball ball_of(const Rational& q) {
  fmpq_t value;
  fmpq_init(value);
  fmpq_set_str(value, q.to_string().c_str(), 10);
  Ball b;
  arb_set_fmpq(b.raw(), value, working_precision());
  fmpq_clear(value);
  return b;
}

Ball parse_ball(const std::string& text, const Names<Ball>& names) {
  return Climber<Ball>{text, tokens_of(text), names, [](const Rational& c) { return ball_of(c); }}
      .all();
}

Inequality split_inequality(const std::string& text) {
  const std::size_t loose = text.find(">=");
  const std::size_t at = loose != std::string::npos ? loose : text.find('>');
  if (at == std::string::npos) throw std::invalid_argument("no > or >= in '" + text + "'");
  const std::size_t width = loose != std::string::npos ? 2 : 1;
  return {text.substr(0, at), text.substr(at + width), width == 1};
}

}  // namespace assay::proofs
