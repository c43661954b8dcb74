#include "fuzz/generators/random_case.hpp"

#include <catch2/catch.hpp>

#include "checks/output/failure_folder.hpp"

using namespace assay;

TEST_CASE("random cases: every operation has valid ones in every model", "[fuzz]") {
  for (const Operation* operation : operations()) {
    for (const std::string name : {"fp32", "bf16"}) {
      const PrecisionModel model = preset_model(name);
      for (std::uint64_t i = 0; i < 60; ++i) {
        INFO(operation->name() << " " << name << " " << i);
        CHECK_NOTHROW(random_case(*operation, model, 5, i));
      }
    }
  }
}

TEST_CASE("random cases: a number and a seed name one case, neighbours differ", "[fuzz]") {
  const Operation& mdn = find_operation("mdn");
  const PrecisionModel model = preset_model("fp32");
  const auto hash = [&](std::uint64_t seed, std::uint64_t index) {
    return case_hash(random_case(mdn, model, seed, index).given);
  };
  CHECK(hash(3, 17) == hash(3, 17));
  CHECK(hash(3, 17) != hash(3, 18));
  CHECK(hash(3, 17) != hash(4, 17));
}

TEST_CASE("random cases: the mix holds every class", "[fuzz]") {
  ClassMix mix;
  const Operation& mdn = find_operation("mdn");
  for (std::uint64_t i = 0; i < 300; ++i) {
    mix.add(random_case(mdn, preset_model("fp32"), 1, i).classes);
  }
  for (const auto& [kind, fewest] : std::map<std::string, std::size_t>{{"gates", 5},
                                                                       {"layout", 2},
                                                                       {"heads", 2},
                                                                       {"keys", 5},
                                                                       {"cotangents", 2},
                                                                       {"length", 2}}) {
    INFO(kind);
    REQUIRE(mix.counts().count(kind) == 1);
    CHECK(mix.counts().at(kind).size() == fewest);
    for (const auto& [value, count] : mix.counts().at(kind)) CHECK(count >= 5);
  }
}
