// Which numbers a case may hold.
#include <cmath>

#include "reference/case/text.hpp"
#include "reference/case/validate.hpp"

namespace assay {
namespace {

void note(std::vector<DomainNote>& notes, const std::string& name, const CaseTensor& tensor,
          const Domain& domain) {
  DomainNote found{name, 0, "", 0.0, domain};
  const std::int64_t count = element_count(tensor.shape);
  const bool integer = is_integer(tensor.dtype);
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = integer ? static_cast<double>(tensor.integers[i]) : tensor.values[i];
    if (value >= domain.lo && value <= domain.hi) continue;
    if (found.count++ == 0) {
      found.first_index = index_text(tensor.shape, i);
      found.first_value = value;
    }
  }
  if (found.count != 0) notes.push_back(found);
}

}  // namespace

std::vector<DomainNote> check_values(const Case& data, const Schema& schema) {
  std::vector<DomainNote> notes;
  for (const auto& [name, tensor] : data.tensors) {
    const InputSpec* input = schema.find_input(name);
    const bool log = input != nullptr && name == input->log_name;
    for (std::size_t i = 0; i < tensor.values.size(); ++i) {
      const double value = tensor.values[i];
      if (std::isfinite(value) || (log && value == -kInf)) continue;
      refuse_tensor(data, name,
                    "index " + index_text(tensor.shape, static_cast<std::int64_t>(i)) + ", value " +
                        number_text(value) + ": must be finite" + (log ? " or -inf" : ""));
    }
    if (input != nullptr) note(notes, name, tensor, domain_of(*input, name));
  }
  return notes;
}

}  // namespace assay
