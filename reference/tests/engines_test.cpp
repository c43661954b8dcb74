// Engines that share no arithmetic must agree, and threads must not change a bit.
#include <algorithm>
#include <catch2/catch.hpp>

#include "reference/oracle/certify.hpp"
#include "reference/tests/support.hpp"

using namespace assay;
using namespace assay::testing;

namespace {

GenerateRequest small(const std::string& op, std::uint64_t seed) {
  GenerateRequest request;
  request.op = op;
  request.seed = seed;
  request.gates = {seed % 2 ? "model" : "edge"};
  request.log_gates = seed % 3 == 0;
  return request;
}

template <class Real, class Check>
void compare(const Result<Ball>& balls, const Result<Real>& other, Check inside) {
  for (const bool gradients : {false, true}) {
    for (const auto& [name, tensor] : gradients ? balls.gradients : balls.outputs) {
      const auto& values = (gradients ? other.gradients : other.outputs).at(name).data;
      for (std::int64_t i = 0; i < tensor.size(); ++i) {
        CAPTURE(name, gradients, i);
        REQUIRE(inside(tensor.data[i], values[i]));
      }
    }
  }
}

}  // namespace

TEST_CASE("engines: every MPFR value lies inside the ball of a lower precision", "[engines]") {
  for (const Operation* operation : operations()) {
    for (std::uint64_t seed : {1, 2, 3}) {
      const ValidCase c = make_case(small(operation->name(), seed));
      CAPTURE(operation->name(), seed);
      const PrecisionScope low(160);
      const auto balls = run<Ball>(c, {Form::recurrent, true, 1, {}});
      const PrecisionScope high(400);
      const auto mpfr = run<Mpfr>(c, {Form::recurrent, true, 1, {}});
      compare(balls, mpfr, [](const Ball& ball, const Mpfr& value) {
        Ball point;
        arf_set_mpfr(arb_midref(point.raw()), value.backend().data());
        return ball.contains(point);
      });
    }
  }
}

TEST_CASE("engines: what MPFR has no exponent for is printed as 0, said, and hides nothing",
          "[engines]") {
  GenerateRequest request = small("gdn", 3);
  request.shape = "B=1,T=2,H=1,K=2,V=2";
  request.log_gates = true;
  request.gates = {"model", "log_alpha=-1e19"};
  request.cotangents = false;
  const Operation& gdn = find_operation("gdn");
  Case data = generate([&](const Case* c) { return gdn.schema(c); }, request);
  for (const char* name : {"k", "v"}) {  // the state decays, and nothing is written
    std::vector<double>& values = data.tensors.at(name).values;
    std::fill(values.begin(), values.end(), 0.0);
  }
  const ValidCase c = validate(std::move(data), gdn.schema(nullptr));
  const Evaluation e = evaluate_certified(c, EvalRequest());
  CHECK(e.outputs.at("o").values[0] == "0");
  bool said = false;
  for (const std::string& note : e.notes) {
    said = said || note.find("not 0 but below 2^-(2^62) in magnitude") != std::string::npos;
  }
  CHECK(said);
}

TEST_CASE("engines: the double-double value with its bound meets the ball", "[engines]") {
  for (const Operation* operation : operations()) {
    const ValidCase c = make_case(small(operation->name(), 5));
    CAPTURE(operation->name());
    const PrecisionScope precision(300);
    const auto balls = run<Ball>(c, {Form::recurrent, true, 1, {}});
    const auto dd = run<DoubleDouble>(c, {Form::recurrent, true, 1, {}});
    compare(balls, dd, [](const Ball& ball, const DoubleDouble& value) {
      const Ball other = fn::from_double<Ball>(value.hi()) + fn::from_double<Ball>(value.lo()) +
                         Ball::from_midpoint_radius(0.0, value.err());
      return ball.overlaps(other);
    });
  }
}

