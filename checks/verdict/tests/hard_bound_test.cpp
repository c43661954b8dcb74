// The hard bound: correct kernels never leave it, it bites, and a wrong bound is seen.
#include "checks/verdict/hard_bound.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "checks/verdict/check_cases.hpp"
#include "checks/verdict/ellipsoid.hpp"
#include "checks/verdict/tests/hostile.hpp"
#include "checks/verdict/verdict.hpp"
#include "reference/case/generate.hpp"

using namespace assay;
using namespace assay::testing;

namespace {

const std::vector<std::string> kCovered = {
    "linear_attention",    "retention", "ssd",   "gla", "hgrn2", "delta", "gdn", "kda", "comba",
    "gated_delta_product", "mdn",       "m2rnn", "rnn", "gru",   "lstm"};

PrecisionModel model_named(const std::string& name) {
  PrecisionModel model = preset_model(name.substr(0, 4));
  if (name == "bf16 throughout" || name == "fp16 throughout") {
    model.accumulator = model.state = model.gate = model.operand;
    const double u = 2 * unit_roundoff(model.operand);
    model.exp_error = model.tanh_error = model.softplus_error = model.rsqrt_error = u;
  }
  model.truncating_accumulator = name == "tf32 truncating";
  model.chunk = 8;  // sets the lengths of the cases
  model.form_declared = true;
  return model;
}

ValidCase made(const GenerateRequest& request) {
  const Operation& operation = find_operation(request.op);
  Case data = generate([&](const Case* c) { return operation.schema(c); }, request);
  const Schema schema = operation.schema(&data);
  return validate(std::move(data), schema);
}

/// The worst ratio of a case over directions, orders and fused products.
Closest attack(const ValidCase& c, const PrecisionModel& model, const HardBounds& bounds,
               std::uint64_t seed, int tries) {
  const Truth truth = truth_of(c);
  Closest worst;
  for (int i = 0; i < tries; ++i) {
    Hostility how;
    how.direction = static_cast<RoundingDirection>((seed + i) % 6);
    how.order = static_cast<SumOrder>((seed + i / 2) % 3);
    how.fma = (seed / 3 + i) % 2 != 0;
    how.seed = seed * 100 + i;
    const Closest found = compare(bounds, truth, hostile_results(c, model, how));
    if (!(found.ratio <= worst.ratio)) worst = found;
  }
  return worst;
}

}  // namespace

TEST_CASE("hard bound: no correct kernel leaves it, whatever its roundings", "[hard_bound]") {
  const std::vector<std::string> models = {
      "fp32", "bf16", "tf32 truncating", "bf16 throughout", "fp16", "fp16 throughout"};
  std::size_t number = 0;
  for (const std::string& op : kCovered) {
    double closest = 0;
    // All edges of `assay check` (absent states, packed, gates of exactly 0 and 1, -inf), each in
    // one of the models.
    for (std::size_t m = 0; m < models.size(); ++m) {
      const PrecisionModel model = model_named(models[m]);
      const auto cases = check_cases(find_operation(op), model, 11 + m);
      for (std::size_t i = m; i < cases.size(); i += models.size()) {
        const ValidCase& c = cases[i].valid;
        const Closest found = attack(c, model, hard_bound(c, model, {}), ++number, 3);
        CAPTURE(op, models[m], cases[i].why, found.where, found.ratio);
        REQUIRE(found.ratio <= 1);
        closest = std::max(closest, found.ratio);
      }
    }
    CAPTURE(op, closest);
    REQUIRE(closest > 0.1);  // a bound ten times too small would be seen
  }
}

