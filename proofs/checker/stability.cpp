// Products of Momentum DeltaNet steps. On one key direction a step acts on (S, M) by
//
//   A = [[α (1 - β η), -β μ], [α η, μ]],      orthogonal to its key by [[α, -β μ], [0, μ]]
//
// (program mdn_blocks). A box with coupling "angle" has α <= a, β <= 1 - a with
// a = 1 / (1 + s² η²); one with coupling "kappa" has β <= κ (1 - α).
#include <array>

#include "proofs/checker/check.hpp"
#include "proofs/checker/numbers.hpp"

namespace assay::checker {
namespace {

using Q = mpq_class;
using Matrix = std::array<std::array<Q, 2>, 2>;

Q rational(const Value& v, const char* key) { return parse_rational(v.string(key)); }
Q rational_or(const Value& v, const char* key, long otherwise) {
  return v.has(key) ? rational(v, key) : Q(otherwise);
}

Matrix block(const Q& alpha, const Q& beta, const Q& mu, const Q& eta, bool along) {
  const Q e = along ? eta : Q(0);
  return {{{alpha * (1 - beta * e), -beta * mu}, {alpha * e, mu}}};
}
Q trace(const Matrix& A) { return A[0][0] + A[1][1]; }
Q determinant(const Matrix& A) { return A[0][0] * A[1][1] - A[0][1] * A[1][0]; }
Matrix product(const Matrix& A, const Matrix& B) {
  Matrix C;
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) C[i][j] = A[i][0] * B[0][j] + A[i][1] * B[1][j];
  }
  return C;
}
/// Both eigenvalues strictly inside the unit circle. [Jury]
bool is_schur(const Matrix& A) {
  return abs(determinant(A)) < 1 && abs(trace(A)) < 1 + determinant(A);
}
/// Is an eigenvalue larger than r in modulus?
bool radius_exceeds(const Matrix& A, const Q& r) {
  const Q t = abs(trace(A)), d = determinant(A);
  if (t * t < 4 * d) return d > r * r;
  return t > 2 * r || r * r - t * r + d < 0;
}

struct Step {
  Q alpha, beta, mu, eta;
  bool along;
};

/// Is the step in the box, strictly inside if asked?
bool inside(const Value& box, const Step& g, bool strictly) {
  const auto below = [&](const Q& x, const Q& bound) { return strictly ? x < bound : x <= bound; };
  if (!below(rational_or(box, "alpha_min", 0), g.alpha) ||
      !below(g.alpha, rational_or(box, "alpha_max", 1)) ||
      !below(rational_or(box, "beta_min", 0), g.beta) ||
      !below(g.beta, rational_or(box, "beta_max", 1)) ||
      !below(rational_or(box, "mu_min", 0), g.mu) ||
      !below(rational_or(box, "eta_min", 0), g.eta) ||
      !below(g.eta, rational_or(box, "eta_max", 2)) || g.mu > rational(box, "mu_max")) {
    return false;
  }
  const std::string& coupling = box.string("coupling");
  if (coupling == "free") return true;
  if (coupling == "kappa") return g.beta <= rational(box, "kappa") * (1 - g.alpha);
  if (coupling != "angle") throw Rejected("unknown coupling '" + coupling + "'");
  const Q X = rational(box, "s") * rational(box, "s") * g.eta * g.eta;
  return below(g.alpha * (1 + X), 1) && below(g.beta * (1 + X), X);
}

// Polynomials in η with integer coefficients, low to high.
using Polynomial = std::vector<mpz_class>;

Polynomial times(const Polynomial& a, const Polynomial& b) {
  Polynomial c(a.size() + b.size() - 1);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == 0) continue;
    for (std::size_t j = 0; j < b.size(); ++j) {
      mpz_addmul(c[i + j].get_mpz_t(), a[i].get_mpz_t(), b[j].get_mpz_t());
    }
  }
  return c;
}
void add_scaled(Polynomial& a, const mpz_class& factor, const Polynomial& b) {
  if (a.size() < b.size()) a.resize(b.size());
  for (std::size_t i = 0; i < b.size(); ++i) {
    mpz_addmul(a[i].get_mpz_t(), factor.get_mpz_t(), b[i].get_mpz_t());
  }
}
Polynomial difference(const Polynomial& a, const Polynomial& b) {
  Polynomial c = a;
  add_scaled(c, -1, b);
  return c;
}

