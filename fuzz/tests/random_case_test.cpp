#include "fuzz/generators/random_case.hpp"

#include <rapidcheck/catch.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "checks/output/failure_folder.hpp"
#include "fuzz/generators/grid.hpp"
#include "fuzz/generators/rapidcheck.hpp"
#include "reference/oracle/registry.hpp"

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
  for (std::uint64_t i = 0; i < 1200; ++i) {
    for (const char* op : {"mdn", "mom", "mdn_gates"}) {
      mix.add(random_recipe(find_operation(op), preset_model("fp32"), 1, i).classes);
    }
  }
  for (const auto& [kind, fewest] : std::map<std::string, std::size_t>{{"gates", 6},
                                                                       {"gate form", 2},
                                                                       {"layout", 2},
                                                                       {"heads", 2},
                                                                       {"keys", key_kinds().size()},
                                                                       {"values", 4},
                                                                       {"routing", 5},
                                                                       {"activations", 3},
                                                                       {"option tau", 2},
                                                                       {"option s", 3},
                                                                       {"option log_mu_min", 3},
                                                                       {"option l2norm_eps", 3},
                                                                       {"states", 3},
                                                                       {"constant beta", 3},
                                                                       {"cotangents", 3},
                                                                       {"length", 2}}) {
    INFO(kind);
    REQUIRE(mix.counts().count(kind) == 1);
    CHECK(mix.counts().at(kind).size() == fewest);
    for (const auto& [value, count] : mix.counts().at(kind)) CHECK(count >= 5);
  }
}

TEST_CASE("random cases: classes that an operation has not are not counted", "[fuzz]") {
  for (std::uint64_t i = 0; i < 50; ++i) {
    const PrecisionModel model = preset_model("fp32");
    const CaseClasses rnn = random_recipe(find_operation("rnn"), model, 2, i).classes;
    CHECK(rnn.count("gate form") == 0);
    CHECK(rnn.count("activations") == 1);
    const CaseClasses gdn = random_recipe(find_operation("gdn"), model, 2, i).classes;
    CHECK(gdn.count("gate form") == 1);
    CHECK(gdn.count("activations") == 0);
  }
}

TEST_CASE("random cases: saturated pre-activations are beyond what fp32 tells from the limit",
          "[fuzz]") {
  const ValidCase c =
      build_case(parse_recipe("mdn_gates B=1,T=40,H=2 fp32 activations=saturated seed=3"));
  for (const char* name : {"x_alpha", "x_beta", "x_mu", "x_eta"}) {
    bool both[2] = {false, false};
    for (const double x : c.data.tensors.at(name).values) {
      CHECK(std::fabs(x) >= 20);
      CHECK(std::fabs(x) <= 100);
      both[x > 0] = true;
    }
    CHECK((both[0] && both[1]));
  }
}

TEST_CASE("case lines: every random and every grid case comes back from its line", "[fuzz]") {
  const PrecisionModel model = preset_model("bf16");
  for (const Operation* operation : operations()) {
    for (std::uint64_t i = 0; i < 40; ++i) {
      const CaseRecipe r = random_recipe(*operation, model, 9, i).recipe;
      INFO(recipe_line(r));
      CHECK(parse_recipe(recipe_line(r)) == r);
    }
    for (const GridCase& g : boundary_grid(*operation, model, 9)) {
      INFO(recipe_line(g.recipe));
      CHECK(parse_recipe(recipe_line(g.recipe)) == g.recipe);
    }
  }
}

TEST_CASE("case lines: what is no line is refused with one line", "[fuzz]") {
  for (const char* line :
       {"", " ", "gdn nonsense", "gdn keys=purple", "gdn seed=-1", "gdn seed=1 seed=2", "gdn C=0",
        "gdn gates=", "gdn gates=a,,b", "gdn cot=o", "gdn cot=o:never", "gdn opt=chunk",
        "gdn B=1,T=2 B=1,T=3", "gdn seed=99999999999999999999", "gdn \x01", "gdn log log"}) {
    INFO(line);
    CHECK_THROWS_AS(parse_recipe(line), InputError);
  }
  for (const char* line : {"nothing B=1", "gdn T=-1", "gdn B=1,T=999999999999", "gdn Q=3",
                           "gdn cu=0,5,3", "gdn B=1,T=4 cot=nobody:absent", "gdn opt=nothing=1"}) {
    INFO(line);
    CHECK_THROWS_AS(build_case(parse_recipe(line)), InputError);
  }
  CHECK_THROWS_AS(parse_recipe(std::string(5000, 'x')), InputError);
}

TEST_CASE("grid: every operation's can be made and holds every place it is meant for", "[fuzz]") {
  const PrecisionModel model = preset_model("fp32");
  for (const Operation* operation : operations()) {
    for (const GridCase& g : boundary_grid(*operation, model, 1)) {
      INFO(recipe_line(g.recipe));
      CHECK_NOTHROW(build_case(g.recipe));
    }
  }
  std::set<std::int64_t> lengths, widths;
  std::set<std::string> lines;
  bool unequal = false, empty_sequence = false, infinite = false, final_only = false;
  for (const GridCase& g : boundary_grid(find_operation("mdn"), model, 1)) {
    const ValidCase c = build_case(g.recipe);
    lengths.insert(c.sizes['T']);
    widths.insert(c.sizes['K']);
    unequal = unequal || c.sizes['K'] != c.sizes['V'];
    lines.insert(recipe_line(g.recipe));
    for (std::size_t s = 1; s < c.cu_seqlens.size(); ++s) {
      empty_sequence = empty_sequence || c.cu_seqlens[s] == c.cu_seqlens[s - 1];
    }
    if (const auto a = c.data.tensors.find("log_alpha"); a != c.data.tensors.end()) {
      for (const double x : a->second.values) infinite = infinite || x == -kInf;
    }
    final_only = final_only || (c.data.tensors.count("d_s_final") && !c.data.tensors.count("d_o"));
  }
  for (const std::int64_t T : {0, 1, 2, 63, 64, 65, 127, 129}) CHECK(lengths.count(T) == 1);
  for (const std::int64_t K : {1, 9, 16, 60, 63, 64, 65, 96, 100, 128, 256}) {
    INFO(K);
    CHECK(widths.count(K) == 1);
  }
  CHECK(unequal);
  CHECK(empty_sequence);
  CHECK(infinite);
  CHECK(final_only);
}

TEST_CASE("generators: RapidCheck draws recipes that can be made, and shrinks them", "[fuzz]") {
  const PrecisionModel model = preset_model("fp32");
  const Operation& gdn = find_operation("gdn");
  rc::prop("a drawn recipe is a case of its operation", [&] {
    const CaseRecipe r = *recipes(gdn, model, {64, 8, 4});
    RC_ASSERT(build_case(r).data.op == "gdn");
  });
  // Where the finding is "some length above 10", shrinking must end at the smallest such case.
  const auto wide = [](const CaseRecipe& r) {
    const ValidCase c = build_case(r);
    return !c.packed() && c.sizes['V'] > 10;
  };
  CaseRecipe r = parse_recipe("gdn B=2,T=40,H=4,K=7,V=16 fp32 gates=edge log keys=zero seed=4");
  REQUIRE(wide(r));
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (const CaseRecipe& next : simpler_recipes(r)) {
      if (!wide(next)) continue;
      r = next;
      smaller = true;
      break;
    }
  }
  CHECK(recipe_line(r) == "gdn B=1,T=1,H=1,K=1,V=11 fp32 C=64 seed=4");
}