TEST_CASE("engines: exact rationals lie inside the balls", "[engines]") {
  for (const char* op : {"linear_attention", "retention", "ssd", "gla", "hgrn2", "delta", "gdn",
                         "kda", "comba", "gated_delta_product", "mdn"}) {
    GenerateRequest request = small(op, 2);
    request.shape = "B=1,T=5,H=2,K=2,V=2";
    const ValidCase c = dyadic_case(request);
    CAPTURE(op);
    const PrecisionScope precision(160);
    const auto balls = run<Ball>(c, {Form::recurrent, true, 1, {}});
    const auto exact = run<Rational>(c, {Form::recurrent, true, 1, {}});
    compare(balls, exact, [](const Ball& ball, const Rational& value) {
      fmpq_t q;
      fmpq_init(q);
      fmpq_set_mpq(q, value.value().backend().data());
      const bool inside = arb_contains_fmpq(ball.raw(), q) != 0;
      fmpq_clear(q);
      return inside;
    });
  }
}

TEST_CASE("engines: the same bits for every number of threads", "[engines]") {
  for (const char* op : {"mdn", "gdn", "m2rnn", "mom"}) {
    GenerateRequest request = small(op, 1);
    request.shape =
        std::string(op) == "m2rnn" ? "B=2,T=9,N=4,N.w=1,K=3,V=3" : "B=1,T=9,H=2,H.q=1,K=3,V=70";
    const ValidCase c = make_case(request);
    const PrecisionScope precision(200);
    const auto one = run<Mpfr>(c, {Form::recurrent, true, 1, {}});
    for (int threads : {2, 3, 7}) {
      const auto many = run<Mpfr>(c, {Form::recurrent, true, threads, {}});
      CAPTURE(op, threads);
      REQUIRE(difference(one.outputs, many.outputs) == "");
      REQUIRE(difference(one.gradients, many.gradients) == "");
    }
  }
}

// The transition matrix is A_t = ∂S_t/∂S_{t-1}: a tangent of the state alone must move by it.
TEST_CASE("transition: equals the tangent of one step", "[transition]") {
  int with_transition = 0;
  for (const Operation* operation : operations()) {
    const ValidCase c = make_case(small(operation->name(), 7));
    const auto engine = make_engine<Dual<double>>(*operation, c);
    if (!engine.recurrence) continue;
    auto problem = lift<Dual<double>>(c);
    for (const Unit& unit : make_units(c, false)) {
      if (unit.steps == 0) continue;
      LocalProblem<Dual<double>> local(problem, *engine.recurrence, unit, Form::recurrent);
      std::vector<Dual<double>> state = local.initial_state(), A;
      const std::int64_t n =
          engine.recurrence->transition(local.context(), local.inputs(0), state.data(), A);
      if (n == 0) break;
      ++with_transition;
      const std::int64_t size = local.state_size();
      for (std::int64_t i = 0; i < size; ++i) state[i].d = 0.25 + 0.5 * ((i * 7) % 5);
      const std::vector<Dual<double>> before = state;
      std::vector<Dual<double>> saved(engine.recurrence->saved_size(local.context(), 1));
      engine.recurrence->forward(local.context(), local.inputs(0), 1, state.data(),
                                 local.outputs(0), saved.data());
      // Fast weights: A acts on columns of the stacked [n,V] state. m2rnn: one A per row of H.
      // rnn, gru: on the vector.
      const bool rows = static_cast<std::int64_t>(A.size()) != n * n;
      const std::int64_t columns = rows ? 1 : size / n;
      const std::int64_t blocks = rows ? size / n : 1;
      for (std::int64_t b = 0; b < blocks; ++b) {
        for (std::int64_t i = 0; i < n; ++i) {
          for (std::int64_t j = 0; j < columns; ++j) {
            double sum = 0;
            for (std::int64_t l = 0; l < n; ++l) {
              sum += A[(b * n + i) * n + l].v * before[(b * n + l) * columns + j].d;
            }
            CAPTURE(operation->name(), b, i, j);
            REQUIRE(state[(b * n + i) * columns + j].d == Approx(sum).margin(1e-12));
          }
        }
      }
    }
  }
  REQUIRE(with_transition > 20);
}
