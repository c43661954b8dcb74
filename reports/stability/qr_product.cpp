#include "reports/stability/qr_product.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace assay::reports {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLargest = 1e60, kSmallest = 1e-60;
constexpr std::size_t kMostHistory = 4096;

/// The same numbers on every machine.
RowMatrix some_basis(std::int64_t n, std::int64_t columns) {
  if (columns >= n) return RowMatrix::Identity(n, n);
  std::uint64_t state = 0x9e3779b97f4a7c15u;
  Eigen::MatrixXd random(n, columns);
  for (std::int64_t i = 0; i < n * columns; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    random(i / columns, i % columns) = static_cast<double>(state >> 11) / 9007199254740992.0 - 0.5;
  }
  const Eigen::HouseholderQR<Eigen::MatrixXd> qr(random);
  return qr.householderQ() * Eigen::MatrixXd::Identity(n, columns);
}

/// 97.5 % quantile of Student's t.
double student(int degrees) {
  static constexpr double kTable[] = {0,     12.71, 4.303, 3.182, 2.776, 2.571, 2.447,
                                      2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
                                      2.145, 2.131, 2.120, 2.110, 2.101, 2.093};
  return degrees < 20 ? kTable[degrees] : 2.09;
}

}  // namespace

double largest_singular(const Eigen::MatrixXd& A, Eigen::VectorXd& start) {
  if (A.cols() <= 16) return Eigen::JacobiSVD<Eigen::MatrixXd>(A).singularValues()(0);
  if (A.cols() <= 192) {  // many nearly equal ones: iterations would settle too early
    const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> gram(A.transpose() * A,
                                                              Eigen::EigenvaluesOnly);
    return std::sqrt(std::max(0.0, gram.eigenvalues().maxCoeff()));
  }
  if (start.size() != A.cols()) start = Eigen::VectorXd::LinSpaced(A.cols(), 1.0, 1.5);
  double value = 0;
  for (int i = 0; i < 200; ++i) {
    Eigen::VectorXd image = A * start;
    const double length = image.norm();
    start = A.transpose() * image;
    const double next = start.norm();
    if (!(next > 0)) break;
    start /= next;
    const bool settled = std::abs(length - value) <= 1e-10 * length;
    value = length;
    if (settled && i > 2) break;
  }
  return value;
}

QrProduct::QrProduct(std::int64_t n, std::int64_t columns, int every)
    : every_(every),
      X_(some_basis(n, columns)),
      R_(Eigen::MatrixXd::Identity(X_.cols(), X_.cols())),
      sums_(static_cast<std::size_t>(X_.cols()), 0.0) {}

void QrProduct::stepped() {
  ++steps_;
  ++since_;
  const double size = X_.cwiseAbs().maxCoeff();
  if (since_ >= every_ || !(size < kLargest && size > kSmallest)) orthonormalise();
}

void QrProduct::orthonormalise() {
  if (since_ == 0) return;
  since_ = 0;
  const std::int64_t p = X_.cols();
  const Eigen::HouseholderQR<Eigen::MatrixXd> qr(X_);
  const Eigen::MatrixXd R = qr.matrixQR().topRows(p).template triangularView<Eigen::Upper>();
  X_ = qr.householderQ() * Eigen::MatrixXd::Identity(X_.rows(), p);
  for (std::int64_t i = 0; i < p; ++i) {
    sums_[i] += R(i, i) == 0 ? -kInfinity : std::log(std::abs(R(i, i)));
  }
  R_ = R * R_;
  const double size = R_.cwiseAbs().maxCoeff();
  if (size > 0 && std::isfinite(size)) {
    R_ /= size;
    scale_ += std::log(size);
  }
  if (++orthonormalised_ % record_every_ != 0) return;
  history_.push_back(sums_);
  at_.push_back(steps_);
  if (history_.size() <= kMostHistory) return;
  std::size_t kept = 0;  // every other one: the sums stay exact
  for (std::size_t i = 1; i < history_.size(); i += 2, ++kept) {
    history_[kept] = history_[i];
    at_[kept] = at_[i];
  }
  history_.resize(kept);
  at_.resize(kept);
  record_every_ *= 2;
}

const RowMatrix& QrProduct::basis() {
  orthonormalise();
  return X_;
}

double QrProduct::log_norm() {
  orthonormalise();
  const double value = largest_singular(R_, start_);
  return value > 0 ? std::log(value) + scale_ : value == 0 ? -kInfinity : value;
}

Exponents QrProduct::exponents() {
  orthonormalise();
  Exponents out;
  const std::size_t p = sums_.size();
  const double T = static_cast<double>(std::max<std::int64_t>(1, steps_));
  for (std::size_t i = 0; i < p; ++i) out.value.push_back(sums_[i] / T);
  out.half_width.assign(p, std::numeric_limits<double>::quiet_NaN());
  // Stretches of at least four records: shorter ones are not independent of each other.
  const int batches = static_cast<int>(std::min<std::size_t>(20, history_.size() / 4));
  if (batches >= 4) {
    out.batches = batches;
    for (std::size_t i = 0; i < p; ++i) {
      double mean = 0, square = 0, before = 0, time = 0;
      for (int n = 1; n <= batches; ++n) {
        const std::size_t record = history_.size() * n / batches - 1;
        const double length = static_cast<double>(at_[record]) - time;
        const double rate = (history_[record][i] - before) / length;
        before = history_[record][i];
        time = static_cast<double>(at_[record]);
        mean += rate;
        square += rate * rate;
      }
      mean /= batches;
      const double variance =
          std::max(0.0, (square / batches - mean * mean)) * batches / (batches - 1);
      out.half_width[i] = student(batches - 1) * std::sqrt(variance / batches);
    }
  }
  // QR finds them in order only in the long run.
  std::vector<std::size_t> order(p);
  for (std::size_t i = 0; i < p; ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return out.value[a] > out.value[b]; });
  Exponents sorted = out;
  for (std::size_t i = 0; i < p; ++i) {
    sorted.value[i] = out.value[order[i]];
    sorted.half_width[i] = out.half_width[order[i]];
  }
  return sorted;
}

}  // namespace assay::reports
