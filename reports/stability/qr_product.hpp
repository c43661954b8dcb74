// Norm and Lyapunov exponents of a long product of matrices, by re-orthonormalisation.
//
// Columns X are multiplied by the factors from the left, X <- A_t X, and every few steps replaced
// by the orthonormal factor of X = Q R. The product on the first columns is Q (R_m ... R_1), and
// the exponents are the means of log |R_ii| per step. Nothing over- or underflows: R_m ... R_1 is
// kept with an own exponent.   [Benettin et al. 1980; Geist, Parlitz, Lauterborn 1990]
#pragma once

#include <Eigen/Dense>
#include <cstdint>
#include <vector>

#include "reports/stability/exponents.hpp"

namespace assay::reports {

using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

class QrProduct {
 public:
  /// Order n, the first `columns` of a fixed random orthogonal basis (all: the identity),
  /// re-orthonormalised every `every` steps, or sooner when numbers get large or small.
  QrProduct(std::int64_t n, std::int64_t columns, int every);

  /// Orthonormal columns to start from instead. Those that the transposed product ended with are
  /// nearly the directions that this product amplifies most, in their order: then the exponents are
  /// those of the whole product already after a few hundred steps.
  void start_from(const RowMatrix& basis) { X_ = basis; }
  /// The orthonormal columns at the end.
  const RowMatrix& basis();

  /// Multiply this by the next factor, then call `stepped`. Row-major [n, columns].
  RowMatrix& columns() { return X_; }
  void stepped();

  /// log |product|_2 on the columns: exact up to rounding when there are n of them, else a lower
  /// bound. -inf for the zero matrix.
  double log_norm();
  Exponents exponents();
  bool fresh() const { return since_ == 0; }  // just re-orthonormalised: log_norm is cheap
  std::int64_t steps() const { return steps_; }

 private:
  void orthonormalise();

  int every_, since_ = 0;
  std::int64_t steps_ = 0;
  RowMatrix X_;
  Eigen::MatrixXd R_;  // R_m ... R_1 / e^scale
  double scale_ = 0;
  std::vector<double> sums_;
  std::vector<std::vector<double>>
      history_;  // sums at every `record_every_`-th re-orthonormalisation
  std::int64_t orthonormalised_ = 0, record_every_ = 1;
  std::vector<std::int64_t> at_;
  Eigen::VectorXd start_;
};

/// Largest singular value, to a relative 1e-10 or so; `start` is warm for the next call.
double largest_singular(const Eigen::MatrixXd& A, Eigen::VectorXd& start);

}  // namespace assay::reports
