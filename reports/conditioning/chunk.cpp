#include "reports/conditioning/chunk.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/recurrences/mdn_chunk.hpp"

namespace assay::reports {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<Rounded> rounded(const std::vector<double>& values) {
  std::vector<Rounded> out;
  for (const double value : values) out.push_back(Rounded::from(value));
  return out;
}

std::vector<double> doubles(const std::vector<Rounded>& values) {
  std::vector<double> out;
  for (const Rounded& value : values) out.push_back(value.value());
  return out;
}

bool has_zero(const std::vector<Rounded>& values) {
  return std::any_of(values.begin(), values.end(), [](const Rounded& x) { return x.value() == 0; });
}

std::vector<double> direct(const ChunkGates& gates) {
  const std::int64_t n = gates.n();
  const std::vector<Rounded> alpha = rounded(gates.alpha), beta = rounded(gates.beta);
  const bool delta = gates.mu.empty();
  const std::vector<Rounded> mu = delta ? alpha : rounded(gates.mu);
  std::vector<Rounded> a(n), m(n), c(n), gamma(n * n);
  for (std::int64_t i = 0; i < n; ++i) {
    a[i] = i == 0 ? alpha[0] : a[i - 1] * alpha[i];
    m[i] = i == 0 ? mu[0] : m[i - 1] * mu[i];
    c[i] = beta[i] * m[i] / a[i];
    if (i > 0) c[i] += c[i - 1];
    for (std::int64_t j = 0; j <= i; ++j) {
      gamma[i * n + j] =
          delta ? beta[j] * (a[i] / a[j]) : a[i] / m[j] * (j == 0 ? c[i] : c[i] - c[j - 1]);
    }
  }
  return doubles(gamma);
}

std::vector<double> log_delta(const ChunkGates& gates) {
  const std::int64_t n = gates.n();
  const std::vector<Rounded> alpha = rounded(gates.alpha), beta = rounded(gates.beta);
  std::vector<Rounded> A(n), gamma(n * n);
  for (std::int64_t i = 0; i < n; ++i) {
    A[i] = fn::log(alpha[i]);
    if (i > 0) A[i] += A[i - 1];
    for (std::int64_t j = 0; j <= i; ++j) gamma[i * n + j] = beta[j] * fn::exp(A[i] - A[j]);
  }
  return doubles(gamma);
}

std::vector<double> mu_or_zero(const ChunkGates& gates) {
  return gates.mu.empty() ? std::vector<double>(gates.alpha.size(), 0.0) : gates.mu;
}

}  // namespace

std::vector<double> true_coefficients(const ChunkGates& gates) {
  const std::vector<double> mu = mu_or_zero(gates);
  return mdn_coefficients(gates.n(), gates.alpha.data(), gates.beta.data(), mu.data()).gamma;
}

std::vector<double> coefficients(const ChunkGates& gates, CoefficientForm form, Format format) {
  const FormatScope scope(format);
  if (form == CoefficientForm::direct) return direct(gates);
  const std::int64_t n = gates.n();
  const std::vector<Rounded> alpha = rounded(gates.alpha), beta = rounded(gates.beta),
                             mu = rounded(mu_or_zero(gates));
  if (form == CoefficientForm::recursion) {
    return doubles(mdn_coefficients(n, alpha.data(), beta.data(), mu.data()).gamma);
  }
  const bool delta = gates.mu.empty();
  if (has_zero(alpha) || (!delta && (has_zero(beta) || has_zero(mu)))) {
    return std::vector<double>(n * n, kNan);
  }
  return delta ? log_delta(gates)
               : doubles(mdn_coefficients_log(n, alpha.data(), beta.data(), mu.data()).gamma);
}

CoefficientError coefficient_error(const std::vector<double>& truth,
                                   const std::vector<double>& computed, std::int64_t n) {
  CoefficientError error;
  double largest = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) largest = std::max(largest, truth[i * n + j]);
  }
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) {
      const double right = truth[i * n + j], value = computed[i * n + j];
      if (!std::isfinite(value)) {
        ++error.non_finite;
        continue;
      }
      const double off = std::abs(value - right);
      if (right > 1e-30) error.relative = std::max(error.relative, off / right);
      if (largest > 0) error.scaled = std::max(error.scaled, off / largest);
    }
  }
  return error;
}

ChunkRange chunk_range(const ChunkGates& gates) {
  const std::int64_t n = gates.n();
  const std::vector<double> gamma = true_coefficients(gates);
  ChunkRange range;
  range.smallest = kInf;
  range.largest_factor = range.largest_exponent = -kInf;
  const bool delta = gates.mu.empty();
  double A = 0, U = 0, l_before = -kInf;
  std::vector<double> l(n), Us(n), As(n);
  for (std::int64_t i = 0; i < n; ++i) {
    A += std::log(gates.alpha[i]);
    U += delta ? 0 : std::log(gates.mu[i]);
    As[i] = A;
    Us[i] = U;
    const double term = std::log(gates.beta[i]) + U - A, high = std::max(term, l_before);
    l[i] = std::isfinite(high) ? high + std::log(std::exp(term - high) + std::exp(l_before - high))
                               : high;
    l_before = l[i];
    for (std::int64_t j = 0; j <= i; ++j) {
      const double value = gamma[i * n + j];
      range.largest = std::max(range.largest, value);
      if (value > 0) range.smallest = std::min(range.smallest, value);
      const double factor = delta ? -As[j] : std::max(As[i] - Us[j], l[i]);
      range.largest_factor = std::max(range.largest_factor, factor / std::log(10.0));
      range.largest_exponent =
          std::max(range.largest_exponent, delta ? As[i] - As[j] : As[i] + l[i] - Us[j]);
      if (delta || j == 0) continue;
      const double left = -std::expm1(l[j - 1] - l[i]);
      range.cancelled_digits = std::max(range.cancelled_digits, left > 0 ? -std::log10(left) : 16);
    }
  }
  // L_ij = α_i η_j (k_i · k_j) γ_{i-1,j}
  Eigen::MatrixXd L = Eigen::MatrixXd::Identity(n, n);
  for (std::int64_t i = 1; i < n; ++i) {
    for (std::int64_t j = 0; j < i; ++j) {
      double product = 0;
      for (std::int64_t d = 0; d < gates.K; ++d) {
        product += gates.k[i * gates.K + d] * gates.k[j * gates.K + d];
      }
      L(i, j) = gates.alpha[i] * (delta ? 1 : gates.eta[j]) * product * gamma[(i - 1) * n + j];
    }
  }
  if (!L.allFinite()) {
    range.condition = range.inverse_norm = kInf;
    return range;
  }
  const Eigen::BDCSVD<Eigen::MatrixXd> svd(L);
  range.condition = svd.singularValues()(0) / svd.singularValues()(n - 1);
  range.inverse_norm = 1 / svd.singularValues()(n - 1);
  return range;
}

}  // namespace assay::reports
