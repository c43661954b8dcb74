#include "fuzz/campaign/screen.hpp"

#include <algorithm>
#include <cmath>

#include "reference/scalars/noisy.hpp"

namespace assay {
namespace {

constexpr double kElement = 5.5, kRms = 1.15, kMean = 6, kHopeless = 1e4;
constexpr std::int64_t kFew = 16;

/// What rounding into the format it is handed over in adds: the spacing at `truth`, over √12.
double output_sigma(NumberFormat format, double truth) {
  return std::max(unit_roundoff(format) * std::fabs(truth), smallest_spacing(format)) /
         std::sqrt(3.0);
}

void look(const std::string& name, const ExpectedTensor& e, const Tensor<double>& t, Screen& s) {
  double squares = 0, mean = 0;
  const std::size_t lanes = e.lanes.size();
  std::vector<double> lane_mean(lanes);
  std::int64_t judged = 0;
  for (std::size_t i = 0; i < t.data.size(); ++i) {
    const double truth = e.truth[i], value = t.data[i];
    s.growth = std::max(s.growth, std::fabs(truth));
    double sum = 0;
    for (const std::vector<float>& lane : e.lanes) sum += double{lane[i]} * lane[i];
    const double rounding = output_sigma(e.format, truth);
    const double sigma = std::sqrt(sum / static_cast<double>(lanes) + rounding * rounding);
    if (!std::isfinite(sigma)) continue;  // beyond the range of the formats
    const double rounded = round_to(e.format, truth);
    if (value == truth || value == rounded) {
      ++judged;
      continue;
    }
    const double z = (value - truth) / sigma;
    // Written so that NaN is suspicious.
    if (!(std::fabs(z) <= kElement)) s.suspicious = true;
    if (!(std::fabs(z) <= kHopeless)) s.hopeless = true;
    if (!(std::fabs(z) <= s.max_z)) s.max_z = std::fabs(z);
    // A copy is exact or wrong.
    if (sum == 0 && rounded == truth) s.suspicious = true;
    ++judged;
    squares += z * z;
    mean += z;
    for (std::size_t l = 0; l < lanes; ++l) lane_mean[l] += e.lanes[l][i] / sigma;
  }
  if (judged == 0 && t.size() > 0) s.unjudged = name;
  if (judged < kFew) return;
  const double rms = std::sqrt(squares / static_cast<double>(judged));
  s.rms_z = std::max(s.rms_z, rms);
  // Few elements spread; the full verdict allows for it in the same way.
  if (!(rms <= kRms + 4 / std::sqrt(static_cast<double>(judged)))) s.suspicious = true;
  double spread = static_cast<double>(judged) / 3;  // of the roundings into the output format
  for (const double m : lane_mean) spread += m * m / static_cast<double>(lanes);
  if (!(std::fabs(mean) <= kMean * std::sqrt(spread))) s.suspicious = true;
}

Screen look_once(const ValidCase& c, const PrecisionModel& model, const RunResult& result,
                 bool gradients, std::uint64_t seed, int lanes) {
  Screen s;
  s.suspicious = s.hopeless = model.accumulator == NumberFormat::fp64;
  const Expectation expectation =
      expect(c, model, {gradients, lanes, seed, 1, result.stored, true});
  for (const auto& [name, e] : expectation) {
    const Tensor<double>* t = result.find(name);
    if (t == nullptr || t->shape != e.shape) {
      s.suspicious = s.hopeless = true;
      continue;
    }
    s.elements += t->size();
    look(name, e, *t, s);
  }
  return s;
}

}  // namespace

Screen screen(const ValidCase& c, const PrecisionModel& model, const RunResult& result,
              bool gradients, std::uint64_t seed) {
  PrecisionModel steps = model;
  steps.form = Form::recurrent;
  steps.form_declared = true;
  const Screen first = look_once(c, steps, result, gradients, seed, Noisy::kLanes);
  if (!first.suspicious || first.hopeless) return first;
  PrecisionModel declared = model;
  if (!model.form_declared) declared.form = Form::chunk;
  declared.form_declared = true;
  if (declared.form != Form::recurrent) {
    const Screen second = look_once(c, declared, result, gradients, seed + 1, Noisy::kLanes);
    if (!second.suspicious || second.hopeless) return second;
  }
  return look_once(c, declared, result, gradients, seed + 2, 3 * Noisy::kLanes);
}

}  // namespace assay
