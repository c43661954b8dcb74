// Operations that contain each other, exactly.
#include <catch2/catch.hpp>

#include "reference/tests/support.hpp"

using namespace assay;
using namespace assay::testing;

namespace {

GenerateRequest request_for(const std::string& op, const std::string& extra = "") {
  GenerateRequest request;
  request.op = op;
  request.shape = "B=2,T=6,H=2,H.k=1,K=3,V=2" + extra;
  request.gates = {"edge"};
  request.seed = 11;
  return request;
}

CaseTensor constant(const Shape& shape, double value) {
  CaseTensor tensor;
  tensor.shape = shape;
  tensor.values.assign(static_cast<std::size_t>(element_count(shape)), value);
  return tensor;
}

/// Outputs, and the gradients that both cases have, are equal; `names` maps left to right where
/// they differ.
void require_same(const ValidCase& a, const ValidCase& b,
                  const std::map<std::string, std::string>& names = {}) {
  const auto x = run<Rational>(a, {Form::recurrent, true, 1, {}});
  const auto y = run<Rational>(b, {Form::recurrent, true, 1, {}});
  int compared = 0;
  for (const bool gradients : {false, true}) {
    for (const auto& [name, tensor] : gradients ? x.gradients : x.outputs) {
      const auto renamed = names.find(name);
      const auto& other = gradients ? y.gradients : y.outputs;
      const auto found = other.find(renamed == names.end() ? name : renamed->second);
      if (found == other.end()) continue;
      CAPTURE(name, gradients);
      REQUIRE(tensor.data == found->second.data);
      ++compared;
    }
  }
  REQUIRE(compared >= 5);
}

}  // namespace

TEST_CASE("mdn: mu = 0 and eta = 1 is gdn", "[mdn][reduction]") {
  const ValidCase gdn = dyadic_case(request_for("gdn"));
  Case data = gdn.data;
  data.op = "mdn";
  data.tensors["mu"] = constant(gdn.data.tensors.at("alpha").shape, 0);
  require_same(gdn, revalidate(data));
  data.tensors["eta"] = constant(gdn.data.tensors.at("alpha").shape, 1);
  require_same(gdn, revalidate(data));
}

TEST_CASE("gdn: alpha = 1 is delta", "[gdn][reduction]") {
  const ValidCase delta = dyadic_case(request_for("delta"));
  Case data = delta.data;
  data.op = "gdn";
  data.tensors["alpha"] = constant(delta.data.tensors.at("beta").shape, 1);
  require_same(delta, revalidate(data));
}

TEST_CASE("gated_delta_product: J = 1 is gdn", "[gated_delta_product][reduction]") {
  const ValidCase gdn = dyadic_case(request_for("gdn"));
  Case data = gdn.data;
  data.op = "gated_delta_product";
  for (const char* name : {"k", "v", "beta"}) {
    Shape& shape = data.tensors.at(name).shape;
    shape.insert(shape.begin() + 2, 1);
  }
  require_same(gdn, revalidate(data));
}

TEST_CASE("kda: equal channels is gdn, and the channel gradients sum to its gate's",
          "[kda][reduction]") {
  const ValidCase gdn = dyadic_case(request_for("gdn"));
  Case data = gdn.data;
  data.op = "kda";
  CaseTensor& alpha = data.tensors.at("alpha");
  const std::int64_t K = 3;
  std::vector<double> spread;
  for (double value : alpha.values) spread.insert(spread.end(), K, value);
  alpha.values = spread;
  alpha.shape.push_back(K);
  const ValidCase kda = revalidate(data);
  require_same(gdn, kda, {{"alpha", "no such tensor"}});
  const auto x = run<Rational>(gdn, {Form::recurrent, true, 1, {}});
  const auto y = run<Rational>(kda, {Form::recurrent, true, 1, {}});
  for (std::int64_t i = 0; i < x.gradients.at("alpha").size(); ++i) {
    Rational sum = 0;
    for (std::int64_t j = 0; j < K; ++j) sum += y.gradients.at("alpha").data[i * K + j];
    REQUIRE(sum == x.gradients.at("alpha").data[i]);
  }
}

TEST_CASE("comba: p = k is gdn", "[comba][reduction]") {
  const ValidCase gdn = dyadic_case(request_for("gdn"));
  Case data = gdn.data;
  data.op = "comba";
  data.tensors["p"] = data.tensors.at("k");
  const auto x = run<Rational>(gdn, {Form::recurrent, false, 1, {}});
  const auto y = run<Rational>(revalidate(data), {Form::recurrent, false, 1, {}});
  REQUIRE(difference(x.outputs, y.outputs) == "");
}

