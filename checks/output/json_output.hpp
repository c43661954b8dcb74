// The JSON that the command line prints. Every object carries `schema_version`.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "checks/gradcheck/gradcheck.hpp"
#include "reference/case/schema.hpp"
#include "reference/oracle/certify.hpp"

namespace assay {

/// Raised whenever a reader of the old output would misread the new one.
inline constexpr int kJsonSchemaVersion = 1;

using Json = nlohmann::ordered_json;

/// {"schema_version", …} for further keys.
Json json_document();

Json to_json(const Schema& schema);
Json to_json(const Evaluation& evaluation);
Json to_json(const GradcheckReport& report);
Json to_json(const OptionValue& value);

/// "passed", "failed", "skipped".
std::string status_name(CheckOutcome::Status status);

/// Prints to stdout, one line.
void print_json(const Json& document);

}  // namespace assay