const mpz_class& binomial(std::size_t n, std::size_t k) {
  static const auto table = [] {
    std::vector<std::vector<mpz_class>> rows(64);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i].assign(i + 1, 1);
      for (std::size_t j = 1; j < i; ++j) rows[i][j] = rows[i - 1][j - 1] + rows[i - 1][j];
    }
    return rows;
  }();
  return table.at(n).at(k);
}

/// p >= 0 on [l, r]: the Bernstein coefficients, halving where one is negative. True only if so.
bool nonnegative(const Polynomial& p, const Q& l, const Q& r, int depth = 12) {
  if (p.empty()) return true;
  const std::size_t n = p.size() - 1;
  // p((u + w t) / d) d^n, over the common denominator d
  const mpz_class d = lcm(l.get_den(), r.get_den());
  const mpz_class u = l.get_num() * (d / l.get_den());
  const mpz_class w = r.get_num() * (d / r.get_den()) - u;
  Polynomial q = {p[n]};
  mpz_class power = 1;
  for (std::size_t k = n; k-- > 0;) {
    power *= d;
    q.emplace_back(0);
    for (std::size_t i = q.size(); i-- > 0;) {
      q[i] *= u;
      if (i > 0) mpz_addmul(q[i].get_mpz_t(), q[i - 1].get_mpz_t(), w.get_mpz_t());
    }
    mpz_addmul(q[0].get_mpz_t(), p[k].get_mpz_t(), power.get_mpz_t());
  }
  bool all = true, ends = true;
  for (std::size_t i = 0; i <= n; ++i) {
    mpz_class b = 0;  // Bernstein coefficient times its binomial
    for (std::size_t j = 0; j <= i; ++j) {
      mpz_addmul(b.get_mpz_t(), q[j].get_mpz_t(), binomial(n - j, i - j).get_mpz_t());
    }
    if (b < 0) {
      all = false;
      if (i == 0 || i == n) ends = false;
    }
  }
  if (all) return true;
  if (!ends || depth == 0) return false;
  const Q middle = (l + r) / 2;
  return nonnegative(p, l, middle, depth - 1) && nonnegative(p, middle, r, depth - 1);
}

/// A step as a matrix of polynomials in η over the denominator `den`.
struct PolynomialStep {
  std::array<Polynomial, 4> a;  // row by row
  Polynomial den;
};

enum class Type { mix, accumulate, turn };

/// The vertices of a type for s in [s0, s1]: bi-affine in the two occurrences of a, affine in μ.
std::vector<PolynomialStep> vertices(Type type, const Q& s0, const Q& s1, const Q& mu) {
  struct Corner {
    Polynomial X, D;  // s² η² and 1 + s² η², times the denominator of s²
  };
  std::vector<Corner> corners;
  for (const Q& s : {s0, s1}) {
    const mpz_class n = s.get_num() * s.get_num(), d = s.get_den() * s.get_den();
    if (corners.empty() || s != s0) corners.push_back({{0, 0, n}, {d, 0, n}});
  }
  const mpz_class& mn = mu.get_num();
  const mpz_class& md = mu.get_den();
  const auto scaled = [](const mpz_class& f, const Polynomial& p) {
    Polynomial r = p;
    for (mpz_class& c : r) c *= f;
    return r;
  };
  std::vector<PolynomialStep> steps;
  for (const mpz_class& m : {mpz_class(0), mn}) {  // over md
    for (const Corner& i : corners) {
      const mpz_class d = i.D[0];  // a = d / D
      if (type != Type::turn) {
        steps.push_back(
            {{scaled(md * d, {1}), {}, scaled(md * d, {0, 1}), scaled(m, i.D)}, scaled(md, i.D)});
        steps.push_back({{scaled(md * d, {1}), {}, {}, scaled(m, i.D)}, scaled(md, i.D)});
      }
      if (type == Type::accumulate) continue;
      steps.push_back(
          {{scaled(md * d, {1}), scaled(-m, i.X), {}, scaled(m, i.D)}, scaled(md, i.D)});
      for (const Corner& j : corners) {
        const Polynomial DD = times(i.D, j.D);
        Polynomial first = scaled(md * d, j.D);  // a1 - (1 - a1) a2 η
        add_scaled(first, -md * j.D[0], times(i.X, {0, 1}));
        steps.push_back({{first, scaled(-m, times(i.X, j.D)),
                          scaled(md * j.D[0], times(i.D, {0, 1})), scaled(m, DD)},
                         scaled(md, DD)});
      }
    }
  }
  return steps;
}

