#include "proofs/checker/numbers.hpp"

#include <algorithm>
#include <cctype>

namespace assay::checker {

mpq_class parse_rational(const std::string& text) {
  const auto digits = [](const std::string& t) {
    return !t.empty() && t.size() <= 4000 &&
           std::all_of(t.begin(), t.end(), [](unsigned char c) { return std::isdigit(c); });
  };
  const std::size_t slash = text.find('/');
  std::string num = text.substr(0, slash), den = "1";
  if (slash != std::string::npos) den = text.substr(slash + 1);
  const bool negative = !num.empty() && num[0] == '-';
  if (!digits(num.substr(negative ? 1 : 0)) || !digits(den)) {
    throw Rejected("'" + text + "' is not a rational number");
  }
  mpq_class q;
  q.get_num() = mpz_class(num);
  q.get_den() = mpz_class(den);
  if (q.get_den() == 0) throw Rejected("'" + text + "' divides by 0");
  q.canonicalize();
  if (q.get_str() != text) throw Rejected("'" + text + "' is not in lowest terms");
  return q;
}

Residue Residue::inverse() const {
  if (value == 0) throw Rejected("a division by 0 modulo p");
  Residue power = *this, result = 1;
  for (std::uint64_t e = kPrime - 2; e != 0; e >>= 1) {
    if (e & 1) result *= power;
    power *= power;
  }
  return result;
}

Poly Poly::variable(std::size_t index) {
  Poly p;
  p.terms_[std::string(index, '\0') + '\1'] = 1;
  return p;
}

mpq_class Poly::constant() const {
  if (!is_constant()) throw Rejected("a constant is expected where there is a polynomial");
  return terms_.empty() ? mpq_class(0) : terms_.begin()->second;
}

Poly& Poly::add(const Poly& o, int sign) {
  if (this == &o) {
    const Poly copy = o;
    return add(copy, sign);
  }
  for (const auto& [monomial, c] : o.terms_) {
    const auto [at, is_new] = terms_.try_emplace(monomial);
    if (sign > 0) {
      at->second += c;
    } else {
      at->second -= c;
    }
    if (at->second == 0) terms_.erase(at);
  }
  return *this;
}

Poly& Poly::operator/=(const Poly& o) {
  if (!o.is_constant() || o.is_zero()) throw Rejected("a polynomial is divided by a polynomial");
  const mpq_class c = o.constant();
  for (auto& [monomial, value] : terms_) value /= c;
  return *this;
}

Poly operator*(const Poly& a, const Poly& b) {
  Poly product;
  std::string monomial;
  mpq_class c;
  for (const auto& [x, cx] : a.terms_) {
    for (const auto& [y, cy] : b.terms_) {
      monomial.assign(x.size() >= y.size() ? x : y);
      const std::string& other = x.size() >= y.size() ? y : x;
      for (std::size_t i = 0; i < other.size(); ++i) {
        const int e =
            static_cast<unsigned char>(monomial[i]) + static_cast<unsigned char>(other[i]);
        if (e > 255) throw Rejected("an exponent beyond 255");
        monomial[i] = static_cast<char>(e);
      }
      c = cx * cy;
      product.terms_[monomial] += c;
    }
  }
  for (auto at = product.terms_.begin(); at != product.terms_.end();) {
    at = at->second == 0 ? product.terms_.erase(at) : std::next(at);
  }
  return product;
}

namespace {
thread_local FreshVariables* current = nullptr;
}

FreshVariables::FreshVariables(std::size_t first) : next_(first) {
  if (current) throw Rejected("fresh variables are in use");
  current = this;
}
FreshVariables::~FreshVariables() { current = nullptr; }

Poly FreshVariables::tanh(const Poly& x) {
  if (x.is_zero()) return 0;
  if (!current) throw Rejected("tanh is not expected here");
  const auto [at, is_new] = current->known_.try_emplace(x.normal_form(), current->next_);
  if (is_new) ++current->next_;
  return Poly::variable(at->second);
}

std::string Poly::normal_form() const {
  std::vector<const Terms::value_type*> sorted;
  for (const auto& term : terms_) sorted.push_back(&term);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) {
    return std::lexicographical_compare(
        a->first.begin(), a->first.end(), b->first.begin(), b->first.end(), [](char x, char y) {
          return static_cast<unsigned char>(x) < static_cast<unsigned char>(y);
        });
  });
  std::string text;
  for (const auto* term : sorted) {
    text += term->second.get_str();
    for (const char e : term->first) {
      text += ' ';
      text += std::to_string(static_cast<int>(static_cast<unsigned char>(e)));
    }
    text += '\n';
  }
  return text;
}

}  // namespace assay::checker
