// Rank-one updates of balls: enclosure of every corner of the operands' intervals, sharpness beside
// Arb's own arithmetic, and the canonical form that Arb requires of its numbers.
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "reference/scalars/ball.hpp"

using namespace assay;

namespace {

using Generator = std::mt19937_64;
constexpr slong kExact = ARF_PREC_EXACT;

struct Range {
  const char* name;
  int exponents;    // of midpoints, +-
  int radius_bits;  // radius below the midpoint by up to so many bits
  int extra_limbs;  // mantissas longer than the working precision
};

Ball random_ball(Generator& g, const Range& range, slong bits) {
  Ball x;
  if (g() % 24 == 0) return x;
  flint_rand_t state;
  flint_randinit(state);
  state->__randval = g();
  state->__randval2 = g();
  slong length = 1 + static_cast<slong>(g() % static_cast<unsigned>(bits + 64 * range.extra_limbs));
  fmpz_t mantissa;
  fmpz_init(mantissa);
  fmpz_randbits(mantissa, state, static_cast<flint_bitcnt_t>(length));
  auto spread = static_cast<unsigned>(2 * range.exponents + 1);
  slong exponent = static_cast<slong>(g() % spread) - range.exponents;
  arf_set_fmpz(arb_midref(x.raw()), mantissa);
  arf_mul_2exp_si(arb_midref(x.raw()), arb_midref(x.raw()), exponent - length);
  if (g() % 4) {
    mag_set_ui(arb_radref(x.raw()), 1 + g() % 1000);
    slong below = static_cast<slong>(g() % static_cast<unsigned>(range.radius_bits));
    mag_mul_2exp_si(arb_radref(x.raw()), arb_radref(x.raw()), exponent - below - 10);
  }
  fmpz_clear(mantissa);
  flint_randclear(state);
  return x;
}

// Midpoint + side radius, exactly.
void corner(arf_t out, const Ball& x, int side) {
  arf_t r;
  arf_init(r);
  arf_set_mag(r, arb_radref(x.raw()));
  arf_mul_si(r, r, side, kExact, ARF_RND_DOWN);
  arf_add(out, arb_midref(x.raw()), r, kExact, ARF_RND_DOWN);
  arf_clear(r);
}

// scale S + sign x y on all corners lies in `result`.
bool encloses(const Ball& result, const Ball& scale, const Ball& S, const Ball& x, const Ball& y,
              bool subtract) {
  arf_t a, s, u, v, t;
  for (arf_ptr p : {a, s, u, v, t}) arf_init(p);
  bool ok = true;
  for (int sides = 0; sides < 16; ++sides) {
    corner(a, scale, sides & 1 ? 1 : -1);
    corner(s, S, sides & 2 ? 1 : -1);
    corner(u, x, sides & 4 ? 1 : -1);
    corner(v, y, sides & 8 ? 1 : -1);
    arf_mul(t, a, s, kExact, ARF_RND_DOWN);
    arf_mul(u, u, v, kExact, ARF_RND_DOWN);
    if (subtract) arf_neg(u, u);
    arf_add(t, t, u, kExact, ARF_RND_DOWN);
    ok = ok && arb_contains_arf(result.raw(), t);
  }
  for (arf_ptr p : {a, s, u, v, t}) arf_clear(p);
  return ok;
}

bool canonical(const Ball& x) {
  arf_srcptr m = arb_midref(x.raw());
  if (arf_is_special(m)) return true;
  mp_srcptr p;
  mp_size_t n;
  ARF_GET_MPN_READONLY(p, n, m);
  mag_srcptr r = arb_radref(x.raw());
  bool radius = mag_is_special(r) || (MAG_MAN(r) >> (MAG_BITS - 1) == 1);
  return n >= 1 && p[0] != 0 && p[n - 1] >> (FLINT_BITS - 1) == 1 && radius;
}

// Radius no larger than 4 times Arb's plus a few units of the working precision.
bool sharp(const Ball& result, const Ball& arb, const Ball& largest_term, slong bits) {
  Ball limit = Ball::from_midpoint_radius(0, 0);
  arb_get_rad_arb(limit.raw(), arb.raw());
  arb_mul_2exp_si(limit.raw(), limit.raw(), 2);
  Ball unit, radius;
  arb_get_mag(arb_radref(unit.raw()), largest_term.raw());
  arb_get_rad_arb(unit.raw(), unit.raw());
  arb_mul_2exp_si(unit.raw(), unit.raw(), 2 - bits);
  arb_add(limit.raw(), limit.raw(), unit.raw(), 200);
  arb_get_rad_arb(radius.raw(), result.raw());
  return arb_le(radius.raw(), limit.raw()) != 0;
}

}  // namespace

