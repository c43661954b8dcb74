// Rank-one updates of ball matrices. arb_addmul spends most of its time on generality (any
// length, any exponent); here mantissas of up to kMaxLimbs limbs are added in a window of fixed
// size. Whatever does not fit (zeros, infinities, long mantissas, exponents or radii beyond about
// 2^+-300) takes the general way, element by element.
//
// Enclosure. With N limbs of working precision, a midpoint is |m| = M 2^(e - 64 N), M an integer of
// N limbs with its top bit set. Both terms are cut to windows of L = N + 1 limbs whose top is at
// 2^E, E = 1 + the larger exponent: each cut errs by less than 2^(E - 64 L), and the sum of the two
// windows, each below 2^(E - 1), cannot overflow. The sum is cut again to `bits` bits: an error
// below 2^(e_r - bits), e_r its exponent. Radii are added in double; with a bound on the relative
// error of each of at most 12 operations, kUp = 1 + 2^-44 makes the result an upper bound, and
// exponents within the limits above keep all of it far from underflow and overflow.
#include "reference/scalars/ball_rank_one.hpp"

#include <bit>
#include <cstdint>
#include <vector>

namespace assay::detail {
namespace {

using Limb = std::uint64_t;
using Wide = unsigned __int128;

constexpr int kMaxLimbs = 4;
constexpr long kMaxExponent = 300;  // of midpoints
constexpr long kMaxRadiusExponent = 600;
constexpr double kUp = 1 + 0x1p-44;

// 2^k for a normal double.
double power_of_two(long k) { return std::bit_cast<double>(static_cast<Limb>(k + 1023) << 52); }

// A midpoint in fixed form; usable only if `fits`.
template <int N>
struct Operand {
  Limb limb[N];
  long exponent;
  double magnitude;  // >= |midpoint|
  double radius;     // >= radius
  Limb negative;     // 0 or 1
  bool fits;
};

double radius_of(mag_srcptr r) {
  return static_cast<double>(MAG_MAN(r)) * power_of_two(MAG_EXP(r) - MAG_BITS);
}

template <int N>
inline bool load(Operand<N>& out, arb_srcptr x) {
  arf_srcptr mid = arb_midref(x);
  mag_srcptr rad = arb_radref(x);
  slong exponent = ARF_EXP(mid);
  slong radius_exponent = MAG_EXP(rad);
  mp_size_t size = ARF_SIZE(mid);
  // Exponents beyond a word, and those of infinities, lie outside these ranges too.
  out.fits = size >= 1 && size <= N && exponent >= -kMaxExponent && exponent <= kMaxExponent &&
             radius_exponent >= -kMaxRadiusExponent && radius_exponent <= kMaxRadiusExponent;
  if (!out.fits) return false;
  mp_srcptr p = size <= ARF_NOPTR_LIMBS ? ARF_NOPTR_D(mid) : ARF_PTR_D(mid);
#pragma GCC unroll 8
  for (int k = 0; k < N; ++k) out.limb[k] = 0;
  for (mp_size_t k = 0; k < size; ++k) out.limb[N - size + k] = p[k];
  out.exponent = exponent;
  out.negative = static_cast<Limb>(ARF_SGNBIT(mid));
  out.magnitude = (static_cast<double>(out.limb[N - 1] >> 11) + 1) * power_of_two(exponent - 53);
  out.radius = radius_of(rad);
  return true;
}

// Window of L limbs in a buffer whose upper half stays zero, so that a shift reads zeros.
template <int N>
struct Window {
  static constexpr int L = N + 1;
  Limb limb[2 * L + 1] = {};
  long exponent = 0;
  Limb negative = 0;
};

// The top L limbs of a b.
template <int N>
inline void multiply(Window<N>& w, const Operand<N>& a, const Operand<N>& b) {
  Limb product[2 * N] = {};
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) {
    Limb carry = 0;
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) {
      Wide t = static_cast<Wide>(a.limb[i]) * b.limb[j] + product[i + j] + carry;
      product[i + j] = static_cast<Limb>(t);
      carry = static_cast<Limb>(t >> 64);
    }
    product[i + N] = carry;
  }
#pragma GCC unroll 8
  for (int k = 0; k < N + 1; ++k) w.limb[k] = product[N - 1 + k];
  w.exponent = a.exponent + b.exponent;
  w.negative = a.negative ^ b.negative;
}

template <int N>
inline void copy(Window<N>& w, const Operand<N>& a) {
  w.limb[0] = 0;
#pragma GCC unroll 8
  for (int k = 0; k < N; ++k) w.limb[k + 1] = a.limb[k];
  w.exponent = a.exponent;
  w.negative = a.negative;
}

// Window shifted right by d >= 1 bits.
template <int N>
inline void shifted(Limb* out, const Window<N>& w, long d) {
  constexpr int L = N + 1;
  if (d > 64 * L) d = 64 * L;
  long q = d / 64;
  int s = static_cast<int>(d % 64);
#pragma GCC unroll 8
  for (int k = 0; k < L; ++k) {
    out[k] = (w.limb[k + q] >> s) | (w.limb[k + q + 1] << 1 << (63 - s));
  }
}

// Smallest 30-bit upper bound.
inline void set_radius(mag_ptr r, double value) {
  auto pattern = std::bit_cast<Limb>(value);
  Limb mantissa = ((pattern & ((Limb{1} << 52) - 1)) | Limb{1} << 52) >> 23;
  long exponent = static_cast<long>(pattern >> 52) - 1022;
  ++mantissa;
  if (mantissa >> MAG_BITS) {
    mantissa >>= 1;
    ++exponent;
  }
  MAG_MAN(r) = mantissa;
  MAG_EXP(r) = exponent;
}