struct Form {
  Q x, p, c;  // x |S|² + 2 p <S,M> + c |M|²
};

long check_piece(const Value& piece, const Q& s0, const Q& s1, const Q& mu, const Q& eta_max) {
  const auto grid = [&](const char* key) {
    std::vector<Q> g;
    for (const Value& v : piece.array(key)) g.push_back(parse_rational(v.string()));
    for (std::size_t i = 1; i < g.size(); ++i) {
      if (g[i] <= g[i - 1]) throw Rejected("a grid does not ascend");
    }
    if (g.size() < 2 || g[0] <= 0 || g.back() != eta_max) throw Rejected("a grid has bad ends");
    return g;
  };
  const std::vector<Q> acc = grid("accumulate"), turn = grid("turn");
  if (acc[0] != turn[0]) throw Rejected("the grids do not start together");
  std::vector<Form> forms;
  mpz_class common = 1;
  for (const Value& v : piece.array("forms")) {
    const auto& f = v.array();
    if (f.size() != 3) throw Rejected("a form has three coefficients");
    forms.push_back({parse_rational(f[0].string()), parse_rational(f[1].string()),
                     parse_rational(f[2].string())});
    const Form& g = forms.back();
    if (g.x <= 0 || g.x * g.c <= g.p * g.p) throw Rejected("a form is not positive definite");
    for (const Q* q : {&g.x, &g.p, &g.c}) common = lcm(common, q->get_den());
  }
  if (forms.size() != acc.size() + turn.size()) throw Rejected("the number of forms is wrong");
  if (forms[0].x != 1 || forms[0].p != 0) throw Rejected("the first form must be |S|² + c |M|²");
  struct IntegerForm {
    mpz_class x, p, c;
  };
  std::vector<IntegerForm> P;
  for (const Form& f : forms) {
    const auto whole = [&](const Q& q) { return mpz_class(q.get_num() * (common / q.get_den())); };
    P.push_back({whole(f.x), whole(f.p), whole(f.c)});
  }
  long count = 0;
  const auto check_type = [&](std::size_t from, Type type, const Q& l, const Q& r) {
    for (const PolynomialStep& A : vertices(type, s0, s1, mu)) {
      const auto& a = A.a;
      const Polynomial den = times(A.den, A.den);
      const auto product = [](const Polynomial& u, const Polynomial& v) {
        return u.empty() || v.empty() ? Polynomial{} : times(u, v);
      };
      const Polynomial a00 = product(a[0], a[0]), a02 = product(a[0], a[2]),
                       a22 = product(a[2], a[2]), a01 = product(a[0], a[1]),
                       a03 = product(a[0], a[3]), a12 = product(a[1], a[2]),
                       a23 = product(a[2], a[3]), a11 = product(a[1], a[1]),
                       a13 = product(a[1], a[3]), a33 = product(a[3], a[3]);
      for (const IntegerForm& to : P) {
        const IntegerForm& f = P[from];
        Polynomial q11, q12, q22;
        add_scaled(q11, f.x, den);
        add_scaled(q11, -to.x, a00);
        add_scaled(q11, -2 * to.p, a02);
        add_scaled(q11, -to.c, a22);
        add_scaled(q12, f.p, den);
        add_scaled(q12, -to.x, a01);
        add_scaled(q12, -to.p, a03);
        add_scaled(q12, -to.p, a12);
        add_scaled(q12, -to.c, a23);
        add_scaled(q22, f.c, den);
        add_scaled(q22, -to.x, a11);
        add_scaled(q22, -2 * to.p, a13);
        add_scaled(q22, -to.c, a33);
        Polynomial det = difference(times(q11, q22), times(q12, q12));
        if (l == 0 && q11[0] == 0) {  // the direction of S is neutral at η = 0: divide by η²
          for (Polynomial* p : {&q11, &det}) {
            if ((*p)[0] != 0 || (*p)[1] != 0) throw Rejected("a neutral direction that is not");
            p->erase(p->begin(), p->begin() + 2);
          }
        }
        if (!nonnegative(q11, l, r) || !nonnegative(q22, l, r) || !nonnegative(det, l, r)) {
          throw Rejected("form " + std::to_string(from) + " grows for eta in [" + l.get_str() +
                         ", " + r.get_str() + "]");
        }
        ++count;
      }
    }
  };
  std::size_t next = 0;
  check_type(next++, Type::mix, 0, acc[0]);
  for (std::size_t i = 1; i < acc.size(); ++i) {
    check_type(next++, Type::accumulate, acc[i - 1], acc[i]);
  }
  for (std::size_t i = 1; i < turn.size(); ++i) {
    check_type(next++, Type::turn, turn[i - 1], turn[i]);
  }
  // α = 0: [[0, -β μ], [0, μ]] with β up to its largest value, at the largest η and s
  const Form& f = forms[next];
  const Q X = s1 * s1 * eta_max * eta_max, B = X / (1 + X);
  for (const Form& to : forms) {
    for (const Q& beta : {Q(0), B}) {
      const Q q22 = f.c - mu * mu * (to.x * beta * beta - 2 * to.p * beta + to.c);
      if (q22 < 0 || f.x * q22 < f.p * f.p) throw Rejected("the form of a flush grows");
      ++count;
    }
  }
  return count;
}

