// A box of gates of one operation: what a model may do, without a model.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace assay::reports {

struct Range {
  double lo = 0, hi = 1;
};

/// "mdn:alpha=0.9:1,mu=0.5:0.7,eta=0:2" or "mdn:coupled,s=0.5,mu=0:0.7" or "mdn:decoupled".
struct GateBox {
  std::string op;
  std::map<std::string, Range> gates;  // alpha, beta, mu, eta; kappa = |k|^2, by default 1
  /// none; beta <= 1 - alpha; or alpha <= 1/(1+s²η²), beta <= 1 - 1/(1+s²η²)   [MDN v1, Sec. 3.3]
  enum class Coupling { none, decoupled, coupled } coupling = Coupling::none;
  double s = 1;
  std::string text;  // as given
};

/// Throws InputError, one line: unknown operation or gate, lo > hi, outside the gate's domain.
GateBox parse_box(const std::string& text);

/// One choice of gates.
struct GatePoint {
  double alpha = 1, beta = 0, mu = 0, eta = 1, kappa = 1;
};

/// The corners of the box (as far as the coupling allows them), then `count` points that fill it
/// evenly: an additive recurrence, the same for everybody.
std::vector<GatePoint> box_points(const GateBox& box, int count);

}  // namespace assay::reports
