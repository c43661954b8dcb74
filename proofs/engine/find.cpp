#include "proofs/engine/find.hpp"

#include <map>
#include <stdexcept>

namespace assay::proofs {

Found find(const Json& statement, bool holds, const Json& hint) {
  static const std::map<std::string, Found (*)(const Json&, bool, const Json&)> kinds = {
      {"identity", find_identity},         {"forall", find_forall},
      {"program", find_program},           {"cycle", find_cycle},
      {"nonexpansion", find_nonexpansion}, {"polygon", find_polygon},
      {"operation", find_operation},       {"roundings", find_roundings},
      {"enclosure", find_enclosure},
  };
  const auto found = kinds.find(statement.at("kind").get<std::string>());
  if (found == kinds.end()) {
    throw std::invalid_argument("proofs: unknown kind of statement " + statement.at("kind").dump());
  }
  return found->second(statement, holds, hint);
}

}  // namespace assay::proofs