/// The matrices whose convex hull holds every step of the coupled box for one s, cell by cell of η.
std::vector<Matrix> coupled_matrices(const Value& statement, const Value& proof, bool basis) {
  const Q s = rational(statement, "s"), mu = rational(statement, "mu_max");
  std::vector<Q> edges;
  for (const Value& v : proof.array("eta")) edges.push_back(parse_rational(v.string()));
  if (edges.size() < 2 || edges[0] != 0 || edges.back() != 2) throw Rejected("bad cells of eta");
  const auto w_of = [&](const Q& e) { return Q(e / (1 + s * s * e * e)); };
  const Q B = 4 * s * s / (1 + 4 * s * s);
  std::vector<Matrix> all = {{{{0, -B * mu}, {0, mu}}}, {{{0, 0}, {0, mu}}}};
  for (std::size_t i = 1; i < edges.size(); ++i) {
    const Q &l = edges[i - 1], &r = edges[i];
    if (r <= l) throw Rejected("the cells of eta do not ascend");
    // a falls with η; w = a η rises up to η = 1/s and falls from there
    Q w_low = std::min(w_of(l), w_of(r)), w_high = std::max(w_of(l), w_of(r));
    if (l * s < 1 && r * s > 1) w_high = 1 / (2 * s);
    for (const Q& a : {Q(1 / (1 + s * s * l * l)), Q(1 / (1 + s * s * r * r))}) {
      for (const Q& m : {Q(0), mu}) {
        for (const Q& w : {w_low, w_high}) {
          all.push_back({{{a - (1 - a) * w, -(1 - a) * m}, {w, m}}});
          all.push_back({{{a, 0}, {w, m}}});
        }
        if (basis) {
          all.push_back({{{a, -(1 - a) * m}, {0, m}}});
          all.push_back({{{a, 0}, {0, m}}});
        }
      }
    }
  }
  return all;
}

