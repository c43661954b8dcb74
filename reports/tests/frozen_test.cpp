// Closed forms, non-normality and enclosures against independent eigen-solvers and exact values.
#include <Eigen/Dense>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>

#include "reference/case/generate.hpp"
#include "reference/case/safetensors.hpp"
#include "reports/spectrum/enclose.hpp"
#include "reports/spectrum/spectrum.hpp"
#include "reports/tests/traces.hpp"

using namespace assay;
using namespace assay::reports;

TEST_CASE("spectrum/mdn: every step of the real trace agrees with a dense eigen-solver to 1e-12",
          "[spectrum]") {
  const Trace trace(sample("mdn_mqar"));
  FrozenReader reader(trace.unit_schema());
  REQUIRE(reader.closed());
  FrozenStep frozen;
  int steps = 0;
  for (const TraceUnit& unit : trace.units()) {
    walk(trace, unit, {}, [&](Step& step) {
      if (step.index % 16 != 5) return;
      reader.read(step, frozen);
      const double distance = eigenvalue_distance(all_eigenvalues(frozen), dense_eigenvalues(step));
      CHECK(distance < 1e-12);
      ++steps;
    });
  }
  CHECK(steps == 32);
}

TEST_CASE("spectrum/closed forms: every operation that has one, keys of any length", "[spectrum]") {
  for (const char* op :
       {"mdn", "gdn", "delta", "comba", "ssd", "gla", "hgrn2", "retention", "linear_attention"}) {
    const TemporaryTrace file(op, "B=1,T=6,H=2,K=5,V=3");
    const Trace trace(file.path());
    FrozenReader reader(trace.unit_schema());
    INFO(op);
    CHECK(reader.closed());
    FrozenStep frozen;
    for (const TraceUnit& unit : trace.units()) {
      walk(trace, unit, {}, [&](Step& step) {
        reader.read(step, frozen);
        CHECK(eigenvalue_distance(all_eigenvalues(frozen), dense_eigenvalues(step)) < 1e-7);
        // Norms do not suffer from nearly equal eigenvalues.
        FrozenReader dense(trace.unit_schema(), true);
        FrozenStep full;
        dense.read(step, full);
        CHECK(step_spectrum(frozen).norm == Approx(step_spectrum(full).norm).epsilon(1e-12));
      });
    }
  }
}

TEST_CASE("spectrum/reader: operations without a closed form are solved densely, others refused",
          "[spectrum]") {
  for (const char* op : {"kda", "gru", "rnn", "m2rnn", "gated_delta_product"}) {
    const TemporaryTrace file(op, "");
    const Trace trace(file.path());
    const auto units = trace_spectrum(trace, {});
    INFO(op);
    CHECK(units.front().analysed > 0);
    CHECK(std::isfinite(units.front().largest_radius));
  }
}

TEST_CASE("spectrum/non-normality: a Jordan block has known numerical radius, growth, resolvent",
          "[spectrum]") {
  // [[1/2, 4], [0, 1/2]]: W is the disc around 1/2 of radius 2; |A^n| = 1/2^n |[[1, 8n], [0, 1]]|.
  FrozenStep jordan;
  jordan.small.push_back({2, 0.5, 4, 0, 0.5, 0.25, 1});
  const NonNormal n = non_normal(jordan);
  CHECK(n.numerical_radius == Approx(2.5).epsilon(1e-9));
  CHECK(n.numerical_abscissa == Approx(2.5).epsilon(1e-9));
  const auto power = [](double k) {
    const double c = 8 * k;  // σ_max of [[1, c], [0, 1]]
    return std::pow(0.5, k) * (c + std::sqrt(c * c + 4)) / 2;
  };
  CHECK(n.growth == Approx(std::max(power(1), power(2))).epsilon(1e-12));
  CHECK(n.growth_complete);
  CHECK(n.kreiss <= n.growth);  // Kreiss matrix theorem
  CHECK(n.growth <= M_E * 2 * n.kreiss);
  CHECK(n.norm == Approx(power(1)).epsilon(1e-12));
  const render::Grid grid = pseudospectrum(jordan, 1, 3);           // the centre is z = 0
  CHECK(grid.values[4] == Approx(0.25 / power(1)).epsilon(1e-12));  // |det| / |A|

  FrozenStep normal;  // rotation by 1 radian times 0.9
  const double c = 0.9 * std::cos(1.0), s = 0.9 * std::sin(1.0);
  normal.small.push_back({2, c, -s, s, c, 0.81, 1});
  const NonNormal m = non_normal(normal);
  CHECK(m.numerical_radius == Approx(0.9).epsilon(1e-9));
  CHECK(m.kreiss == Approx(1.0).epsilon(1e-9));
  CHECK(m.growth == 1.0);
}

TEST_CASE("spectrum/mdn: largest 2-norms of a step are those derived by hand", "[spectrum]") {
  // (3+sqrt 5)/2 at (1,1,1,2) and 1+sqrt 2 at (1,0,1,2).
  FrozenStep step;
  mdn_blocks(1, 1, 1, 2, 1, 4, step.small);
  CHECK(step_spectrum(step).norm == Approx((3 + std::sqrt(5.0)) / 2).epsilon(1e-14));
  step.small.clear();
  mdn_blocks(1, 1, 0, 2, 1, 4, step.small);
  CHECK(step_spectrum(step).norm == Approx(1 + std::sqrt(2.0)).epsilon(1e-14));
}

