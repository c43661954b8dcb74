// A polygon in the plane of (|S|, |M|) along one direction that every step of the coupled box maps
// into itself: grown in floating point for a slightly larger system, rounded, and handed to the
// checker.
#include <algorithm>
#include <cmath>

#include "proofs/checker/check.hpp"
#include "proofs/engine/find.hpp"
#include "proofs/engine/gate_box.hpp"

namespace assay::proofs {
namespace {

struct Point {
  double x, y;
};
using Points = std::vector<Point>;

double cross(const Point& o, const Point& a, const Point& b) {
  return (a.x - o.x) * (b.y - o.y) - (a.y - o.y) * (b.x - o.x);
}

/// Convex hull, counter-clockwise. [Andrew's monotone chain]
Points hull(Points p) {
  std::sort(p.begin(), p.end(),
            [](const Point& a, const Point& b) { return a.x < b.x || (a.x == b.x && a.y < b.y); });
  Points h;
  for (int side = 0; side < 2; ++side) {
    const std::size_t start = h.size();
    for (const Point& q : p) {
      while (h.size() >= start + 2 && cross(h[h.size() - 2], h.back(), q) <= 0) h.pop_back();
      h.push_back(q);
    }
    h.pop_back();
    std::reverse(p.begin(), p.end());
  }
  return h;
}

Points with_negatives(Points p) {
  const std::size_t n = p.size();
  for (std::size_t i = 0; i < n; ++i) p.push_back({-p[i].x, -p[i].y});
  return p;
}

struct Gauge {
  Points v;
  std::vector<double> angle;
  explicit Gauge(const Points& polygon) : v(polygon) {
    std::sort(v.begin(), v.end(), [](const Point& a, const Point& b) {
      return std::atan2(a.y, a.x) < std::atan2(b.y, b.x);
    });
    for (const Point& p : v) angle.push_back(std::atan2(p.y, p.x));
  }
  double operator()(const Point& q) const {
    const auto at = std::upper_bound(angle.begin(), angle.end(), std::atan2(q.y, q.x));
    const std::size_t n = v.size(), i = (static_cast<std::size_t>(at - angle.begin()) + n - 1) % n;
    const Point &a = v[i], &b = v[(i + 1) % n];
    const double det = a.x * b.y - a.y * b.x;
    return ((b.y - a.y) * q.x + (a.x - b.x) * q.y) / det;
  }
};

struct Matrix {
  double a, b, c, d;
};

/// The vertices of the cells, the momentum path multiplied by `larger`.
std::vector<Matrix> matrices(double s, double mu, const std::vector<double>& eta, bool basis,
                             double larger) {
  const double B = 4 * s * s / (1 + 4 * s * s);
  std::vector<Matrix> all = {{0, -B * mu, 0, mu}, {0, 0, 0, mu}};
  const auto w_of = [s](double e) { return e / (1 + s * s * e * e); };
  for (std::size_t i = 1; i < eta.size(); ++i) {
    const double l = eta[i - 1], r = eta[i];
    const double low = std::min(w_of(l), w_of(r));
    const double high = l * s < 1 && r * s > 1 ? 1 / (2 * s) : std::max(w_of(l), w_of(r));
    for (const double a : {1 / (1 + s * s * l * l), 1 / (1 + s * s * r * r)}) {
      for (const double m : {0.0, mu}) {
        for (const double w : {low, high}) {
          all.push_back({a - (1 - a) * w, -(1 - a) * m, w, m});
          all.push_back({a, 0, w, m});
        }
        if (basis) all.push_back({a, -(1 - a) * m, 0, m});
      }
    }
  }
  for (Matrix& m : all) {
    m.b *= larger;
    m.c *= larger;
  }
  return all;
}

/// Grows a polygon until nothing leaves it; empty when it does not settle, or |S| passes `limit`.
/// With a limit of 1 the polygon stays inside |S| <= 1.
Points grow(const std::vector<Matrix>& matrices, double tolerance, double limit,
            const std::function<bool()>& give_up) {
  Points P = hull(with_negatives({{1, 0}, {1, .3}, {0, .5}})), fresh = P;
  for (int round = 0; round < 3000; ++round) {
    if (give_up && give_up()) return {};
    const Gauge gauge(P);
    Points out;
    for (const Matrix& m : matrices) {
      for (const Point& p : fresh) {
        const Point q{m.a * p.x + m.b * p.y, m.c * p.x + m.d * p.y};
        if (std::max(std::abs(q.x), std::abs(q.y)) < 1e-9) continue;
        if (gauge(q) > 1 + tolerance) out.push_back(q);
      }
    }
    if (out.empty()) return P;
    for (Point& q : out) {
      if (std::abs(q.x) > limit * 1.01) return {};
      if (limit == 1 && std::abs(q.x) > 1 - 1e-3) q.x = q.x > 0 ? 1 : -1;
    }
    Points joined = with_negatives(out);
    joined = hull(joined);
    const Points before = P;
    joined.insert(joined.end(), P.begin(), P.end());
    P = hull(joined);
    fresh.clear();
    for (const Point& p : P) {
      const bool old = std::any_of(before.begin(), before.end(), [&](const Point& b) {
        return std::abs(b.x - p.x) < 1e-10 && std::abs(b.y - p.y) < 1e-10;
      });
      if (!old) fresh.push_back(p);
    }
    if (fresh.empty()) return P;
  }
  return {};
}

Rational near(double x, long den) {
  return Rational::ratio(std::lround(x * static_cast<double>(den)), den);
}

}  // namespace

std::optional<Json> certify_polygon(const Rational& s, const Rational& mu, bool basis,
                                    const std::function<bool()>& give_up) {
  constexpr long kScale = 100000;
  const double sf = Functions<Rational>::to_double(s), mf = Functions<Rational>::to_double(mu);
  for (const auto& [cells, larger] : {std::pair{110, 1.002}, {140, 1.002}, {90, 1.004}}) {
    std::vector<Rational> eta = {Rational(0), Rational(2)};
    for (int i = 1; i < cells; ++i) {
      eta.push_back(near(2 * std::pow(static_cast<double>(i) / cells, 1.5), 320));
    }
    for (const double e : {0.5 / sf, 1 / sf}) {
      if (e < 2) eta.push_back(near(e, 320));
    }
    std::sort(eta.begin(), eta.end());
    eta.erase(std::unique(eta.begin(), eta.end()), eta.end());
    std::vector<double> points;
    for (const Rational& e : eta) points.push_back(Functions<Rational>::to_double(e));
    Points P =
        grow(matrices(sf, std::min(mf * larger, 0.9999), points, basis, larger), 2e-4, 1, give_up);
    if (P.empty()) continue;
    for (Point& p : P) {
      p.x = static_cast<double>(std::lround(p.x * kScale));
      p.y = static_cast<double>(std::lround(p.y * kScale));
    }
    P = hull(with_negatives(P));
    // Half of it, from the vertex of least angle on.
    std::sort(P.begin(), P.end(), [](const Point& a, const Point& b) {
      return std::atan2(a.y, a.x) < std::atan2(b.y, b.x);
    });
    Json vertices = Json::array(), cells_json = Json::array();
    for (std::size_t i = 0; i < P.size() / 2; ++i) {
      vertices.push_back(
          {std::to_string(std::lround(P[i].x)), std::to_string(std::lround(P[i].y))});
    }
    for (const Rational& e : eta) cells_json.push_back(e.to_string());
    const long per_cell = 2 * 2 * (4 + (basis ? 2 : 0));
    const long images =
        (2 + static_cast<long>(eta.size() - 1) * per_cell) * static_cast<long>(vertices.size());
    const Json proof = {{"scale", std::to_string(kScale)},
                        {"vertices", vertices},
                        {"eta", cells_json},
                        {"images", images}};
    const Json statement = {{"kind", "polygon"},
                            {"s", s.to_string()},
                            {"mu_max", mu.to_string()},
                            {"keys", basis ? "basis" : "fixed"}};
    try {
      checker::check_polygon(checker::parse_json(statement.dump()), true,
                             checker::parse_json(proof.dump()));
      return proof;
    } catch (const checker::Rejected&) {
    }
  }
  return std::nullopt;
}

std::optional<Json> certify_box_polygon(const GateBox& box, const std::function<bool()>& give_up) {
  constexpr long kScale = 1000000;
  const bool basis = box.keys == GateBox::Keys::basis;
  const auto value = [](const Rational& q) { return Functions<Rational>::to_double(q); };
  const bool kappa = box.coupling == GateBox::Coupling::kappa;
  for (const int cells : {12, 36, 72}) {
    if (give_up && give_up()) return std::nullopt;
    // Finer towards the largest α, where β <= κ (1 - α) matters most.
    std::vector<Rational> alpha, eta;
    const double span = value(box.alpha_max - box.alpha_min);
    const double low = 1 - value(box.alpha_max) + 1e-3, ratio = (low + span) / low;
    for (int i = 0; i <= cells; ++i) {
      const double distance = low * std::pow(ratio, static_cast<double>(cells - i) / cells) - low;
      const Rational a = i == 0       ? box.alpha_min
                         : i == cells ? box.alpha_max
                                      : box.alpha_max - near(distance, 100000);
      if (alpha.empty() || alpha.back() < a) alpha.push_back(a);
    }
    if (alpha.size() == 1) alpha.push_back(box.alpha_max);
    for (int j = 0; j <= cells / 6; ++j) {
      eta.push_back(box.eta_min + (box.eta_max - box.eta_min) * Rational::ratio(j, cells / 6));
    }
    std::vector<Matrix> matrices;
    const double larger = 1.001;
    for (std::size_t i = 1; i < alpha.size(); ++i) {
      const double l = value(alpha[i - 1]), r = value(alpha[i]);
      double most = value(box.beta_max);
      if (kappa) most = std::min(most, value(box.kappa) * (1 - l));
      if (most < value(box.beta_min)) continue;
      for (const double a : {l, r}) {
        for (const double b : {value(box.beta_min), most}) {
          for (const double m : {value(box.mu_min), value(box.mu_max)}) {
            for (std::size_t j = 1; j < eta.size(); ++j) {
              for (const double w : {l * value(eta[j - 1]), r * value(eta[j])}) {
                matrices.push_back({a - b * w, -b * m * larger, w * larger, m});
              }
            }
            if (basis) matrices.push_back({a, -b * m * larger, 0, m});
          }
        }
      }
    }
    Points P = grow(matrices, 1e-4, 50, give_up);
    if (P.empty()) continue;
    for (Point& p : P) {
      p.x = static_cast<double>(std::lround(p.x * kScale));
      p.y = static_cast<double>(std::lround(p.y * kScale));
    }
    P = hull(with_negatives(P));
    std::sort(P.begin(), P.end(), [](const Point& a, const Point& b) {
      return std::atan2(a.y, a.x) < std::atan2(b.y, b.x);
    });
    Json vertices = Json::array(), alphas = Json::array(), etas = Json::array();
    for (std::size_t i = 0; i < P.size() / 2; ++i) {
      vertices.push_back(
          {std::to_string(std::lround(P[i].x)), std::to_string(std::lround(P[i].y))});
    }
    for (const Rational& a : alpha) alphas.push_back(a.to_string());
    for (const Rational& e : eta) etas.push_back(e.to_string());
    const Json proof = {{"scale", std::to_string(kScale)},
                        {"vertices", vertices},
                        {"alpha", alphas},
                        {"eta", etas},
                        {"images", matrices.size() * vertices.size()}};
    const Json statement = {
        {"kind", "polygon"}, {"box", box_json(box)}, {"keys", basis ? "basis" : "fixed"}};
    try {
      checker::check_polygon(checker::parse_json(statement.dump()), true,
                             checker::parse_json(proof.dump()));
      return proof;
    } catch (const checker::Rejected&) {
    }
  }
  return std::nullopt;
}

Found find_polygon(const Json& s, bool holds, const Json&) {
  Found found;
  found.method = "invariant polygon";
  const auto rational = [&](const char* key) {
    return Rational(Rational::Number(s.at(key).get<std::string>()));
  };
  if (!holds) {
    found.detail = "refuted by cycles only";
    return found;
  }
  const auto proof = certify_polygon(rational("s"), rational("mu_max"), s.at("keys") == "basis");
  if (!proof) {
    found.detail = "no polygon on up to 140 cells of eta";
    return found;
  }
  found.answer = Answer::proved;
  found.detail = std::to_string(2 * proof->at("vertices").size()) + " vertices, " +
                 proof->at("images").dump() + " images";
  found.proof = *proof;
  return found;
}

}  // namespace assay::proofs
