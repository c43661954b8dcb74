// The chunk forms against the recurrent form, exactly, in rationals.
#include <catch2/catch.hpp>

#include "reference/recurrences/mdn_chunk.hpp"
#include "reference/tests/support.hpp"

using namespace assay;
using namespace assay::testing;

namespace {

/// Those that rationals can compute: mom has a softmax, mdn_fused_gates an exponential.
std::vector<const Operation*> operations_with_chunk_form() {
  std::vector<const Operation*> found;
  for (const Operation* operation : operations()) {
    const std::string name = operation->name();
    if (name == "mom" || name == "mdn_fused_gates") continue;
    if (operation->schema(nullptr).forms.size() > 1) found.push_back(operation);
  }
  return found;
}

void require_equal_forms(const std::string& op, std::int64_t T, std::int64_t C,
                         const std::vector<std::string>& gates) {
  GenerateRequest request;
  request.op = op;
  request.shape = "B=1,T=" + std::to_string(T) + ",H=1,K=2,V=1";
  request.options = {"chunk=" + std::to_string(C)};
  request.gates = gates;
  request.seed = static_cast<std::uint64_t>(100 * T + C);
  const ValidCase c = dyadic_case(request);
  const auto recurrent = run<Rational>(c, {Form::recurrent, true, 1, {}});
  const auto chunk = run<Rational>(c, {Form::chunk, true, 1, {}});
  CAPTURE(op, T, C, c.data.seed);
  REQUIRE(difference(recurrent.outputs, chunk.outputs) == "");
  REQUIRE(difference(recurrent.gradients, chunk.gradients) == "");
}

}  // namespace

TEST_CASE("chunk: five operations have a chunk form that rationals can compute", "[chunk]") {
  std::vector<std::string> names;
  for (const Operation* operation : operations_with_chunk_form()) {
    names.push_back(operation->name());
  }
  REQUIRE(names == std::vector<std::string>{"comba", "delta", "gdn", "kda", "mdn"});
}

TEST_CASE("chunk: equals the recurrent form exactly for short chunks", "[chunk]") {
  for (const Operation* operation : operations_with_chunk_form()) {
    for (std::int64_t C : {1, 2, 3, 4, 5, 8}) {
      for (std::int64_t T : {std::int64_t{0}, std::int64_t{1}, C - 1, C, C + 1, 2 * C + 1}) {
        require_equal_forms(operation->name(), T, C, {"edge"});
        require_equal_forms(operation->name(), T, C, {"wide"});
      }
    }
  }
}

TEST_CASE("chunk: equals the recurrent form exactly for C = 16", "[chunk]") {
  for (const Operation* operation : operations_with_chunk_form()) {
    for (std::int64_t T : {0, 1, 15, 16, 17, 33}) {
      require_equal_forms(operation->name(), T, 16, {"edge"});
      require_equal_forms(operation->name(), T, 16, {"wide"});
    }
  }
}

TEST_CASE("chunk: equals the recurrent form exactly for C = 64", "[chunk]") {
  for (const Operation* operation : operations_with_chunk_form()) {
    for (std::int64_t T : {0, 1, 63, 64, 65, 129}) {
      require_equal_forms(operation->name(), T, 64, {"edge"});
      require_equal_forms(operation->name(), T, 64, {"wide"});
    }
  }
}

TEST_CASE("chunk: mom equals its recurrent form for every update that has one", "[chunk][mom]") {
  const PrecisionScope precision(400);
  for (const std::string update : {"delta", "gdn", "kda", "comba", "mdn"}) {
    for (std::int64_t C : {1, 3, 8, 64}) {
      for (std::int64_t T : {std::int64_t{1}, C, C + 1, 2 * C + 1}) {
        GenerateRequest request;
        request.op = "mom";
        request.shape = "B=2,T=" + std::to_string(T) + ",H=2,M=3,K=3,V=2";
        request.options = {"chunk=" + std::to_string(C), "update=" + update, "qk_l2norm=true"};
        request.seed = static_cast<std::uint64_t>(T);
        const ValidCase c = make_case(request);
        REQUIRE(c.schema.forms.size() > 1);
        const auto recurrent = run<Ball>(c, {Form::recurrent, true, 1, {}});
        const auto chunk = run<Ball>(c, {Form::chunk, true, 1, {}});
        CAPTURE(update, T, C);
        const auto compare = [](const auto& one, const auto& two) {
          for (const auto& [name, tensor] : one) {
            CAPTURE(name);
            for (std::int64_t i = 0; i < tensor.size(); ++i) {
              REQUIRE(tensor.data[i].overlaps(two.at(name).data[i]));
              REQUIRE(two.at(name).data[i].radius() < 1e-60);
            }
          }
        };
        compare(recurrent.outputs, chunk.outputs);
        compare(recurrent.gradients, chunk.gradients);
      }
    }
  }
}

TEST_CASE("chunk: equals the recurrent form in the prime field at K = 16, V = 8", "[chunk]") {
  for (const Operation* operation : operations_with_chunk_form()) {
    for (std::int64_t T : {63, 64, 65, 129}) {
      GenerateRequest request;
      request.op = operation->name();
      request.shape = "B=1,T=" + std::to_string(T) + ",H=2,H.k=1,K=16,V=8";
      request.gates = {"wide"};
      request.options = {"chunk=64"};
      request.dtype = DType::F64;
      const ValidCase c = make_case(request);
      const auto recurrent = run<Field>(c, {Form::recurrent, true, 1, {}});
      const auto chunk = run<Field>(c, {Form::chunk, true, 1, {}});
      CAPTURE(operation->name(), T);
      REQUIRE(difference(recurrent.outputs, chunk.outputs) == "");
      REQUIRE(difference(recurrent.gradients, chunk.gradients) == "");
    }
  }
}

