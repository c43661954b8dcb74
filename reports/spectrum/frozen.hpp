// One step, frozen: the transition A_t as small blocks, and what one reads off them.
//
// For operations with a closed form A_t is orthogonally similar to a direct sum of 1x1 and 2x2
// blocks, so that eigenvalues, 2-norm, numerical range, resolvent and powers of A_t are those of
// the blocks. With κ = |k|²:
//
//   mdn     [[α(1-βηκ), -βμ], [αηκ, μ]] along the key, [[α, -βμ], [0, μ]] K-1 times across it;
//           det = αμ for both, trace α+μ-αβηκ and α+μ                    [MDN v1, Eqs. 58-60]
//   delta, gdn    α(1-βκ), and α K-1 times (the spectral radius is α, not α(1-β))
//   comba   [[1-β|k|p₁, -β|k|p₂], [0, 1]] α on span{k, p}, p = p₁ k/|k| + p₂ (unit across), α K-2
//   times gla, hgrn2    the decays;   ssd, retention, linear_attention    one decay K times
//
// Every other operation that has a `transition` is handed over as dense matrices.
#pragma once

#include <cmath>
#include <complex>
#include <string>
#include <vector>

#include "reports/trace/walk.hpp"

namespace assay::reports {

/// [[a, b], [c, d]], or the number a when order is 1; `count` copies of it.
struct SmallBlock {
  int order = 1;
  double a = 0, b = 0, c = 0, d = 0;
  double det = 0;  // as the operation knows it, without cancellation
  std::int64_t count = 1;
};

/// n by n, row-major.
struct DenseBlock {
  std::int64_t n = 0;
  std::vector<double> a;
};

struct FrozenStep {
  std::vector<SmallBlock> small;
  std::vector<DenseBlock> dense;
};

/// What one frozen step says.
struct StepSpectrum {
  double radius = 0;  // spectral radius of A_t
  double norm = 0;    // |A_t|_2
  std::complex<double>
      lead;  // eigenvalue of the key's block (dense: of all) largest in modulus, Im >= 0
  std::complex<double> second;  // the other one of that block (dense: the next), or lead again
  /// Eigenvalues across the key, real, each K-1 times or so; NaN: there is no such block.
  double across[2] = {std::nan(""), std::nan("")};
  bool has_complex = false, has_negative = false;  // any eigenvalue not real; any with Re < 0
  /// Smallest of 1 - det, 1 + tr + det, 1 - tr + det over the 2x2 blocks (1 - |λ| for others): > 0
  /// if and only if all eigenvalues lie inside the unit circle.
  double jury = 0;
};

/// How the steps of an operation are turned into blocks.
class FrozenReader {
 public:
  /// Throws InputError when the operation has no transition.
  FrozenReader(const Schema& schema, bool force_dense = false);
  bool closed() const { return form_ != Form::dense; }
  /// Replaces `out`, whose memory is reused.
  void read(Step& step, FrozenStep& out);

 private:
  enum class Form { dense, mdn, delta, comba, diagonal, scalar, identity };
  void read_dense(Step& step, FrozenStep& out);
  Form form_ = Form::dense;
  std::string op_;
  int k_ = -1, p_ = -1, alpha_ = -1, mu_ = -1, beta_ = -1, eta_ = -1;
  std::vector<double> A_;
};

/// Blocks of one MDN step for a key of squared length kappa.
void mdn_blocks(double alpha, double mu, double beta, double eta, double kappa, std::int64_t K,
                std::vector<SmallBlock>& out);

/// Eigenvalues of a small block, the larger modulus first; equal for order 1.
void block_eigenvalues(const SmallBlock& block, std::complex<double>& first,
                       std::complex<double>& second);
double block_norm(const SmallBlock& block);

StepSpectrum step_spectrum(const FrozenStep& step);

/// All eigenvalues of A_t with their multiplicities, sorted by real, then imaginary part.
std::vector<std::complex<double>> all_eigenvalues(const FrozenStep& step);

/// The same by the general eigen-solver from the operation's own `transition`: shares nothing with
/// the closed forms.
std::vector<std::complex<double>> dense_eigenvalues(Step& step);

/// Largest distance of two sets of eigenvalues matched greedily, nearest first.
double eigenvalue_distance(std::vector<std::complex<double>> a,
                           std::vector<std::complex<double>> b);

}  // namespace assay::reports
