// Properties of the kernels that need no expected values: two calls must agree.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "kernels/tests/problem.hpp"

using namespace assay::cpu;
using namespace assay::cpu::testing;

namespace {

constexpr double kTight = 1e-12;  // fp64, sums of a few hundred terms in another order

bool is_token(const TensorLine& line) { return line.axes.find('T') != std::string::npos; }

// Head 0 .. as the sequence `from .. to` of its own.
Problem segment_of(const Problem& p, std::size_t s) {
  Problem r = slice_steps(p, p.cu_seqlens[s], p.cu_seqlens[s + 1]);
  r.cu_seqlens.clear();
  const auto index = static_cast<std::int64_t>(s);
  for (const TensorLine& line : lines_of(p.op)) {
    for (Tensors* tensors : {&r.inputs, &r.cotangents}) {
      for (const std::string& name : {line.name, "d_" + line.name}) {
        const auto found = tensors->find(name);
        if (found == tensors->end() || (line.kind != 's' && line.kind != 'f')) continue;
        found->second = slice(found->second, 0, index, index + 1);
      }
    }
  }
  return r;
}

const TensorLine& line_of(const std::string& op, const std::string& name) {
  const std::string bare = name.rfind("d_", 0) == 0 ? name.substr(2) : name;
  for (const TensorLine& line : lines_of(op)) {
    if (line.name == bare) return line;
  }
  throw std::logic_error(name);
}

}  // namespace

TEST_CASE("cpu/packed: equals its segments run one by one", "[cpu][packed]") {
  for (const std::string& op : all_operations()) {
    const Problem p = random_problem(op, 21, [](Problem& q) {
      q.size['B'] = 1;
      q.size['T'] = 70;
      q.options.chunk = 8;
      q.cu_seqlens = {0, 0, 1, 18, 18, 70};
    });
    const Tensors whole = run(p);
    for (std::size_t s = 0; s + 1 < p.cu_seqlens.size(); ++s) {
      const Tensors part = run(segment_of(p, s));
      for (const auto& [name, v] : whole) {
        const TensorLine& line = line_of(op, name);
        Values expected;
        if (is_token(line)) {
          expected =
              slice(v, static_cast<int>(line.axes.find('T')), p.cu_seqlens[s], p.cu_seqlens[s + 1]);
        } else if (line.kind == 'i') {
          continue;  // gradients of parameters are sums over all segments
        } else {
          expected = slice(v, 0, static_cast<std::int64_t>(s), static_cast<std::int64_t>(s) + 1);
        }
        CAPTURE(op, name, s);
        REQUIRE(same_bits({{name, expected}}, {{name, part.at(name)}}));
      }
    }
  }
}

TEST_CASE("cpu/state: T1 steps and then T2, through the states, are T steps", "[cpu][state]") {
  for (const std::string& op : recurrences()) {
    const Problem p = random_problem(op, 22, [](Problem& q) {
      q.size['T'] = 37;
      q.options.chunk = 16;
    });
    const std::int64_t cut = 13;
    Problem first = slice_steps(p, 0, cut), second = slice_steps(p, cut, 37);
    const Tensors whole = run(p), ahead = run(first);
    // Final states of the first become initial states of the second; cotangents the other way.
    std::vector<std::string> initial, final;
    for (const TensorLine& line : lines_of(op)) {
      if (line.kind == 's') initial.push_back(line.name);
      if (line.kind == 'f') final.push_back(line.name);
    }
    for (std::size_t i = 0; i < initial.size(); ++i) {
      second.inputs[initial[i]] = ahead.at(final[i]);
    }
    const Tensors after = run(second);
    for (std::size_t i = 0; i < initial.size(); ++i) {
      first.cotangents["d_" + final[i]] = after.at("d_" + initial[i]);
    }
    const Tensors before = run(first);
    for (const auto& [name, v] : whole) {
      const TensorLine& line = line_of(op, name);
      CAPTURE(op, name);
      if (is_token(line)) {
        const int axis = static_cast<int>(line.axes.find('T'));
        REQUIRE(distance(before.at(name), slice(v, axis, 0, cut)) < kTight);
        REQUIRE(distance(after.at(name), slice(v, axis, cut, 37)) < kTight);
      } else if (line.kind == 'f') {
        REQUIRE(distance(after.at(name), v) < kTight);
      } else if (line.kind == 's') {
        REQUIRE(distance(before.at(name), v) < kTight);
      } else {
        Values sum = before.at(name);
        for (std::size_t i = 0; i < sum.data.size(); ++i) sum.data[i] += after.at(name).data[i];
        REQUIRE(distance(sum, v) < kTight);
      }
    }
  }
}

