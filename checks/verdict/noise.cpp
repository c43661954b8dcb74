#include "checks/verdict/noise.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "checks/verdict/dtypes.hpp"
#include "reference/oracle/parallel.hpp"
#include "reference/scalars/scalars.hpp"

namespace assay {
namespace {

/// The largest of 64 Gaussian numbers exceeds four times their rms once in 250 times.
constexpr double kHeavyTail = 4;
/// Left to other orders and forms, whose intermediates may be larger. Two binades are a choice:
/// with one, a correct form with an intermediate twice the reference's would be called wrong where
/// that alone overflows; with three, one more binade (of 254 in fp32, of 40 in fp16) is not judged.
/// The pinned cases of overflows come out the same with either.
constexpr double kRangeMargin = 4;

NoiseModel noise_model(const PrecisionModel& m, Form form, double tokens, std::uint64_t seed) {
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
  for (const NumberFormat format : {m.accumulator, m.state, m.gate}) {
    n.largest = std::min(n.largest, largest_number(format) / kRangeMargin);
  }
  // Within a chunk the order of the tokens is the kernel's own affair.
  if (form == Form::chunk) n.reorder = std::min<double>(m.chunk, tokens) / 6;
  n.steps = tokens;
  if (m.truncating_accumulator) n.bias = unit_roundoff(m.accumulator);
  n.same_seed = (seed + 1) * 0x9e3779b97f4a7c15ULL;
  if (m.operand == NumberFormat::fp16) {
    n.operand_tiny = 0x1p-25;
    n.operand_max = largest_number(NumberFormat::fp16) / kRangeMargin;
  }
  return n;
}

template <class Real, class Take>
void for_each_tensor(const Result<Real>& result, Take take) {
  for (const auto& [name, tensor] : result.outputs) take(name, tensor);
  for (const auto& [name, tensor] : result.gradients) take("d_" + name, tensor);
}

std::string axes_of_result(const ValidCase& c, const std::string& name) {
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
    e.axes = axes_of_result(c, name);
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

/// SplitMix64: of [0, 1), good from the first number on whatever the seed.
double next_uniform(std::uint64_t& state) {
  std::uint64_t x = state += 0x9e3779b97f4a7c15ULL;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
  return static_cast<double>((x ^ x >> 31) >> 11) * 0x1p-53;
}

bool contains(const std::vector<Form>& forms, Form form) {
  return std::find(forms.begin(), forms.end(), form) != forms.end();
}

/// The forms whose roundings a correct candidate may have.
std::vector<Form> possible_forms(const ValidCase& c, const PrecisionModel& model) {
  const auto has = [&](Form form) { return contains(c.schema.forms, form); };
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
  if (out && !out->final_state) return model.output;
  const NumberFormat own = out ? model.final_state : model.output;
  const auto stored = request.stored.find(name);
  if (stored == request.stored.end() || is_integer(stored->second)) return own;
  // Not coarser than other outputs, or the gradient's input: who declares fp32 gets no bf16 states.
  const NumberFormat given = stored_format(stored->second);
  const NumberFormat coarsest = out ? model.output : input_format(c, model, name);
  const double unit = unit_roundoff(given);
  return unit > unit_roundoff(own) && unit <= unit_roundoff(coarsest) ? given : own;
}

/// The sequences and heads that an element belongs to: [first, last) of each, all where its tensor
/// has no such axis. Packed sequences count as one.
struct Span {
  std::int64_t batch[2], head[2];
};
Span span_of(const ExpectedTensor& e, std::int64_t flat, std::int64_t batches, std::int64_t heads) {
  Span span{{0, batches}, {0, heads}};
  std::int64_t stride = static_cast<std::int64_t>(e.truth.size());
  for (std::size_t a = 0; a < e.shape.size() && a < e.axes.size(); ++a) {
    stride /= e.shape[a];
    const std::int64_t at = flat / stride % e.shape[a];
    if (e.axes[a] == 'B') span.batch[0] = at, span.batch[1] = at + 1;
    if (e.axes[a] == 'H' || e.axes[a] == 'N') {
      const std::int64_t share = heads / e.shape[a];  // fewer heads are shared in blocks
      span.head[0] = at * share, span.head[1] = (at + 1) * share;
    }
  }
  return span;
}

/// A chunk form computes whole blocks and masks them: what overflows reaches, as 0 times infinity,
/// everything of its sequence and head.
void mark_spoiled(Expectation& expectation) {
  std::int64_t batches = 1, heads = 1;
  bool any = false;
  for (const auto& [name, e] : expectation) {
    for (std::size_t a = 0; a < e.shape.size() && a < e.axes.size(); ++a) {
      if (e.axes[a] == 'B') batches = std::max(batches, e.shape[a]);
      if (e.axes[a] == 'H' || e.axes[a] == 'N') heads = std::max(heads, e.shape[a]);
    }
    any = any || !std::all_of(e.sigma.begin(), e.sigma.end(),
                              [](double sigma) { return std::isfinite(sigma); });
  }
  if (!any) return;
  std::vector<bool> overflows(static_cast<std::size_t>(batches * heads));
  const auto visit = [&](const ExpectedTensor& e, std::size_t i, auto take) {
    const Span span = span_of(e, static_cast<std::int64_t>(i), batches, heads);
    for (std::int64_t b = span.batch[0]; b < span.batch[1]; ++b) {
      for (std::int64_t h = span.head[0]; h < span.head[1]; ++h) take(b * heads + h);
    }
  };
  for (const auto& [name, e] : expectation) {
    for (std::size_t i = 0; i < e.sigma.size(); ++i) {
      if (!std::isfinite(e.sigma[i])) visit(e, i, [&](auto at) { overflows[at] = true; });
    }
  }
  for (auto& [name, e] : expectation) {
    e.spoiled.assign(e.sigma.size(), false);
    for (std::size_t i = 0; i < e.sigma.size(); ++i) {
      bool spoiled = false;
      visit(e, i, [&](auto at) { spoiled = spoiled || overflows[at]; });
      e.spoiled[i] = spoiled;
    }
  }
}

/// 2 mean²/variance of the lanes' sums of z² are the degrees of freedom of a χ² like them; uniform
/// errors have more than there are elements.
double independent_errors(const ExpectedTensor& e) {
  std::vector<double> sums;
  for (const std::vector<float>& lane : e.lanes) {
    double sum = 0;
    for (std::size_t i = 0; i < lane.size(); ++i) {
      const double z = e.sigma[i] > 0 && std::isfinite(e.sigma[i]) ? lane[i] / e.sigma[i] : 0;
      sum += z * z;
    }
    sums.push_back(sum);
  }
  return -largest_over_groups(e, [&](std::size_t first, std::size_t last) {
    double sum = 0, squares = 0;
    for (std::size_t l = first; l < last; ++l) sum += sums[l], squares += sums[l] * sums[l];
    const double n = static_cast<double>(last - first), mean = sum / n;
    const double variance = squares / n - mean * mean, most = static_cast<double>(e.truth.size());
    return -(variance > 0 ? std::clamp(2 * mean * mean / variance, 1.0, std::max(1.0, most))
                          : most);
  });
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
  const double tokens = c.sizes.has('T') ? static_cast<double>(c.sizes['T']) : 0;
  parallel_for(runs, request.threads, [&](std::int64_t r) {
    const Form form = forms[r * groups / runs];
    const NoiseScope scope(noise_model(model, form, tokens, request.seed * 8191 + r),
                           request.seed * 1000003 + r);
    const RunOptions run{form, request.gradients, 1, {}};
    results[r] = evaluate<Noisy>(lift<Noisy>(c), run);
  });

  Expectation expectation;
  for (int r = 0; r < runs; ++r) {
    for_each_tensor(results[r], [&](const std::string& name, const Tensor<Noisy>& t) {
      ExpectedTensor& e = expectation[name];
      e.groups = groups;
      e.format = result_format(c, model, request, name);
      if (request.lanes_only && r == 0) {
        e.shape = t.shape;
        for (const Noisy& x : t.data) e.truth.push_back(x.v);
      }
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
        double sum = 0, most = 0;
        for (std::size_t l = first; l < last; ++l) {
          const double z = e.lanes[l][i];
          sum += z * z;
          most = std::max(most, std::fabs(z));
        }
        const double rms = std::sqrt(sum / static_cast<double>(last - first));
        // Where few lanes make up most of it (products of errors do that), the scale is theirs.
        return most > kHeavyTail * rms ? most : rms;
      });
    }
  }
  RunOptions run{Form::recurrent, request.gradients, 1, {}};
  run.threads = request.threads;
  fill_truth(c, run, expectation);
  std::uint64_t position = 0;  // among all elements of all tensors
  for (auto& [name, e] : expectation) {
    const NumberFormat format = e.format;
    const double u_out = unit_roundoff(format);
    for (std::size_t i = 0; i < e.sigma.size(); ++i) {
      // Below the normal range the spacing is absolute.
      const double spacing = std::max(u_out * std::fabs(e.truth[i]), smallest_spacing(format));
      // What no operation touched is a copy, and exact where the format holds it: an unselected
      // memory, the state of an empty sequence.
      const bool copied =
          e.sigma[i] == 0 && e.truth_error[i] == 0 && round_to(format, e.truth[i]) == e.truth[i];
      const double out = copied ? 0 : spacing / std::sqrt(3.0);
      // Values that stay equal to the last rounding are rounded alike, opposite ones oppositely;
      // in half of the lanes, as a last bit may make the difference.
      const std::uint64_t base = request.seed * 0x9e3779b97f4a7c15ULL + 12345;
      const std::uint64_t value = std::bit_cast<std::uint64_t>(std::fabs(e.truth[i])) & ~0xfffULL;
      std::uint64_t own = base ^ ++position << 20;
      std::uint64_t alike = e.sigma[i] < spacing ? base ^ value : ~own;
      const double size = std::copysign(std::sqrt(3.0) * out, e.truth[i]);
      e.sigma[i] = std::hypot(e.sigma[i], out);
      for (std::size_t l = 0; l < e.lanes.size(); ++l) {
        // Uniform, as the noise inside is only where there is little of it: where this is all there
        // is, the spread of z² must be right too.
        const double uniform = next_uniform(Noisy::alike(l) ? alike : own);
        e.lanes[l][i] += static_cast<float>((2 * uniform - 1) * size);
      }
    }
    e.independent = independent_errors(e);
  }
  if (contains(forms, Form::chunk)) mark_spoiled(expectation);
  return expectation;
}

}  // namespace assay