/// The same for a box of couplings "kappa" and "free": cells of α and η, w = αη. A is affine in
/// each of α, β, w, μ.
std::vector<Matrix> box_matrices(const Value& box, const Value& proof, bool basis) {
  const auto grid = [&](const char* key, const Q& first, const Q& last) {
    std::vector<Q> g;
    for (const Value& v : proof.array(key)) g.push_back(parse_rational(v.string()));
    if (g.size() < 2 || g[0] != first || g.back() != last) throw Rejected("cells with bad ends");
    for (std::size_t i = 1; i < g.size(); ++i) {
      if (g[i] < g[i - 1]) throw Rejected("cells that do not ascend");
    }
    return g;
  };
  const Q alpha_min = rational_or(box, "alpha_min", 0),
          alpha_max = rational_or(box, "alpha_max", 1), beta_min = rational_or(box, "beta_min", 0),
          beta_max = rational_or(box, "beta_max", 1), eta_min = rational_or(box, "eta_min", 0),
          eta_max = rational_or(box, "eta_max", 2), mu_min = rational_or(box, "mu_min", 0),
          mu_max = rational(box, "mu_max");
  if (alpha_min < 0 || beta_min < 0 || eta_min < 0 || mu_min < 0) throw Rejected("a negative gate");
  const bool kappa = box.string("coupling") == "kappa";
  if (!kappa && box.string("coupling") != "free") throw Rejected("cells are for kappa and free");
  const auto alphas = grid("alpha", alpha_min, alpha_max), etas = grid("eta", eta_min, eta_max);
  std::vector<Matrix> all;
  for (std::size_t i = 1; i < alphas.size(); ++i) {
    const Q &l = alphas[i - 1], &r = alphas[i];
    const Q most = kappa ? std::min(beta_max, Q(rational(box, "kappa") * (1 - l))) : beta_max;
    if (most < beta_min) continue;  // no β is allowed there
    for (const Q& alpha : {l, r}) {
      for (const Q& beta : {beta_min, most}) {
        for (const Q& m : {mu_min, mu_max}) {
          for (std::size_t j = 1; j < etas.size(); ++j) {
            for (const Q& w : {Q(l * etas[j - 1]), Q(r * etas[j])}) {
              all.push_back({{{alpha - beta * w, -beta * m}, {w, m}}});
            }
          }
          if (basis) all.push_back({{{alpha, -beta * m}, {0, m}}});
        }
      }
    }
  }
  return all;
}

}  // namespace

std::string check_cycle(const Value& statement, bool holds, const Value& proof) {
  if (!holds) throw Rejected("that there is no cycle cannot be certified");
  const Value& box = statement.at("box");
  const bool strictly = statement.at("strict").boolean();
  const bool may_change_key = statement.string("keys") == "basis";
  if (!may_change_key && statement.string("keys") != "fixed") throw Rejected("unknown keys");
  Matrix P = {{{1, 0}, {0, 1}}};
  for (const Value& row : proof.array("steps")) {
    const auto& g = row.array();
    if (g.size() != 5) throw Rejected("a step has five entries");
    const Step step{parse_rational(g[0].string()), parse_rational(g[1].string()),
                    parse_rational(g[2].string()), parse_rational(g[3].string()),
                    g[4].string() == "e1"};
    if (!step.along && (g[4].string() != "e2" || !may_change_key)) throw Rejected("a bad key");
    if (!inside(box, step, strictly)) throw Rejected("a step outside the box: " + row.dump());
    if (strictly && (!is_schur(block(step.alpha, step.beta, step.mu, step.eta, true)) ||
                     !is_schur(block(step.alpha, step.beta, step.mu, step.eta, false)))) {
      throw Rejected("a step that is not stable by itself: " + row.dump());
    }
    P = product(block(step.alpha, step.beta, step.mu, step.eta, step.along), P);
  }
  if (static_cast<long>(proof.array("steps").size()) != statement.at("period").integer()) {
    throw Rejected("the period is another");
  }
  if (trace(P) != rational(proof, "trace") || determinant(P) != rational(proof, "determinant")) {
    throw Rejected("trace or determinant of the product is wrong");
  }
  const Q radius = rational(statement, "radius");
  if (radius < 1 || !radius_exceeds(P, radius)) throw Rejected("the product does not grow");
  return "a cycle of " + std::to_string(proof.array("steps").size()) +
         " steps, spectral radius > " + radius.get_str();
}

std::string check_nonexpansion(const Value& statement, bool holds, const Value& proof) {
  if (!holds) throw Rejected("a cycle refutes this, not this kind of certificate");
  const auto& range = statement.array("s");
  if (range.size() != 2) throw Rejected("s has two ends");
  const Q s0 = parse_rational(range[0].string()), s1 = parse_rational(range[1].string());
  const Q mu = rational(statement, "mu_max"), eta_max = rational(statement, "eta_max");
  if (s0 <= 0 || s1 < s0 || mu < 0 || mu >= 1 || eta_max <= 0) throw Rejected("a bad box");
  Q reached = s0;
  long count = 0;
  const auto& pieces = proof.array("pieces");
  for (const Value& piece : pieces) {
    const auto& ends = piece.array("s");
    if (ends.size() != 2) throw Rejected("a piece has two ends");
    const Q l = parse_rational(ends[0].string()), r = parse_rational(ends[1].string());
    if (l != reached || r < l) throw Rejected("the pieces do not cover the range of s");
    reached = r;
    count += check_piece(piece, l, r, mu, eta_max);
  }
  if (reached != s1 || pieces.empty()) throw Rejected("the pieces do not cover the range of s");
  if (count != proof.at("inequalities").integer()) throw Rejected("another number of inequalities");
  return std::to_string(count) + " matrix inequalities for continuous eta, " +
         std::to_string(pieces.size()) + " pieces of s";
}

