#include "proofs/common/sha256.hpp"
#include "proofs/engine/gate_box.hpp"

namespace assay::proofs {

CycleProduct product_of(const std::vector<Step>& steps) {
  CycleProduct P;
  for (const Step& g : steps) {
    const Rational eta = g.along ? g.eta : Rational(0);
    const Rational a = g.alpha * (Rational(1) - g.beta * eta), b = -(g.beta * g.mu),
                   c = g.alpha * eta, d = g.mu;
    P = {a * P.a + b * P.c, a * P.b + b * P.d, c * P.a + d * P.c, c * P.b + d * P.d};
  }
  return P;
}

Json step_json(const Step& g) {
  return {g.alpha.to_string(), g.beta.to_string(), g.mu.to_string(), g.eta.to_string(),
          g.along ? "e1" : "e2"};
}

Json box_json(const GateBox& box) {
  static const char* kCoupling[] = {"free", "kappa", "angle"};
  Json json = {{"coupling", kCoupling[static_cast<int>(box.coupling)]},
               {"alpha_min", box.alpha_min.to_string()},
               {"alpha_max", box.alpha_max.to_string()},
               {"beta_min", box.beta_min.to_string()},
               {"beta_max", box.beta_max.to_string()},
               {"mu_min", box.mu_min.to_string()},
               {"mu_max", box.mu_max.to_string()},
               {"eta_min", box.eta_min.to_string()},
               {"eta_max", box.eta_max.to_string()}};
  if (box.coupling == GateBox::Coupling::kappa) json["kappa"] = box.kappa.to_string();
  if (box.coupling == GateBox::Coupling::angle) json["s"] = box.s.to_string();
  return json;
}

Json make_certificate(const std::string& claim, const std::string& answer, const Json& parts) {
  Json certificate = {
      {"assay_certificate", 1}, {"claim", claim}, {"answer", answer}, {"parts", parts}};
  certificate["digest"] = sha256(certificate.dump());
  return certificate;
}

}  // namespace assay::proofs