TEST_CASE("hard bound: long sequences, normalised keys, corrected queries", "[hard_bound]") {
  struct Long {
    const char *op, *shape, *gates;
    std::vector<std::string> options;
  };
  const std::vector<Long> longs = {
      {"gdn", "B=1,T=512,H=1,K=16,V=8", "long", {"qk_l2norm=true"}},
      {"mdn", "B=1,T=512,H=1,K=8,V=8", "model", {"qk_l2norm=true", "l2norm_eps=1e-6"}},
      {"comba", "B=1,T=256,H=2,K=8,V=4", "wide", {"qk_l2norm=true"}},
      {"linear_attention", "B=1,T=512,H=1,K=8,V=8", "model", {"scale=0.3"}},
      {"m2rnn", "B=1,T=256,N=1,K=4,V=6", "long", {}},
      {"m2rnn", "B=1,T=40,N=2,K=4,V=6", "model", {"state_grad_clip=0.5"}}};
  for (const Long& l : longs) {
    GenerateRequest request;
    request.op = l.op;
    request.shape = l.shape;
    request.gates = {l.gates};
    request.options = l.options;
    request.dtype = DType::F32;
    request.seed = 5;
    const ValidCase c = made(request);
    const PrecisionModel model = model_named("fp32");
    const HardBounds bounds = hard_bound(c, model, {});
    const Closest found = attack(c, model, bounds, 3, 6);
    CAPTURE(l.op, l.shape, found.where, found.ratio);
    REQUIRE(found.ratio <= 1);
    for (const OutputSpec& out : c.schema.outputs) {
      CAPTURE(out.name, bounds.at(out.name).none);
      REQUIRE(bounds.at(out.name).none.empty());
    }
  }
}

TEST_CASE("hard bound: it is nearly reached where there is one way only", "[hard_bound]") {
  // One row, one column, all positive, every rounding upwards: no cancellation and no slack but
  // the spare roundings.
  GenerateRequest request;
  request.op = "retention";
  request.shape = "B=1,T=64,H=1,K=1,V=1";
  request.dtype = DType::F32;
  ValidCase c = made(request);
  for (auto& [name, tensor] : c.data.tensors) {
    for (double& x : tensor.values) x = std::fabs(x);
  }
  const PrecisionModel model = model_named("fp32");
  HardBounds bounds = hard_bound(c, model, {false, 1, {}});
  Hostility up;
  up.direction = RoundingDirection::up;
  const Truth truth = truth_of(c);
  const Values values = hostile_results(c, model, up);
  const double ratio = compare(bounds, truth, values).ratio;
  REQUIRE(ratio <= 1);
  REQUIRE(ratio > 0.25);
  // So this test would see a bound that forgets most of the roundings of a step.
  for (auto& [name, b] : bounds) {
    for (double& x : b.bound) x /= 4;
  }
  REQUIRE(compare(bounds, truth, values).ratio > 1);
}

TEST_CASE("hard bound: an error of ten bounds is WRONG and says where", "[hard_bound][verdict]") {
  const PrecisionModel model = model_named("fp32");
  for (const char* op : {"gdn", "mdn", "m2rnn"}) {
    const ValidCase c = check_cases(find_operation(op), model, 3)[0].valid;
    const HardBounds bounds = hard_bound(c, model, {});
    const auto exact = evaluate(lift<double>(c), {Form::recurrent, true, 1, {}});
    for (const auto& [name, b] : bounds) {
      if (!b.none.empty()) continue;
      RunResult result;
      result.status = RunStatus::ran;
      result.outputs = exact.outputs;
      result.gradients = exact.gradients;
      std::vector<double>& values = result.outputs.count(name)
                                        ? result.outputs.at(name).data
                                        : result.gradients.at(name.substr(2)).data;
      const std::size_t at = values.size() / 2;
      if (b.bound[at] == 0 || !std::isfinite(b.bound[at])) continue;
      JudgeRequest request;
      request.diagnose = false;
      request.lanes = 8;
      const Verdict well = judge(c, model, result, request);
      CAPTURE(op, name, well.sentence);
      REQUIRE(well.kind != VerdictKind::wrong);
      values[at] += 10 * b.bound[at];
      const Verdict v = judge(c, model, result, request);
      CAPTURE(v.sentence);
      REQUIRE(v.kind == VerdictKind::wrong);
      REQUIRE(v.sentence.rfind(name + " is wrong by", 0) == 0);
      REQUIRE(v.sentence.find("proved bound") != std::string::npos);
      for (const TensorVerdict& t : v.tensors) {
        REQUIRE(t.stats.within_hard_bound() == (t.name != name));
        if (t.name == name) REQUIRE(t.stats.hard_ratio == Approx(10).epsilon(0.2));
      }
    }
  }
}

