// A report in all its forms: the page, the same data as JSON and CSV, the figures as files.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "reports/render/page.hpp"

namespace assay::render {

using Json = nlohmann::ordered_json;

/// What a report found, as the exit code of the command that made it.
enum class Outcome { well = 0, finding = 1, undecided = 3 };

struct Csv {
  std::string name;  // of the file, without ".csv"
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

struct Report {
  std::string name;  // "spectrum": names the files
  Outcome outcome = Outcome::well;
  Page page;
  Json json;  // without schema_version, verdict and provenance, which are added
  std::vector<Csv> tables;
};

struct ReportFiles {
  bool png = false, pdf = false;  // the figures as such files too; SVG always
};

/// Everything as one JSON document, schema_version 1.
Json report_json(const Report& report);

/// RFC 4180, with a header line.
std::string csv_text(const Csv& csv);

/// Shortest text that reads back as the same double; "inf", "-inf", "nan".
std::string csv_number(double value);

/// Numbers that JSON has, null for those that it has not.
Json json_number(double value);

/// NAME.html, NAME.json, NAME_TABLE.csv, NAME_FIGURE.svg in `folder`, which is made when it is
/// missing. Returns the names written, the page first. Throws InputError when that fails.
std::vector<std::string> write_report(const Report& report, const std::string& folder,
                                      const ReportFiles& files);

}  // namespace assay::render