TEST_CASE("cpu/chunk: all chunk lengths and the recurrent form agree", "[cpu][chunk]") {
  for (const std::string& op : chunked_operations()) {
    for (std::int64_t T : {0, 1, 2, 15, 16, 17, 65}) {
      Problem p = random_problem(op, 23, [&](Problem& q) {
        q.size['T'] = T;
        q.size['K'] = 6;
        q.options.form = Form::recurrent;
      });
      const Tensors recurrent = run(p);
      p.options.form = Form::chunk;
      for (std::int64_t chunk : {1, 3, 16, 17, 64}) {
        p.options.chunk = chunk;
        std::string worst;
        CAPTURE(op, T, chunk, worst);
        REQUIRE(distance(run(p), recurrent, &worst) < 1e-11);
      }
    }
  }
}

TEST_CASE("cpu/causality: later steps change nothing before them", "[cpu][causality]") {
  for (const std::string& op : all_operations()) {
    const std::int64_t T = 21, cut = 9;
    Problem p = random_problem(op, 24, [&](Problem& q) { q.size['T'] = T; });
    p.options.form = Form::recurrent;  // blocks of the chunk form round later steps together
    const Tensors original = run(p);
    Problem other = random_problem(op, 25, [&](Problem& q) { q.size['T'] = T; });
    for (const TensorLine& line : lines_of(op)) {
      if (line.kind != 'i' || !is_token(line)) continue;
      const int axis = static_cast<int>(line.axes.find('T'));
      std::int64_t inner = 1;
      Values& v = p.inputs.at(line.name);
      for (std::size_t a = axis + 1; a < v.shape.size(); ++a) inner *= v.shape[a];
      for (std::size_t i = 0; i < v.data.size(); ++i) {
        const std::int64_t t = static_cast<std::int64_t>(i) / inner % T;
        if (t >= cut) v.data[i] = other.inputs.at(line.name).data[i];
      }
    }
    const Tensors changed = run(p);
    for (const TensorLine& line : lines_of(op)) {
      if (line.kind != 'o') continue;
      const int axis = static_cast<int>(line.axes.find('T'));
      CAPTURE(op, line.name);
      REQUIRE(same_bits({{line.name, slice(original.at(line.name), axis, 0, cut)}},
                        {{line.name, slice(changed.at(line.name), axis, 0, cut)}}));
    }
  }
}

TEST_CASE("cpu/groups: a shared head equals copies of it, gradients summed", "[cpu][groups]") {
  for (const std::string& op : all_operations()) {
    if (op == "causal_conv1d" || op == "rmsnorm" || op == "rmsnorm_tp") continue;
    for (const TensorLine& line : lines_of(op)) {
      const std::size_t axis = line.axes.find_first_of("HN");
      if (line.kind != 'i' || axis == std::string::npos) continue;
      const Problem shared = random_problem(
          op, 26, [](Problem& q) { q.size['H'] = q.size['N'] = 4; }, {{line.name, 2}});
      Problem copied = shared;
      Values &from = copied.inputs.at(line.name), to;
      to.shape = from.shape;
      to.shape[axis] = 4;
      std::int64_t inner = 1;
      for (std::size_t a = axis + 1; a < from.shape.size(); ++a) inner *= from.shape[a];
      for (std::size_t head = 0; head < from.data.size() / inner; ++head) {
        for (int twice = 0; twice < 2; ++twice) {
          to.data.insert(to.data.end(), from.data.begin() + head * inner,
                         from.data.begin() + (head + 1) * inner);
        }
      }
      from = to;
      const Tensors a = run(shared), b = run(copied);
      std::string worst;
      CAPTURE(op, line.name, worst);
      Values sum = a.at("d_" + line.name);
      const Values& parts = b.at("d_" + line.name);
      for (std::size_t i = 0; i < sum.data.size(); ++i) {
        const std::size_t head = i / inner;
        sum.data[i] = parts.data[2 * head * inner + i % inner] +
                      parts.data[(2 * head + 1) * inner + i % inner];
      }
      REQUIRE(distance(a.at("d_" + line.name), sum) < kTight);
      Tensors rest = a;
      rest.erase("d_" + line.name);
      REQUIRE(distance(rest, b, &worst) < kTight);
    }
  }
}