TEST_CASE("hard bound: what has no derivation has no bound, and a reason", "[hard_bound]") {
  PrecisionModel model = model_named("fp32");
  const auto none_of = [&](const std::string& op) {
    const ValidCase c = check_cases(find_operation(op), model, 3)[0].valid;
    const HardBounds bounds = hard_bound(c, model, {});
    REQUIRE(!bounds.empty());
    const std::string why = bounds.begin()->second.none;
    for (const auto& [name, b] : bounds) REQUIRE((b.bound.empty() && b.none == why));
    return why;
  };
  REQUIRE(none_of("mom") == "no derivation covers mom");
  model.form = Form::chunk;
  REQUIRE(none_of("gdn") == "no derivation covers the chunk form");
  model.form_declared = false;
  REQUIRE(none_of("gdn") == "the model does not declare its form");
  REQUIRE(none_of("gla") == "the model does not declare its form");
  // What cannot be computed in chunks is covered in any case.
  const ValidCase m2rnn = check_cases(find_operation("m2rnn"), model, 3)[0].valid;
  REQUIRE(hard_bound(m2rnn, model, {}).at("y").none.empty());
  // Whole bf16 arithmetic over a long memory can be wrong by more than the result.
  model = model_named("bf16 throughout");
  GenerateRequest request;
  request.op = "delta";
  request.shape = "B=1,T=200,H=1,K=16,V=4";
  request.dtype = DType::BF16;
  REQUIRE(hard_bound(made(request), model, {}).at("s_final").none ==
          "the bound exceeds the tensor itself");
}

TEST_CASE("hard bound: the same for every number of threads", "[hard_bound]") {
  const PrecisionModel model = model_named("fp32");
  const ValidCase c = check_cases(find_operation("gdn"), model, 3)[0].valid;
  const HardBounds one = hard_bound(c, model, {}), two = hard_bound(c, model, {true, 2, {}});
  for (const auto& [name, b] : one) REQUIRE(b.bound == two.at(name).bound);
}

namespace {

constexpr std::int64_t kOrder = 4;

/// Worst |c·x| / width, c an axis or random, over random and greedy errors under x <- A x + l,
/// |l_i| <= noise_i; the ellipsoid is told `claimed` in place of A.
double worst_escape(const std::vector<double>& A, const std::vector<double>& claimed,
                    const std::vector<double>& noise, int steps) {
  std::mt19937_64 random(7);
  double worst = 0;
  Ellipsoid ellipsoid;
  ellipsoid.enclose_box(noise);
  for (int t = 0; t < steps; ++t) ellipsoid.advance(claimed, noise);
  for (std::int64_t target = 0; target < 3 * kOrder; ++target) {
    std::vector<double> c(kOrder, 0.0);
    for (double& x : c) x = target < kOrder ? 0 : static_cast<double>(random() % 201) / 100 - 1;
    if (target < kOrder) c[target] = 1;
    const double width = target < kOrder ? ellipsoid.half_width(target) : ellipsoid.width(c);
    for (int attempt = 0; attempt < 20; ++attempt) {
      // Greedy: every l has the signs of the row of A^(steps - t) that leads to c.
      std::vector<double> row = c;
      double reached = 0;
      for (int t = 0; t <= steps; ++t) {
        std::vector<double> next(kOrder, 0.0);
        for (std::int64_t j = 0; j < kOrder; ++j) {
          const bool flip = attempt > 0 && random() % 8 == 0;
          reached += (flip ? -1 : 1) * std::fabs(row[j]) * noise[j];
          for (std::int64_t i = 0; i < kOrder; ++i) next[j] += row[i] * A[i * kOrder + j];
        }
        row = next;
      }
      worst = std::max(worst, std::fabs(reached) / width);
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("hard bound: ellipsoids hold what they must, and not for another matrix",
          "[hard_bound]") {
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  double closest = 0, wrong = 0;
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<double> A(kOrder * kOrder), noise(kOrder), transposed(A.size());
    for (double& x : A) x = 0.4 * normal(random);
    A[1] += 4;  // far from normal: A and its transpose move errors differently
    for (double& x : noise) x = std::fabs(normal(random));
    for (std::int64_t i = 0; i < kOrder; ++i) {
      for (std::int64_t j = 0; j < kOrder; ++j) transposed[j * kOrder + i] = A[i * kOrder + j];
    }
    const double right = worst_escape(A, A, noise, 6);
    REQUIRE(right <= 1);
    closest = std::max(closest, right);
    wrong = std::max(wrong, worst_escape(A, transposed, noise, 6));
  }
  REQUIRE(closest > 0.6);
  REQUIRE(wrong > 1.5);
}
