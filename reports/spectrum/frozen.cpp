#include "reports/spectrum/frozen.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

#include "reference/case/text.hpp"

namespace assay::reports {
namespace {

using Complex = std::complex<double>;
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

double dot(std::int64_t n, const double* a, const double* b) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

void sort_eigenvalues(std::vector<Complex>& values) {
  std::sort(values.begin(), values.end(), [](const Complex& a, const Complex& b) {
    return a.real() != b.real() ? a.real() < b.real() : a.imag() < b.imag();
  });
}

SmallBlock number(double value, std::int64_t count) { return {1, value, 0, 0, 0, value, count}; }

void see(const Complex& value, StepSpectrum& s) {
  s.has_complex = s.has_complex || value.imag() != 0;
  s.has_negative = s.has_negative || value.real() < 0;
  s.radius = std::max(s.radius, std::abs(value));
}

void see_dense(const DenseBlock& block, StepSpectrum& s) {
  const Eigen::Map<const Matrix> A(block.a.data(), block.n, block.n);
  const Eigen::EigenSolver<Eigen::MatrixXd> solver(A, false);
  std::vector<Complex> values(solver.eigenvalues().data(), solver.eigenvalues().data() + block.n);
  std::stable_sort(values.begin(), values.end(),
                   [](const Complex& a, const Complex& b) { return std::abs(a) > std::abs(b); });
  for (const Complex& value : values) {
    see(value, s);
    s.jury = std::min(s.jury, 1 - std::abs(value));
  }
  if (std::abs(values[0]) >= std::abs(s.lead)) {
    s.lead = values[0].imag() < 0 ? std::conj(values[0]) : values[0];
    s.second = values[std::min<std::int64_t>(1, block.n - 1)];
  }
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> gram(A.transpose() * A,
                                                            Eigen::EigenvaluesOnly);
  s.norm = std::max(s.norm, std::sqrt(std::max(0.0, gram.eigenvalues().maxCoeff())));
}

}  // namespace

FrozenReader::FrozenReader(const Schema& schema, bool force_dense) : op_(schema.op) {
  const auto index = [&](const char* name) { return input_index(schema, name); };
  k_ = index("k");
  p_ = index("p");
  alpha_ = index("alpha");
  mu_ = index("mu");
  beta_ = index("beta");
  eta_ = index("eta");
  if (force_dense) return;
  // Whose formulas stand at the top of the header.
  if (op_ == "mdn") form_ = Form::mdn;
  if (op_ == "delta" || op_ == "gdn") form_ = Form::delta;
  if (op_ == "comba") form_ = Form::comba;
  if (op_ == "linear_attention") form_ = Form::identity;
  if (op_ == "gla" || op_ == "ssd") form_ = op_ == "gla" ? Form::diagonal : Form::scalar;
  if (op_ == "hgrn2" || op_ == "retention") {
    form_ = op_ == "hgrn2" ? Form::diagonal : Form::scalar;
    alpha_ = index(op_ == "hgrn2" ? "f" : "gamma");
  }
}

void mdn_blocks(double alpha, double mu, double beta, double eta, double kappa, std::int64_t K,
                std::vector<SmallBlock>& out) {
  const double ae = alpha * eta * kappa, det = alpha * mu, b = -(beta * mu);
  out.push_back({2, alpha - beta * ae, b, ae, mu, det, 1});
  if (K > 1) out.push_back({2, alpha, b, 0, mu, det, K - 1});
}

void FrozenReader::read(Step& step, FrozenStep& out) {
  out.small.clear();
  out.dense.clear();
  const std::int64_t K = step.context->K;
  const auto value = [&](int input, double missing) {
    return input < 0 ? missing : *step.x(input);
  };
  switch (form_) {
    case Form::dense:
      return read_dense(step, out);
    case Form::mdn: {
      const double* k = step.x(k_);
      return mdn_blocks(value(alpha_, 1), value(mu_, 0), value(beta_, 1), value(eta_, 1),
                        dot(K, k, k), K, out.small);
    }
    case Form::delta: {
      const double* k = step.x(k_);
      const double alpha = value(alpha_, 1);
      out.small.push_back(number(alpha * (1 - value(beta_, 1) * dot(K, k, k)), 1));
      if (K > 1) out.small.push_back(number(alpha, K - 1));
      return;
    }
    case Form::comba: {
      const double *k = step.x(k_), *p = step.x(p_);
      const double alpha = value(alpha_, 1), beta = value(beta_, 1), kp = dot(K, k, p);
      if (K == 1) {
        out.small.push_back(number(alpha * (1 - beta * kp), 1));
        return;
      }
      // |k| p₂ as the length of the part of p across k, without cancellation.
      const double kk = dot(K, k, k);
      double across = 0;
      for (std::int64_t i = 0; i < K && kk > 0; ++i) {
        const double rest = p[i] - kp / kk * k[i];
        across += rest * rest;
      }
      const double a = alpha * (1 - beta * kp);
      out.small.push_back({2, a, -alpha * beta * std::sqrt(kk * across), 0, alpha, a * alpha, 1});
      if (K > 2) out.small.push_back(number(alpha, K - 2));
      return;
    }
    case Form::diagonal:
      for (std::int64_t i = 0; i < K; ++i) out.small.push_back(number(step.x(alpha_)[i], 1));
      return;
    case Form::scalar:
      out.small.push_back(number(*step.x(alpha_), K));
      return;
    case Form::identity:
      out.small.push_back(number(1, K));
      return;
  }
}

void FrozenReader::read_dense(Step& step, FrozenStep& out) {
  const std::int64_t n = step.recurrence->transition(*step.context, step.x, step.state_prev, A_);
  if (n == 0) throw InputError(op_ + " has no transition: there is no spectrum to show");
  const std::size_t square = static_cast<std::size_t>(n * n);
  for (std::size_t at = 0; at < A_.size(); at += square) {
    out.dense.push_back(
        {n, std::vector<double>(A_.begin() + static_cast<std::ptrdiff_t>(at),
                                A_.begin() + static_cast<std::ptrdiff_t>(at + square))});
  }
}

void block_eigenvalues(const SmallBlock& m, Complex& first, Complex& second) {
  if (m.order == 1) {
    first = second = m.a;
    return;
  }
  const double half = (m.a + m.d) / 2, gap = (m.a - m.d) / 2;
  const double discriminant = gap * gap + m.b * m.c;
  if (discriminant < 0) {
    first = {half, std::sqrt(-discriminant)};
    second = std::conj(first);
    return;
  }
  const double root = std::sqrt(discriminant);
  const double large = half >= 0 ? half + root : half - root;
  first = large;
  second = large == 0 ? 0 : m.det / large;  // the difference half - root would cancel
}

double block_norm(const SmallBlock& m) {
  if (m.order == 1) return std::abs(m.a);
  return (std::hypot(m.a + m.d, m.b - m.c) + std::hypot(m.a - m.d, m.b + m.c)) / 2;
}

StepSpectrum step_spectrum(const FrozenStep& step) {
  StepSpectrum s;
  s.jury = kInf;
  bool lead = false;
  for (const SmallBlock& m : step.small) {
    Complex first, second;
    block_eigenvalues(m, first, second);
    see(first, s);
    see(second, s);
    s.norm = std::max(s.norm, block_norm(m));
    if (m.order == 2) {
      const double trace = m.a + m.d;
      s.jury = std::min({s.jury, 1 - m.det, 1 + trace + m.det, 1 - trace + m.det});
    } else {
      s.jury = std::min(s.jury, 1 - std::abs(m.a));
    }
    if (!lead) {  // the key's block stands first
      s.lead = first;
      s.second = second;
      lead = true;
    } else if (std::isnan(s.across[0]) && first.imag() == 0) {
      s.across[0] = first.real();
      s.across[1] = second.real();
    }
  }
  for (const DenseBlock& block : step.dense) see_dense(block, s);
  return s;
}

std::vector<Complex> all_eigenvalues(const FrozenStep& step) {
  std::vector<Complex> values;
  for (const SmallBlock& m : step.small) {
    Complex first, second;
    block_eigenvalues(m, first, second);
    for (std::int64_t i = 0; i < m.count; ++i) {
      values.push_back(first);
      if (m.order == 2) values.push_back(second);
    }
  }
  for (const DenseBlock& block : step.dense) {
    const Eigen::Map<const Matrix> A(block.a.data(), block.n, block.n);
    const Eigen::EigenSolver<Eigen::MatrixXd> solver(A, false);
    for (std::int64_t i = 0; i < block.n; ++i) values.push_back(solver.eigenvalues()[i]);
  }
  sort_eigenvalues(values);
  return values;
}

std::vector<Complex> dense_eigenvalues(Step& step) {
  FrozenReader reader(step.problem->schema, true);
  FrozenStep frozen;
  reader.read(step, frozen);
  return all_eigenvalues(frozen);
}

double eigenvalue_distance(std::vector<Complex> a, std::vector<Complex> b) {
  if (a.size() != b.size()) return kInf;
  double worst = 0;
  for (const Complex& value : a) {
    const auto nearest =
        std::min_element(b.begin(), b.end(), [&](const Complex& x, const Complex& y) {
          return std::abs(x - value) < std::abs(y - value);
        });
    const double distance = std::abs(*nearest - value);
    if (!(distance <= worst)) worst = distance;
    b.erase(nearest);
  }
  return worst;
}

}  // namespace assay::reports
