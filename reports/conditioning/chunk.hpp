// The coefficients of a chunk of Momentum DeltaNet, three ways, in the formats that kernels use.
//
//   direct     γ_ij = (ᾱ_i / μ̄_j) (c_i - c_{j-1}), c_i = Σ_{r<=i} β_r μ̄_r / ᾱ_r      [MDN v1, Eq.
//   9] log        exp(A_i + ℓ_i - U_j) (1 - exp(ℓ_{j-1} - ℓ_i))                          [MDN v1,
//   App. D] recursion  γ_ij = α_i γ_{i-1,j} + β_i m_ij, m_ij = μ_i m_{i-1,j}: no subtraction, no
//   division
//
// delta and gdn are μ = 0, η = 1: direct β_j ᾱ_i / ᾱ_j, log β_j exp(A_i - A_j).
//
// The truth is the recursion in double. For gates >= 0 every operation of it adds at most 2^-53 of
// relative error, at most 3 C of them in a row, and nothing cancels: some 2e-14 for C = 64, far
// below what any of the formats can do.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "reference/scalars/rounded.hpp"

namespace assay::reports {

enum class CoefficientForm { direct, log, recursion };
inline constexpr std::array<const char*, 3> kFormNames = {"direct products", "log domain",
                                                          "recursion"};
inline constexpr std::array<Format, 3> kFormats = {Format::fp32, Format::fp16, Format::bf16};
inline constexpr std::array<const char*, 3> kFormatNames = {"fp32", "fp16", "bf16"};

/// The gates of n steps and their keys; mu empty: the delta rule.
struct ChunkGates {
  std::vector<double> alpha, beta, mu, eta;  // [n]
  std::vector<double> k;                     // [n, K]
  std::int64_t K = 0;
  std::int64_t n() const { return static_cast<std::int64_t>(alpha.size()); }
};

struct CoefficientError {
  double relative = 0;  // largest |computed - true| / true over γ_ij > 1e-30
  double scaled = 0;    // largest |computed - true| / largest true γ of the chunk
  std::int64_t non_finite = 0;
};

/// γ as computed in `format`, row-major lower triangle [n, n]. An operation on numbers that the
/// form is not defined for gives NaN (a logarithm of 0).
std::vector<double> coefficients(const ChunkGates& gates, CoefficientForm form, Format format);
std::vector<double> true_coefficients(const ChunkGates& gates);

CoefficientError coefficient_error(const std::vector<double>& truth,
                                   const std::vector<double>& computed, std::int64_t n);

struct ChunkRange {
  double largest = 0, smallest = 0;  // of the true γ_ij, j <= i, that are not 0
  double largest_factor = 0;    // log10 of the largest number that direct products meet on the way
  double largest_exponent = 0;  // of the log form: exp of it must not overflow (fp32: 88.72)
  double cancelled_digits = 0;  // decimal digits lost in 1 - exp(ℓ_{j-1} - ℓ_i)
  /// 2-norm condition number of I + (P K̂ᵀ) ∘ Γ⁻: what the triangular solve can amplify.
  double condition = 1;
  double inverse_norm = 1;  // |(I + ...)⁻¹|₂; as large as products of steps
};
ChunkRange chunk_range(const ChunkGates& gates);

}  // namespace assay::reports
