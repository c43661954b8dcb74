#include "reports/conditioning/gate_map.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include "reference/case/generate.hpp"
#include "reference/case/text.hpp"
#include "reference/oracle/registry.hpp"
#include "reference/scalars/rounded.hpp"
#include "reference/scalars/scalars.hpp"

namespace assay::reports {
namespace {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();
constexpr double kLeastAlpha = 0.2, kLeastLogMu = -2;  // the model's own lower bound of log μ
constexpr std::int64_t kChunk = 64;
constexpr RunLimits kLimits{600, 8ull << 30};

/// What kernels are asked for, as a relative error of a whole tensor.
double asked_of(const PrecisionModel& model) {
  const double coarsest = std::max(
      {unit_roundoff(model.input), unit_roundoff(model.operand), unit_roundoff(model.output)});
  return coarsest > unit_roundoff(NumberFormat::fp32) ? 1e-2 : 1e-5;
}

std::vector<double> evenly(double lo, double hi, int points) {
  std::vector<double> out;
  for (int i = 0; i < points; ++i) out.push_back(lo + (hi - lo) * i / (points - 1));
  return out;
}

void normalise_rows(CaseTensor& tensor) {
  const std::int64_t width = tensor.shape.back();
  for (std::size_t row = 0; row < tensor.values.size(); row += width) {
    double sum = 0;
    for (std::int64_t i = 0; i < width; ++i) sum += tensor.values[row + i] * tensor.values[row + i];
    const double norm = sum > 0 ? std::sqrt(sum) : 1;
    for (std::int64_t i = 0; i < width; ++i) {
      tensor.values[row + i] = round_to_dtype(tensor.values[row + i] / norm, tensor.dtype);
    }
  }
}

/// `value(head)` at every step, in fp32 whatever the rows are: the grid is not to be rounded away.
template <class Value>
void set_gate(CaseTensor& gate, std::int64_t heads, const Value& value) {
  gate.dtype = DType::F32;
  for (std::size_t i = 0; i < gate.values.size(); ++i) {
    gate.values[i] = round_to_dtype(value(static_cast<std::int64_t>(i) % heads), DType::F32);
  }
}

Case make_case(const GateMapRequest& request, const GateMap& map) {
  const Operation& mdn = find_operation("mdn");
  const std::int64_t heads = static_cast<std::int64_t>(map.candidate_error.size());
  GenerateRequest what;
  what.op = "mdn";
  what.shape = "B=1,H=" + std::to_string(heads) + "," + request.shape;
  what.gates = {"alpha=0.5", "mu=0.5", "beta=0.02:1"};
  what.dtype = storage_dtype(request.model.input);
  what.seed = request.seed;
  what.optional_inputs = what.cotangents = false;
  Case data = generate([&](const Case* c) { return mdn.schema(c); }, what);
  data.options["chunk"] = kChunk;
  for (const char* name : {"q", "k"}) normalise_rows(data.tensors.at(name));
  const auto columns = static_cast<std::int64_t>(map.alpha.size());
  set_gate(data.tensors.at("alpha"), heads, [&](auto head) { return map.alpha[head % columns]; });
  set_gate(data.tensors.at("mu"), heads,
           [&](auto head) { return std::exp(map.log_mu[head / columns]); });
  return data;
}

ValidCase valid(Case data) {
  const Schema schema = find_operation("mdn").schema(&data);
  return validate(std::move(data), schema);
}

/// o by the published coefficients, every operation rounded to fp32.
std::vector<double> published_formula(const ValidCase& c) {
  const FormatScope fp32(Format::fp32);  // of this thread, so there is one
  RunOptions options;
  options.form = Form::chunk_log;
  const auto result = evaluate<Rounded>(lift<Rounded>(c), options);
  std::vector<double> o;
  for (const Rounded& x : result.outputs.at("o").data) o.push_back(x.value());
  return o;
}

std::vector<double> run(const std::string& spec, const PrecisionModel& model, const ValidCase& c) {
  const auto candidate = open_candidate(spec, model, kLimits);
  const RunResult result = candidate->run(c, false);
  const Tensor<double>* o = result.find("o");
  if (result.status == RunStatus::ran && o) return o->data;
  throw InputError(spec + ": did not run over the gates: " +
                   (result.detail.empty() ? "there is no 'o'" : result.detail));
}

/// Of each head of o [1,T,H,V].
std::vector<double> head_errors(const std::vector<double>& found, const std::vector<double>& truth,
                                std::int64_t heads, std::int64_t width) {
  std::vector<double> off(heads), norm(heads);
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const std::size_t head = i / width % heads;
    const double difference = found[i] - truth[i];
    off[head] += difference * difference;
    norm[head] += truth[i] * truth[i];
  }
  for (std::int64_t h = 0; h < heads; ++h) {
    off[h] = std::isfinite(off[h]) ? std::sqrt(off[h] / norm[h]) : kNoNumber;
  }
  return off;
}

std::vector<double> numbers(const render::Json& json) {
  std::vector<double> out;
  for (const auto& x : json) out.push_back(x.is_number() ? x.get<double>() : kNoNumber);
  return out;
}

}  // namespace

