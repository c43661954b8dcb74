// Load-balancing loss of the router.   [MoM v4, Sec. 4.2.7, after Switch Transformer]
//
//   loss = M Σ_m fraction_m mean_m
//   fraction_m = selections of m / all selections (locally constant)
//   mean_m     = mean over all tokens of softmax(logits)_m
//
//   d_logits(t) = softmax adjoint of d_score_m = M fraction_m d_loss / (B T)
#pragma once

#include "reference/recurrences/mom_dispatch.hpp"

namespace assay {

template <class Real>
class MomAuxLossMap final : public WholeMap<Real> {
 public:
  void forward(const Problem<Real>& problem, Result<Real>& result) const override {
    const Weights w = weights(problem);
    Real& loss = result.outputs.at("loss").data[0];
    for (std::int64_t row = 0; row < w.rows; ++row) {
      const std::vector<Real> score = softmax_over(w.all, logits(problem, row));
      for (std::int64_t m = 0; m < w.M; ++m) loss += w.weight[m] * score[m];
    }
  }
  void adjoint(const Problem<Real>& problem, Result<Real>& result) const override {
    const auto given = problem.cotangents.find("loss");
    if (given == problem.cotangents.end()) return;
    Weights w = weights(problem);
    for (Real& value : w.weight) value *= given->second.data[0];
    Real* d = result.gradients.at("router_logits").data.data();
    for (std::int64_t row = 0; row < w.rows; ++row) {
      const std::vector<Real> score = softmax_over(w.all, logits(problem, row));
      softmax_adjoint(w.all, score, w.weight, d + row * w.M);
    }
  }

 private:
  struct Weights {
    std::int64_t rows = 0, M = 0;
    std::vector<std::int64_t> all;
    std::vector<Real> weight;  // M fraction_m / (B T)
  };
  static const Real* logits(const Problem<Real>& problem, std::int64_t row) {
    const Tensor<Real>& tensor = problem.inputs.at("router_logits");
    return tensor.data.data() + row * tensor.shape[2];
  }
  static Weights weights(const Problem<Real>& problem) {
    const ValidCase& c = *problem.valid;
    const std::int64_t k = routed_top_k(c);
    Weights w;
    w.M = c.sizes['M'];
    w.rows = c.sizes['B'] * c.sizes['T'];
    std::vector<std::int64_t> count(w.M, 0);
    for (std::int64_t row = 0; row < w.rows; ++row) {
      for (std::int64_t m : select_top_k(w.M, k, logits(problem, row))) ++count[m];
    }
    for (std::int64_t m = 0; m < w.M; ++m) {
      w.all.push_back(m);
      w.weight.push_back(0);
      if (w.rows == 0) continue;
      const Real rows = static_cast<int>(w.rows);
      w.weight[m] =
          Real(static_cast<int>(w.M * count[m])) / (rows * rows * Real(static_cast<int>(k)));
    }
    return w;
  }
};

struct MomAuxLoss {
  static Schema schema(const Case*) {
    Schema s = routing_schema("mom_aux_loss", "load-balancing loss of the MoM router",
                              "[MoM v4, Sec. 4.2.7]");
    s.outputs = {{"loss", "", "load-balancing loss"}};
    return s;
  }

  template <class Real>
  static Engine<Real> make(const ValidCase&) {
    Engine<Real> engine;
    engine.whole = std::make_unique<MomAuxLossMap<Real>>();
    return engine;
  }
};

}  // namespace assay

ASSAY_OPERATION(MomAuxLoss, mom_aux_loss)
