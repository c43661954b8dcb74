// A check report in the formats that other programs read.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "checks/verdict/check.hpp"

namespace assay {

/// One verdict as an object of `check_json`.
nlohmann::ordered_json verdict_json(const Verdict& verdict);
/// Everything, schema_version 1.
nlohmann::ordered_json check_json(const CheckReport& report);
/// JUnit XML: a test suite per operation, a test case per case; findings are failures,
/// unsupported cases and weak tests are skipped with their reason.
std::string check_junit(const CheckReport& report);
/// SARIF 2.1.0: one result per finding, the rule being the kind of verdict.
nlohmann::ordered_json check_sarif(const CheckReport& report);
/// GitHub workflow commands: one ::error or ::warning line per case that did not pass.
std::string check_github(const CheckReport& report);

}  // namespace assay
