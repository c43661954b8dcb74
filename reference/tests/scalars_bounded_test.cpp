// Bounded against hostile rounding: random straight-line programs, the same for every scalar.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "reference/scalars/bounded.hpp"
#include "reference/scalars/directed.hpp"
#include "reference/scalars/scalars.hpp"

using namespace assay;

namespace {

constexpr int kInputs = 6, kSteps = 12;

/// Which functions may appear: those of polynomials, or all.
enum class Kind { polynomial, any };

/// A program drawn from `seed`: every step applies one operation to earlier values.
template <class Real>
std::vector<Real> program(std::uint64_t seed, Kind kind, std::vector<Real> x) {
  std::mt19937_64 random(seed);
  const auto pick = [&] { return static_cast<std::size_t>(random() % x.size()); };
  for (int s = 0; s < kSteps; ++s) {
    const Real a = x[pick()], b = x[pick()];
    switch (random() % (kind == Kind::polynomial ? 6 : 10)) {
      case 0:
        x.push_back(a + b);
        break;
      case 1:
        x.push_back(a - b);
        break;
      case 2:
        x.push_back(a * b);
        break;
      case 3: {
        Real sum = 0;
        la::dot_add(sum, kInputs, x.data(), 1, x.data() + x.size() - kInputs, 1);
        x.push_back(sum);
        break;
      }
      case 4: {
        Real sum = a;
        fn::mul_sub(sum, b, x[pick()]);
        fn::mul_add(sum, b, b);
        x.push_back(sum);
        break;
      }
      case 5: {
        std::vector<Real> out(3, a);
        la::gemv_t_sub(2, 3, x.data(), x.data() + x.size() - 2, out.data());
        la::ger_add(1, 3, &b, x.data(), out.data());
        x.insert(x.end(), out.begin(), out.end());
        break;
      }
      case 6:
        x.push_back(fn::tanh(a));
        break;
      case 7:
        x.push_back(fn::sigmoid(a) * fn::softplus(b));
        break;
      case 8:
        x.push_back(fn::exp(fn::tanh(a)));
        break;
      default:
        x.push_back(b / fn::sqrt(a * a + Real(1)));
    }
  }
  return x;
}

BoundModel model_of(Format format) {
  BoundModel m;
  m.accumulator = m.elementwise = unit_roundoff(format);
  m.given_format = format;
  m.exp_error = m.tanh_error = m.softplus_error = m.rsqrt_error = 2 * unit_roundoff(format);
  return m;
}

struct Outcome {
  double worst = 0;  // |computed - true| / bound
  std::int64_t values = 0;
};

/// One program under all directions; `shift` moves the first input as a carried state may be.
void try_program(std::uint64_t seed, Kind kind, Format format, double shift, Outcome& outcome) {
  std::mt19937_64 random(seed ^ 0xabcdef);
  std::uniform_real_distribution<double> uniform(-1.5, 1.5);
  std::vector<double> truth(kInputs);
  for (double& x : truth) x = round_to(format, uniform(random));
  const double moved = round_to(format, truth[0] * (1 + shift));

  const auto lifted = [&] {
    const PrecisionScope precision(200);
    std::vector<Mpfr> x;
    for (double t : truth) x.push_back(fn::from_double<Mpfr>(t));
    std::vector<double> y;
    for (const Mpfr& value : program<Mpfr>(seed, kind, x)) y.push_back(fn::to_double(value));
    return y;
  }();
  const BoundScope scope(model_of(format));
  std::vector<Bounded> inputs;
  for (double t : truth) inputs.push_back(Bounded::exactly(t));
  inputs[0] = Bounded::state(truth[0], std::fabs(moved - truth[0]));
  const std::vector<Bounded> bounds = program<Bounded>(seed, kind, inputs);

  const FormatScope working(format);
  std::vector<Rounded> given;
  for (double t : truth) given.push_back(fn::from_double<Rounded>(t));
  given[0] = fn::from_double<Rounded>(moved);
  for (RoundingDirection direction :
       {RoundingDirection::nearest, RoundingDirection::up, RoundingDirection::down,
        RoundingDirection::away, RoundingDirection::inward, RoundingDirection::random}) {
    for (SumOrder order : {SumOrder::forward, SumOrder::reversed, SumOrder::pairwise}) {
      const DirectionScope directed(direction, seed);
      Emulation emulation;
      emulation.order = order;
      const EmulationScope emulated(emulation);
      const std::vector<Rounded> computed = program<Rounded>(seed, kind, given);
      for (std::size_t i = kInputs; i < computed.size(); ++i) {
        const double error = std::fabs(computed[i].value() - lifted[i]);
        const double bound = bounds[i].total();
        ++outcome.values;
        if (error == 0) continue;
        CAPTURE(seed, static_cast<int>(direction), static_cast<int>(order), i, error, bound);
        if (!(error <= bound)) REQUIRE(error <= bound);
        outcome.worst = std::max(outcome.worst, error / bound);
      }
    }
  }
}

}  // namespace