std::string check_polygon(const Value& statement, bool holds, const Value& proof) {
  if (!holds) throw Rejected("a cycle refutes this, not this kind of certificate");
  const bool boxed = statement.has("box");
  const bool basis = statement.string("keys") == "basis";
  if (!basis && statement.string("keys") != "fixed") throw Rejected("unknown keys");

  // Vertices, scaled to integers; the other half is the negative of the first.
  struct Point {
    mpz_class x, y;
  };
  const mpz_class scale = mpz_class(proof.string("scale"));
  if (scale <= 0) throw Rejected("a bad scale");
  std::vector<Point> half, P;
  for (const Value& v : proof.array("vertices")) {
    const auto& xy = v.array();
    if (xy.size() != 2) throw Rejected("a vertex has two coordinates");
    half.push_back({mpz_class(xy[0].string()), mpz_class(xy[1].string())});
  }
  P = half;
  for (const Point& p : half) P.push_back({-p.x, -p.y});
  const std::size_t n = P.size();
  if (n < 4) throw Rejected("too few vertices");
  const auto cross = [](const Point& a, const Point& b) {
    return mpz_class(a.x * b.y - a.y * b.x);
  };
  for (std::size_t i = 0; i < n; ++i) {
    const Point &a = P[i], &b = P[(i + 1) % n], &c = P[(i + 2) % n];
    if (cross(a, b) <= 0 || cross({b.x - a.x, b.y - a.y}, {c.x - b.x, c.y - b.y}) < 0) {
      throw Rejected("the vertices do not go round a convex polygon");
    }
    if (!boxed && abs(a.x) > scale) throw Rejected("the polygon allows |S| > 1");
  }
  // Each turn is to the left and each angle seen from 0 is below pi; that it goes round only once:
  std::size_t wraps = 0;
  for (std::size_t i = 0; i < n; ++i) wraps += P[i].y < 0 && P[(i + 1) % n].y >= 0;
  if (wraps != 1) throw Rejected("the polygon goes round more than once");

  /// Is u / d in the polygon (coordinates over `scale`)? `at` is the last sector, to start from.
  std::size_t at = 0;
  const auto contains = [&](const Point& u, const mpz_class& d) {
    if (u.x == 0 && u.y == 0) return true;
    for (std::size_t tried = 0; tried < n; ++tried, at = (at + 1) % n) {
      const Point &a = P[at], &b = P[(at + 1) % n];
      const mpz_class l1 = cross(u, b), l2 = cross(a, u);
      if (l1 >= 0 && l2 >= 0) return mpz_class(l1 + l2) <= d * cross(a, b);
    }
    return false;
  };
  if (!boxed && !contains({scale, 0}, 1)) throw Rejected("the polygon does not hold (1, 0)");

  long count = 0;
  const auto maps_into = [&](const Matrix& A) {
    mpz_class d = 1;
    for (const auto& row : A) {
      for (const Q& q : row) d = lcm(d, q.get_den());
    }
    std::array<mpz_class, 4> a;
    for (int i = 0; i < 4; ++i) {
      const Q& q = A[i / 2][i % 2];
      a[i] = q.get_num() * (d / q.get_den());
    }
    for (const Point& p : half) {
      if (!contains({a[0] * p.x + a[1] * p.y, a[2] * p.x + a[3] * p.y}, d)) {
        throw Rejected("a step leaves the polygon");
      }
      ++count;
    }
  };
  for (const Matrix& A : boxed ? box_matrices(statement.at("box"), proof, basis)
                               : coupled_matrices(statement, proof, basis)) {
    maps_into(A);
  }
  if (count != proof.at("images").integer()) throw Rejected("another number of images");
  return "a polygon of " + std::to_string(n) + " vertices, " + std::to_string(count) +
         " images inside it";
}

}  // namespace assay::checker
