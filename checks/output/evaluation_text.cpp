#include "checks/output/evaluation_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace assay {
namespace {

constexpr std::size_t kShownValues = 2;
constexpr std::size_t kLineWidth = 99;

double max_magnitude(const DecimalTensor& tensor) {
  double largest = 0;
  for (double value : tensor.nearest) {
    if (std::isnan(value)) return value;
    largest = std::max(largest, std::abs(value));
  }
  return largest;
}

std::string tensor_text(const std::string& name, const DecimalTensor& tensor) {
  std::string text = fmt::format("{:<18} {:<18} max |.| {:.6e}\n", name, shape_text(tensor.shape),
                                 max_magnitude(tensor));
  const std::size_t shown = std::min(kShownValues, tensor.values.size());
  for (std::size_t i = 0; i < shown; ++i) {
    std::string line = fmt::format("  {:<16} {}", index_text(tensor.shape, static_cast<long>(i)),
                                   tensor.values[i]);
    if (line.size() > kLineWidth) line = line.substr(0, kLineWidth - 3) + "...";
    text += line + "\n";
  }
  return text;
}

}  // namespace

std::string evaluation_text(const Evaluation& evaluation) {
  std::string text = fmt::format("{}: {} form, {} certain digits from the {} engine at {} bits\n",
                                 evaluation.op, form_name(evaluation.form), evaluation.digits,
                                 engine_name(evaluation.engine), evaluation.bits);
  text += "\noutputs\n";
  for (const auto& [name, tensor] : evaluation.outputs) text += tensor_text(name, tensor);
  if (!evaluation.gradients.empty()) {
    text += "\ngradients\n";
    for (const auto& [name, tensor] : evaluation.gradients) text += tensor_text(name, tensor);
  }
  if (!evaluation.notes.empty()) {
    text += "\nnotes\n";
    for (const std::string& note : evaluation.notes) text += "  " + note + "\n";
  }
  return text;
}

}  // namespace assay