TEST_CASE("scalars/ball: rank-one updates enclose, as sharply as Arb", "[scalars][ball][linalg]") {
  const std::vector<Range> ranges{{"state", 4, 160, 0},
                                  {"wide radii", 10, 8, 0},
                                  {"far exponents", 290, 200, 0},
                                  {"beyond the fast form", 700, 900, 0},
                                  {"long mantissas", 3, 100, 2}};
  const long K = 5, V = 7;
  for (const Range& range : ranges) {
    for (long bits : {53L, 64L, 65L, 127L, 128L, 168L, 192L, 250L, 256L, 320L}) {
      Generator g(static_cast<std::uint64_t>(bits));
      PrecisionScope precision(bits);
      for (int round = 0; round < 12; ++round) {
        auto fill = [&](long n) {
          std::vector<Ball> a;
          for (long i = 0; i < n; ++i) a.push_back(random_ball(g, range, bits));
          return a;
        };
        std::vector<Ball> x = fill(K), y = fill(V), S = fill(K * V);
        Ball scale = random_ball(g, range, bits);
        if (round % 3 == 0) {  // heavy cancellation of exact numbers: no radius hides an error
          for (std::vector<Ball>* part : {&x, &y}) {
            for (Ball& b : *part) mag_zero(arb_radref(b.raw()));
          }
          for (long i = 0; i < K; ++i) {
            for (long j = 0; j < V; ++j) {
              Ball& s = S[static_cast<std::size_t>(i * V + j)];
              s = x[static_cast<std::size_t>(i)] * y[static_cast<std::size_t>(j)];
              if (j % 2)
                s += s * fn::from_double<Ball>(std::ldexp(1, -static_cast<int>(g() % 300)));
              mag_zero(arb_radref(s.raw()));
            }
          }
          scale = -1;
        }
        std::vector<Ball> sum = S, difference = S, scaled = S;
        la::ger_add(K, V, x.data(), y.data(), sum.data());
        la::ger_sub(K, V, x.data(), y.data(), difference.data());
        la::scale_ger_add(K, V, scale, x.data(), y.data(), scaled.data());
        int outside = 0, blurred = 0, malformed = 0;
        for (long i = 0; i < K; ++i) {
          for (long j = 0; j < V; ++j) {
            auto k = static_cast<std::size_t>(i * V + j);
            const Ball& u = x[static_cast<std::size_t>(i)];
            const Ball& v = y[static_cast<std::size_t>(j)];
            outside += !encloses(sum[k], 1, S[k], u, v, false);
            outside += !encloses(difference[k], 1, S[k], u, v, true);
            outside += !encloses(scaled[k], scale, S[k], u, v, false);
            malformed += !canonical(sum[k]) + !canonical(difference[k]) + !canonical(scaled[k]);
            Ball product = u * v, old = scale * S[k];
            Ball magnitude = fn::max(fn::max(product, -product), fn::max(S[k], -S[k]));
            blurred += !sharp(sum[k], S[k] + product, magnitude, bits);
            blurred += !sharp(difference[k], S[k] - product, magnitude, bits);
            magnitude = fn::max(fn::max(product, -product), fn::max(old, -old));
            blurred += !sharp(scaled[k], old + product, magnitude, bits);
          }
        }
        INFO(range.name << ", " << bits << " bits, round " << round);
        CHECK(outside == 0);
        CHECK(malformed == 0);
        CHECK(blurred == 0);
      }
    }
  }
}

TEST_CASE("scalars/ball: rank-one updates keep zeros and pass infinities on",
          "[scalars][ball][linalg]") {
  std::vector<Ball> S(4), x(2), y(2);
  y[0] = 1;
  la::ger_add(2, 2, x.data(), y.data(), S.data());
  for (const Ball& s : S) CHECK(fn::is_zero(s));
  la::scale_ger_add(2, 2, 3, x.data(), y.data(), S.data());
  for (const Ball& s : S) CHECK(fn::is_zero(s));
  x[0] = fn::from_double<Ball>(std::numeric_limits<double>::infinity());
  la::ger_add(2, 2, x.data(), y.data(), S.data());
  CHECK_FALSE(fn::is_finite(S[0]));
  CHECK(fn::is_zero(S[2]));
}
