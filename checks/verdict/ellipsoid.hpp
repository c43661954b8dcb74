// Ellipsoids that contain an error vector: E(P) = { x : |c·x| <= sqrt(c^T P c) for every c }.
#pragma once

#include <cstdint>
#include <vector>

namespace assay {

/// E(P) under x <- A x + l with |l_i| <= noise_i. Every step is outward: the lemmas, with proofs
/// and the rounding of P itself, stand in HARD_BOUND.md, section 4.
class Ellipsoid {
 public:
  bool empty() const { return n_ == 0; }  // nothing is known yet
  /// The smallest-trace axis-parallel E(P) that holds the box |x_i| <= radius_i.
  void enclose_box(const std::vector<double>& radius);
  /// A [n,n] row-major.
  void advance(const std::vector<double>& A, const std::vector<double>& noise);
  /// Bounds |x_i|; infinite or NaN when P overflowed.
  double half_width(std::int64_t i) const;
  /// Bounds |c·x|; c may be shorter than x.
  double width(const std::vector<double>& c) const;
  double trace() const;

 private:
  std::int64_t n_ = 0;
  std::vector<double> P_, AP_, transposed_;
};

}  // namespace assay
