#include "proofs/engine/lyapunov.hpp"

#include <Eigen/Dense>
#include <array>
#include <cmath>

namespace assay::proofs {
namespace {

using Matrix2 = Eigen::Matrix2d;
using Vector = Eigen::VectorXd;

double as_double(const Rational& q) { return Functions<Rational>::to_double(q); }

/// P_from - A^T P_to A - t I > 0, congruent to it by diag(weight, 1).
struct Condition {
  int from, to;
  Matrix2 A;
  double weight;
};

class ContractionProblem {
 public:
  explicit ContractionProblem(const FormsRequest& request) {
    const double s[] = {as_double(request.s0), as_double(request.s1)};
    corners_ = s[0] == s[1] ? 1 : 2;
    mu_ = as_double(request.mu_max);
    const double middle = 0.5 * (s[0] + s[1]);
    kappa_ = middle * std::sqrt(2 * (1 - mu_ * mu_));
    types_ = static_cast<int>(request.accumulate.size() + request.turn.size());
    const auto samples = [](double l, double r, bool first) {
      std::vector<double> eta;
      const int n = first ? 6 : 7;
      for (int i = 0; i < n; ++i) {
        eta.push_back(l + (r - l) * (first ? (i + 1.0) / n : i / (n - 1.0)));
      }
      if (first) eta.insert(eta.end(), {r * 1e-3, r / 40});
      return eta;
    };
    int from = 0;
    const auto add_type = [&](bool acc, bool turn, double l, double r) {
      for (const double eta : samples(l, r, acc && turn)) {
        for (const double mu : {0.0, mu_}) {
          for (int i = 0; i < corners_; ++i) {
            const double a = 1 / (1 + s[i] * s[i] * eta * eta);
            if (acc) {
              add(from, a, 0, a * eta, mu, eta);
              add(from, a, 0, 0, mu, eta);
            }
            if (!turn) continue;
            add(from, a, -(1 - a) * mu, 0, mu, eta);
            for (int j = 0; j < corners_; ++j) {
              const double w = eta / (1 + s[j] * s[j] * eta * eta);
              add(from, a - (1 - a) * w, -(1 - a) * mu, w, mu, eta);
            }
          }
        }
      }
      ++from;
    };
    const auto& acc = request.accumulate;
    const auto& turn = request.turn;
    add_type(true, true, 0, as_double(acc[0]));
    for (std::size_t i = 1; i < acc.size(); ++i) {
      add_type(true, false, as_double(acc[i - 1]), as_double(acc[i]));
    }
    for (std::size_t i = 1; i < turn.size(); ++i) {
      add_type(false, true, as_double(turn[i - 1]), as_double(turn[i]));
    }
    const double X = std::pow(s[1] * as_double(request.eta_max), 2);
    for (const double beta : {0.0, X / (1 + X)}) add(from, 0, -beta * mu_, 0, mu_, 1);
  }

  int types() const { return types_; }
  double kappa() const { return kappa_; }

  /// Unknowns: c of the first form, then x, p, c of the others, then t. Maximises t.
  bool solve(Vector& v) const {
    const int n = 3 * types_ - 1;
    v = Vector::Zero(n);
    v[0] = 1;
    for (int i = 1; i < types_; ++i) {
      v[index(i, 0)] = 0.9;
      v[index(i, 2)] = 1;
    }
    v[n - 1] = -100;
    double best = -1e9;
    for (double tau = 100; tau < 1e9; tau *= 2) {
      for (int it = 0; it < 100; ++it) {
        Vector g;
        Eigen::MatrixXd H;
        double value;
        if (!evaluate(v, tau, value, &g, &H)) return false;
        const Vector step = -H.ldlt().solve(g);
        const double decrement = -g.dot(step);
        if (!(decrement > 1e-7)) break;
        double length = 1;
        double trial = 0;
        while (length > 1e-10 && (!evaluate(v + length * step, tau, trial, nullptr, nullptr) ||
                                  trial > value - 0.1 * length * decrement)) {
          length *= 0.5;
        }
        if (length <= 1e-10) break;
        v += length * step;
      }
      const double t = v[n - 1];
      const double gap = 2.0 * static_cast<double>(conditions_.size()) / tau;
      if (t > 0 && t - best < 0.02 * t) break;  // the margin grows no more
      if (t > 1e-4 && gap < t) break;
      if (t + gap < 1e-9) return false;
      best = t;
    }
    return v[n - 1] > 1e-9;
  }
  int index(int type, int entry) const { return type == 0 ? 0 : 3 * type - 2 + entry; }