TEST_CASE("mdn/solve: the residuals satisfy the shifted system and the recurrence",
          "[mdn][chunk]") {
  // n = 3, K = V = 1, so that every quantity can be written down by hand.
  const std::vector<Rational> alpha = {Rational::ratio(1, 2), 0, Rational::ratio(3, 4)};
  const std::vector<Rational> beta = {1, Rational::ratio(1, 4), 2};
  const std::vector<Rational> mu = {Rational::ratio(1, 2), 1, 0};
  const std::vector<Rational> k = {1, 2, 3}, eta = {1, Rational::ratio(1, 2), 2}, v = {5, 7, 11};
  const Rational S0 = 3, M0 = -1;
  std::vector<Rational> p(3), k_hat(3), R(3), r(3);
  Rational S = S0, M = M0;
  for (int t = 0; t < 3; ++t) {
    p[t] = alpha[t] * k[t];
    k_hat[t] = eta[t] * k[t];
    r[t] = v[t] - S * p[t];
    M = mu[t] * M - k_hat[t] * r[t];
    S = alpha[t] * S - beta[t] * M;
  }
  const auto c = mdn_coefficients<Rational>(3, alpha.data(), beta.data(), mu.data());
  solve_shifted_residual<Rational>(c, 1, 1, p.data(), k_hat.data(), v.data(), &S0, &M0, R.data());
  REQUIRE(R == r);

  // The system itself, and its false sibling: Γ with its diagonal zeroed instead of moved down.
  bool false_sibling_differs = false;
  for (int i = 0; i < 3; ++i) {
    Rational left = R[i], wrong = R[i];
    for (int j = 0; j < i; ++j) {
      left += p[i] * k_hat[j] * c.gamma_shifted(i, j) * R[j];
      wrong += p[i] * k_hat[j] * c.gamma[i * 3 + j] * R[j];
    }
    const Rational right = v[i] - c.alpha_bar_before(i) * p[i] * S0 + c.b_before(i) * p[i] * M0;
    REQUIRE(left == right);
    false_sibling_differs = false_sibling_differs || !(wrong == right);
  }
  REQUIRE(false_sibling_differs);
}

TEST_CASE("mdn/gamma: the recursion gives the division-free sum, zeros included", "[mdn][chunk]") {
  const std::int64_t n = 6;
  std::vector<Rational> alpha(n), beta(n), mu(n);
  for (int i = 0; i < n; ++i) {
    alpha[i] = i == 2 ? Rational(0) : Rational::ratio(i + 1, 7);
    beta[i] = Rational::ratio(3 * i + 1, 5);
    mu[i] = i == 4 ? Rational(0) : Rational::ratio(2 * i + 1, 11);
  }
  const auto c = mdn_coefficients<Rational>(n, alpha.data(), beta.data(), mu.data());
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j <= i; ++j) {
      Rational sum = 0;
      for (int r = j; r <= i; ++r) {
        Rational term = beta[r];
        for (int u = r + 1; u <= i; ++u) term *= alpha[u];
        for (int u = j + 1; u <= r; ++u) term *= mu[u];
        sum += term;
      }
      REQUIRE(c.gamma[i * n + j] == sum);
    }
  }
}

TEST_CASE("mdn/chunk_log: agrees with the recursion where the logarithms exist", "[mdn][chunk]") {
  GenerateRequest request;
  request.op = "mdn";
  request.shape = "B=1,T=13,H=1,K=3,V=2";
  request.gates = {"alpha=0.8:0.95", "mu=0.4:0.6", "beta=0.1:0.9"};
  request.options = {"chunk=8"};
  const ValidCase c = make_case(request);
  const PrecisionScope precision(400);
  const auto exact = run<Ball>(c, {Form::recurrent, true, 1, {}});
  const auto logs = run<Ball>(c, {Form::chunk_log, true, 1, {}});
  for (const auto* sets : {&exact.outputs, &exact.gradients}) {
    const auto& other = sets == &exact.outputs ? logs.outputs : logs.gradients;
    for (const auto& [name, tensor] : *sets) {
      for (std::int64_t i = 0; i < tensor.size(); ++i) {
        CAPTURE(name, i);
        REQUIRE(tensor.data[i].overlaps(other.at(name).data[i]));
        REQUIRE(other.at(name).data[i].radius() < 1e-60);
      }
    }
  }
  // The same in double shows why the form is not used: mu decays faster than alpha.
  request.gates = {"alpha=0.99:1", "mu=0.1354:0.14", "beta=0.1:0.9"};
  request.shape = "B=1,T=64,H=1,K=3,V=2";
  request.options = {"chunk=64"};
  const ValidCase hard = make_case(request);
  const auto good = run<double>(hard, {Form::recurrent, false, 1, {}});
  const auto bad = run<double>(hard, {Form::chunk_log, false, 1, {}});
  double error = 0, size = 0;
  for (std::int64_t i = 0; i < good.outputs.at("o").size(); ++i) {
    error = std::max(error, std::abs(good.outputs.at("o").data[i] - bad.outputs.at("o").data[i]));
    size = std::max(size, std::abs(good.outputs.at("o").data[i]));
  }
  REQUIRE(!(error < 1e-3 * size));
}

TEST_CASE("mdn/chunk_log: a gate of exactly 0 is refused in one line", "[mdn][chunk]") {
  GenerateRequest request;
  request.op = "mdn";
  request.shape = "B=1,T=4,H=1,K=2,V=2";
  request.gates = {"mu=0"};
  const ValidCase c = make_case(request);
  REQUIRE_THROWS_AS(run<double>(c, {Form::chunk_log, false, 1, {}}), InputError);
}
