// Elementary functions of every scalar, under one name each.
//
// Recurrences are templates on `Real` and call `fn::exp(x)`, `fn::less(a, b)`, ... The functions
// below only forward to `Functions<Real>`, which stands beside each scalar: a specialisation is
// found at instantiation whatever the order of includes (an overload set would not be, because
// qualified names are looked up once, where the template is defined), and Dual<R> can build on R.
//
// Contract, for every scalar:
//   exp(0) = 1 and exp(-inf) = 0 exactly; from_double is exact and accepts infinities where the
//   scalar has them (-inf always); NaN throws std::invalid_argument. Error of the rest: see the
//   header of the scalar.
#pragma once

#include <cmath>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace assay {

// Thrown when an exact scalar is asked for a value outside its number system, exp(1) of a rational
// for instance. The message names the function and the rule.
class InexactOperation : public std::domain_error {
 public:
  using std::domain_error::domain_error;
};

template <class Real>
struct Functions;  // double.hpp, mpfr.hpp, ball.hpp, rational.hpp, field.hpp, ...

template <class Real>
concept Scalar = requires {
  Functions<Real>::kName;
};

namespace fn {

template <Scalar Real>
Real exp(const Real& x) {
  return Functions<Real>::exp(x);
}
template <Scalar Real>
Real log(const Real& x) {
  return Functions<Real>::log(x);
}
template <Scalar Real>
Real log1p(const Real& x) {
  return Functions<Real>::log1p(x);
}
template <Scalar Real>
Real sqrt(const Real& x) {
  return Functions<Real>::sqrt(x);
}
template <Scalar Real>
Real tanh(const Real& x) {
  return Functions<Real>::tanh(x);
}
// 1 / (1 + exp(-x))
template <Scalar Real>
Real sigmoid(const Real& x) {
  return Functions<Real>::sigmoid(x);
}
// log(1 + exp(x))
template <Scalar Real>
Real softplus(const Real& x) {
  return Functions<Real>::softplus(x);
}

// Certainly a < b. False says nothing for a scalar with an error bound.
template <Scalar Real>
bool less(const Real& a, const std::type_identity_t<Real>& b) {
  return Functions<Real>::less(a, b);
}
template <Scalar Real>
bool less(int a, const Real& b) {
  return Functions<Real>::less(Real(a), b);
}

// Certainly and exactly zero. Field: residue 0. Dual: value and derivative.
template <Scalar Real>
bool is_zero(const Real& x) {
  return Functions<Real>::is_zero(x);
}

template <Scalar Real>
Real max(const Real& a, const std::type_identity_t<Real>& b) {
  return Functions<Real>::max(a, b);
}

// x limited to [lo, hi]; a valid enclosure for balls also where the comparison is undecided.
template <Scalar Real>
Real clamp(const Real& x, const std::type_identity_t<Real>& lo,
           const std::type_identity_t<Real>& hi) {
  return Functions<Real>::clamp(x, lo, hi);
}

// 1 if x > 0, 0 if x <= 0, the ball [0, 1] where a ball cannot tell.
template <Scalar Real>
Real heaviside(const Real& x) {
  return Functions<Real>::heaviside(x);
}

// Exact, except Rounded, which casts to its current format. NaN throws std::invalid_argument.
template <Scalar Real>
Real from_double(double x) {
  if (std::isnan(x)) {
    throw std::invalid_argument(std::string("assay::fn::from_double<") + Functions<Real>::kName +
                                ">: the argument is NaN; only numbers and infinities are legal");
  }
  return Functions<Real>::from_double(x);
}

// Nearest double of the value or midpoint. Field: its shadow, which is only an approximation.
template <Scalar Real>
double to_double(const Real& x) {
  return Functions<Real>::to_double(x);
}

template <Scalar Real>
bool is_finite(const Real& x) {
  return Functions<Real>::is_finite(x);
}

// acc += a * b without allocation where the scalar allows it. acc must be another object than a, b.
template <Scalar Real>
void mul_add(Real& acc, const std::type_identity_t<Real>& a, const std::type_identity_t<Real>& b) {
  Functions<Real>::mul_add(acc, a, b);
}

// acc -= a * b
template <Scalar Real>
void mul_sub(Real& acc, const std::type_identity_t<Real>& a, const std::type_identity_t<Real>& b) {
  Functions<Real>::mul_sub(acc, a, b);
}

}  // namespace fn
}  // namespace assay
