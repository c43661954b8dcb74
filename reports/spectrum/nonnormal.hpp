// What eigenvalues do not say: how far a stable step can amplify before it decays.
//
// Of a direct sum all of these are the largest over the blocks (numerical range: the hull).
#pragma once

#include <complex>

#include "reports/render/figure.hpp"
#include "reports/spectrum/frozen.hpp"

namespace assay::reports {

struct NonNormal {
  double norm = 0;                // |A|_2
  double numerical_radius = 0;    // largest |x^H A x|, |x| = 1
  double numerical_abscissa = 0;  // largest Re x^H A x
  /// sup over |z| > 1 of (|z| - 1) |(zI - A)^-1|_2, a lower bound from a refined grid; infinite
  /// when the spectral radius exceeds 1. 1 <= K(A) <= sup |A^n| <= e dim K(A).   [Kreiss matrix
  /// theorem]
  double kreiss = 0;
  /// sup over n >= 0 of |A^n|_2, exact up to rounding when `growth_complete` (some |A^n| <= 1 was
  /// reached, and norms of products do not exceed products of norms), else a lower bound.
  double growth = 0;
  std::int64_t growth_at = 0;  // the n where it is reached
  bool growth_complete = false;
};

NonNormal non_normal(const FrozenStep& step);

/// |A^n|_2 for n = 0..count.
std::vector<double> power_norms(const FrozenStep& step, std::int64_t count);

/// Smallest singular value of zI - A over a square of the complex plane: its level lines are the
/// boundaries of the pseudospectra.
render::Grid pseudospectrum(const FrozenStep& step, double half_width, int points);

/// Boundary of the numerical range of one block.
std::vector<std::complex<double>> numerical_range(const FrozenStep& step, int points);

}  // namespace assay::reports