TEST_CASE("cpu/gates: made inside mdn they are those of mdn_gates, gradients included",
          "[cpu][gates]") {
  const std::map<std::string, std::int64_t> heads = {{"x_mu", 2}, {"x_beta", 1}, {"a_alpha", 2}};
  const Problem fused = random_problem(
      "mdn_fused_gates", 31,
      [](Problem& p) {
        p.size['H'] = 4;
        p.size['T'] = 20;
        p.options.chunk = 8;
        p.options.s = 0.75;
        p.options.log_mu_min = -0.5;
      },
      heads);
  Problem gates{"mdn_gates", fused.size, {}, fused.options, {}, {}};
  Problem mdn{"mdn", fused.size, {}, fused.options, {}, fused.cotangents};
  for (const auto& [name, v] : fused.inputs) {
    const bool before =
        name.rfind("x_", 0) == 0 || name.rfind("a_", 0) == 0 || name.rfind("b_", 0) == 0;
    (before ? gates : mdn).inputs[name] = v;
  }
  const std::vector<std::string> between = {"log_alpha", "beta", "log_mu", "eta"};
  Tensors expected = run(gates, {.gradients = false});
  for (const std::string& name : between) mdn.inputs[name] = expected.at(name);
  expected = run(mdn);
  for (const std::string& name : between) {
    gates.cotangents["d_" + name] = expected.at("d_" + name);
    expected.erase("d_" + name);
  }
  for (const auto& [name, v] : run(gates)) {
    if (name.rfind("d_", 0) == 0) expected[name] = v;
  }
  std::string worst;
  const Tensors got = run(fused);
  REQUIRE(got.size() == expected.size());
  const double furthest = distance(got, expected, &worst);
  CAPTURE(worst);
  REQUIRE(furthest < kTight);
}

TEST_CASE("cpu/gates: exact 0 and 1 are finite; a logarithm of -inf is a gate of 0",
          "[cpu][gates]") {
  for (const char* op : {"mdn", "gdn", "kda", "gla", "ssd", "comba", "gated_delta_product"}) {
    for (Form form : {Form::unspecified, Form::recurrent}) {
      Problem p = random_problem(op, 27, [&](Problem& q) {
        q.size['T'] = 40;
        q.options.form = form;
        q.options.chunk = 16;
      });
      for (const char* gate : {"alpha", "mu"}) {
        if (!p.inputs.count(gate)) continue;
        std::vector<double>& data = p.inputs.at(gate).data;
        for (std::size_t i = 0; i < data.size(); ++i) {
          if (i % 3 == 0) data[i] = 0;
          if (i % 7 == 1) data[i] = 1;
        }
      }
      const Tensors linear = run(p);
      Problem logs = p;
      for (const char* gate : {"alpha", "mu"}) {
        if (!p.inputs.count(gate)) continue;
        Values v = p.inputs.at(gate);
        for (double& x : v.data) x = std::log(x);
        logs.inputs.erase(gate);
        logs.inputs[std::string("log_") + gate] = v;
      }
      const Tensors logarithmic = run(logs);
      CAPTURE(op);
      REQUIRE(distance(linear, linear) == 0);  // false for anything not finite
      REQUIRE(distance(logarithmic, linear) < kTight);
      const Values &d = linear.at("d_alpha"), &d_log = logarithmic.at("d_log_alpha");
      for (std::size_t i = 0; i < d.data.size(); ++i) {
        const double expected = p.inputs.at("alpha").data[i] * d.data[i];
        REQUIRE(std::fabs(d_log.data[i] - expected) <= kTight * (1 + std::fabs(expected)));
      }
    }
  }
}

TEST_CASE("cpu/mom: a memory that is not selected keeps its state bit for bit", "[cpu][mom]") {
  const Problem p = random_problem("mom", 28, [](Problem& q) {
    q.size['B'] = 1;
    q.size['T'] = 1;
    q.size['H'] = 1;
    q.options.top_k = 1;
  });
  const Values &before = p.inputs.at("s0"), after = run(p).at("s_final");
  int kept = 0;
  for (std::int64_t m = 0; m < 5; ++m) {
    kept += slice(before, 1, m, m + 1).data == slice(after, 1, m, m + 1).data;
  }
  REQUIRE(kept == 3);  // of four routed memories and the shared one, two are written
}
