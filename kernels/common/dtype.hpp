// Between stored dtypes and the type computed in: rows of strided elements to contiguous values and
// back. Narrowing rounds to nearest, ties to even, once; overflow gives an infinity, NaN stays NaN.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/common/call.hpp"
#include "kernels/common/variant.hpp"

ASSAY_CPU_BEGIN

inline std::int64_t element_size(DType t) {
  switch (t) {
    case DType::f16:
    case DType::bf16:
      return 2;
    case DType::f32:
    case DType::i32:
      return 4;
    default:
      return 8;
  }
}

inline std::uint32_t float_bits(float x) {
  std::uint32_t u;
  std::memcpy(&u, &x, 4);
  return u;
}
inline float bits_float(std::uint32_t u) {
  float x;
  std::memcpy(&x, &u, 4);
  return x;
}

inline float from_bf16(std::uint16_t h) { return bits_float(std::uint32_t{h} << 16); }
inline std::uint16_t to_bf16(float x) {
  const std::uint32_t u = float_bits(x);
  // Adding the rounding bias to a NaN could carry into the sign; keep its top bits, made quiet.
  if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(u >> 16 | 0x40u);
  return static_cast<std::uint16_t>((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

// Binary16: subnormals are exact multiples of 2^-24, so the same float add that aligns them rounds
// them (to even, by the hardware).
inline float from_f16(std::uint16_t h) {
  const std::uint32_t sign = std::uint32_t{h & 0x8000u} << 16, body = h & 0x7fffu;
  if (body < 0x0400u) {
    const float tiny = static_cast<float>(body) * 0x1p-24f;
    return bits_float(float_bits(tiny) | sign);
  }
  const std::uint32_t special = body >= 0x7c00u ? (255u - 31u) << 23 : (127u - 15u) << 23;
  return bits_float(((body << 13) + special) | sign);
}
inline std::uint16_t to_f16(float x) {
  const std::uint32_t u = float_bits(x), sign = u >> 16 & 0x8000u, body = u & 0x7fffffffu;
  std::uint32_t half;
  if (body > 0x7f800000u) {
    half = 0x7e00u;
  } else if (body >= 0x477ff000u) {  // 65520 and above round to infinity
    half = 0x7c00u;
  } else if (body < 0x38800000u) {  // below 2^-14: a multiple of 2^-24, aligned by adding 0.5
    half = float_bits(bits_float(body) + 0.5f) - 0x3f000000u;
  } else {
    half = (body - ((127u - 15u) << 23) + 0xfffu + (body >> 13 & 1u)) >> 13;
  }
  return static_cast<std::uint16_t>(half | sign);
}

template <class Real, class Stored, class Convert>
void load_as(const void* source, std::int64_t stride, std::int64_t n, Real* out,
             const Convert& convert) {
  const Stored* p = static_cast<const Stored*>(source);
  if (stride == 1) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<Real>(convert(p[i]));
  } else {
    for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<Real>(convert(p[i * stride]));
  }
}

template <class Real>
void load_row(const void* source, DType dtype, std::int64_t stride, std::int64_t n, Real* out) {
  switch (dtype) {
    case DType::f32:
      return load_as<Real, float>(source, stride, n, out, [](float x) { return x; });
    case DType::f64:
      return load_as<Real, double>(source, stride, n, out, [](double x) { return x; });
    case DType::bf16:
      return load_as<Real, std::uint16_t>(source, stride, n, out,
                                          [](std::uint16_t x) { return from_bf16(x); });
    case DType::f16:
      return load_as<Real, std::uint16_t>(source, stride, n, out,
                                          [](std::uint16_t x) { return from_f16(x); });
    default:
      return;  // integer tensors are never loaded as rows; binding refuses them
  }
}

template <class Stored, class Real, class Convert>
void store_as(const Real* in, std::int64_t n, void* target, std::int64_t stride,
              const Convert& convert) {
  Stored* p = static_cast<Stored*>(target);
  if (stride == 1) {
    for (std::int64_t i = 0; i < n; ++i) p[i] = convert(in[i]);
  } else {
    for (std::int64_t i = 0; i < n; ++i) p[i * stride] = convert(in[i]);
  }
}

/// The 16-bit formats go through float: from double that rounds twice, which only fp64 test calls
/// with 16-bit outputs would see.
template <class Real>
void store_row(const Real* in, std::int64_t n, void* target, DType dtype, std::int64_t stride) {
  switch (dtype) {
    case DType::f32:
      return store_as<float>(in, n, target, stride, [](Real x) { return static_cast<float>(x); });
    case DType::f64:
      return store_as<double>(in, n, target, stride, [](Real x) { return static_cast<double>(x); });
    case DType::bf16:
      return store_as<std::uint16_t>(in, n, target, stride,
                                     [](Real x) { return to_bf16(static_cast<float>(x)); });
    case DType::f16:
      return store_as<std::uint16_t>(in, n, target, stride,
                                     [](Real x) { return to_f16(static_cast<float>(x)); });
    default:
      return;
  }
}

ASSAY_CPU_END