TEST_CASE("mom: one memory, top_k = 1 is its update rule", "[mom][reduction]") {
  for (const Operation* operation : operations()) {
    if (!operation->is_fast_weight()) continue;
    const std::string update = operation->name();
    GenerateRequest request = request_for(update, update == "gated_delta_product" ? ",J=2" : "");
    request.shape = update == "hgrn2" ? "B=2,T=6,H=2,K=3,V=2" : request.shape;
    for (const char* name : {"skip", "q_correction"}) {
      if (operation->schema(nullptr).find_input(name)) request.without.push_back(name);
    }
    const ValidCase single = dyadic_case(request);
    Case data;
    data.op = "mom";
    data.options = single.data.options;
    data.options["update"] = update;
    data.options["top_k"] = std::int64_t{1};
    data.options.erase("chunk");
    std::map<std::string, std::string> names;
    for (const auto& [name, tensor] : single.data.tensors) {
      const InputSpec* spec = single.schema.find_input(name);
      CaseTensor copy = tensor;
      std::string renamed = name;
      if (spec && spec->role == Role::token && name != "q") {
        copy.shape.insert(copy.shape.begin() + 2, 1);
        renamed += "_mem";
      } else if ((spec && spec->role == Role::state) || name.rfind("_final") != std::string::npos) {
        copy.shape.insert(copy.shape.begin() + 1, 1);
      }
      names[name] = renamed;
      data.tensors[renamed] = copy;
    }
    data.tensors["router_logits"] = constant({2, 6, 1}, 0.25);
    CAPTURE(update);
    require_same(single, revalidate(data), names);
  }
}

// Theorem 1 of the M2RNN paper: with f = 0 and q = k = e_1 from a zero state, the first row is the
// vector RNN and the others stay zero. tanh is a symbol of the prime field, so this is exact.
TEST_CASE("m2rnn: f = 0, q = k = e1 carries the vector RNN in its first row",
          "[m2rnn][reduction]") {
  GenerateRequest request;
  request.op = "rnn";
  request.shape = "B=2,T=5,H=2,D=3";
  request.without = {"h0"};
  const ValidCase rnn = make_case(request);
  const std::int64_t K = 3, V = 3;
  Case data;
  data.op = "m2rnn";
  data.tensors["v"] = rnn.data.tensors.at("x");
  data.tensors["w"] = rnn.data.tensors.at("w");
  data.tensors["f"] = constant({2, 5, 2}, 0);
  CaseTensor e1 = constant({2, 5, 1, K}, 0);
  for (std::size_t i = 0; i < e1.values.size(); i += K) e1.values[i] = 1;
  data.tensors["q"] = data.tensors["k"] = e1;
  data.tensors["d_y"] = rnn.data.tensors.at("d_y");
  const auto x = run<Field>(rnn, {Form::recurrent, true, 1, {}});
  Case without_final = rnn.data;
  without_final.tensors.erase("d_h_final");
  const auto no_final = run<Field>(revalidate(without_final), {Form::recurrent, true, 1, {}});
  const auto y = run<Field>(revalidate(data), {Form::recurrent, true, 1, {}});
  REQUIRE(x.outputs.at("y").data == y.outputs.at("y").data);
  REQUIRE(no_final.gradients.at("x").data == y.gradients.at("v").data);
  REQUIRE(no_final.gradients.at("w").data == y.gradients.at("w").data);
  const std::vector<Field>& H = y.outputs.at("h_final").data;
  for (std::size_t i = 0; i < H.size(); ++i) {
    const std::size_t row = i / V % K, unit = i / (K * V), column = i % V;
    REQUIRE(H[i] == (row == 0 ? x.outputs.at("h_final").data[unit * V + column] : Field(0)));
  }
}

TEST_CASE("rmsnorm_tp: any split gives the unsplit result", "[rmsnorm_tp][reduction]") {
  GenerateRequest request;
  request.op = "rmsnorm";
  request.shape = "B=1,T=3,D=12";
  const ValidCase whole = make_case(request);
  const auto x = run<Field>(whole, {Form::recurrent, true, 1, {}});
  for (std::int64_t P : {1, 2, 3, 12}) {
    Case data = whole.data;
    data.op = "rmsnorm_tp";
    for (auto& [name, tensor] : data.tensors) {
      tensor.shape.back() = 12 / P;
      tensor.shape.insert(tensor.shape.end() - 1, P);
    }
    const auto y = run<Field>(revalidate(data), {Form::recurrent, true, 1, {}});
    CAPTURE(P);
    REQUIRE(x.outputs.at("y").data == y.outputs.at("y").data);
    REQUIRE(x.gradients.at("x").data == y.gradients.at("x").data);
    REQUIRE(x.gradients.at("weight").data == y.gradients.at("weight").data);
  }
}
