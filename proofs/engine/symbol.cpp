#include "proofs/engine/symbol.hpp"

#include <flint/fmpq.h>

#include <stdexcept>

namespace assay::proofs {
namespace {
thread_local SymbolScope* current = nullptr;
}

SymbolScope::SymbolScope(long variables) : variables_(variables) {
  if (current) throw std::logic_error("SymbolScope: one is alive already in this thread");
  fmpq_mpoly_ctx_init(ring_, variables + kFresh, ORD_LEX);
  current = this;
}
SymbolScope::~SymbolScope() {
  fmpq_mpoly_ctx_clear(ring_);
  current = nullptr;
}
const fmpq_mpoly_ctx_struct* SymbolScope::ring() {
  if (!current) throw std::logic_error("Symbol: no SymbolScope in this thread");
  return current->ring_;
}

Symbol SymbolScope::tanh(const Symbol& x) {
  if (x.is_zero()) return 0;
  ring();
  const long next = current->variables_ + static_cast<long>(current->known_.size());
  const auto [at, is_new] = current->known_.try_emplace(x.normal_form(), next);
  if (is_new && next >= current->variables_ + kFresh) {
    throw std::length_error("SymbolScope: too many fresh variables");
  }
  return Symbol::variable(at->second);
}

Symbol::Symbol(const Rational& q) : Symbol() {
  fmpq_t value;
  fmpq_init(value);
  fmpq_set_str(value, q.to_string().c_str(), 10);
  fmpq_mpoly_set_fmpq(p_, value, SymbolScope::ring());
  fmpq_clear(value);
}

Symbol Symbol::variable(long index) {
  Symbol x;
  fmpq_mpoly_gen(x.p_, index, SymbolScope::ring());
  return x;
}

Symbol operator+(const Symbol& a, const Symbol& b) {
  Symbol r;
  fmpq_mpoly_add(r.p_, a.p_, b.p_, SymbolScope::ring());
  return r;
}
Symbol operator-(const Symbol& a, const Symbol& b) {
  Symbol r;
  fmpq_mpoly_sub(r.p_, a.p_, b.p_, SymbolScope::ring());
  return r;
}
Symbol operator*(const Symbol& a, const Symbol& b) {
  Symbol r;
  fmpq_mpoly_mul(r.p_, a.p_, b.p_, SymbolScope::ring());
  return r;
}
Symbol operator/(const Symbol& a, const Symbol& b) {
  if (b.is_zero() || fmpq_mpoly_is_fmpq(b.p_, SymbolScope::ring()) == 0) {
    throw std::domain_error("Symbol: a polynomial is divided by a polynomial");
  }
  fmpq_t value;
  fmpq_init(value);
  fmpq_mpoly_get_fmpq(value, b.p_, SymbolScope::ring());
  Symbol r;
  fmpq_mpoly_scalar_div_fmpq(r.p_, a.p_, value, SymbolScope::ring());
  fmpq_clear(value);
  return r;
}
Symbol Symbol::operator-() const {
  Symbol r;
  fmpq_mpoly_neg(r.p_, p_, SymbolScope::ring());
  return r;
}

namespace {

struct Term {
  std::string exponents, coefficient;
};

/// The terms, exponents ascending: FLINT's lexicographic order, backwards.
std::vector<Term> terms_of(const fmpq_mpoly_struct* p) {
  const fmpq_mpoly_ctx_struct* ring = SymbolScope::ring();
  const long length = fmpq_mpoly_length(p, ring), n = fmpq_mpoly_ctx_nvars(ring);
  std::vector<Term> terms;
  std::vector<ulong> exponents(n);
  fmpq_t c;
  fmpq_init(c);
  for (long i = length; i-- > 0;) {
    fmpq_mpoly_get_term_exp_ui(exponents.data(), p, i, ring);
    fmpq_mpoly_get_term_coeff_fmpq(c, p, i, ring);
    long used = n;
    while (used > 0 && exponents[used - 1] == 0) --used;
    Term term;
    for (long v = 0; v < used; ++v) {
      term.exponents += (v ? " " : "") + std::to_string(exponents[v]);
    }
    char* text = fmpq_get_str(nullptr, 10, c);
    term.coefficient = text;
    flint_free(text);
    terms.push_back(std::move(term));
  }
  fmpq_clear(c);
  return terms;
}

}  // namespace

std::map<std::string, Rational> Symbol::coefficients() const {
  std::map<std::string, Rational> all;
  for (const Term& term : terms_of(p_)) {
    all[term.exponents] = Rational(Rational::Number(term.coefficient));
  }
  return all;
}

std::string Symbol::normal_form() const {
  std::string text;
  for (const Term& term : terms_of(p_)) {
    text += term.coefficient;
    if (!term.exponents.empty()) text += " " + term.exponents;
    text += "\n";
  }
  return text;
}

}  // namespace assay::proofs
