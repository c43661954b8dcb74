#include "fuzz/campaign/fault_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "checks/faults/fault.hpp"
#include "reference/case/text.hpp"

namespace assay {
namespace {

std::string sizes_text(const Shrunk& s) {
  std::vector<std::string> parts;
  for (const auto& [letter, length] : s.sizes)
    parts.push_back(letter + "=" + std::to_string(length));
  return join(parts, " ");
}

std::string folder_name(std::string id) {
  std::replace(id.begin(), id.end(), '*', '_');
  std::replace(id.begin(), id.end(), ':', '_');
  return id;
}

/// minimal/<op>-<hash>/case.safetensors of the finding.
CheckCase minimal_of(const std::string& out, const Shrunk& s) {
  for (const PinnedCase& c : load_failures(out + "/" + s.folder)) {
    if (c.name.rfind("minimal/", 0) == 0) return c.given;
  }
  throw InputError(out + "/" + s.folder + ": has no minimal case");
}

FaultRow try_fault(const Fault& fault, const FaultTableRequest& request) {
  FaultRow row;
  row.fault = fault.info().id;
  row.title = fault.info().title;
  FuzzRequest fuzz = request.fuzz;
  fuzz.candidate.spec = "fault:" + fault.info().id;
  fuzz.out = request.out + "/" + folder_name(fault.info().id);
  fuzz.stop_after = 1;
  fuzz.corpus.clear();
  fuzz.progress = {};
  fuzz.say = {};
  const FuzzReport report = run_fuzz(fuzz);
  row.seconds = report.seconds;
  row.tried = report.tally.cases;
  row.found_seconds = report.first_finding;
  row.found = !report.shrunk.empty();
  if (!row.found) return row;
  const auto& [index, shrunk] = *report.shrunk.begin();
  row.record = report.found.at(index);
  row.shrunk = shrunk;
  row.minimal = minimal_of(fuzz.out, shrunk);
  return row;
}

}  // namespace

std::vector<FaultRow> fault_table(const FaultTableRequest& request) {
  std::vector<const Fault*> all;
  for (const std::string& id : request.faults) all.push_back(&find_fault(id));
  if (all.empty()) all = faults();
  std::vector<FaultRow> rows;
  for (const Fault* fault : all) {
    if (request.progress) {
      request.progress(static_cast<double>(rows.size()) / static_cast<double>(all.size()),
                       fault->info().id);
    }
    rows.push_back(try_fault(*fault, request));
  }
  return rows;
}

std::string larger_than_asked(const FaultRow& row, std::int64_t chunk) {
  std::vector<std::string> parts;
  for (const auto& [letter, length] : row.shrunk.sizes) {
    const std::int64_t most = letter == "T"                                     ? chunk + 2
                              : letter == "B" || letter == "H" || letter == "N" ? 1
                                                                                : 4;
    if (length > most) parts.push_back(letter + "=" + std::to_string(length));
  }
  return join(parts, " ");
}

std::string fault_table_markdown(const std::vector<FaultRow>& rows) {
  std::string text =
      "| fault | found after | op, minimal case | verdict | first bad t | steps |\n"
      "| --- | --- | --- | --- | --- | --- |\n";
  for (const FaultRow& row : rows) {
    if (!row.found) {
      text += fmt::format("| `{}` | not found in {} cases | | | | |\n", row.fault, row.tried);
      continue;
    }
    const Shrunk& s = row.shrunk;
    text += fmt::format(
        "| `{}` | {:.1f} s, {} cases | {} {}{} | {} | {} | {}{} |\n", row.fault, row.found_seconds,
        row.tried, row.record.op, sizes_text(s), s.edge.empty() ? "" : " (" + s.edge + ")", s.kind,
        s.first_bad_t < 0 ? "" : std::to_string(s.first_bad_t), s.steps, s.capped ? " (cap)" : "");
  }
  return text;
}

Json fault_table_json(const std::vector<FaultRow>& rows) {
  Json json = json_document();
  json["faults"] = Json::array();
  for (const FaultRow& row : rows) {
    Json entry = {{"fault", row.fault},
                  {"found", row.found},
                  {"found_seconds", row.found_seconds},
                  {"seconds", row.seconds},
                  {"cases", row.tried}};
    if (row.found) {
      entry["line"] = row.record.line;
      entry["op"] = row.record.op;
      entry["shrunk"] = shrunk_json(row.shrunk);
    }
    json["faults"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace assay
