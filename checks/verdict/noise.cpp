#include "checks/verdict/noise.hpp"

#include <algorithm>
#include <cmath>

#include "reference/oracle/parallel.hpp"
#include "reference/scalars/noise_extras.hpp"
#include "reference/scalars/scalars.hpp"

namespace assay {
namespace {

NoiseModel noise_model(const PrecisionModel& m) {
  NoiseModel n;
  n.operand = std::max(unit_roundoff(m.operand), unit_roundoff(m.accumulator));
  n.operand_bits = 1 - static_cast<int>(std::lround(std::log2(2 * unit_roundoff(m.operand))));
  n.accumulator = unit_roundoff(m.accumulator) * (m.truncating_accumulator ? 2 : 1);
  n.elementwise = std::max(unit_roundoff(m.state), unit_roundoff(m.gate));
  n.exp_error = m.exp_error;
  n.tanh_error = m.tanh_error;
  n.softplus_error = m.softplus_error;
  n.rsqrt_error = m.rsqrt_error;
  // Kernels may flush subnormals of their arithmetic to zero.
  n.tiny = m.accumulator == NumberFormat::fp64 ? 0x1p-1022 : 0x1p-126;
  return n;
}

NoiseExtras noise_extras(const PrecisionModel& m, std::uint64_t seed) {
  NoiseExtras n;
  if (m.truncating_accumulator) n.bias = unit_roundoff(m.accumulator);
  n.cast_seed = (seed + 1) * 0x9e3779b97f4a7c15ULL;
  if (m.operand == NumberFormat::fp16) {
    n.operand_tiny = 0x1p-25;
    // A quarter of the range is left to other orders and forms, whose intermediates are larger.
    n.operand_max = 65504.0 / 4;
  }
  return n;
}

/// Half the distance between subnormal numbers of the format.
double smallest_spacing(NumberFormat format) {
  switch (format) {
    case NumberFormat::fp64:
      return 0x1p-1074;
    case NumberFormat::fp16:
      return 0x1p-25;
    case NumberFormat::bf16:
      return 0x1p-134;
    default:
      return 0x1p-150;
  }
}

template <class Real, class Take>
void for_each_tensor(const Result<Real>& result, Take take) {
  for (const auto& [name, tensor] : result.outputs) take(name, tensor);
  for (const auto& [name, tensor] : result.gradients) take("d_" + name, tensor);
}

std::string axes_of(const ValidCase& c, const std::string& name) {
  if (const OutputSpec* out = c.schema.find_output(name)) return out->axes;
  const InputSpec* in = name.rfind("d_", 0) == 0 ? c.schema.find_input(name.substr(2)) : nullptr;
  return in ? in->axes : "";
}

// Double-double first; where its own error bound is not far below the noise, balls.
void fill_truth(const ValidCase& c, const RunOptions& run, Expectation& expectation) {
  const auto dd = evaluate<DoubleDouble>(lift<DoubleDouble>(c), run);
  bool certain = true;
  for_each_tensor(dd, [&](const std::string& name, const Tensor<DoubleDouble>& t) {
    ExpectedTensor& e = expectation[name];
    e.shape = t.shape;
    e.axes = axes_of(c, name);
    for (std::int64_t i = 0; i < t.size(); ++i) {
      const double error = t.data[i].err() + std::fabs(t.data[i].lo());
      e.truth.push_back(t.data[i].hi());
      e.truth_error.push_back(error);
      const double scale = e.sigma.empty() ? std::fabs(t.data[i].hi()) * 1e-9 : e.sigma[i];
      if (!(t.data[i].err() <= 1e-3 * scale)) certain = certain && t.data[i].err() == 0;
    }
  });
  for (long bits = 128; !certain && bits <= 4096; bits *= 2) {
    const PrecisionScope precision(bits);
    const auto balls = evaluate<Ball>(lift<Ball>(c), run);
    certain = true;
    for_each_tensor(balls, [&](const std::string& name, const Tensor<Ball>& t) {
      ExpectedTensor& e = expectation[name];
      for (std::int64_t i = 0; i < t.size(); ++i) {
        e.truth[i] = fn::to_double(t.data[i]);
        e.truth_error[i] = t.data[i].radius() + std::fabs(e.truth[i]) * 0x1p-53;
        if (!(t.data[i].radius() <= 1e-3 * e.sigma[i]))
          certain = certain && t.data[i].radius() == 0;
      }
    });
  }
}

/// The forms whose roundings a correct candidate may have.
std::vector<Form> possible_forms(const ValidCase& c, const PrecisionModel& model) {
  const std::vector<Form>& known = c.schema.forms;
  const auto has = [&](Form form) {
    return std::find(known.begin(), known.end(), form) != known.end();
  };
  // A plug-in declares one form for all its operations; a mixture may still go step by step.
  const bool mixture = c.schema.find_option("update") != nullptr;
  if (model.form == Form::chunk && has(Form::chunk) && mixture) {
    return {Form::recurrent, Form::chunk};
  }
  if (model.form_declared) return {has(model.form) ? model.form : Form::recurrent};
  if (has(Form::chunk)) return {Form::recurrent, Form::chunk};
  return {Form::recurrent};
}

/// The format in which a result is handed over.
NumberFormat result_format(const ValidCase& c, const PrecisionModel& model,
                           const ExpectationRequest& request, const std::string& name) {
  const OutputSpec* out = c.schema.find_output(name);
  if (!out || !out->final_state) return model.output;
  const auto stored = request.stored.find(name);
  if (stored == request.stored.end() || is_integer(stored->second)) return model.final_state;
  const NumberFormat given = stored->second == DType::BF16  ? NumberFormat::bf16
                             : stored->second == DType::F16 ? NumberFormat::fp16
                                                            : NumberFormat::fp32;
  const bool coarser = unit_roundoff(given) > unit_roundoff(model.final_state);
  // Not coarser than other outputs: who declares fp32 gets no bf16 states.
  return coarser && unit_roundoff(given) <= unit_roundoff(model.output) ? given : model.final_state;
}

}  // namespace

Expectation expect(const ValidCase& given, const PrecisionModel& model,
                   const ExpectationRequest& request) {
  ValidCase c = given;
  if (c.schema.find_option("chunk")) c.data.options["chunk"] = std::int64_t{model.chunk};
  const std::vector<Form> forms = possible_forms(c, model);

  const int runs = request.lanes / Noisy::kLanes;
  const int groups = std::min<int>(runs, static_cast<int>(forms.size()));
  std::vector<Result<Noisy>> results(runs);
  const NoiseModel noise = noise_model(model);
  parallel_for(runs, request.threads, [&](std::int64_t r) {
    const NoiseScope scope(noise, request.seed * 1000003 + r);
    const NoiseExtrasScope more(noise_extras(model, request.seed * 8191 + r));
    const RunOptions run{forms[r * groups / runs], request.gradients, 1, {}};
    results[r] = evaluate<Noisy>(lift<Noisy>(c), run);
  });

  Expectation expectation;
  for (int r = 0; r < runs; ++r) {
    for_each_tensor(results[r], [&](const std::string& name, const Tensor<Noisy>& t) {
      ExpectedTensor& e = expectation[name];
      e.groups = groups;
      e.lanes.resize(request.lanes);
      for (int lane = 0; lane < Noisy::kLanes; ++lane) {
        std::vector<float>& column = e.lanes[r * Noisy::kLanes + lane];
        column.resize(t.data.size());
        for (std::size_t i = 0; i < t.data.size(); ++i) {
          column[i] = static_cast<float>(t.data[i].d[lane]);
        }
      }
    });
    results[r] = {};
  }
  if (request.lanes_only) return expectation;
  // σ² of the arithmetic plus that of rounding the result into the output format.
  for (auto& [name, e] : expectation) {
    e.sigma.resize(e.lanes.empty() ? 0 : e.lanes[0].size());
    for (std::size_t i = 0; i < e.sigma.size(); ++i) {
      e.sigma[i] = largest_over_groups(e, [&](std::size_t first, std::size_t last) {
        double sum = 0;
        for (std::size_t l = first; l < last; ++l) {
          sum += static_cast<double>(e.lanes[l][i]) * e.lanes[l][i];
        }
        return std::sqrt(sum / static_cast<double>(last - first));
      });
    }
  }
  RunOptions run{Form::recurrent, request.gradients, 1, {}};
  run.threads = request.threads;
  fill_truth(c, run, expectation);
  std::uint64_t random = request.seed * 0x9e3779b97f4a7c15ULL + 12345;
  for (auto& [name, e] : expectation) {
    const NumberFormat format = e.format = result_format(c, model, request, name);
    const double u_out = unit_roundoff(format);
    for (std::size_t i = 0; i < e.sigma.size(); ++i) {
      // Below the normal range the spacing is absolute; beyond the largest number the rounded
      // truth is infinite, and so may be the candidate's.
      const double spacing = std::max(u_out * std::fabs(e.truth[i]), smallest_spacing(format));
      // What no operation touched is a copy, and exact where the format holds it: an unselected
      // memory, the state of an empty sequence.
      const bool copied =
          e.sigma[i] == 0 && e.truth_error[i] == 0 && round_to(format, e.truth[i]) == e.truth[i];
      const double out = copied ? 0 : spacing / std::sqrt(3.0);
      if (std::isinf(round_to(format, e.truth[i]))) {
        e.truth[i] = round_to(format, e.truth[i]);
      }
      e.sigma[i] = std::hypot(e.sigma[i], out);
      for (std::vector<float>& lane : e.lanes) {
        // Uniform, unlike the noise inside, which sums up to something bell-shaped: where this is
        // all there is, the spread of z² must be right too.
        random ^= random >> 12, random ^= random << 25, random ^= random >> 27;
        const double uniform =
            static_cast<double>((random * 0x2545f4914f6cdd1dULL) >> 11) * 0x1p-52;
        lane[i] += static_cast<float>((uniform - 1) * std::sqrt(3.0) * out);
      }
    }
  }
  return expectation;
}

}  // namespace assay
