// Cost of one multiply-add in every la kernel on 64 x 64, beside the raw arithmetic of the same
// run: mpfr_mul + mpfr_add, and arb_dot with n = 64. Prints one table, ns per multiply-add.
//
//   arithmetic_bench [bits]      (default 168 bits = 50 digits)
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "reference/scalars/ball.hpp"
#include "reference/scalars/double_double.hpp"
#include "reference/scalars/mpfr.hpp"

namespace {

using namespace assay;

constexpr long kSize = 64;

// Best of several repetitions, each at least 10 ms: other processes only ever add time.
double nanoseconds(double multiply_adds, const std::function<void()>& body) {
  using Clock = std::chrono::steady_clock;
  double best = std::numeric_limits<double>::infinity();
  body();
  for (int repetition = 0; repetition < 9; ++repetition) {
    long runs = 0;
    auto start = Clock::now();
    double elapsed = 0;
    do {
      body();
      ++runs;
      elapsed = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
    } while (elapsed < 1e7);
    best = std::min(best, elapsed / static_cast<double>(runs) / multiply_adds);
  }
  return best;
}

// Values with full mantissas, as in the middle of a recurrence; |x| < 1 keeps repeated updates
// tame.
template <class Real>
std::vector<Real> random_values(long n, unsigned seed) {
  std::mt19937_64 generator(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<Real> values(static_cast<std::size_t>(n));
  for (Real& x : values) {
    x = fn::from_double<Real>(uniform(generator)) / fn::from_double<Real>(3.7);
  }
  return values;
}

template <class Real>
struct Data {
  std::vector<Real> S = random_values<Real>(kSize * kSize, 1);
  std::vector<Real> A = random_values<Real>(kSize * kSize, 2);
  std::vector<Real> x = random_values<Real>(kSize, 3);
  std::vector<Real> y = random_values<Real>(kSize, 4);
  std::vector<Real> out = random_values<Real>(kSize, 5);
  Real a = fn::from_double<Real>(0.9375) / 3;
};

void print(const char* scalar, const char* kernel, double ns, double raw) {
  std::printf("%-12s %-16s %8.2f ns  x %.2f\n", scalar, kernel, ns, ns / raw);
}

// scale_ger_add and axpby hold two multiplications and one addition per element; they are counted
// as two multiply-adds for balls (a dot product of length 2) and as 1.5 otherwise.
template <class Real>
void measure(double raw, double scale_ger_weight) {
  Data<Real> d;
  const char* name = Functions<Real>::kName;
  const long n = kSize;
  const double square = static_cast<double>(n * n);
  Real* S = d.S.data();
  const Real* x = d.x.data();
  const Real* y = d.y.data();
  Real* out = d.out.data();
  print(name, "dot", nanoseconds(n, [&] { la::dot_add(out[0], n, x, 1, y, 1); }), raw);
  print(name, "axpy", nanoseconds(n, [&] { la::axpy(n, d.a, x, out); }), raw);
  print(name, "gemv", nanoseconds(square, [&] { la::gemv_add(n, n, S, y, out); }), raw);
  print(name, "gemv_t", nanoseconds(square, [&] { la::gemv_t_add(n, n, S, x, out); }), raw);
  print(name, "ger", nanoseconds(square, [&] { la::ger_add(n, n, x, y, S); }), raw);
  print(name, "scale_ger",
        nanoseconds(square * scale_ger_weight, [&] { la::scale_ger_add(n, n, d.a, x, y, S); }),
        raw);
  print(name, "gemm",
        nanoseconds(square * static_cast<double>(n),
                    [&] { la::gemm_add(n, n, n, d.A.data(), d.A.data(), S); }),
        raw);
}

double raw_mpfr() {
  Data<Mpfr> d;
  mpfr_t t;
  mpfr_init2(t, precision_of(d.a));
  double ns = nanoseconds(kSize * kSize, [&] {
    for (long i = 0; i < kSize; ++i) {
      for (long j = 0; j < kSize; ++j) {
        mpfr_mul(t, d.S[static_cast<std::size_t>(i * kSize + j)].backend().data(),
                 d.x[static_cast<std::size_t>(i)].backend().data(), MPFR_RNDN);
        mpfr_ptr sum = d.out[static_cast<std::size_t>(j)].backend().data();
        mpfr_add(sum, sum, t, MPFR_RNDN);
      }
    }
  });
  mpfr_clear(t);
  return ns;
}

double raw_arb_dot() {
  Data<Ball> d;
  return nanoseconds(kSize * kSize, [&] {
    for (long i = 0; i < kSize; ++i) {
      arb_dot(d.out[0].raw(), nullptr, 0, d.S[static_cast<std::size_t>(i * kSize)].raw(), 1,
              d.y[0].raw(), 1, kSize, working_precision());
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  PrecisionScope precision(argc > 1 ? std::atol(argv[1]) : kDefaultPrecision);
  std::printf("64 x 64, %ld bits, ns per multiply-add and ratio to the raw loop\n",
              working_precision());
  double mpfr = raw_mpfr();
  print("raw", "mpfr_mul+add", mpfr, mpfr);
  measure<Mpfr>(mpfr, 1.5);
  double dot = raw_arb_dot();
  print("raw", "arb_dot", dot, dot);
  measure<Ball>(dot, 2);
  std::printf("DoubleDouble: ratio to the limit of 6 ns (%s)\n",
              assay::detail::double_double_avx2() ? "AVX2" : "portable");
  measure<DoubleDouble>(6, 1.5);
}
