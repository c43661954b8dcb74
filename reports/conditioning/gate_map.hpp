// How far a kernel of mdn and the published coefficients are from the truth, over constant gates.
//
// One case: a head for each point (α, μ) of a grid, all with unit keys, α and μ the same at every
// step. The error of a head is that of its read-out,
//
//   |o - o_true|₂ / |o_true|₂,
//
// o_true from double-double arithmetic. The published formula is the chunk form with coefficients
// from logarithms and a difference [MDN v1, App. D], everything of it in fp32.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "checks/candidate/candidate.hpp"
#include "reports/render/report.hpp"

namespace assay::reports {

struct GateMapRequest {
  std::string candidate = "cpu";
  PrecisionModel model;
  int points = 17;                        // of α in [0.2, 1], and of log μ in [-2, 0]
  std::string shape = "T=128,K=64,V=64";  // B is 1, H the number of points
  std::uint64_t seed = 1;
  int threads = 1;
  std::function<void(double, const std::string&)> progress = {};
};

/// Errors are rows of log_mu, NaN where a result is not finite.
struct GateMap {
  std::string candidate, model, shape;
  double asked = 0;  // of kernels in this format: relative error of a tensor
  std::vector<double> alpha, log_mu;
  std::vector<double> candidate_error, published_error;
};

/// Runs both. Throws InputError when one does not run.
GateMap measure_gate_map(const GateMapRequest& request);

render::Json gate_map_json(const GateMap& map);
/// From what `assay report conditioning --json` printed on this machine or another.
GateMap read_gate_map(const std::string& path);

render::Report gate_map_report(const GateMap& map);

}  // namespace assay::reports
