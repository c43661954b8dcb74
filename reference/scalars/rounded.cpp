#include "reference/scalars/rounded.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "reference/scalars/directed.hpp"
#include "reference/scalars/double.hpp"

namespace assay {

constinit thread_local Format detail::tls_format = Format::fp32;
constinit thread_local Emulation detail::tls_emulation = {};

namespace {

constinit thread_local RoundingDirection tls_direction = RoundingDirection::nearest;
constinit thread_local std::uint64_t tls_random = 1;

constexpr double power_of_two(int exponent) {  // of a normal double
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

struct Layout {
  int precision;  // significant bits with the hidden one
  int min_exponent;
  int max_exponent;
  double unit_roundoff = power_of_two(-precision);
  double smallest = power_of_two(min_exponent);  // normal
  double quantum = power_of_two(min_exponent - (precision - 1));
  double beyond = power_of_two(max_exponent + 1);
};

constexpr Layout kFp32{24, -126, 127}, kTf32{11, -126, 127}, kFp16{11, -14, 15},
    kBf16{8, -126, 127};

constexpr const Layout& layout(Format format) {
  switch (format) {
    case Format::fp32:
      return kFp32;
    case Format::tf32:
      return kTf32;
    case Format::fp16:
      return kFp16;
    case Format::bf16:
      break;
  }
  return kBf16;
}

// Bit pattern of a value that the 16-bit format represents exactly, or of a NaN. `mantissa` and
// `exponent_bits` describe the format; NaNs keep the payload bits that fit.
std::uint16_t pack16(double x, const Layout& l) {
  int mantissa_bits = l.precision - 1;
  std::uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  auto infinity =
      static_cast<std::uint16_t>((l.max_exponent - l.min_exponent + 2) << mantissa_bits);
  if (std::isinf(x)) return sign | infinity;
  double magnitude = std::fabs(x);
  int exponent = magnitude == 0 ? l.min_exponent : std::ilogb(magnitude);
  if (exponent < l.min_exponent) exponent = l.min_exponent;
  // In units of the last place: below 2^mantissa_bits for a subnormal, which then has field 0.
  auto units = static_cast<unsigned>(std::ldexp(magnitude, mantissa_bits - exponent));
  auto field = static_cast<unsigned>(exponent - l.min_exponent);
  return static_cast<std::uint16_t>(sign | ((field << mantissa_bits) + units));
}

// The mantissa is cut to the leading bits; if they are all zero the pattern would be an infinity,
// so the quiet bit is set then.
std::uint16_t pack16_nan(std::uint32_t bits, const Layout& l) {
  int mantissa_bits = l.precision - 1;
  auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  auto payload = static_cast<std::uint16_t>((bits & 0x7fffff) >> (23 - mantissa_bits));
  if (payload == 0) payload = static_cast<std::uint16_t>(1 << (mantissa_bits - 1));
  auto infinity =
      static_cast<std::uint16_t>((l.max_exponent - l.min_exponent + 2) << mantissa_bits);
  return sign | infinity | payload;
}

double round_to_nearest(Format format, double x) {
  if (format == Format::fp32) return static_cast<double>(static_cast<float>(x));
  if (!std::isfinite(x) || x == 0) return x;
  const Layout& l = layout(format);
  auto bits = std::bit_cast<std::uint64_t>(x);
  if (std::fabs(x) < l.smallest) {
    // Adding 1.5 * 2^52 quanta leaves a sum whose last place is one quantum: the hardware rounds.
    double magic = 0x1.8p52 * l.quantum;
    return std::copysign((x + magic) - magic, x);
  }
  int drop = 53 - l.precision;
  std::uint64_t odd = bits >> drop & 1;
  bits += (std::uint64_t{1} << (drop - 1)) - 1 + odd;  // a carry may move into the exponent: right
  bits &= ~((std::uint64_t{1} << drop) - 1);
  double rounded = std::bit_cast<double>(bits);
  if (std::fabs(rounded) >= l.beyond) {
    return std::copysign(std::numeric_limits<double>::infinity(), x);
  }
  return rounded;
}

std::uint16_t float_to_bits16(float x, Format format) {
  if (std::isnan(x)) return pack16_nan(std::bit_cast<std::uint32_t>(x), layout(format));
  return pack16(round_to_nearest(format, x), layout(format));
}

std::uint16_t double_to_bits16(double x, Format format) {
  if (std::isnan(x)) {
    auto bits = std::bit_cast<std::uint64_t>(x);
    auto high = static_cast<std::uint32_t>(bits >> 32 & 0x80000000) |
                static_cast<std::uint32_t>(bits >> 29 & 0x7fffff);
    return pack16_nan(high, layout(format));
  }
  return pack16(round_to_nearest(format, x), layout(format));
}

// Not by a whole unit: x itself carries the error of one double operation.
double moved(Format format, double x, double nearest) {
  const Layout& l = layout(format);
  if (nearest == x || !std::isfinite(nearest) || !(std::fabs(x) >= l.smallest)) return nearest;
  const double step = l.unit_roundoff * (1 - 0x1p-20) * std::fabs(x);
  bool up = tls_direction == RoundingDirection::up;
  if (tls_direction == RoundingDirection::away) up = x > 0;
  if (tls_direction == RoundingDirection::inward) up = x < 0;
  if (tls_direction == RoundingDirection::random) {
    tls_random ^= tls_random >> 12, tls_random ^= tls_random << 25, tls_random ^= tls_random >> 27;
    up = (tls_random * 0x2545f4914f6cdd1dULL) >> 63 != 0;
  }
  return up ? x + step : x - step;
}

}  // namespace

DirectionScope::DirectionScope(RoundingDirection direction, std::uint64_t seed)
    : saved_(tls_direction) {
  tls_direction = direction;
  tls_random = seed * 0x9e3779b97f4a7c15ULL | 1;
}
DirectionScope::~DirectionScope() { tls_direction = saved_; }

double round_to(Format format, double x) {
  const double nearest = round_to_nearest(format, x);
  return tls_direction == RoundingDirection::nearest ? nearest : moved(format, x, nearest);
}

double truncate_to(Format format, double x) {
  const double nearest = round_to_nearest(format, x);
  if (std::isnan(x) || std::isinf(x) || std::fabs(nearest) <= std::fabs(x)) return nearest;
  // One value of the format back towards zero.
  const Layout& l = layout(format);
  if (std::isinf(nearest)) return std::copysign((1 - l.unit_roundoff) * l.beyond, x);
  if (std::fabs(x) < l.smallest) return nearest - std::copysign(l.quantum, x);
  const std::uint64_t dropped = (std::uint64_t{1} << (53 - l.precision)) - 1;
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) & ~dropped);
}

