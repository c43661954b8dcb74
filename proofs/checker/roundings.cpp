// How many roundings reach a coefficient of the chunk form, each a factor 1 + δ, |δ| <= u. With
// gates >= 0 nothing cancels: a sum of terms >= 0 has the larger number of its terms plus one, and
// k roundings give a relative error of at most γ_k = k u / (1 - k u). [Higham 2002, Lemma 3.1]
#include <algorithm>
#include <concepts>

#include "proofs/checker/check.hpp"
#include "proofs/checker/numbers.hpp"
#include "proofs/common/sha256.hpp"
#include "reference/recurrences/mdn_chunk.hpp"

namespace assay::checker {

/// A number >= 0 that went through `count` roundings. There is no subtraction.
struct Rounded {
  long count = 0;
  Rounded() = default;
  template <std::integral Integer>
  Rounded(Integer) {}  // NOLINT: 0 and 1 are exact
  friend Rounded operator+(Rounded a, Rounded b) { return made(std::max(a.count, b.count) + 1); }
  friend Rounded operator*(Rounded a, Rounded b) { return made(a.count + b.count + 1); }
  Rounded& operator+=(Rounded o) { return *this = *this + o; }
  Rounded& operator*=(Rounded o) { return *this = *this * o; }
  static Rounded made(long n) {
    Rounded r;
    r.count = n;
    return r;
  }
};

}  // namespace assay::checker

namespace assay {
template <>
struct Functions<checker::Rounded> {
  static constexpr const char* kName = "Rounded";
  static void mul_add(checker::Rounded& acc, checker::Rounded a, checker::Rounded b) {
    acc += a * b;
  }
};
}  // namespace assay

namespace assay::checker {

std::string check_roundings(const Value& statement, bool holds, const Value& proof) {
  const long n = statement.at("C").integer();
  if (n < 1 || n > 1024) throw Rejected("C is out of range");
  const std::vector<Rounded> gate(n);
  const auto c = mdn_coefficients(n, gate.data(), gate.data(), gate.data());
  std::string counts;
  long largest = 0;
  for (const auto* values : {&c.gamma, &c.m, &c.b, &c.alpha_bar, &c.mu_bar}) {
    for (const Rounded& x : *values) {
      counts += std::to_string(x.count) + " ";
      largest = std::max(largest, x.count);
    }
  }
  const long bound = statement.at("bound").integer();
  if (largest != proof.at("largest").integer() ||
      proofs::sha256(counts) != proof.string("counts")) {
    throw Rejected("the counts are others; the largest is " + std::to_string(largest));
  }
  if ((largest <= bound) != holds) throw Rejected("the bound is " + std::to_string(bound));
  return "at most " + std::to_string(largest) + " roundings, bound " + std::to_string(bound);
}

}  // namespace assay::checker
