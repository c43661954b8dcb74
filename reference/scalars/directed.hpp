// Rounding with ill will, to try bounds of rounding errors: inside a DirectionScope every result of
// Rounded that its format cannot hold is moved by nearly one unit roundoff of it, up, down, away
// from zero, towards it or at random, instead of being rounded to nearest.
#pragma once

#include <cstdint>

#include "reference/scalars/rounded.hpp"

namespace assay {

enum class RoundingDirection { nearest, up, down, away, inward, random };

class DirectionScope {
 public:
  explicit DirectionScope(RoundingDirection direction, std::uint64_t seed = 1);
  ~DirectionScope();
  DirectionScope(const DirectionScope&) = delete;
  DirectionScope& operator=(const DirectionScope&) = delete;

 private:
  RoundingDirection saved_;
};

}  // namespace assay
