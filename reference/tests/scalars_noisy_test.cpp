// What the noise must know, each on the smallest formula that shows it, against real rounding.
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "reference/recurrences/l2norm.hpp"
#include "reference/scalars/scalars.hpp"

using namespace assay;

namespace {

double rms(const Noisy& x) {
  double sum = 0;
  for (const double d : x.d) sum += d * d;
  return std::sqrt(sum / Noisy::kLanes);
}

NoiseModel tf32_operands() {
  NoiseModel model;
  model.operand = 0x1p-11, model.operand_bits = 11;
  return model;
}

}  // namespace

TEST_CASE("scalars/noisy: a factor one unit below 1 loses the same again in every step",
          "[scalars][noisy]") {
  constexpr int kSteps = 14;
  const float gate = 1 - 0x1p-24f;
  float x = 0.25915644f;
  double exact = x;
  NoiseModel model;
  model.steps = kSteps;
  const NoiseScope scope(model, 7);
  Noisy noisy = fn::from_double<Noisy>(x);
  for (int t = 0; t < kSteps; ++t) {
    x *= gate;
    exact *= gate;
    noisy *= fn::from_double<Noisy>(gate);
  }
  const double error = std::fabs(x - exact);
  REQUIRE(error > 10 * 0x1p-24 * exact);  // not a random walk, which would be some 2 units long
  CHECK(error < 4 * rms(noisy));
}

TEST_CASE("scalars/noisy: the norm of a row is no matrix product, and casts nothing",
          "[scalars][noisy]") {
  const double value = 0.6993393301963806;  // no number of 11 bits
  {
    const FormatScope fp32(Format::fp32);
    Emulation products;
    products.operand = Format::tf32, products.casts = true;
    const EmulationScope emulation(products);
    Rounded row = Rounded::from(value), norm;
    l2norm_rows(1, 1, Rounded::from(0), &row, &norm, "q");
    CHECK(std::fabs(row.value() - 1) <= 0x1p-23);
    Rounded product = Rounded::from(0);
    const Rounded one = Rounded::from(1), x = Rounded::from(value);
    la::dot_add(product, 1, &x, 1, &one, 1);
    CHECK(std::fabs(product.value() - value) > 0x1p-14);  // this is one, and does
  }
  const NoiseScope scope(tf32_operands(), 3);
  Noisy row = fn::from_double<Noisy>(value), norm;
  l2norm_rows(1, 1, fn::from_double<Noisy>(0), &row, &norm, "q");
  CHECK(rms(row) < 0x1p-22);
}

TEST_CASE("scalars/noisy: a cast goes to the nearest number, which below 1 is half as far away",
          "[scalars][noisy]") {
  // An operand that is 1 but for errors of 3/8 of a spacing of 11 bits: from above it becomes 1,
  // from below the number before it.
  const NoiseScope scope(tf32_operands(), 5);
  constexpr double kOff = 3 * 0x1p-13;
  Noisy x = fn::from_double<Noisy>(1);
  for (int i = 0; i < Noisy::kLanes; ++i) x.d[i] = i % 2 == 0 ? kOff : -kOff;
  Noisy sum = fn::from_double<Noisy>(0);
  const Noisy one = fn::from_double<Noisy>(1);
  la::dot_add(sum, 1, &x, 1, &one, 1);
  int at_one = 0, below = 0, kept = 0;
  for (const double d : sum.d) {
    at_one += std::fabs(d) < 0x1p-20;
    below += std::fabs(d + 0x1p-11) < 0x1p-20;
    kept += std::fabs(std::fabs(d) - kOff) < 0x1p-20;
  }
  CHECK(at_one == 2);
  CHECK(below == 2);
  CHECK(kept == 4);  // of forms that do not cast it
}

TEST_CASE("scalars/noisy: what saturates has the error of any other value", "[scalars][noisy]") {
  // 1 - sigmoid(50) is e^-50, and 0 in every arithmetic that makes sigmoid first.
  const NoiseScope scope(tf32_operands(), 9);
  const Noisy left = Noisy(1) - fn::sigmoid(fn::from_double<Noisy>(50));
  CHECK(left.v == 0);
  CHECK(rms(left) > 0x1p-26);
  const Noisy slope = Noisy(1) - fn::tanh(fn::from_double<Noisy>(25));
  CHECK(rms(slope) > 0x1p-26);
  CHECK(rms(fn::exp(fn::from_double<Noisy>(0))) == 0);  // exactly 1
}

TEST_CASE("scalars/noisy: casts of many values over whole spacings cancel as real ones do",
          "[scalars][noisy]") {
  constexpr int kValues = 4096;
  NoiseModel model;
  model.operand = 0x1p-8, model.operand_bits = 8;
  std::vector<Noisy> x(kValues), ones(kValues, Noisy(1));
  double real = 0, squares = 0, noise = 0;
  constexpr int kSeeds = 16;
  for (int seed = 0; seed < kSeeds; ++seed) {
    model.same_seed = static_cast<std::uint64_t>(seed + 1) * 0x9e3779b97f4a7c15ULL;
    const NoiseScope scope(model, seed);
    double sum = 0;
    for (int i = 0; i < kValues; ++i) {
      // Spread over [1, 2): 128 spacings of bf16.
      const double fraction = std::fmod((i + 1) * 0.6180339887498949 + 0.37 * seed, 1);
      x[i] = Functions<Noisy>::from_double(1 + fraction);
      const double error = std::nearbyint(x[i].v * 128) / 128 - x[i].v;
      sum += error, squares += error * error / kSeeds;
    }
    real = std::max(real, std::fabs(sum));
    Noisy total;
    la::Kernels<Noisy>::dot_add(total, kValues, x.data(), 1, ones.data(), 1);
    noise += rms(total) / kSeeds;
  }
  CAPTURE(real, std::sqrt(squares), noise);
  CHECK(real < 3 * noise);
  // Independent errors amount to the root of their squares; of one sign in each half spacing they
  // would be four times as much.
  CHECK(noise < 2 * std::sqrt(squares));
}
