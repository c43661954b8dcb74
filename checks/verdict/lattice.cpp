#include "checks/verdict/lattice.hpp"

#include <algorithm>

#include "reference/case/generate.hpp"
#include "reference/case/random.hpp"
#include "reference/scalars/scalars.hpp"

namespace assay {
namespace {

Format coarsest(const PrecisionModel& model) {
  NumberFormat worst = NumberFormat::fp32;
  for (NumberFormat f :
       {model.input, model.operand, model.accumulator, model.state, model.gate, model.output}) {
    if (unit_roundoff(f) > unit_roundoff(worst)) worst = f;
  }
  switch (worst) {
    case NumberFormat::tf32:
      return Format::tf32;
    case NumberFormat::fp16:
      return Format::fp16;
    case NumberFormat::bf16:
      return Format::bf16;
    default:
      return Format::fp32;
  }
}

double pick(Stream& random, std::initializer_list<double> choices) {
  return choices.begin()[random.below(choices.size())];
}

/// Replaces the values of one tensor by lattice values that fit its domain.
void fill(CaseTensor& tensor, const InputSpec* in, bool key, Stream& random) {
  const std::int64_t width = tensor.shape.empty() ? 1 : tensor.shape.back();
  for (std::size_t i = 0; i < tensor.values.size(); ++i) {
    double& x = tensor.values[i];
    if (key) {
      if (i % width == 0)
        std::fill_n(tensor.values.begin() + static_cast<std::ptrdiff_t>(i), width, 0.0);
      continue;
    }
    if (in && in->domain.hi == 1) {
      x = pick(random, {0, 0.5, 1, 1});
    } else if (in && in->domain.hi == 2) {
      x = pick(random, {0, 0.5, 1, 1, 2});
    } else {
      x = pick(random, {-2, -1, 0, 1, 2});
    }
  }
  for (std::size_t row = 0; key && row + width <= tensor.values.size(); row += width) {
    tensor.values[row + random.below(width)] = pick(random, {-1, 1});
  }
}

bool exact_in(const ValidCase& c, Format format) {
  const RunOptions run{Form::recurrent, true, 1, {}};
  const FormatScope scope(format);
  const auto rounded = evaluate<Rounded>(lift<Rounded>(c), run);
  const auto exact = evaluate<Rational>(lift<Rational>(c), run);
  for (const auto* sets : {&exact.outputs, &exact.gradients}) {
    const auto& other = sets == &exact.outputs ? rounded.outputs : rounded.gradients;
    for (const auto& [name, tensor] : *sets) {
      for (std::int64_t i = 0; i < tensor.size(); ++i) {
        const double x = other.at(name).data[i].value();
        if (!(fn::from_double<Rational>(x) == tensor.data[i])) return false;
      }
    }
  }
  return true;
}

}  // namespace

std::optional<CheckCase> lattice_case(const Operation& operation, const PrecisionModel& model,
                                      std::uint64_t seed) {
  const Schema schema = operation.schema(nullptr);
  for (std::int64_t T : {8, 5, 3, 2, 1}) {
    GenerateRequest request;
    request.op = operation.name();
    const std::map<char, std::int64_t> lengths = {{'B', 2}, {'T', T}, {'H', 2}, {'K', 4},
                                                  {'V', 3}, {'J', 2}, {'D', 4}, {'W', 3}};
    for (const auto& [letter, length] : lengths) {
      const bool used =
          std::any_of(schema.inputs.begin(), schema.inputs.end(),
                      [&](const auto& in) { return in.axes.find(letter) != std::string::npos; });
      if (!used) continue;
      request.shape += (request.shape.empty() ? "" : ",") + std::string(1, letter) + "=" +
                       std::to_string(length);
    }
    if (schema.find_option("scale")) request.options.push_back("scale=1.0");
    request.dtype = storage_dtype(model.input);
    request.seed = seed;
    Case data = generate([&](const Case* c) { return operation.schema(c); }, request);
    Stream random(seed * 7919 + static_cast<std::uint64_t>(T));
    for (auto& [name, tensor] : data.tensors) {
      const InputSpec* in = schema.find_input(name);
      const bool key = name == "q" || name == "k" || name == "p";
      fill(tensor, in, key, random);
    }
    const Schema final_schema = operation.schema(&data);
    ValidCase c = validate(std::move(data), final_schema);
    try {
      if (exact_in(c, coarsest(model))) return CheckCase{std::move(c), "exact lattice", true};
    } catch (const std::domain_error&) {
      return std::nullopt;  // a transcendental: no lattice
    }
  }
  return std::nullopt;
}

}  // namespace assay