TEST_CASE("bounded: hostile rounding stays inside, in every order of summation", "[bounded]") {
  for (Kind kind : {Kind::polynomial, Kind::any}) {
    for (Format format : {Format::bf16, Format::fp32}) {
      for (double shift : {0.0, 0.02}) {
        Outcome outcome;
        for (std::uint64_t seed = 1; seed <= 120; ++seed) {
          try_program(seed, kind, format, shift, outcome);
        }
        CAPTURE(static_cast<int>(kind), static_cast<int>(format), shift, outcome.worst);
        REQUIRE(outcome.values > 25000);
        // Close enough that a missing term would be seen.
        REQUIRE(outcome.worst > 0.3);
      }
    }
  }
}

TEST_CASE("bounded: the second order is needed", "[bounded]") {
  // Twenty factors rounded upwards in bf16: the first order alone is too small.
  const double u = unit_roundoff(Format::bf16);
  const BoundScope scope(model_of(Format::bf16));
  const double x = 1.3125;
  const Bounded factor = Bounded::exactly(x);
  Bounded product = factor;
  double computed = x, truth = x;
  for (int n = 1; n < 20; ++n) {
    product = product * factor;
    computed = computed * x * (1 + u);
    truth *= x;
    CAPTURE(n);
    REQUIRE(computed - truth <= product.total());
    if (n > 1) REQUIRE(computed - truth > n * u * truth);
  }
  REQUIRE(product.total() < 1.05 * (computed - truth));
}

TEST_CASE("bounded: sums in any order, cancellation included", "[bounded]") {
  // 1 + 2^-8 (256 times) - 1: one by one in bf16 the small terms vanish, all 256 of them.
  const BoundScope scope(model_of(Format::bf16));
  std::vector<Bounded> x(258, Bounded::exactly(0x1p-8)), ones(258, Bounded(1));
  x[0] = Bounded(1);
  x[257] = Bounded(-1);
  Bounded sum = 0;
  la::dot_add(sum, 258, x.data(), 1, ones.data(), 1);
  REQUIRE(sum.v == 1);
  REQUIRE(!(sum.total() < 1));  // the sequential sum returns 0
}

TEST_CASE("bounded: exact zeros stay exact and infinite gates close", "[bounded]") {
  const BoundScope scope(model_of(Format::fp32));
  const Bounded zero = 0, x = Bounded::exactly(0.7);
  REQUIRE((zero * x).total() == 0);
  REQUIRE((zero + x).total() == 0);
  REQUIRE(fn::is_zero(fn::exp(fn::from_double<Bounded>(-INFINITY))));
  REQUIRE(fn::exp(fn::from_double<Bounded>(-100)).total() >= 0x1p-126);
  // A divisor that may be zero proves nothing.
  REQUIRE(!std::isfinite((x / Bounded::state(0.1, 0.2)).total()));
}
