#include "fuzz/campaign/shrink.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "fuzz/campaign/slice.hpp"
#include "fuzz/generators/recipe.hpp"

using namespace assay;

namespace {

ValidCase made(const std::string& line) { return build_case(parse_recipe(line)); }

CheckCase check_case_of(const std::string& line) { return {made(line), "test", false}; }

std::vector<double> values(const ValidCase& c, const std::string& name) {
  return c.data.tensors.at(name).values;
}

}  // namespace

TEST_CASE("slice: tokens, heads and widths keep the values that stay", "[fuzz]") {
  const ValidCase c = made("gdn B=2,T=5,H=4,K=3,V=2,H.k=2 fp64 seed=1");
  const auto t = keep_indices(c, 'T', {1, 4});
  REQUIRE(t);
  CHECK(t->sizes['T'] == 2);
  // v is [B,T,H,V]: element (1, 1, 2, 1) of the slice is (1, 4, 2, 1) of the case.
  CHECK(values(*t, "v")[((1 * 2 + 1) * 4 + 2) * 2 + 1] ==
        values(c, "v")[((1 * 5 + 4) * 4 + 2) * 2 + 1]);
  // Heads 2 and 3 share the second head of k, which alone stays.
  const auto h = keep_range(c, 'H', 2, 2);
  REQUIRE(h);
  CHECK(h->data.tensors.at("k").shape == Shape{2, 5, 1, 3});
  CHECK(values(*h, "k")[0] == values(c, "k")[3]);
  // Head 1 and head 2 have different keys, which would not be shared evenly with head 3.
  CHECK_FALSE(keep_indices(c, 'H', {1, 2, 3}));
  const auto k = keep_range(c, 'K', 1, 1);
  REQUIRE(k);
  CHECK(k->data.tensors.at("s0").shape == Shape{2, 4, 1, 2});
  CHECK(values(*k, "s0")[0] == values(c, "s0")[1 * 2]);
  CHECK_FALSE(keep_range(c, 'K', 0, 0));
}

TEST_CASE("slice: packed sequences are dropped whole, and one alone is unpacked", "[fuzz]") {
  const ValidCase c = made("gdn H=1,K=2,V=2,cu=0,2,2,5 fp64 seed=1");
  const auto first = drop_sequence(c, 0);
  REQUIRE(first);
  CHECK(first->cu_seqlens == std::vector<std::int64_t>{0, 0, 3});
  CHECK(values(*first, "v")[0] == values(c, "v")[2 * 2]);
  CHECK(first->data.tensors.at("s0").shape == Shape{2, 1, 2, 2});
  CHECK(values(*first, "s0")[0] == values(c, "s0")[1 * 4]);
  const auto one = drop_sequence(*first, 0);
  REQUIRE(one);
  CHECK_FALSE(drop_sequence(*one, 0));
  const auto batch = unpacked(*one);
  REQUIRE(batch);
  CHECK_FALSE(batch->packed());
  CHECK(batch->sizes['T'] == 3);
  // A token less shortens the sequence that holds it.
  const auto shorter = keep_indices(c, 'T', {0, 2, 3, 4});
  REQUIRE(shorter);
  CHECK(shorter->cu_seqlens == std::vector<std::int64_t>{0, 1, 1, 4});
}

TEST_CASE("slice: the shared memory of a mixture stays behind the others", "[fuzz]") {
  const ValidCase c = made("mom B=1,T=3,H=1,K=2,V=2,M=4 fp64 seed=1");
  const auto m = keep_range(c, 'M', 1, 2);
  REQUIRE(m);
  CHECK(m->data.tensors.at("s0").shape == Shape{1, 3, 1, 2, 2});
  CHECK(values(*m, "s0")[0] == values(c, "s0")[1 * 4]);
  CHECK(values(*m, "s0")[2 * 4] == values(c, "s0")[4 * 4]);
}

TEST_CASE("shrink: ends at the smallest case that shows, and nowhere else", "[fuzz]") {
  // Something that exists from the 65th token on, in rows beyond the second.
  const auto shows = [](const CheckCase& c) {
    return c.valid.sizes['T'] >= 65 && c.valid.sizes['K'] >= 3;
  };
  const ShrinkResult r =
      shrink(check_case_of("gdn B=2,T=129,H=4,K=9,V=7 fp32 gates=edge seed=3"), shows, {});
  CHECK_FALSE(r.capped);
  CHECK(r.minimal.valid.sizes['T'] == 65);
  CHECK(r.minimal.valid.sizes['K'] == 3);
  for (const char axis : {'B', 'H', 'V'}) CHECK(r.minimal.valid.sizes[axis] == 1);
  CHECK(r.minimal.valid.data.tensors.count("d_o") == 0);
  CHECK(r.minimal.valid.data.tensors.count("s0") == 0);
  for (const auto& [name, tensor] : r.minimal.valid.data.tensors) {
    for (const double x : tensor.values) CHECK(x == 0);
  }
  CHECK(tile_edges(r.minimal.valid, 64) == "T = 65 = 1 x 64 + 1, at the edge of a chunk");
  CHECK(tile_edges(made("gdn B=1,T=40,H=1,K=3,V=3 fp32"), 64).empty());
}

TEST_CASE("shrink: keeps what the finding needs of the numbers and of the packing", "[fuzz]") {
  const auto shows = [](const CheckCase& c) {
    bool infinite = false;
    const auto a = c.valid.data.tensors.find("log_alpha");
    if (a == c.valid.data.tensors.end()) return false;
    for (const double x : a->second.values) infinite = infinite || x == -kInf;
    return infinite && c.valid.packed() && c.valid.sequences() >= 2;
  };
  const CheckCase c = check_case_of("gdn H=2,K=4,V=3,cu=0,3,3,40 fp32 gates=ladder log seed=3");
  REQUIRE(shows(c));
  const ShrinkResult r = shrink(c, shows, {});
  CHECK(shows(r.minimal));
  CHECK(r.minimal.valid.sequences() == 2);
  CHECK(r.minimal.valid.sizes['T'] == 1);
}

TEST_CASE("shrink: the cap of steps holds, and is said", "[fuzz]") {
  std::int64_t calls = 0;
  const auto shows = [&](const CheckCase& c) {
    ++calls;
    return c.valid.sizes['T'] >= 65;
  };
  ShrinkRequest few;
  few.steps = 7;
  const ShrinkResult r = shrink(check_case_of("gdn B=2,T=129,H=2,K=4,V=4 fp32"), shows, few);
  CHECK(r.capped);
  CHECK(calls <= 7);
  CHECK(r.minimal.valid.sizes['T'] >= 65);
}

TEST_CASE("shrink: exact cases keep their numbers", "[fuzz]") {
  CheckCase c = check_case_of("gdn B=1,T=3,H=1,K=2,V=2 fp32 keys=one-hot seed=1");
  c.exact = true;
  const auto shows = [](const CheckCase& x) { return x.valid.sizes['T'] >= 1; };
  const ShrinkResult r = shrink(c, shows, {});
  CHECK(r.minimal.exact);
  CHECK(values(r.minimal.valid, "v")[0] != 0);
}
