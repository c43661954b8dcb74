#include "reports/spectrum/nonnormal.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <functional>

namespace assay::reports {
namespace {

using Eigen::MatrixXcd;
using Eigen::MatrixXd;
using Complex = std::complex<double>;

constexpr std::int64_t kMostPowers = 1 << 16;

std::vector<MatrixXd> matrices(const FrozenStep& step) {
  std::vector<MatrixXd> out;
  for (const SmallBlock& m : step.small) {
    MatrixXd A(m.order, m.order);
    A(0, 0) = m.a;
    if (m.order == 2) A << m.a, m.b, m.c, m.d;
    out.push_back(A);
  }
  for (const DenseBlock& block : step.dense) {
    out.push_back(
        Eigen::Map<const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(
            block.a.data(), block.n, block.n));
  }
  return out;
}

double norm_of(const MatrixXd& A) {
  if (A.rows() == 1) return std::abs(A(0, 0));
  if (A.rows() == 2) return block_norm({2, A(0, 0), A(0, 1), A(1, 0), A(1, 1), 0, 1});
  return Eigen::JacobiSVD<MatrixXd>(A).singularValues()(0);
}

double smallest_singular(const MatrixXd& A, Complex z) {
  const auto n = A.rows();
  if (n == 1) return std::abs(z - A(0, 0));
  if (n == 2) {  // σ_min = |det| / σ_max, and |A|_F² = σ_min² + σ_max²
    const Complex a = z - A(0, 0), d = z - A(1, 1);
    const double b = A(0, 1), c = A(1, 0), det = std::abs(a * d - b * c);
    const double sum = std::norm(a) + std::norm(d) + b * b + c * c;
    const double largest =
        std::sqrt((sum + std::sqrt(std::max(0.0, sum - 2 * det)) * std::sqrt(sum + 2 * det)) / 2);
    return largest == 0 ? 0 : det / largest;
  }
  const MatrixXcd shifted = z * MatrixXcd::Identity(n, n) - A.cast<Complex>();
  return Eigen::JacobiSVD<MatrixXcd>(shifted).singularValues()(n - 1);
}

double smallest_singular(const std::vector<MatrixXd>& blocks, Complex z) {
  double least = kInf;
  for (const MatrixXd& A : blocks) least = std::min(least, smallest_singular(A, z));
  return least;
}

/// Largest eigenvalue of the Hermitian part of e^{iθ} A.
double support(const MatrixXd& A, double theta) {
  const Complex turn = std::polar(1.0, theta);
  if (A.rows() == 1) return (turn * A(0, 0)).real();
  if (A.rows() == 2) {
    const double a = (turn * A(0, 0)).real(), d = (turn * A(1, 1)).real();
    const Complex b = (turn * A(0, 1) + std::conj(turn) * A(1, 0)) / 2.0;
    return (a + d) / 2 + std::hypot((a - d) / 2, std::abs(b));
  }
  const MatrixXcd H =
      (turn * A.cast<Complex>() + std::conj(turn) * A.transpose().cast<Complex>()) / 2.0;
  return Eigen::SelfAdjointEigenSolver<MatrixXcd>(H, Eigen::EigenvaluesOnly)
      .eigenvalues()
      .maxCoeff();
}

double support(const std::vector<MatrixXd>& blocks, double theta) {
  double most = -kInf;
  for (const MatrixXd& A : blocks) most = std::max(most, support(A, theta));
  return most;
}

/// Largest value of a smooth function on [lo, hi]: a grid, then golden sections around its best.
double maximum(const std::function<double(double)>& f, double lo, double hi, int points,
               int sections) {
  double best = lo, value = -kInf;
  const double step = (hi - lo) / points;
  for (int i = 0; i <= points; ++i) {
    const double x = lo + i * step, y = f(x);
    if (y > value) value = y, best = x;
  }
  const double ratio = (std::sqrt(5.0) - 1) / 2;
  double a = std::max(lo, best - step), b = std::min(hi, best + step);
  double x = b - ratio * (b - a), y = a + ratio * (b - a);
  double at_x = f(x), at_y = f(y);
  for (int i = 0; i < sections; ++i) {
    if (at_x > at_y) {
      b = y, y = x, at_y = at_x;
      at_x = f(x = b - ratio * (b - a));
    } else {
      a = x, x = y, at_x = at_y;
      at_y = f(y = a + ratio * (b - a));
    }
  }
  return std::max({value, at_x, at_y});
}

double kreiss_of(const std::vector<MatrixXd>& all, double radius) {
  if (radius > 1) return kInf;
  // Where |A| <= 1 the resolvent is at most 1 / (|z| - 1).
  std::vector<MatrixXd> blocks;
  bool small = true;
  for (const MatrixXd& A : all) {
    if (norm_of(A) <= 1) continue;
    blocks.push_back(A);
    small = small && A.rows() <= 2;
  }
  double best = 1;  // the limit |z| -> infinity
  if (blocks.empty()) return best;
  // Along rays, over |z| - 1 = 10^x; A is real, so half the plane will do.
  const int rays = small ? 48 : 12, points = small ? 24 : 8, sections = small ? 30 : 6;
  double best_angle = 0;
  const auto along = [&](double angle) {
    return maximum(
        [&](double x) {
          const double distance = std::pow(10.0, x);
          return distance / smallest_singular(blocks, std::polar(1 + distance, angle));
        },
        -6, 2, points, sections);
  };
  for (int i = 0; i <= rays; ++i) {
    const double angle = M_PI * i / rays, value = along(angle);
    if (value > best) best = value, best_angle = angle;
  }
  const double step = M_PI / rays;
  return std::max(best, maximum(along, best_angle - step, best_angle + step, 2, sections / 2));
}

void find_growth(const std::vector<MatrixXd>& blocks, NonNormal& out) {
  out.growth = 1;
  out.growth_complete = true;
  for (const MatrixXd& A : blocks) {
    MatrixXd P = A;
    bool complete = false;
    const std::int64_t most = A.rows() <= 2 ? kMostPowers : kMostPowers / (A.rows() * A.rows());
    for (std::int64_t n = 1; n <= most; ++n) {
      const double norm = norm_of(P);
      if (!(norm <= 1e100)) break;
      if (norm > out.growth) out.growth = norm, out.growth_at = n;
      if (norm <= 1) {
        complete = true;
        break;
      }
      P = P * A;
    }
    out.growth_complete = out.growth_complete && complete;
  }
}

}  // namespace

NonNormal non_normal(const FrozenStep& step) {
  const std::vector<MatrixXd> blocks = matrices(step);
  NonNormal out;
  for (const MatrixXd& A : blocks) out.norm = std::max(out.norm, norm_of(A));
  out.numerical_abscissa = support(blocks, 0);
  out.numerical_radius =
      maximum([&](double theta) { return support(blocks, theta); }, 0, M_PI, 48, 20);
  out.kreiss = kreiss_of(blocks, step_spectrum(step).radius);
  find_growth(blocks, out);
  return out;
}

std::vector<double> power_norms(const FrozenStep& step, std::int64_t count) {
  std::vector<double> norms(static_cast<std::size_t>(count) + 1, 0.0);
  for (const MatrixXd& A : matrices(step)) {
    MatrixXd P = MatrixXd::Identity(A.rows(), A.cols());
    for (double& norm : norms) {
      norm = std::max(norm, norm_of(P));
      P = P * A;
    }
  }
  return norms;
}

render::Grid pseudospectrum(const FrozenStep& step, double half_width, int points) {
  const std::vector<MatrixXd> blocks = matrices(step);
  render::Grid grid;
  for (int i = 0; i < points; ++i) {
    grid.x.push_back(-half_width + 2 * half_width * i / (points - 1));
  }
  grid.y = grid.x;
  for (const double y : grid.y) {
    for (const double x : grid.x) grid.values.push_back(smallest_singular(blocks, {x, y}));
  }
  return grid;
}

std::vector<Complex> numerical_range(const FrozenStep& step, int points) {
  // The support function of a convex set and its derivative give the boundary.
  const std::vector<MatrixXd> blocks = matrices(step);
  std::vector<Complex> boundary;
  const double h = 1e-5;
  for (int i = 0; i <= points; ++i) {
    const double theta = 2 * M_PI * i / points;
    const double s = support(blocks, theta);
    const double slope = (support(blocks, theta + h) - support(blocks, theta - h)) / (2 * h);
    boundary.push_back(std::polar(1.0, -theta) * Complex(s, -slope));
  }
  return boundary;
}

}  // namespace assay::reports