GateMap measure_gate_map(const GateMapRequest& request) {
  const auto say = [&](double share, const char* what) {
    if (request.progress) request.progress(share, what);
  };
  GateMap map;
  map.candidate = request.candidate, map.model = request.model.name;
  map.asked = asked_of(request.model);
  map.alpha = evenly(kLeastAlpha, 1, request.points);
  map.log_mu = evenly(kLeastLogMu, 0, request.points);
  map.candidate_error.resize(map.alpha.size() * map.log_mu.size());
  const ValidCase c = valid(make_case(request, map));
  const std::int64_t heads = c.sizes['H'], width = c.sizes['V'];
  map.shape = request.shape + ",C=" + std::to_string(kChunk);

  say(0, "candidate");
  const std::vector<double> found = run(request.candidate, request.model, c);
  say(0.2, "published formula");
  const std::vector<double> published = published_formula(c);
  say(0.4, "truth");
  RunOptions exactly;
  exactly.threads = request.threads;
  const auto result = evaluate<DoubleDouble>(lift<DoubleDouble>(c), exactly);
  std::vector<double> truth;
  for (const DoubleDouble& x : result.outputs.at("o").data) truth.push_back(x.hi());
  map.candidate_error = head_errors(found, truth, heads, width);
  map.published_error = head_errors(published, truth, heads, width);
  return map;
}

render::Json gate_map_json(const GateMap& map) {
  const auto list = [](const std::vector<double>& values) {
    render::Json out = render::Json::array();
    for (const double x : values) out.push_back(render::json_number(x));
    return out;
  };
  return {{"operation", "mdn"},
          {"candidate", map.candidate},
          {"model", map.model},
          {"shape", map.shape},
          {"asked", map.asked},
          {"what", "relative l2 error of o for constant gates; rows of log_mu, null: not finite"},
          {"alpha", list(map.alpha)},
          {"log_mu", list(map.log_mu)},
          {"candidate_error", list(map.candidate_error)},
          {"published_formula_fp32_error", list(map.published_error)}};
}

GateMap read_gate_map(const std::string& path) {
  std::ifstream stream(path);
  const auto refuse = [&](const std::string& why) -> InputError {
    return InputError(path + ": " + why + "; it must be what `assay report conditioning mdn" +
                      " --candidate SPEC --json` prints");
  };
  if (!stream) throw InputError(path + ": cannot be read");
  const render::Json all = render::Json::parse(stream, nullptr, false);
  if (all.is_discarded()) throw refuse("is not JSON");
  if (!all.is_object() || !all.contains("map")) throw refuse("has no member 'map'");
  const render::Json& json = all["map"];
  GateMap map;
  try {
    map.candidate = json.at("candidate").get<std::string>();
    map.model = json.at("model").get<std::string>();
    map.shape = json.at("shape").get<std::string>();
    map.asked = json.at("asked").get<double>();
    map.alpha = numbers(json.at("alpha")), map.log_mu = numbers(json.at("log_mu"));
    map.candidate_error = numbers(json.at("candidate_error"));
    map.published_error = numbers(json.at("published_formula_fp32_error"));
  } catch (const nlohmann::json::exception&) {
    throw refuse("lacks a member of 'map', or one has another type");
  }
  const std::size_t points = map.alpha.size() * map.log_mu.size();
  if (map.alpha.size() < 2 || map.log_mu.size() < 2 || map.candidate_error.size() != points ||
      map.published_error.size() != points) {
    throw refuse("'map' has lists of other lengths than its grid");
  }
  return map;
}

}  // namespace assay::reports
