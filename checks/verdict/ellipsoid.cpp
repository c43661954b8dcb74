#include "checks/verdict/ellipsoid.hpp"

#include <cmath>
#include <numeric>

namespace assay {
namespace {

// AVX2 without FMA: the same bits as the baseline.
#define ASSAY_CLONES __attribute__((target_clones("avx2", "default")))

/// C [n,n] = A B; only columns from the diagonal on when `upper`.
ASSAY_CLONES void multiply(std::int64_t n, const double* A, const double* B, double* C,
                           bool upper) {
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t first = upper ? i : 0;
    double* row = C + i * n;
    for (std::int64_t j = first; j < n; ++j) row[j] = 0;
    for (std::int64_t k = 0; k < n; ++k) {
      const double a = A[i * n + k];
      if (a == 0) continue;
      const double* from = B + k * n;
      for (std::int64_t j = first; j < n; ++j) row[j] += a * from[j];
    }
  }
}

}  // namespace

void Ellipsoid::enclose_box(const std::vector<double>& radius) {
  n_ = static_cast<std::int64_t>(radius.size());
  const double sum = std::accumulate(radius.begin(), radius.end(), 0.0);
  P_.assign(n_ * n_, 0.0);
  for (std::int64_t i = 0; i < n_; ++i) P_[i * n_ + i] = radius[i] * sum * (1 + 0x1p-40);
}

double Ellipsoid::trace() const {
  double sum = 0;
  for (std::int64_t i = 0; i < n_; ++i) sum += P_[i * n_ + i];
  return sum;
}

double Ellipsoid::half_width(std::int64_t i) const {
  return std::sqrt(P_[i * n_ + i]) * (1 + 0x1p-40);
}

double Ellipsoid::width(const std::vector<double>& c) const {
  const auto m = static_cast<std::int64_t>(c.size());
  double sum = 0, norm2 = 0;
  for (std::int64_t i = 0; i < m; ++i) {
    double row = 0;
    for (std::int64_t j = 0; j < m; ++j) row += P_[i * n_ + j] * c[j];
    sum += c[i] * row;
    norm2 += c[i] * c[i];
  }
  // The products of both signs lose less than 4 (n + 2) 2^-53 |c|² tr P.
  return std::sqrt(sum + 4 * static_cast<double>(n_ + 2) * 0x1p-53 * norm2 * trace()) *
         (1 + 0x1p-40);
}

void Ellipsoid::advance(const std::vector<double>& A, const std::vector<double>& noise) {
  AP_.resize(n_ * n_);
  transposed_.resize(n_ * n_);
  double norm2 = 0;
  for (std::int64_t i = 0; i < n_; ++i) {
    for (std::int64_t j = 0; j < n_; ++j) {
      transposed_[j * n_ + i] = A[i * n_ + j];
      norm2 += A[i * n_ + j] * A[i * n_ + j];
    }
  }
  // What the doubles below may lose: 8 (n + 2) 2^-53 |A|_F² tr P, in the Frobenius norm.
  const double lost = 8 * static_cast<double>(n_ + 2) * 0x1p-53 * norm2 * trace();
  multiply(n_, A.data(), P_.data(), AP_.data(), false);
  multiply(n_, AP_.data(), transposed_.data(), P_.data(), true);
  for (std::int64_t i = 0; i < n_; ++i) {
    P_[i * n_ + i] += lost;
    for (std::int64_t j = 0; j < i; ++j) P_[i * n_ + j] = P_[j * n_ + i];
  }
  const double sum = std::accumulate(noise.begin(), noise.end(), 0.0);
  const double carried = std::sqrt(trace());
  if (sum == 0) return;
  // (1 + 1/tau) X + (1 + tau) Y with the tau of least trace, tau = sqrt(tr X / tr Y).
  const double tau = carried / sum;
  const double keep = carried == 0 ? 0 : (1 + 1 / tau) * (1 + 0x1p-40);
  const double add = (1 + tau) * (1 + 0x1p-40) * sum;
  for (double& x : P_) x *= keep;
  for (std::int64_t i = 0; i < n_; ++i) P_[i * n_ + i] += add * noise[i];
}

}  // namespace assay
