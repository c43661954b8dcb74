// AVX2 kernels of DoubleDouble: the operations of double_double_core.inc on four numbers at once.
//
// Everything between the pragmas is compiled for AVX2 and FMA. No template may be instantiated here
// with a type that other files use too (double): the linker could keep this copy for machines
// without AVX2. Tails therefore go through a padded vector, not through scalar code.
#include "reference/scalars/double_double.hpp"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#include <cstring>

#pragma GCC push_options
#pragma GCC target("avx2,fma")

namespace assay {
namespace {

struct Four {
  __m256d v;
  Four() = default;
  Four(__m256d x) : v(x) {}  // NOLINT: a register is a Four
  explicit Four(double x) : v(_mm256_set1_pd(x)) {}
};
// Outside the class: GCC does not apply the pragma to functions defined as friends.
inline Four operator+(Four a, Four b) { return _mm256_add_pd(a.v, b.v); }
inline Four operator-(Four a, Four b) { return _mm256_sub_pd(a.v, b.v); }
inline Four operator*(Four a, Four b) { return _mm256_mul_pd(a.v, b.v); }
inline Four operator-(Four a) { return _mm256_xor_pd(a.v, _mm256_set1_pd(-0.0)); }
inline Four fma(Four a, Four b, Four c) { return _mm256_fmadd_pd(a.v, b.v, c.v); }
inline Four abs(Four a) { return _mm256_andnot_pd(_mm256_set1_pd(-0.0), a.v); }
inline Four min(Four a, Four b) { return _mm256_min_pd(a.v, b.v); }

#include "reference/scalars/double_double_core.inc"

using Block = Triple<Four>;
using BlockFactor = Factor<Four>;

// h0 l0 e0 h1 | l1 e1 h2 l2 | e2 h3 l3 e3  <->  h0..h3, l0..l3, e0..e3
inline Block load(const double* p) {
  __m256d r0 = _mm256_loadu_pd(p);
  __m256d r1 = _mm256_loadu_pd(p + 4);
  __m256d r2 = _mm256_loadu_pd(p + 8);
  __m256d hl = _mm256_blend_pd(r0, r1, 0b1100);       // h0 l0 h2 l2
  __m256d eh = _mm256_permute2f128_pd(r0, r2, 0x21);  // e0 h1 e2 h3
  __m256d le = _mm256_blend_pd(r1, r2, 0b1100);       // l1 e1 l3 e3
  return {_mm256_blend_pd(hl, eh, 0b1010), _mm256_shuffle_pd(hl, le, 0b0101),
          _mm256_blend_pd(eh, le, 0b1010)};
}

inline void store(double* p, const Block& x) {
  __m256d hl = _mm256_unpacklo_pd(x.hi.v, x.lo.v);
  __m256d eh = _mm256_blend_pd(x.err.v, x.hi.v, 0b1010);
  __m256d le = _mm256_unpackhi_pd(x.lo.v, x.err.v);
  _mm256_storeu_pd(p, _mm256_insertf128_pd(hl, _mm256_castpd256_pd128(eh), 1));
  _mm256_storeu_pd(p + 4, _mm256_blend_pd(le, hl, 0b1100));
  _mm256_storeu_pd(p + 8, _mm256_permute2f128_pd(eh, le, 0x31));
}

// The first `count` < 4 numbers, the others zero.
inline Block load_part(const double* p, long count) {
  double padded[12] = {};
  std::memcpy(padded, p, static_cast<std::size_t>(3 * count) * sizeof(double));
  return load(padded);
}
inline void store_part(double* p, const Block& x, long count) {
  double padded[12];
  store(padded, x);
  std::memcpy(p, padded, static_cast<std::size_t>(3 * count) * sizeof(double));
}

// Numbers p[0], p[3 inc], ... : four of them, or `count` and zeros.
inline Block load_strided(const double* p, long inc, long count) {
  if (inc == 1 && count >= 4) return load(p);
  double padded[12] = {};
  for (long i = 0; i < (count < 4 ? count : 4); ++i) {
    std::memcpy(padded + 3 * i, p + 3 * i * inc, 3 * sizeof(double));
  }
  return load(padded);
}

inline Block negated(const Block& x) { return {-x.hi, -x.lo, x.err}; }
inline BlockFactor broadcast(const double* p, bool negate = false) {
  Block x{Four(p[0]), Four(p[1]), Four(p[2])};
  return factor(negate ? negated(x) : x);
}

// f maps the block at offset i (in numbers) of x and y to the new block of y.
template <class Operation>
inline void for_each_block(long n, const double* x, double* y, Operation f) {
  long i = 0;
  for (; i + 4 <= n; i += 4) store(y + 3 * i, f(load(x + 3 * i), load(y + 3 * i)));
  if (i < n) {
    store_part(y + 3 * i, f(load_part(x + 3 * i, n - i), load_part(y + 3 * i, n - i)), n - i);
  }
}

void axpy(long n, const double* a, const double* x, double* y, bool subtract) {
  BlockFactor fa = broadcast(a, subtract);
  for_each_block(n, x, y, [&fa](const Block& xb, const Block& yb) {
    return multiply_add(yb, fa, factor(xb));
  });
}

void scale(long n, const double* a, double* x) {
  BlockFactor fa = broadcast(a);
  for_each_block(n, x, x,
                 [&fa](const Block& xb, const Block&) { return multiply(factor(xb), fa); });
}

void axpby(long n, const double* a, const double* x, const double* b, double* y) {
  BlockFactor fa = broadcast(a);
  BlockFactor fb = broadcast(b);
  for_each_block(n, x, y, [&fa, &fb](const Block& xb, const Block& yb) {
    return multiply_add(multiply(factor(yb), fb), fa, factor(xb));
  });
}

// Accumulators stay in registers while i runs; several column blocks at once hide the latency of
// one chain of dependent additions (about 28 cycles).
template <int kBlocks>
inline void gemv_t_columns(long rows, long cols, const double* S, const double* x, double* out,
                           bool subtract) {
  Block acc[kBlocks];
  for (int b = 0; b < kBlocks; ++b) acc[b] = load(out + 12 * b);
  for (long i = 0; i < rows; ++i) {
    BlockFactor fx = broadcast(x + 3 * i, subtract);
    const double* row = S + 3 * i * cols;
    for (int b = 0; b < kBlocks; ++b) {
      acc[b] = multiply_add(acc[b], fx, factor(load(row + 12 * b)));
    }
  }
  for (int b = 0; b < kBlocks; ++b) store(out + 12 * b, acc[b]);
}

void gemv_t(long rows, long cols, const double* S, const double* x, double* out, bool subtract) {
  long j = 0;
  for (; j + 16 <= cols; j += 16) {
    gemv_t_columns<4>(rows, cols, S + 3 * j, x, out + 3 * j, subtract);
  }
  for (; j + 4 <= cols; j += 4) {
    gemv_t_columns<1>(rows, cols, S + 3 * j, x, out + 3 * j, subtract);
  }
  if (j == cols) return;
  Block acc = load_part(out + 3 * j, cols - j);
  for (long i = 0; i < rows; ++i) {
    Block s = load_part(S + 3 * (i * cols + j), cols - j);
    acc = multiply_add(acc, broadcast(x + 3 * i, subtract), factor(s));
  }
  store_part(out + 3 * j, acc, cols - j);
}

void dot(double* acc, long n, const double* x, long incx, const double* y, long incy,
         bool subtract) {
  if (n == 0) return;
  const Four zero(0.0);
  Block lanes[2] = {{zero, zero, zero}, {zero, zero, zero}};
  for (long i = 0; i < n; i += 8) {
    for (long half = 0; half < 2; ++half) {
      long k = i + 4 * half;
      long left = n - k > 0 ? n - k : 0;
      // An empty half must not form a pointer beyond the array.
      Block xb = load_strided(x + (left ? 3 * k * incx : 0), incx, left);
      Block yb = load_strided(y + (left ? 3 * k * incy : 0), incy, left);
      lanes[half] = multiply_add(lanes[half], factor(xb), factor(yb));
    }
  }
  Block sum = add(lanes[0], lanes[1]);
  Block upper{_mm256_permute2f128_pd(sum.hi.v, sum.hi.v, 1),
              _mm256_permute2f128_pd(sum.lo.v, sum.lo.v, 1),
              _mm256_permute2f128_pd(sum.err.v, sum.err.v, 1)};
  sum = add(sum, upper);  // lanes 0 and 1
  Block odd{_mm256_permute_pd(sum.hi.v, 0b0101), _mm256_permute_pd(sum.lo.v, 0b0101),
            _mm256_permute_pd(sum.err.v, 0b0101)};
  sum = add(sum, odd);  // lane 0
  store_part(acc, add(load_part(acc, 1), subtract ? negated(sum) : sum), 1);
}

constexpr detail::DoubleDoubleKernels kKernels{axpy, scale, axpby, gemv_t, dot};

}  // namespace
}  // namespace assay

#pragma GCC pop_options

const assay::detail::DoubleDoubleKernels* assay::detail::double_double_avx2() {
  static const bool supported = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return supported ? &kKernels : nullptr;
}

#else

const assay::detail::DoubleDoubleKernels* assay::detail::double_double_avx2() { return nullptr; }

#endif
