// Can products of Momentum DeltaNet steps with gates from a box grow? One of three answers, each
// with what makes it certain.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "proofs/claims/claim.hpp"
#include "reference/case/tensor.hpp"
#include "reference/scalars/rational.hpp"

namespace assay::proofs {

/// Ranges of the gates, ends included. The coupling bounds α and β together:
///   free    nothing more
///   kappa   β <= κ (1 - α)
///   angle   α <= 1 / (1 + s² η²), β <= s² η² / (1 + s² η²)   (mdn_gates: θ = atan(s η))
struct GateBox {
  enum class Coupling { free, kappa, angle };
  enum class Keys { fixed, basis, any };  // one key; keys of one orthonormal basis; any unit keys
  Coupling coupling = Coupling::kappa;
  Keys keys = Keys::any;
  Rational kappa = 1, s = 1;
  Rational alpha_min = 0, alpha_max = 1, beta_min = 0, beta_max = 1;
  Rational mu_min = 0, mu_max = 1, eta_min = 0, eta_max = 2;
};

/// One step of a cycle: its gates, and whether its key is e1 (else e2).
struct Step {
  Rational alpha, beta, mu, eta;
  bool along = true;
};

/// The product of a cycle on the direction e1, first step first.
struct CycleProduct {
  Rational a = 1, b = 0, c = 0, d = 1;
  Rational trace() const { return a + d; }
  Rational determinant() const { return a * d - b * c; }
};
CycleProduct product_of(const std::vector<Step>& steps);
/// The cycle as a case of mdn, `periods` times over: K = 2, V = 1, S_0 = (1, 0), reads with e1.
/// Gates that are no doubles are the nearest ones.
Case cycle_case(const std::vector<Step>& steps, long periods);
Json step_json(const Step& step);
Json box_json(const GateBox& box);

struct GateBoxVerdict {
  enum class Answer { contractive, unstable, undecided };
  Answer answer = Answer::undecided;
  std::string reason;  // "Theorem B", "a cycle of 4 steps", ...; for undecided what was tried
  /// A certificate that `assay verify-cert` accepts; null when undecided. "contractive" means that
  /// no product of steps of the box grows without bound, whatever its length (the closed boxes hold
  /// α = 1, so decay is not promised).
  Json certificate;
  std::vector<Step> cycle;  // of `unstable`: the exact gates and keys of one period
  /// Bounds of the joint spectral radius. The lower one is proved by the best cycle found; the
  /// upper one is 1 when contractive, otherwise from the largest norm of a single step.
  double radius_lower = 0, radius_upper = 0;
};

struct GateBoxRequest {
  GateBox box;
  double budget_seconds = 20;
  std::uint64_t seed = 1;
};

/// Throws std::invalid_argument for an empty box or gates outside [0, 1], [0, 2].
GateBoxVerdict decide(const GateBoxRequest& request);

/// The largest μ bound, a multiple of 1/1000 up to `box.mu_max`, that is certified contractive with
/// the rest of the box unchanged; nothing if there is none. `certificate` gets its certificate.
std::optional<Rational> suggest_mu(const GateBox& box, double budget_seconds, Json* certificate);
/// The same for s of coupling `angle`: the smallest multiple of 1/100 up to 16 that is certified
/// for mu_max as it is (products get more stable as s grows from about 0.35 on).
std::optional<Rational> suggest_s(const GateBox& box, double budget_seconds, Json* certificate);

/// Pieces of a nonexpansion certificate that cover s in [s0, s1]; nothing when the finder fails or
/// `give_up` says so.
std::optional<Json> certify_pieces(const Rational& s0, const Rational& s1, const Rational& mu_max,
                                   const Rational& eta_max, long& inequalities,
                                   const std::function<bool()>& give_up = {});

/// Proof of an invariant polygon for keys of one basis (or a single key) and one s.
std::optional<Json> certify_polygon(const Rational& s, const Rational& mu_max, bool basis,
                                    const std::function<bool()>& give_up = {});

/// The same for a box of coupling `kappa` or `free` whose α stays below 1 (keys fixed or basis).
std::optional<Json> certify_box_polygon(const GateBox& box,
                                        const std::function<bool()>& give_up = {});

/// Wraps statement-proof pairs into a certificate with its digest.
Json make_certificate(const std::string& claim, const std::string& answer, const Json& parts);

}  // namespace assay::proofs