TEST_CASE("spectrum/enclosure: contains the closed form; dense and small orders too",
          "[spectrum]") {
  for (const char* op : {"mdn", "kda"}) {
    const TemporaryTrace file(op, "B=1,T=3,H=1,K=4,V=2");
    const Trace trace(file.path());
    FrozenReader reader(trace.unit_schema());
    FrozenStep frozen;
    walk(trace, trace.units().front(), {}, [&](Step& step) {
      reader.read(step, frozen);
      const EnclosedSpectrum e = enclose_spectrum(trace, trace.units().front(), step.index);
      INFO(op);
      REQUIRE(e.available);
      const double radius = step_spectrum(frozen).radius;
      CHECK(e.lower <= radius * (1 + 1e-13));
      CHECK(e.upper >= radius * (1 - 1e-13));
      CHECK(e.upper - e.lower < 1e-12);
    });
  }
}

TEST_CASE("spectrum/box: the three panels of the paper", "[spectrum]") {
  const UnitSpectrum gdn = box_spectrum(parse_box("gdn:alpha=0:1,beta=0:1"), 2000, 1);
  CHECK(gdn.complex_steps == 0);
  CHECK(gdn.negative_steps == 0);
  const UnitSpectrum free =
      box_spectrum(parse_box("mdn:alpha=0:1,beta=0:1,mu=0:1,eta=0:2"), 5000, 1);
  CHECK(free.complex_steps > 0);
  CHECK(free.negative_steps > 0);
  CHECK(free.outside_steps == 0);
  // r >= mu - 1/8 for the coupled gates: log mu >= -1 keeps Re λ >= 0.
  const UnitSpectrum paper = box_spectrum(parse_box("mdn:coupled,s=1,log_mu=-1:0"), 5000, 1);
  CHECK(paper.complex_steps > 0);
  CHECK(paper.negative_steps == 0);
}

TEST_CASE("trace/box: one line for bad boxes", "[trace]") {
  for (const char* text : {"mdn:alpha=1:0", "mdn:alpha=0:2", "mdn:gamma=1", "nothing", "mdn:alpha",
                           "gla:alpha=0:1", "gdn:coupled", "mdn:s=0", "mdn:alpha=a:b"}) {
    INFO(text);
    CHECK_THROWS_AS(parse_box(text), InputError);
  }
}

TEST_CASE("trace: read whole or streamed, the same steps", "[trace]") {
  for (const char* op : {"mdn", "gated_delta_product", "m2rnn"}) {
    const TemporaryTrace file(op, "");
    const Trace whole(file.path()), streamed(file.path(), 0);
    REQUIRE(whole.units().size() == streamed.units().size());
    for (std::size_t n = 0; n < whole.units().size(); ++n) {
      const TraceUnit& unit = whole.units()[n];
      const ValidCase a = whole.slice(unit, 0, unit.steps, 2);
      const ValidCase b = streamed.slice(unit, 0, unit.steps, 2);
      INFO(op);
      REQUIRE(a.data.tensors.size() == b.data.tensors.size());
      for (const auto& [name, tensor] : a.data.tensors) {
        CHECK(tensor.shape == b.data.tensors.at(name).shape);
        CHECK(tensor.values == b.data.tensors.at(name).values);
      }
    }
  }
}

TEST_CASE("trace: bad input is one line, gates outside their domain are said", "[trace]") {
  const auto message = [](const std::string& path, std::uint64_t small) {
    try {
      const Trace trace(path, small);
      for (const TraceUnit& unit : trace.units()) trace.slice(unit, 0, unit.steps, 1);
      return std::string();
    } catch (const InputError& error) {
      return std::string(error.what());
    }
  };
  for (const std::uint64_t small : {Trace::kSmallFile, std::uint64_t{0}}) {
    CHECK(message("/nowhere.safetensors", small).find("/nowhere") != std::string::npos);
    TemporaryTrace missing("mdn", "");
    missing.change([](Case& c) { c.tensors.erase("beta"); });
    CHECK(message(missing.path(), small).find("beta") != std::string::npos);
    TemporaryTrace nan("mdn", "");
    nan.change([](Case& c) { c.tensors.at("k").values[3] = std::nan(""); });
    CHECK(message(nan.path(), small).find("'k'") != std::string::npos);
    CHECK(message(nan.path(), small).find("must be finite") != std::string::npos);
    TemporaryTrace shape("mdn", "");
    shape.change([](Case& c) {
      CaseTensor& beta = c.tensors.at("beta");
      beta.shape[1] -= 1;
      beta.values.resize(element_count(beta.shape));
    });
    CHECK(message(shape.path(), small).find("axis T") != std::string::npos);
    TemporaryTrace empty("mdn", "B=1,T=0,H=1,K=2,V=2");
    CHECK(message(empty.path(), small).find("T = 0") != std::string::npos);
    for (const auto& line : {message(missing.path(), small), message(nan.path(), small),
                             message(shape.path(), small), message(empty.path(), small)}) {
      CHECK(line.find('\n') == std::string::npos);
    }
    const Trace real(sample("mdn_mqar"), small);
    REQUIRE(real.notes().size() == 1);
    CHECK(real.notes()[0].find("256 values outside") != std::string::npos);
  }
}