// S = u + v, with the radius that comes from the operands. False, S untouched, if the sum vanishes.
template <int N>
inline bool add(arb_ptr S, const Window<N>& u, const Window<N>& v, double radius, long bits) {
  constexpr int L = N + 1;
  long E = (u.exponent > v.exponent ? u.exponent : v.exponent) + 1;
  Limb a[L], b[L];
  shifted(a, u, E - u.exponent);
  shifted(b, v, E - v.exponent);
  // Two's complement, without branches on the signs, which are random.
  Limb differ = 0 - (u.negative ^ v.negative);
  Limb carry = differ & 1;
#pragma GCC unroll 8
  for (int k = 0; k < L; ++k) {
    Wide t = static_cast<Wide>(a[k]) + (b[k] ^ differ) + carry;
    a[k] = static_cast<Limb>(t);
    carry = static_cast<Limb>(t >> 64);
  }
  Limb flip = differ & (0 - (a[L - 1] >> 63));
  carry = flip & 1;
#pragma GCC unroll 8
  for (int k = 0; k < L; ++k) {
    Wide t = static_cast<Wide>(a[k] ^ flip) + carry;
    a[k] = static_cast<Limb>(t);
    carry = static_cast<Limb>(t >> 64);
  }
  long exponent = E;
  int dropped = 0;
  while (a[L - 1] == 0) {
    if (++dropped == L) return false;
    for (int k = L - 1; k > 0; --k) a[k] = a[k - 1];
    a[0] = 0;
    exponent -= 64;
  }
  int zeros = std::countl_zero(a[L - 1]);
  exponent -= zeros;
  Limb m[N];
#pragma GCC unroll 8
  for (int k = 0; k < N; ++k) m[k] = (a[k + 1] << zeros) | (a[k] >> 1 >> (63 - zeros));
  m[0] &= ~Limb{0} << (64 * N - bits);
  int low = 0;
  while (m[low] == 0) ++low;  // the top limb is not zero

  arf_ptr mid = arb_midref(S);
  mp_size_t size = N - low;
  mp_ptr p;
  ARF_GET_MPN_WRITE(p, size, mid);
  for (mp_size_t k = 0; k < size; ++k) p[k] = m[low + k];
  ARF_XSIZE(mid) = ARF_MAKE_XSIZE(size, static_cast<mp_size_t>(u.negative ^ (flip & 1)));
  ARF_EXP(mid) = exponent;
  radius += power_of_two(exponent - bits) + power_of_two(E - 64 * L + 1);
  set_radius(arb_radref(S), radius * kUp);
  return true;
}

void general(arb_ptr S, const Ball* scale, arb_srcptr x, bool subtract, arb_srcptr y, slong bits) {
  if (scale) arb_mul(S, S, scale->raw(), bits);
  if (subtract) {
    arb_submul(S, x, y, bits);
  } else {
    arb_addmul(S, x, y, bits);
  }
}

template <int N>
void update(long rows, long cols, const Ball* scale, const Ball* x, bool subtract, const Ball* y,
            Ball* S, long bits) {
  static thread_local std::vector<Operand<N>> packed;  // y, used by every row
  if (packed.size() < static_cast<std::size_t>(cols)) packed.resize(static_cast<std::size_t>(cols));
  for (long j = 0; j < cols; ++j) load(packed[static_cast<std::size_t>(j)], y[j].raw());
  const Operand<N>* Y = packed.data();
  Operand<N> factor{}, a{}, s{};
  bool scale_fits = scale == nullptr || load(factor, scale->raw());
  Window<N> old, product;
  for (long i = 0; i < rows; ++i) {
    bool row_fits = load(a, x[i].raw()) && scale_fits;
    if (subtract) a.negative ^= 1;
    for (long j = 0; j < cols; ++j) {
      arb_ptr out = S[i * cols + j].raw();
      if (row_fits && Y[j].fits && load(s, out)) {
        multiply(product, a, Y[j]);
        // (|m| + r)(|m'| + r') - |m m'| = |m| r' + (|m'| + r') r
        double radius = a.magnitude * Y[j].radius + (Y[j].magnitude + Y[j].radius) * a.radius;
        if (scale) {
          multiply(old, factor, s);
          radius += factor.magnitude * s.radius + (s.magnitude + s.radius) * factor.radius;
        } else {
          copy(old, s);
          radius += s.radius;
        }
        if (add(out, old, product, radius, bits)) continue;
      }
      general(out, scale, x[i].raw(), subtract, y[j].raw(), bits);
    }
  }
}

}  // namespace

void ball_rank_one(long rows, long cols, const Ball* scale, const Ball* x, bool subtract,
                   const Ball* y, Ball* S, long bits) {
  static_assert(sizeof(mp_limb_t) == sizeof(Limb) && MAG_BITS == 30);
  switch ((bits + 63) / 64) {
    case 1:
      return update<1>(rows, cols, scale, x, subtract, y, S, bits);
    case 2:
      return update<2>(rows, cols, scale, x, subtract, y, S, bits);
    case 3:
      return update<3>(rows, cols, scale, x, subtract, y, S, bits);
    case kMaxLimbs:
      return update<kMaxLimbs>(rows, cols, scale, x, subtract, y, S, bits);
    default:
      break;
  }
  for (long i = 0; i < rows; ++i) {
    for (long j = 0; j < cols; ++j) {
      general(S[i * cols + j].raw(), scale, x[i].raw(), subtract, y[j].raw(), bits);
    }
  }
}

}  // namespace assay::detail
