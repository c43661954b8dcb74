// Threads, layouts, dtypes, builds and refusals.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "kernels/common/dtype.hpp"
#include "kernels/common/elementary.hpp"
#include "kernels/tests/problem.hpp"

using namespace assay::cpu;
using namespace assay::cpu::testing;

namespace {

void in_fp32(RunSettings& s) { s.dtype = DType::f32; }

std::string refusal(const Problem& p) {
  try {
    run(p);
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("cpu/threads: the same bits for any number of threads, run after run", "[cpu][threads]") {
  for (const std::string& op : all_operations()) {
    const Problem p = random_problem(
        op, 31, [](Problem& q) { q.size['T'] = 150, q.size['B'] = 3, q.size['H'] = 4; },
        op == "mdn" ? std::map<std::string, std::int64_t>{{"k", 2}, {"q_correction", 1}}
                    : std::map<std::string, std::int64_t>{});
    RunSettings one;
    in_fp32(one);
    const Tensors expected = run(p, one);
    for (int threads : {2, 5}) {
      RunSettings many = one;
      many.threads = threads;
      std::string first;
      CAPTURE(op, threads, first);
      REQUIRE(same_bits(run(p, many), expected, &first));
    }
  }
}

TEST_CASE("cpu/layout: strides of the inputs change nothing", "[cpu][layout]") {
  for (const std::string& op : all_operations()) {
    const Problem p = random_problem(op, 32);
    for (DType dtype : {DType::f32, DType::bf16}) {
      RunSettings plain, strided;
      plain.dtype = strided.dtype = dtype;
      strided.strided = true;
      CAPTURE(op);
      REQUIRE(same_bits(run(p, strided), run(p, plain)));
    }
  }
}

TEST_CASE("cpu/dtype: bf16 outputs are the fp32 outputs, rounded once", "[cpu][dtype]") {
  for (const std::string& op : all_operations()) {
    const Problem p = random_problem(op, 33);  // inputs are exact in every dtype
    RunSettings wide, narrow;
    wide.dtype = DType::f32;
    narrow.dtype = DType::bf16;
    Tensors expected = run(p, wide);
    for (auto& [name, v] : expected) {
      for (double& x : v.data) x = from_bf16(to_bf16(static_cast<float>(x)));
    }
    std::string first;
    CAPTURE(op, first);
    REQUIRE(same_bits(run(p, narrow), expected, &first));
  }
}

TEST_CASE("cpu/dtype: fp32 stays close to fp64", "[cpu][dtype]") {
  for (const std::string& op : all_operations()) {
    const Problem p = random_problem(op, 34, [](Problem& q) { q.size['T'] = 70; });
    RunSettings fp32, fp64;
    in_fp32(fp32);
    std::string worst;
    CAPTURE(op, worst);
    REQUIRE(distance(run(p, fp32), run(p, fp64), &worst) < 1e-4);
  }
}

TEST_CASE("cpu/builds: the portable build computes the same function", "[cpu][builds]") {
  for (const std::string& op : all_operations()) {
    const Problem p = random_problem(op, 35, [](Problem& q) { q.size['T'] = 70; });
    RunSettings best, portable;
    portable.baseline = true;
    std::string worst;
    CAPTURE(op, worst);
    REQUIRE(distance(run(p, portable), run(p, best), &worst) < 1e-10);
  }
}

TEST_CASE("cpu/dtype: conversions of the 16-bit formats, all patterns", "[cpu][dtype]") {
  for (std::uint32_t h = 0; h < 0x10000u; ++h) {
    const auto bits = static_cast<std::uint16_t>(h);
    const float b = from_bf16(bits), f = from_f16(bits);
    if (std::isnan(b)) {
      REQUIRE(std::isnan(from_bf16(to_bf16(b))));
    } else {
      REQUIRE(to_bf16(b) == bits);
    }
    if (std::isnan(f)) {
      REQUIRE(std::isnan(from_f16(to_f16(f))));
    } else {
      REQUIRE(to_f16(f) == bits);
    }
    // Value of a finite fp16 from its fields, exactly.
    const int exponent = (h >> 10) & 31, mantissa = h & 1023;
    if (exponent == 31) continue;
    const double magnitude =
        exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    REQUIRE(static_cast<double>(f) == ((h & 0x8000u) ? -magnitude : magnitude));
  }
}

TEST_CASE("cpu/dtype: rounding to fp16 and bf16 goes to nearest, ties to even", "[cpu][dtype]") {
  for (std::uint32_t h = 0; h < 0x7bffu; ++h) {
    const double low = from_f16(static_cast<std::uint16_t>(h)),
                 high = from_f16(static_cast<std::uint16_t>(h + 1));
    const auto middle = static_cast<float>((low + high) / 2);  // exact
    REQUIRE(to_f16(middle) == (h % 2 == 0 ? h : h + 1));
    REQUIRE(to_f16(std::nextafter(middle, 0.0f)) == h);
    REQUIRE(to_f16(std::nextafter(middle, 1e9f)) == h + 1);
  }
  for (std::uint32_t h = 0; h < 0x7f7fu; ++h) {
    const float low = bits_float(h << 16), middle = bits_float(h << 16 | 0x8000u);
    REQUIRE(to_bf16(low) == h);
    REQUIRE(to_bf16(middle) == (h % 2 == 0 ? h : h + 1));
    REQUIRE(to_bf16(bits_float((h << 16 | 0x8000u) - 1)) == h);
    REQUIRE(to_bf16(bits_float((h << 16 | 0x8000u) + 1)) == h + 1);
  }
}

TEST_CASE("cpu/tanh: relative error below 2^-22, NaN and infinities pass", "[cpu][tanh]") {
  // Every 61st float of both signs; neighbours behave alike.
  double worst = 0;
  for (std::uint32_t u = 0; u < 0x7f800000u; u += 61) {
    float x[2] = {bits_float(u), -bits_float(u)};
    const double exact = std::tanh(static_cast<double>(x[0]));
    tanh_rows(2, x);
    REQUIRE(x[1] == -x[0]);
    if (exact > 0) worst = std::fmax(worst, std::fabs(x[0] - exact) / exact);
  }
  CAPTURE(worst);
  REQUIRE(worst < 0x1p-22);
  float edge[3] = {HUGE_VALF, -HUGE_VALF, NAN};
  tanh_rows(3, edge);
  REQUIRE(edge[0] == 1.0f);
  REQUIRE(edge[1] == -1.0f);
  REQUIRE(std::isnan(edge[2]));
}

TEST_CASE("cpu/refusals: one line names tensor and rule", "[cpu][refusals]") {
  Problem p = random_problem("mdn", 36);
  p.inputs.erase("k");
  REQUIRE(refusal(p) == "input 'k' is missing");
  p = random_problem("mdn", 36);
  p.inputs["log_mu"] = p.inputs["mu"];
  REQUIRE(refusal(p) == "both 'mu' and 'log_mu' are given");
  p = random_problem("mdn", 36, {}, {{"q", 3}});
  REQUIRE(refusal(p).find("heads") != std::string::npos);
  p = random_problem("gdn", 36);
  p.options.chunk = 0;
  REQUIRE(refusal(p).find("chunk") != std::string::npos);
  p = random_problem("gla", 36);
  p.options.form = Form::chunk;
  REQUIRE(refusal(p) == "gla has no chunk form");
  p = random_problem("gdn", 36, [](Problem& q) {
    q.size['B'] = 1;
    q.cu_seqlens = {0, 5, 3, 9};
  });
  REQUIRE(refusal(p).find("cu_seqlens") != std::string::npos);
  p = random_problem("mom", 36);
  p.options.top_k = 9;
  REQUIRE(refusal(p).find("top_k") != std::string::npos);
  p.options.update = "nothing";
  REQUIRE(refusal(p).find("nothing") != std::string::npos);
}
