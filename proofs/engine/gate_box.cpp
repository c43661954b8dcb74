// The decision procedure. In order: Theorem A for boxes that its condition covers (exact threshold
// for β <= 1 - α with α up to 1), Theorem B and path-complete forms for the coupled box, polygons
// when the keys come from one basis, cycles by coordinate ascent; what is found in floating point
// becomes an answer only when the checker has accepted the certificate.
#include "proofs/engine/gate_box.hpp"

#include <algorithm>
#include <boost/multiprecision/gmp.hpp>
#include <chrono>
#include <cmath>
#include <random>
#include <stdexcept>

#include "proofs/checker/check.hpp"
#include "proofs/engine/find.hpp"

namespace assay::proofs {
namespace {

using Clock = std::chrono::steady_clock;

double number(const Rational& q) { return Functions<Rational>::to_double(q); }
Rational smaller(const Rational& a, const Rational& b) { return a < b ? a : b; }

/// In lowest terms: a Rational made from the text "82/100" is not, and certificates must be.
Rational canonical(const Rational& q) {
  using boost::multiprecision::denominator;
  using boost::multiprecision::numerator;
  return Rational(Rational::Number(numerator(q.value()))) /
         Rational(Rational::Number(denominator(q.value())));
}

/// Throws for gates out of range; returns the box in lowest terms.
GateBox checked(GateBox box) {
  for (Rational* q : {&box.kappa, &box.s, &box.alpha_min, &box.alpha_max, &box.beta_min,
                      &box.beta_max, &box.mu_min, &box.mu_max, &box.eta_min, &box.eta_max}) {
    *q = canonical(*q);
  }
  const auto range = [](const char* name, const Rational& lo, const Rational& hi, long most) {
    if (lo < Rational(0) || Rational(most) < hi || hi < lo) {
      throw std::invalid_argument(std::string("gate box: ") + name + " in [" + lo.to_string() +
                                  ", " + hi.to_string() + "]; it must lie in [0, " +
                                  std::to_string(most) + "] and not be empty");
    }
  };
  range("alpha", box.alpha_min, box.alpha_max, 1);
  range("beta", box.beta_min, box.beta_max, 1);
  range("mu", box.mu_min, box.mu_max, 1);
  range("eta", box.eta_min, box.eta_max, 2);
  if (box.coupling == GateBox::Coupling::kappa &&
      (!(Rational(0) < box.kappa) || Rational(1000) < box.kappa)) {
    throw std::invalid_argument("gate box: kappa must lie in (0, 1000]");
  }
  if (box.coupling == GateBox::Coupling::angle &&
      (!(Rational(0) < box.s) || Rational(1000) < box.s)) {
    throw std::invalid_argument("gate box: s must lie in (0, 1000]");
  }
  return box;
}

/// Finds, lets the checker accept, wraps up. Null when any part fails.
Json certify(const std::string& claim, const std::vector<Part>& parts, const char* answer) {
  Json done = Json::array();
  for (const Part& part : parts) {
    const Found found = find(part.statement, part.holds, part.hint);
    if (found.answer != Answer::proved) return nullptr;
    try {
      checker::check_part(checker::parse_json(part.statement.dump()), part.holds,
                          checker::parse_json(found.proof.dump()));
    } catch (const std::exception&) {
      return nullptr;
    }
    done.push_back({{"statement", part.statement}, {"holds", part.holds}, {"proof", found.proof}});
  }
  return make_certificate(claim, answer, done);
}

/// The parts of a claim that `build` writes.
std::vector<Part> parts_of(const std::function<void(Claim&)>& build) {
  Claim claim;
  build(claim);
  return claim.parts;
}

/// Largest αη of the box.
Rational largest_write(const GateBox& box) {
  const Rational loose = box.alpha_max * box.eta_max;
  if (box.coupling != GateBox::Coupling::angle) return loose;
  // η / (1 + s²η²), rising up to η = 1/s
  const Rational at = box.s * box.eta_max < Rational(1) ? box.eta_max : Rational(1) / box.s;
  return smaller(at / (Rational(1) + box.s * box.s * at * at), loose);
}

/// N = max(|S|, |M| / L) with L = 1 / (κ μ_max) does not increase. [theorem A]
Json theorem_a(const GateBox& box) {
  Rational kappa = 1;
  if (box.coupling == GateBox::Coupling::kappa) {
    kappa = box.kappa;
  } else if (box.coupling == GateBox::Coupling::free) {
    // β <= β_max <= κ (1 - α_max) for κ = β_max / (1 - α_max)
    if (!(box.alpha_max < Rational(1))) return nullptr;
    kappa = box.beta_max / (Rational(1) - box.alpha_max);
    if (!(Rational(0) < kappa)) kappa = Rational::ratio(1, 1000);
  }
  const Rational g = largest_write(box);
  if (Rational(1) < box.mu_max * (Rational(1) + kappa * g)) return nullptr;
  const std::string k = "(" + kappa.to_string() + ")", G = "(" + g.to_string() + ")",
                    m = "(" + box.mu_max.to_string() + ")";
  // With the numbers of the box in place of κ, g and μ_max:
  const Pairs where = {
      {"a", "alpha >= 0"},    {"b", "beta >= 0"}, {"C", k + "*(1 - alpha) - beta >= 0"},
      {"G", G + " - w >= 0"}, {"m", "mu >= 0"},   {"U", m + " - mu >= 0"}};
  const Rational rest = Rational(1) - box.mu_max * (Rational(1) + kappa * g);
  const std::string kappa_mu = (kappa * box.mu_max).to_string();
  const Strings variables = {"alpha", "beta", "w", "mu"};  // w = αη
  return certify("gate-box/theorem-a", parts_of([&](Claim& c) {
                   c.forall({"c", "d"}, {{"c", "c >= 0"}, {"C", "2 - c >= 0"}},
                            "2*c*d^2 - c^2*d^2 >= 0", "c*C*q", "1", {{"q", "d"}});
                   c.forall(variables, where, k + "*" + m + "*(1 - alpha) - beta*mu >= 0",
                            box.mu_max.to_string() + "*C + b*U");
                   c.forall(variables, where, "1 - mu - " + k + "*" + m + "*w >= 0",
                            rest.to_string() + " + U + " + kappa_mu + "*G");
                 }),
                 "CONTRACTIVE");
}

/// |S|² + c|M|² does not increase, c = 2 s² (1 - μ²). [theorem B]
Json theorem_b(const GateBox& box) {
  const std::string u = "(" + (box.s * box.s).to_string() + ")",
                    m = "(" + (box.mu_max * box.mu_max).to_string() + ")";
  const Rational uq = box.s * box.s, mq = box.mu_max * box.mu_max, n = Rational(1) - mq;
  const Rational r1 = (Rational(1) + uq + uq) * n * n - mq;
  const Rational f = (Rational(1) + Rational(4) * uq);
  const Rational r2 = Rational(2) * n - (mq - Rational(2) * uq * n * n) * f * f;
  if (r1 < Rational(0) || r2 < Rational(0) || !(Rational(0) < n)) return nullptr;
  return certify("gate-box/theorem-b", parts_of([&](Claim& c) {
                   c.forall({}, {{"one", "1 > 0"}},
                            "(1 + 2*" + u + ")*(1 - " + m + ")^2 - " + m + " >= 0", r1.to_string());
                   c.forall({}, {{"one", "1 > 0"}},
                            "2*(1 - " + m + ") - (" + m + " - 2*" + u + "*(1 - " + m +
                                ")^2)*(1 + 4*" + u + ")^2 >= 0",
                            r2.to_string());
                 }),
                 "CONTRACTIVE");
}

/// One piece of the any-key certificate, or a polygon.
Json forms(const GateBox& box, const std::function<bool()>& give_up) {
  long count = 0;
  const auto pieces = certify_pieces(box.s, box.s, box.mu_max, box.eta_max, count, give_up);
  if (!pieces) return nullptr;
  const Json statement = {{"kind", "nonexpansion"},
                          {"s", {box.s.to_string(), box.s.to_string()}},
                          {"mu_max", box.mu_max.to_string()},
                          {"eta_max", box.eta_max.to_string()}};
  const Json proof = {{"pieces", *pieces}, {"inequalities", count}};
  return make_certificate(
      "gate-box/forms", "CONTRACTIVE",
      Json::array({{{"statement", statement}, {"holds", true}, {"proof", proof}}}));
}

Json polygon(const GateBox& box, const std::function<bool()>& give_up) {
  const bool basis = box.keys == GateBox::Keys::basis;
  if (box.coupling != GateBox::Coupling::angle) {
    const auto found = certify_box_polygon(box, give_up);
    if (!found) return nullptr;
    const Json claim = {
        {"kind", "polygon"}, {"box", box_json(box)}, {"keys", basis ? "basis" : "fixed"}};
    return make_certificate(
        "gate-box/polygon", "CONTRACTIVE",
        Json::array({{{"statement", claim}, {"holds", true}, {"proof", *found}}}));
  }
  const auto proof = certify_polygon(box.s, box.mu_max, basis, give_up);
  if (!proof) return nullptr;
  const Json statement = {{"kind", "polygon"},
                          {"s", box.s.to_string()},
                          {"mu_max", box.mu_max.to_string()},
                          {"keys", basis ? "basis" : "fixed"}};
  return make_certificate(
      "gate-box/polygon", "CONTRACTIVE",
      Json::array({{{"statement", statement}, {"holds", true}, {"proof", *proof}}}));
}

// ------------------------------------------------------------------------------------- cycles

struct Gates {
  Step exact;
  double a, b, c, d;
};

/// The vertices of the box over a grid of η, strictly inside where the box is open by itself.
std::vector<Gates> candidates(const GateBox& box, int cells) {
  std::vector<Gates> all;
  // just inside: the largest multiple of 1/1000 below a bound
  const auto below = [](const Rational& bound) {
    const double scaled = number(bound) * 1000;
    return Rational::ratio(static_cast<long>(std::ceil(scaled - 1e-9)) - 1, 1000);
  };
  const auto add = [&](const Rational& alpha, const Rational& beta, const Rational& mu,
                       const Rational& eta) {
    if (alpha < box.alpha_min || box.alpha_max < alpha || beta < box.beta_min ||
        box.beta_max < beta) {
      return;
    }
    for (const bool along : {true, false}) {
      if (!along && box.keys == GateBox::Keys::fixed) continue;
      const Step step{alpha, beta, mu, eta, along};
      const double e = along ? number(eta) : 0, al = number(alpha), be = number(beta),
                   m = number(mu);
      all.push_back({step, al * (1 - be * e), -be * m, al * e, m});
    }
  };
  for (int i = 0; i <= cells; ++i) {
    const Rational eta = box.eta_min + (box.eta_max - box.eta_min) * Rational::ratio(i, cells);
    for (const Rational& mu : {box.mu_min, box.mu_max}) {
      if (box.coupling == GateBox::Coupling::angle) {
        const Rational X = box.s * box.s * eta * eta;
        const Rational a = smaller(below(Rational(1) / (Rational(1) + X)), box.alpha_max);
        const Rational b =
            smaller(X == Rational(0) ? Rational(0) : below(X / (Rational(1) + X)), box.beta_max);
        for (const Rational& alpha : {box.alpha_min, a}) {
          for (const Rational& beta : {box.beta_min, b}) {
            if (!(beta < Rational(0))) add(alpha, beta, mu, eta);
          }
        }
      } else {
        const bool kappa = box.coupling == GateBox::Coupling::kappa;
        for (int j = 0; j <= 8; ++j) {
          const Rational alpha =
              box.alpha_min + (box.alpha_max - box.alpha_min) * Rational::ratio(j, 8);
          const Rational most =
              kappa ? smaller(box.beta_max, box.kappa * (Rational(1) - alpha)) : box.beta_max;
          add(alpha, box.beta_min, mu, eta);
          add(alpha, most, mu, eta);
        }
      }
    }
  }
  return all;
}

struct Cycle {
  double rate = 0;  // spectral radius of the period to the power 1 / length
  std::vector<Step> steps;
};

double radius(double trace, double det) {
  const double disc = trace * trace - 4 * det;
  return disc >= 0 ? (std::abs(trace) + std::sqrt(disc)) / 2 : std::sqrt(std::max(det, 0.0));
}

/// Coordinate ascent from random starts: each step in turn becomes the best one for the others.
void search_cycles(const std::vector<Gates>& gates, int period, std::mt19937_64& random,
                   Cycle& best) {
  std::vector<std::size_t> at(period);
  for (std::size_t& i : at) i = random() % gates.size();
  double current = 0;
  for (int sweep = 0; sweep < 20; ++sweep) {
    double reached = current;
    for (int n = 0; n < period; ++n) {
      const int t = static_cast<int>(random() % period);
      double p[4] = {1, 0, 0, 1};  // the others, in order behind t
      for (int j = 1; j < period; ++j) {
        const Gates& g = gates[at[(t + j) % period]];
        const double q[4] = {g.a * p[0] + g.b * p[2], g.a * p[1] + g.b * p[3],
                             g.c * p[0] + g.d * p[2], g.c * p[1] + g.d * p[3]};
        std::copy(q, q + 4, p);
      }
      const double det_p = p[0] * p[3] - p[1] * p[2];
      double most = -1;
      for (std::size_t i = 0; i < gates.size(); ++i) {
        const Gates& g = gates[i];
        const double trace = g.a * p[0] + g.b * p[2] + g.c * p[1] + g.d * p[3];
        const double r = radius(trace, (g.a * g.d - g.b * g.c) * det_p);
        if (r > most) {
          most = r;
          at[t] = i;
        }
      }
      reached = std::max(reached, most);
    }
    if (reached < current + 1e-10) break;
    current = reached;
  }
  const double rate = std::pow(current, 1.0 / period);
  if (rate <= best.rate) return;
  best.rate = rate;
  best.steps.clear();
  for (const std::size_t i : at) best.steps.push_back(gates[i].exact);
}

Json cycle_certificate(const GateBox& box, const Cycle& cycle) {
  const CycleProduct product = product_of(cycle.steps);
  Json steps = Json::array();
  for (const Step& step : cycle.steps) steps.push_back(step_json(step));
  const double rho = radius(number(product.trace()), number(product.determinant()));
  if (!(rho > 1 + 1e-6)) return nullptr;
  const long micro =
      std::max(1000000L, std::min(static_cast<long>(rho * 999999.0), 1000000000000L));
  const Json statement = {{"kind", "cycle"},
                          {"box", box_json(box)},
                          {"keys", box.keys == GateBox::Keys::fixed ? "fixed" : "basis"},
                          {"strict", false},
                          {"period", cycle.steps.size()},
                          {"radius", Rational::ratio(micro, 1000000).to_string()}};
  return certify("gate-box/cycle", {{statement, true, {{"steps", steps}}}}, "UNSTABLE");
}

/// Orthogonal to its key a step has the eigenvalues α and μ.
double single_step_radius(const GateBox& box) {
  Rational alpha = box.alpha_max;
  if (box.coupling == GateBox::Coupling::kappa) {
    alpha = smaller(alpha, Rational(1) - box.beta_min / box.kappa);
  } else if (box.coupling == GateBox::Coupling::angle) {
    const Rational x = box.s * box.eta_min;
    alpha = smaller(alpha, Rational(1) / (Rational(1) + x * x));
  }
  return std::max(number(alpha), number(box.mu_max));
}

/// In the norm max(|S|, |M| / L) a step grows by at most max(α + βμL, αη/L + μ) (see theorem A), so
/// that every L bounds the joint spectral radius. With β <= κ(1-α) and L = 1/(κ μ_max) that is
/// max(1, μ_max (1 + κ g)), g the largest αη.
double radius_bound(const GateBox& box) {
  const double mu = number(box.mu_max), g = number(largest_write(box));
  if (box.coupling != GateBox::Coupling::free) {
    const double kappa = box.coupling == GateBox::Coupling::kappa ? number(box.kappa) : 1;
    return std::max(1.0, mu * (1 + kappa * g)) * (1 + 1e-12);
  }
  double least = 4;
  for (double L = 1e-3; L < 1e3; L *= 1.01) {
    least = std::min(least,
                     std::max(number(box.alpha_max) + number(box.beta_max) * mu * L, g / L + mu));
  }
  return least * (1 + 1e-12);
}

}  // namespace

GateBoxVerdict decide(const GateBoxRequest& request) {
  const GateBox box = checked(request.box);
  const auto start = Clock::now();
  const auto spent = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  GateBoxVerdict verdict;
  const auto contractive = [&](Json certificate, const std::string& reason) {
    if (certificate.is_null()) return false;
    verdict.answer = GateBoxVerdict::Answer::contractive;
    verdict.certificate = std::move(certificate);
    verdict.reason = reason;
    verdict.radius_upper = 1;
    return true;
  };
  const bool angle = box.coupling == GateBox::Coupling::angle;
  bool done = contractive(theorem_a(box), "Theorem A: max(|S|, kappa mu_max |M|) never increases");
  if (!done && angle) {
    done = contractive(theorem_b(box),
                       "Theorem B: |S|^2 + 2 s^2 (1 - mu_max^2) |M|^2 never increases");
  }
  // A quick look for a cycle, then certificates, then a long look.
  Cycle best;
  std::mt19937_64 random(request.seed);
  const auto look = [&](int cells, double until) {
    const std::vector<Gates> gates = candidates(box, cells);
    if (gates.empty()) return false;
    while (spent() < until) {
      for (int period = 1; period <= 18 && spent() < until; ++period) {
        const Cycle before = best;
        search_cycles(gates, period, random, best);
        if (best.rate <= before.rate || best.rate <= 1 + 1e-7) continue;
        Json certificate = cycle_certificate(box, best);
        if (certificate.is_null()) {
          best = before;  // exactly computed it does not grow
          continue;
        }
        verdict.answer = GateBoxVerdict::Answer::unstable;
        verdict.certificate = std::move(certificate);
        verdict.cycle = best.steps;
        verdict.reason =
            "a cycle of " + std::to_string(best.steps.size()) +
            " steps whose product has spectral radius > " +
            verdict.certificate.at("parts").at(0).at("statement").at("radius").get<std::string>();
        return true;
      }
    }
    return false;
  };
  const double budget = std::max(0.1, request.budget_seconds);
  std::string tried = "Theorem A";
  if (!done) {
    done = look(10, std::min(2.0, 0.15 * budget));
    tried += ", cycles of up to 18 steps";
  }
  const auto late = [&] { return spent() > 0.6 * budget; };
  if (!done && angle) {
    tried += ", Theorem B";
    if (box.keys != GateBox::Keys::any && box.eta_max == Rational(2)) {
      tried += ", invariant polygons";
      done = contractive(polygon(box, late), "an invariant polygon");
    }
    if (!done) {
      tried += ", path-complete quadratic forms";
      done = contractive(forms(box, late), "path-complete quadratic forms, any unit keys");
    }
  }
  if (!done && !angle && box.keys != GateBox::Keys::any && box.alpha_max < Rational(1)) {
    tried += ", invariant polygons";
    done = contractive(polygon(box, late), "an invariant polygon");
  }
  if (!done) done = look(20, 0.8 * budget) || look(40, budget);
  verdict.radius_lower = std::max(best.rate, single_step_radius(box));
  if (verdict.answer == GateBoxVerdict::Answer::undecided) {
    verdict.reason = "tried: " + tried;
    verdict.radius_upper = radius_bound(box);
  } else if (verdict.answer == GateBoxVerdict::Answer::unstable) {
    verdict.radius_upper = radius_bound(box);
  }
  return verdict;
}

std::optional<Rational> suggest_mu(const GateBox& given, double budget_seconds, Json* certificate) {
  const GateBox box = checked(given);
  const auto start = Clock::now();
  const auto certified = [&](long mu, Json& found) {
    GateBox tried = box;
    tried.mu_max = Rational::ratio(mu, 1000);
    tried.mu_min = smaller(tried.mu_min, tried.mu_max);
    found = theorem_a(tried);
    const bool angle = box.coupling == GateBox::Coupling::angle;
    if (found.is_null() && angle) found = theorem_b(tried);
    const auto late = [&] {
      return std::chrono::duration<double>(Clock::now() - start).count() > budget_seconds;
    };
    if (found.is_null() && angle) found = forms(tried, late);
    if (found.is_null() && angle && box.keys != GateBox::Keys::any && box.eta_max == Rational(2)) {
      found = polygon(tried, late);
    }
    return !found.is_null();
  };
  // The conditions are monotone in mu_max, and so, nearly, is what the finder finds.
  long low = -1, high = static_cast<long>(std::floor(number(box.mu_max) * 1000)) + 1;
  Json best;
  for (long step : {0L, high - 1}) {
    Json found;
    if (step > low && certified(step, found)) {
      low = step;
      best = found;
    } else if (step == 0) {
      return std::nullopt;
    }
  }
  while (high - low > 1) {
    const long middle = (low + high) / 2;
    Json found;
    if (certified(middle, found)) {
      low = middle;
      best = found;
    } else {
      high = middle;
    }
  }
  if (certificate) *certificate = best;
  return Rational::ratio(low, 1000);
}

std::optional<Rational> suggest_s(const GateBox& given, double budget_seconds, Json* certificate) {
  const GateBox box = checked(given);
  if (box.coupling != GateBox::Coupling::angle) {
    throw std::invalid_argument("gate box: suggest_s needs the coupling `angle`");
  }
  const auto start = Clock::now();
  const auto late = [&] {
    return std::chrono::duration<double>(Clock::now() - start).count() > budget_seconds;
  };
  const auto certified = [&](long s, Json& found) {
    GateBox tried = box;
    tried.s = Rational::ratio(s, 100);
    found = theorem_b(tried);
    if (found.is_null()) found = forms(tried, late);
    return !found.is_null();
  };
  long low = 35, high = 1600;
  Json best, found;
  if (certified(low, found)) {
    if (certificate) *certificate = found;
    return Rational::ratio(low, 100);
  }
  if (!certified(high, best)) return std::nullopt;
  while (high - low > 1) {
    const long middle = (low + high) / 2;
    if (certified(middle, found)) {
      high = middle;
      best = found;
    } else {
      low = middle;
    }
  }
  if (certificate) *certificate = best;
  return Rational::ratio(high, 100);
}

}  // namespace assay::proofs
