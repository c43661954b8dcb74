#include "fuzz/campaign/screen.hpp"

#include <algorithm>
#include <cmath>

#include "reference/scalars/noisy.hpp"

namespace assay {
namespace {

constexpr double kElement = 5.5, kRms = 1.15, kMean = 6;
constexpr std::int64_t kFew = 16;

const Tensor<double>* tensor_of(const RunResult& result, const std::string& name) {
  if (const auto found = result.outputs.find(name); found != result.outputs.end()) {
    return &found->second;
  }
  if (name.rfind("d_", 0) != 0) return nullptr;
  const auto found = result.gradients.find(name.substr(2));
  return found == result.gradients.end() ? nullptr : &found->second;
}

void look(const ExpectedTensor& e, const Tensor<double>& t, Screen& s) {
  double error2 = 0, sigma2 = 0, mean = 0;
  double lane_mean[Noisy::kLanes] = {};
  std::int64_t judged = 0;
  for (std::size_t i = 0; i < t.data.size(); ++i) {
    const double truth = e.truth[i], value = t.data[i], sigma = e.sigma[i];
    s.growth = std::max(s.growth, std::fabs(truth));
    if (!std::isfinite(sigma)) continue;
    double error = value - truth;
    if (std::isinf(truth) && value == truth) error = 0;
    error = std::max(0.0, std::fabs(error) - e.truth_error[i]) * (error < 0 ? -1 : 1);
    const double z = error == 0 ? 0 : error / sigma;
    // Written so that NaN is suspicious.
    if (!(std::fabs(z) <= kElement)) s.suspicious = true;
    if (!(std::fabs(z) <= s.max_z)) s.max_z = std::fabs(z);
    if (sigma == 0) continue;
    ++judged;
    error2 += error * error / (sigma * sigma);
    sigma2 += 1;
    mean += z;
    for (int l = 0; l < Noisy::kLanes; ++l) lane_mean[l] += e.lanes[l][i] / sigma;
  }
  if (judged < kFew) return;
  const double rms = std::sqrt(error2 / sigma2);
  s.rms_z = std::max(s.rms_z, rms);
  // Few elements spread; the full verdict allows for it in the same way.
  if (!(rms <= kRms + 4 / std::sqrt(static_cast<double>(judged)))) s.suspicious = true;
  double spread = 0;
  for (const double m : lane_mean) spread += m * m / Noisy::kLanes;
  if (!(std::fabs(mean) <= kMean * std::sqrt(spread))) s.suspicious = true;
}

}  // namespace

Screen screen(const ValidCase& c, const PrecisionModel& model, const RunResult& result,
              bool gradients, std::uint64_t seed) {
  Screen s;
  const Expectation expectation =
      expect(c, model, {gradients, Noisy::kLanes, seed, 1, result.stored, false});
  for (const auto& [name, e] : expectation) {
    const Tensor<double>* t = tensor_of(result, name);
    if (t == nullptr || t->shape != e.shape) {
      s.suspicious = true;
      continue;
    }
    s.elements += t->size();
    look(e, *t, s);
  }
  return s;
}

}  // namespace assay