double unit_roundoff(Format format) { return layout(format).unit_roundoff; }

std::uint16_t float_to_bf16_bits(float x) { return float_to_bits16(x, Format::bf16); }
std::uint16_t float_to_fp16_bits(float x) { return float_to_bits16(x, Format::fp16); }
std::uint16_t double_to_bf16_bits(double x) { return double_to_bits16(x, Format::bf16); }
std::uint16_t double_to_fp16_bits(double x) { return double_to_bits16(x, Format::fp16); }

float bf16_bits_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

float fp16_bits_to_float(std::uint16_t bits) {
  std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  std::uint32_t field = bits >> 10 & 0x1f;
  std::uint32_t mantissa = bits & 0x3ff;
  if (field == 0x1f) return std::bit_cast<float>(sign | 0x7f800000 | mantissa << 13);
  if (field == 0) {
    float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | (field + 112) << 23 | mantissa << 13);
}

Rounded Functions<Rounded>::exp(Rounded x) { return Rounded::from(std::exp(x.value())); }
Rounded Functions<Rounded>::log(Rounded x) { return Rounded::from(std::log(x.value())); }
Rounded Functions<Rounded>::log1p(Rounded x) { return Rounded::from(std::log1p(x.value())); }
Rounded Functions<Rounded>::sqrt(Rounded x) { return Rounded::from(std::sqrt(x.value())); }
Rounded Functions<Rounded>::tanh(Rounded x) { return Rounded::from(std::tanh(x.value())); }
Rounded Functions<Rounded>::sigmoid(Rounded x) {
  return Rounded::from(Functions<double>::sigmoid(x.value()));
}
Rounded Functions<Rounded>::softplus(Rounded x) {
  return Rounded::from(Functions<double>::softplus(x.value()));
}

}  // namespace assay
