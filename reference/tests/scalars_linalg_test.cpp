// Every la kernel on every scalar against plain loops on Dual<Rational>. Inputs are small dyadic
// numbers, so that every scalar can hold every intermediate exactly (bf16 too: integers below 256).
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <type_traits>
#include <vector>

#include "reference/scalars/scalars.hpp"

using namespace assay;

namespace {

using Truth = Dual<Rational>;
template <class Real>
using Array = std::vector<Real>;

// What a scalar makes of the exact pair (value, tangent), and whether a result agrees with it.
template <class Real>
struct Model {
  static Real make(const Truth& t) { return fn::from_double<Real>(fn::to_double(t.v)); }
  static bool agrees(const Real& x, const Truth& t) {
    return fn::to_double(x) == fn::to_double(t.v);
  }
};
template <>
struct Model<Mpfr> {
  static Mpfr make(const Truth& t) { return fn::from_double<Mpfr>(fn::to_double(t.v)); }
  static bool agrees(const Mpfr& x, const Truth& t) {
    return mpfr_cmp_q(x.backend().data(), t.v.value().backend().data()) == 0;
  }
};
template <>
struct Model<Ball> {
  static Ball make(const Truth& t) { return fn::from_double<Ball>(fn::to_double(t.v)); }
  static bool agrees(const Ball& x, const Truth& t) {
    return x.contains(fn::from_double<Ball>(fn::to_double(t.v))) && x.radius() < 1e-40;
  }
};
template <>
struct Model<DoubleDouble> {
  static DoubleDouble make(const Truth& t) {
    return fn::from_double<DoubleDouble>(fn::to_double(t.v));
  }
  static bool agrees(const DoubleDouble& x, const Truth& t) {
    return x.hi() == fn::to_double(t.v) && x.lo() == 0 && x.err() < 1e-25;
  }
};
template <>
struct Model<Rational> {
  static Rational make(const Truth& t) { return t.v; }
  static bool agrees(const Rational& x, const Truth& t) { return x == t.v; }
};
template <>
struct Model<Field> {
  static Field make(const Truth& t) { return fn::from_double<Field>(fn::to_double(t.v)); }
  static bool agrees(const Field& x, const Truth& t) {
    return x == make(t) && x.shadow() == fn::to_double(t.v);
  }
};
template <class R>
struct Model<Dual<R>> {
  static Dual<R> make(const Truth& t) { return {Model<R>::make(t.v), Model<R>::make(t.d)}; }
  static bool agrees(const Dual<R>& x, const Truth& t) {
    return Model<R>::agrees(x.v, t.v) && Model<R>::agrees(x.d, t.d);
  }
};

Array<Truth> random_truth(std::mt19937_64& g, long n) {
  Array<Truth> a;
  for (long i = 0; i < n; ++i) {
    // -1, -1/2, 0, 1/2, 1; the tangent likewise.
    a.emplace_back(Rational::ratio(static_cast<long>(g() % 5) - 2, 2),
                   Rational::ratio(static_cast<long>(g() % 5) - 2, 2));
  }
  return a;
}

template <class Real>
Array<Real> convert(const Array<Truth>& truth) {
  Array<Real> a;
  for (const Truth& t : truth) a.push_back(Model<Real>::make(t));
  return a;
}

template <class Real>
bool agree(const Array<Real>& a, const Array<Truth>& truth) {
  bool ok = a.size() == truth.size();
  for (std::size_t i = 0; ok && i < a.size(); ++i) ok = Model<Real>::agrees(a[i], truth[i]);
  return ok;
}

std::size_t at(long i) { return static_cast<std::size_t>(i); }

// One shape of all kernels. Expected values come from the definition, element by element.
template <class Real>
void check_vectors(std::mt19937_64& g, long n) {
  Array<Truth> x = random_truth(g, 3 * n + 1), y = random_truth(g, 2 * n + 1);
  Array<Truth> scalars = random_truth(g, 2);
  Array<Real> X = convert<Real>(x), Y = convert<Real>(y), s = convert<Real>(scalars);
  const Truth &a = scalars[0], &b = scalars[1];

  Truth sum = b;
  for (long i = 0; i < n; ++i) sum += x[at(3 * i)] * y[at(2 * i)];
  Real acc = s[1];
  la::dot_add(acc, n, X.data(), 3, Y.data(), 2);
  CHECK(Model<Real>::agrees(acc, sum));
  acc = s[1];
  la::dot_sub(acc, n, X.data(), 3, Y.data(), 2);
  CHECK(Model<Real>::agrees(acc, b + b - sum));

  auto expected = y;
  for (long i = 0; i < n; ++i) expected[at(i)] = y[at(i)] + a * x[at(i)];
  auto out = Y;
  la::axpy(n, s[0], X.data(), out.data());
  CHECK(agree(out, expected));
  for (long i = 0; i < n; ++i) expected[at(i)] = y[at(i)] - a * x[at(i)];
  out = Y;
  la::axmy(n, s[0], X.data(), out.data());
  CHECK(agree(out, expected));
  for (long i = 0; i < n; ++i) expected[at(i)] = a * y[at(i)];
  out = Y;
  la::scale(n, s[0], out.data());
  CHECK(agree(out, expected));
  for (long i = 0; i < n; ++i) expected[at(i)] = a * x[at(i)] + b * y[at(i)];
  out = Y;
  la::axpby(n, s[0], X.data(), s[1], out.data());
  CHECK(agree(out, expected));
}

template <class Real>
void check_matrices(std::mt19937_64& g, long K, long V) {
  Array<Truth> S = random_truth(g, K * V), x = random_truth(g, K), y = random_truth(g, V);
  Array<Truth> scalar = random_truth(g, 1);
  Array<Real> S_ = convert<Real>(S), x_ = convert<Real>(x), y_ = convert<Real>(y);
  Real a = Model<Real>::make(scalar[0]);

  // f(expected, i, j) changes the expectation for each element of S.
  auto expect = [&](Array<Truth> expected, auto f) {
    for (long i = 0; i < K; ++i) {
      for (long j = 0; j < V; ++j) f(expected, i, j);
    }
    return expected;
  };
  auto out = y_;
  la::gemv_t_add(K, V, S_.data(), x_.data(), out.data());
  CHECK(agree(
      out, expect(y, [&](auto& e, long i, long j) { e[at(j)] += S[at(i * V + j)] * x[at(i)]; })));
  out = y_;
  la::gemv_t_sub(K, V, S_.data(), x_.data(), out.data());
  CHECK(agree(
      out, expect(y, [&](auto& e, long i, long j) { e[at(j)] -= S[at(i * V + j)] * x[at(i)]; })));
  out = x_;
  la::gemv_add(K, V, S_.data(), y_.data(), out.data());
  CHECK(agree(
      out, expect(x, [&](auto& e, long i, long j) { e[at(i)] += S[at(i * V + j)] * y[at(j)]; })));
  out = S_;
  la::ger_add(K, V, x_.data(), y_.data(), out.data());
  CHECK(agree(
      out, expect(S, [&](auto& e, long i, long j) { e[at(i * V + j)] += x[at(i)] * y[at(j)]; })));
  out = S_;
  la::ger_sub(K, V, x_.data(), y_.data(), out.data());
  CHECK(agree(
      out, expect(S, [&](auto& e, long i, long j) { e[at(i * V + j)] -= x[at(i)] * y[at(j)]; })));
  out = S_;
  la::scale_ger_add(K, V, a, x_.data(), y_.data(), out.data());
  CHECK(agree(out, expect(S, [&](auto& e, long i, long j) {
                e[at(i * V + j)] = scalar[0] * S[at(i * V + j)] + x[at(i)] * y[at(j)];
              })));
  out = S_;
  la::scale_rows(K, V, x_.data(), out.data());
  CHECK(agree(out, expect(S, [&](auto& e, long i, long j) { e[at(i * V + j)] *= x[at(i)]; })));
}

template <class Real>
void check_products(std::mt19937_64& g, long m, long n, long p) {
  Array<Truth> A = random_truth(g, m * n), B = random_truth(g, n * p), C = random_truth(g, m * p);
  Array<Truth> A_t(A.size()), B_t(B.size()), expected = C;
  for (long i = 0; i < m; ++i) {
    for (long k = 0; k < n; ++k) A_t[at(k * m + i)] = A[at(i * n + k)];
  }
  for (long k = 0; k < n; ++k) {
    for (long j = 0; j < p; ++j) B_t[at(j * n + k)] = B[at(k * p + j)];
  }
  for (long i = 0; i < m; ++i) {
    for (long j = 0; j < p; ++j) {
      for (long k = 0; k < n; ++k) expected[at(i * p + j)] += A[at(i * n + k)] * B[at(k * p + j)];
    }
  }
  auto a = convert<Real>(A), b = convert<Real>(B), at = convert<Real>(A_t), bt = convert<Real>(B_t);
  auto out = convert<Real>(C);
  la::gemm_add(m, n, p, a.data(), b.data(), out.data());
  CHECK(agree(out, expected));
  out = convert<Real>(C);
  la::gemm_tn_add(m, n, p, at.data(), b.data(), out.data());
  CHECK(agree(out, expected));
  out = convert<Real>(C);
  la::gemm_nt_add(m, n, p, a.data(), bt.data(), out.data());
  CHECK(agree(out, expected));
}

template <class Real>
void check_kernels() {
  std::mt19937_64 g(37);
  INFO("scalar " << Functions<Real>::kName);
  for (long n : {0, 1, 2, 3, 7, 8, 19}) check_vectors<Real>(g, n);
  for (long K : {0, 1, 3, 8}) {
    for (long V : {0, 1, 4, 5, 17, 21}) check_matrices<Real>(g, K, V);
  }
  check_products<Real>(g, 1, 1, 1);
  check_products<Real>(g, 3, 5, 2);
  check_products<Real>(g, 4, 9, 18);
  check_products<Real>(g, 2, 0, 3);
}

}  // namespace

#define CHECK_KERNELS(Real) check_kernels<Real>();

TEST_CASE("scalars/linalg: every kernel on every scalar agrees with exact loops",
          "[scalars][linalg]") {
  ASSAY_FOR_EACH_SCALAR(CHECK_KERNELS)
  CHECK_KERNELS(Dual<Ball>)
  CHECK_KERNELS(Dual<Mpfr>)
  CHECK_KERNELS(Dual<Rational>)
  CHECK_KERNELS(Dual<DoubleDouble>)
}
