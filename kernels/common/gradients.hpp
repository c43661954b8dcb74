// Gradients of tensors that several units share. Each unit writes its part into the workspace, and
// a second pass adds the parts in the order of the units: the same bits whatever the threads.
#pragma once

#include "kernels/common/arena.hpp"
#include "kernels/common/binding.hpp"

ASSAY_CPU_BEGIN

template <class Real>
class GradientScratch {
 public:
  /// Lays the parts out in `workspace`, which may be null to learn bytes() only.
  GradientScratch(const Binding& b, void* workspace);

  std::size_t bytes() const { return bytes_; }
  /// Is the token input shared by heads, so that its rows go through the workspace?
  bool shared(int field) const { return token_part_[field]; }

  /// d [n,width] of the unit's head, steps t .. t+n-1.
  void keep_token(int field, const Unit& u, std::int64_t t, std::int64_t n, const Real* d) const;
  void keep_param(int field, std::int64_t unit, const Real* d) const;

  /// Number of independent sums, and the i-th of them.
  std::int64_t reductions() const { return first_reduction_[b_.fields]; }
  void reduce(std::int64_t i, Arena& arena) const;

 private:
  static constexpr std::int64_t kTile = 128;  // steps of a token tensor per reduction
  void reduce_tokens(int field, std::int64_t tile, Arena& arena) const;
  void reduce_param(int field, std::int64_t head, Arena& arena) const;

  const Binding& b_;
  Real* part_[kMaxTensors] = {};
  bool token_part_[kMaxTensors] = {};
  std::int64_t first_reduction_[kMaxTensors + 1] = {};
  std::size_t bytes_ = 0;
};

ASSAY_CPU_END
