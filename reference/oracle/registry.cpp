#include "reference/oracle/registry.hpp"

#include "reference/case/schema.hpp"

namespace assay {

const Operation& find_operation(const std::string& name) {
  std::string known;
  for (const Operation* operation : operations()) {
    const std::string op = operation->name();
    if (op == name) return *operation;
    known += (known.empty() ? "" : ", ") + op;
  }
  throw InputError("unknown operation '" + name + "'; known: " + known);
}

}  // namespace assay
