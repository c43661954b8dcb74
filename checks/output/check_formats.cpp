#include "checks/output/check_formats.hpp"

#include <fmt/format.h>

#include <cmath>

#include "checks/output/verdict_text.hpp"

namespace assay {
namespace {

using Json = nlohmann::ordered_json;

/// JSON has no infinities; they are written as strings.
Json real(double x) {
  if (std::isfinite(x)) return x;
  return std::isnan(x) ? "nan" : x < 0 ? "-inf" : "inf";
}

std::string xml(const std::string& text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        // XML 1.0 has no other control characters.
        if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t') out += c;
    }
  }
  return out;
}

/// Workflow commands end at a newline; these three are their escapes.
std::string command_text(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '%')
      out += "%25";
    else if (c == '\r')
      out += "%0D";
    else if (c == '\n')
      out += "%0A";
    else
      out += c;
  }
  return out;
}

/// Null where there is no bound.
Json hard_ratio(const TensorVerdict& t) {
  return t.stats.hard_worst < 0 ? Json() : real(t.stats.hard_ratio);
}

}  // namespace

Json verdict_json(const Verdict& v) {
  Json tensors = Json::array();
  for (const TensorVerdict& t : v.tensors) {
    tensors.push_back({{"name", t.name},
                       {"shape", t.shape},
                       {"accepted", t.stats.accepted()},
                       {"max_z", real(t.stats.max_z)},
                       {"rms_z", real(t.stats.rms_z)},
                       {"hard_ratio", hard_ratio(t)},
                       {"no_hard_bound", t.no_hard_bound},
                       {"max_error", real(t.stats.max_error)},
                       {"rms_ratio", real(t.stats.rms_ratio)},
                       {"snr_db", real(t.stats.snr_db)},
                       {"non_finite", t.stats.non_finite},
                       {"allclose_violations", t.stats.allclose_violations},
                       {"worst_index", t.stats.worst},
                       {"worst_at", t.where},
                       {"worst_value", real(t.stats.worst_value)},
                       {"worst_truth", real(t.stats.worst_truth)}});
  }
  Json filters = Json::array();
  for (const FilterResult& f : v.filters) {
    filters.push_back({{"id", f.id},
                       {"coefficient", real(f.coefficient)},
                       {"standard_error", real(f.standard_error)},
                       {"uncertainty", real(f.uncertainty())},
                       {"explained", real(f.explained)},
                       {"significance", real(f.significance())}});
  }
  Json structures = Json::array();
  for (const StructureFinding& s : v.structures) {
    structures.push_back({{"tensor", s.tensor},
                          {"axis", s.axis},
                          {"index", s.index},
                          {"statistic", s.statistic},
                          {"significance", real(s.significance)}});
  }
  Json hygiene = Json::array();
  for (const HygieneFinding& h : v.hygiene) {
    hygiene.push_back({{"kind", h.kind}, {"tensor", h.tensor}, {"detail", h.detail}});
  }
  Json properties = Json::array();
  for (const PropertyFinding& p : v.properties) {
    properties.push_back({{"property", p.property}, {"tensor", p.tensor}, {"detail", p.detail}});
  }
  return {{"verdict", verdict_name(v.kind)},
          {"op", v.op},
          {"case", v.case_line},
          {"sentence", v.sentence},
          {"cause", v.cause},
          {"blamed", v.blamed},
          {"tensors", tensors},
          {"filters", filters},
          {"structure", structures},
          {"hygiene", hygiene},
          {"properties", properties},
          {"fitted_unit_roundoff", real(v.fitted_unit)},
          {"notes", v.notes},
          {"replay", v.replay},
          {"seconds", v.seconds}};
}

Json check_json(const CheckReport& report) {
  Json verdicts = Json::array();
  for (const Verdict& v : report.verdicts) verdicts.push_back(verdict_json(v));
  return {{"schema_version", 1},
          {"candidate", report.candidate},
          {"model", Json::parse(model_json(report.model))},
          {"model_inferred", report.model_inferred},
          {"failed", report.failed()},
          {"seconds", report.seconds},
          {"verdicts", verdicts},
          {"skipped", report.skipped},
          {"interrupted", report.signal != 0}};
}

std::string check_junit(const CheckReport& report) {
  std::string text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n";
  std::map<std::string, std::vector<const Verdict*>> suites;
  for (const Verdict& v : report.verdicts) suites[v.op].push_back(&v);
  for (const auto& [op, verdicts] : suites) {
    int failures = 0, skipped = 0;
    for (const Verdict* v : verdicts) {
      failures += is_finding(v->kind);
      skipped += !is_finding(v->kind) && v->kind != VerdictKind::pass;
    }
    text += fmt::format(
        "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\">\n",
        xml(op), verdicts.size(), failures, skipped);
    for (const Verdict* v : verdicts) {
      text += fmt::format("    <testcase classname=\"{}.{}\" name=\"{}\" time=\"{:.4f}\"",
                          xml(report.candidate), xml(op), xml(v->case_line), v->seconds);
      if (is_finding(v->kind)) {
        text += fmt::format(
            ">\n      <failure type=\"{}\" message=\"{}\">{}</failure>\n    </testcase>\n",
            verdict_name(v->kind), xml(v->sentence), xml(verdict_text(*v)));
      } else if (v->kind != VerdictKind::pass) {
        text += fmt::format(">\n      <skipped message=\"{}: {}\"/>\n    </testcase>\n",
                            verdict_name(v->kind), xml(v->sentence));
      } else {
        text += "/>\n";
      }
    }
    text += "  </testsuite>\n";
  }
  return text + "</testsuites>\n";
}

Json check_sarif(const CheckReport& report) {
  Json rules = Json::array(), results = Json::array();
  std::vector<std::string> known;
  for (const Verdict& v : report.verdicts) {
    if (!is_finding(v.kind)) continue;
    const std::string rule = verdict_name(v.kind);
    if (std::find(known.begin(), known.end(), rule) == known.end()) {
      known.push_back(rule);
      rules.push_back({{"id", rule}, {"shortDescription", {{"text", "verdict " + rule}}}});
    }
    const std::string message =
        v.case_line + ": " + v.sentence + (v.cause.empty() ? "" : "; probable cause: " + v.cause);
    results.push_back(
        {{"ruleId", rule},
         {"level", "error"},
         {"message", {{"text", message}}},
         {"locations",
          {{{"logicalLocations", {{{"fullyQualifiedName", report.candidate + "/" + v.op}}}}}}}});
  }
  return {
      {"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
      {"version", "2.1.0"},
      {"runs",
       {{{"tool", {{"driver", {{"name", "assay"}, {"rules", rules}}}}}, {"results", results}}}}};
}

std::string check_github(const CheckReport& report) {
  std::string text;
  for (const Verdict& v : report.verdicts) {
    if (v.kind == VerdictKind::pass) continue;
    text += fmt::format("::{} title=assay {}::{}\n", is_finding(v.kind) ? "error" : "warning",
                        verdict_name(v.kind),
                        command_text(v.case_line + ": " + v.sentence +
                                     (v.cause.empty() ? "" : "; probable cause: " + v.cause)));
  }
  return text;
}

}  // namespace assay