 private:
  void add(int from, double a00, double a01, double a10, double a11, double eta) {
    Matrix2 A;
    A << a00, a01 / kappa_, a10 * kappa_, a11;
    for (int to = 0; to < types_; ++to) {
      // In the direction of S margins are of the order of κ²; from the first form to itself that
      // direction is neutral at η = 0.
      const bool neutral = from == 0 && to == 0;
      conditions_.push_back(
          {from, to, A, neutral ? 1 / (kappa_ * eta) : 1 / std::min(1.0, kappa_)});
    }
  }
  /// -τ t - Σ log det - Σ log of the distances to the bounds of the entries. False outside.
  bool evaluate(const Vector& v, double tau, double& value, Vector* g, Eigen::MatrixXd* H) const {
    const int n = static_cast<int>(v.size());
    value = -tau * v[n - 1];
    if (g) {
      *g = Vector::Zero(n);
      *H = Eigen::MatrixXd::Zero(n, n);
      (*g)[n - 1] -= tau;
    }
    const auto bound = [&](int i, double lo, double hi) {
      if (!(v[i] > lo && v[i] < hi)) return false;
      value -= std::log(v[i] - lo) + std::log(hi - v[i]);
      if (g) {
        const double a = 1 / (v[i] - lo), b = 1 / (hi - v[i]);
        (*g)[i] += b - a;
        (*H)(i, i) += a * a + b * b;
      }
      return true;
    };
    if (!bound(0, 1e-3, 40)) return false;
    for (int i = 1; i < types_; ++i) {
      if (!bound(index(i, 0), 1e-4, 1.0000001) || !bound(index(i, 1), -8, 8) ||
          !bound(index(i, 2), 1e-3, 40)) {
        return false;
      }
    }
    const auto form = [&](int type) {
      Matrix2 P;
      if (type == 0) {
        P << 1, 0, 0, v[0];
      } else {
        P << v[index(type, 0)], v[index(type, 1)], v[index(type, 1)], v[index(type, 2)];
      }
      return P;
    };
    std::vector<Matrix2> forms;
    for (int i = 0; i < types_; ++i) forms.push_back(form(i));
    for (const Condition& c : conditions_) {
      Matrix2 W = Matrix2::Identity();
      W(0, 0) = c.weight;
      const Matrix2 F = W * (forms[c.from] - c.A.transpose() * forms[c.to] * c.A) * W -
                        v[n - 1] * Matrix2::Identity();
      const double det = F.determinant();
      if (!(F(0, 0) > 0 && det > 0)) return false;
      value -= std::log(det);
      if (!g) continue;
      const Matrix2 G = F.inverse();
      std::array<int, 7> at;
      std::array<Matrix2, 7> B;  // G dF
      int count = 0;
      const auto derivative = [&](int i, const Matrix2& dF) {
        at[count] = i;
        B[count++] = G * dF;
      };
      Matrix2 E[3];
      E[0] << 1, 0, 0, 0;
      E[1] << 0, 1, 1, 0;
      E[2] << 0, 0, 0, 1;
      for (int e = 0; e < 3; ++e) {
        if (c.from != 0 || e == 2) derivative(index(c.from, c.from ? e : 0), W * E[e] * W);
      }
      for (int e = 0; e < 3; ++e) {
        if (c.to != 0 || e == 2) {
          derivative(index(c.to, c.to ? e : 0), -(W * c.A.transpose() * E[e] * c.A * W));
        }
      }
      derivative(n - 1, -Matrix2::Identity());
      for (int i = 0; i < count; ++i) {
        (*g)[at[i]] -= B[i].trace();
        for (int j = 0; j <= i; ++j) {
          const double h = (B[i].cwiseProduct(B[j].transpose())).sum();
          (*H)(at[i], at[j]) += h;
          if (i != j) (*H)(at[j], at[i]) += h;
        }
      }
    }
    return true;
  }

  int corners_, types_;
  double mu_, kappa_;
  std::vector<Condition> conditions_;
};

/// x as a fraction with a denominator of 10^digits, in lowest terms.
std::string rounded(double x, int digits) {
  Rational::Number n(std::llround(x * std::pow(10.0, digits)));
  for (int i = 0; i < digits; ++i) n /= 10;
  return Rational(n).to_string();
}

}  // namespace

std::optional<Json> find_forms(const FormsRequest& request) {
  const ContractionProblem problem(request);
  Vector v;
  if (!problem.solve(v)) return std::nullopt;
  // M = κ^-1 times the scaled momentum: p carries κ, c carries κ².
  const double kappa = problem.kappa();
  const int digits = 7 + static_cast<int>(std::ceil(std::max(0.0, -2 * std::log10(kappa))));
  Json forms = Json::array();
  forms.push_back({"1", "0", rounded(v[0] * kappa * kappa, digits)});
  for (int i = 1; i < problem.types(); ++i) {
    forms.push_back({rounded(v[problem.index(i, 0)], digits),
                     rounded(v[problem.index(i, 1)] * kappa, digits),
                     rounded(v[problem.index(i, 2)] * kappa * kappa, digits)});
  }
  const auto grid = [](const std::vector<Rational>& g) {
    Json list = Json::array();
    for (const Rational& q : g) list.push_back(q.to_string());
    return list;
  };
  return Json{{"s", {request.s0.to_string(), request.s1.to_string()}},
              {"accumulate", grid(request.accumulate)},
              {"turn", grid(request.turn)},
              {"forms", forms}};
}

}  // namespace assay::proofs
