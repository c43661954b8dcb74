// What a campaign says: the tables of the README, and the page.
#include <fmt/format.h>

#include <cmath>

#include "reports/validation/campaign.hpp"

namespace assay {
namespace {

/// Within the declared rounding: nobody could see it.
bool invisible(const KillRow& row) { return row.killed == 0 && row.effect <= 1; }

std::string epsilon_text(double x) {
  if (x == 0) return "rejects the correct kernel";
  return std::isinf(x) ? "> 1e-2" : fmt::format("{:.0e}", x);
}

struct KillSummary {
  int pairs = 0, rejected = 0, within_rounding = 0, missed = 0;
  int cases_killed = 0, named = 0, wrong = 0, misled = 0;
};

std::map<std::string, KillSummary> summaries(const CampaignReport& campaign) {
  std::map<std::string, KillSummary> by_model;
  for (const KillRow& row : campaign.kills) {
    KillSummary& s = by_model[row.model];
    ++s.pairs;
    s.rejected += row.killed > 0;
    s.within_rounding += invisible(row);
    s.missed += row.killed == 0 && !invisible(row);
    s.cases_killed += row.killed;
    s.named += row.named;
    s.wrong += row.wrong;
    s.misled += row.misled;
  }
  return by_model;
}

std::string percent(int part, int whole) {
  return whole == 0 ? "–" : fmt::format("{:.1f} %", 100.0 * part / whole);
}

}  // namespace

std::string campaign_markdown(const CampaignReport& campaign) {
  std::string text;
  if (campaign.signal != 0) text += "Interrupted: not everything was run.\n\n";
  if (!campaign.kills.empty()) {
    text +=
        "| model | fault and operation | rejected | within the declared rounding | missed | named "
        "first, of rejected cases | another blamed | unknown, yet blamed on a known one |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- |\n";
    for (const auto& [model, s] : summaries(campaign)) {
      text +=
          fmt::format("| {} | {} | {} | {} | {} | {} of {} ({}) | {} | {} |\n", model, s.pairs,
                      s.rejected, s.within_rounding, s.missed, s.named, s.cases_killed,
                      percent(s.named, s.cases_killed), s.wrong, percent(s.misled, s.cases_killed));
    }
    std::string hidden;
    for (const KillRow& row : campaign.kills) {
      if (!invisible(row)) continue;
      hidden +=
          fmt::format("| {} | {} | {} | {:.2g} |\n", row.model, row.fault, row.op, row.effect);
    }
    if (!hidden.empty()) {
      text +=
          "\n| model | fault | operation | effect, of the declared rounding |\n"
          "| --- | --- | --- | --- |\n" +
          hidden;
    }
    text += "\n";
  }
  if (!campaign.alarms.empty()) {
    text +=
        "| model | cases | elements | false alarms | largest z | largest rms z |\n"
        "| --- | --- | --- | --- | --- | --- |\n";
    for (const AlarmRow& row : campaign.alarms) {
      text += fmt::format("| {} | {} | {:.1f} M | {} | {:.2f} | {:.2f} |\n", row.model, row.cases,
                          static_cast<double>(row.elements) * 1e-6, row.findings.size(),
                          row.largest_z, row.largest_rms);
    }
    text += "\n";
  }
  if (!campaign.sensitivity.empty()) {
    text +=
        "| gate | model | elements | assay | allclose(1e-2) | RMS ratio 0.005 | 2 x baseline |\n"
        "| --- | --- | --- | --- | --- | --- | --- |\n";
    for (const SensitivityRow& row : campaign.sensitivity) {
      text += fmt::format("| {} {} | {} | {} | {} | {} | {} | {} |\n", row.op, row.gate, row.model,
                          row.elements, epsilon_text(row.found), epsilon_text(row.allclose),
                          epsilon_text(row.rms_ratio), epsilon_text(row.baseline));
    }
  }
  return text;
}

render::Report campaign_report(const CampaignReport& campaign) {
  render::Report report;
  report.name = "validation";
  render::Page& page = report.page;
  page.title = "How far the verdict can be trusted";
  page.subtitle = "planted faults, correct kernels, one gate slightly off";
  int missed = 0;
  std::size_t false_alarms = 0;
  render::Json kills = render::Json::array(), alarms = render::Json::array(),
               gates = render::Json::array();
  render::Table kill_table{"Faults",
                           {{"fault"},
                            {"operation"},
                            {"model"},
                            {"cases", true},
                            {"rejected", true},
                            {"named", true},
                            {"effect, of the rounding", true},
                            {"result"}},
                           {}};
  render::Csv kill_csv{"faults",
                       {"fault", "operation", "model", "cases", "rejected", "named", "other_blamed",
                        "misled_when_unknown", "effect"},
                       {}};
  for (const KillRow& row : campaign.kills) {
    const bool hidden = invisible(row);
    missed += row.killed == 0 && !hidden;
    const render::Cell result = row.killed > 0 ? render::Cell("rejected", render::Tone::good)
                                : hidden ? render::Cell("within rounding", render::Tone::neutral)
                                         : render::Cell("missed", render::Tone::bad);
    kill_table.rows.push_back({row.fault, row.op, row.model, std::to_string(row.cases),
                               std::to_string(row.killed), std::to_string(row.named),
                               fmt::format("{:.2g}", row.effect), result});
    kill_csv.rows.push_back({row.fault, row.op, row.model, std::to_string(row.cases),
                             std::to_string(row.killed), std::to_string(row.named),
                             std::to_string(row.wrong), std::to_string(row.misled),
                             render::csv_number(row.effect)});
    kills.push_back({{"fault", row.fault},
                     {"op", row.op},
                     {"model", row.model},
                     {"cases", row.cases},
                     {"rejected", row.killed},
                     {"named", row.named},
                     {"other_blamed", row.wrong},
                     {"misled_when_unknown", row.misled},
                     {"effect", render::json_number(row.effect)}});
  }
  render::Table alarm_table{"Correct kernels",
                            {{"model"},
                             {"cases", true},
                             {"elements", true},
                             {"false alarms", true},
                             {"largest z [σ]", true},
                             {"largest rms z [σ]", true}},
                            {}};
  std::vector<std::string> lines;
  for (const AlarmRow& row : campaign.alarms) {
    false_alarms += row.findings.size();
    lines.insert(lines.end(), row.findings.begin(), row.findings.end());
    alarm_table.rows.push_back(
        {row.model, std::to_string(row.cases), std::to_string(row.elements),
         render::Cell(std::to_string(row.findings.size()),
                      row.findings.empty() ? render::Tone::good : render::Tone::bad),
         fmt::format("{:.2f}", row.largest_z), fmt::format("{:.2f}", row.largest_rms)});
    alarms.push_back({{"model", row.model},
                      {"cases", row.cases},
                      {"elements", row.elements},
                      {"largest_z", render::json_number(row.largest_z)},
                      {"largest_rms_z", render::json_number(row.largest_rms)},
                      {"candidates", row.candidates},
                      {"false_alarms", row.findings}});
  }
  render::Table gate_table{"Smallest scaling of a gate that is found",
                           {{"gate"},
                            {"model"},
                            {"elements", true},
                            {"assay", true},
                            {"allclose(1e-2)", true},
                            {"RMS ratio 0.005", true},
                            {"2 x baseline", true}},
                           {}};
  for (const SensitivityRow& row : campaign.sensitivity) {
    gate_table.rows.push_back({row.op + " " + row.gate, row.model, std::to_string(row.elements),
                               epsilon_text(row.found), epsilon_text(row.allclose),
                               epsilon_text(row.rms_ratio), epsilon_text(row.baseline)});
    gates.push_back({{"op", row.op},
                     {"gate", row.gate},
                     {"model", row.model},
                     {"elements", row.elements},
                     {"assay", render::json_number(row.found)},
                     {"allclose", render::json_number(row.allclose)},
                     {"rms_ratio", render::json_number(row.rms_ratio)},
                     {"baseline", render::json_number(row.baseline)}});
  }
  const bool well = missed == 0 && false_alarms == 0, whole = campaign.signal == 0;
  report.outcome = !well   ? render::Outcome::finding
                   : whole ? render::Outcome::well
                           : render::Outcome::undecided;
  std::vector<std::string> said;
  if (!campaign.kills.empty()) said.push_back(fmt::format("{} visible faults missed", missed));
  if (!campaign.alarms.empty()) said.push_back(fmt::format("{} false alarms", false_alarms));
  if (!campaign.sensitivity.empty()) {
    said.push_back(fmt::format("{} gates scaled", campaign.sensitivity.size()));
  }
  if (!whole) said.push_back("interrupted");
  page.verdict = {well && whole ? render::Tone::good : render::Tone::bad,
                  !well   ? "FINDINGS"
                  : whole ? "PASS"
                          : "INCOMPLETE",
                  fmt::format("{}.", fmt::join(said, ", "))};
  const auto add = [&](const char* title, const render::Table& table) {
    if (!table.rows.empty()) page.sections.push_back({title, {table}});
  };
  add("Correct kernels", alarm_table);
  if (!lines.empty()) page.sections.back().blocks.push_back(render::Notes{lines});
  add("Sensitivity", gate_table);
  add("Planted faults", kill_table);
  page.sections.push_back(
      {"As text", {render::Details{"Markdown", {render::Code{campaign_markdown(campaign)}}}}});
  report.json = {
      {"kills", kills}, {"alarms", alarms}, {"sensitivity", gates}, {"seconds", campaign.seconds}};
  report.tables = {kill_csv};
  return report;
}

}  // namespace assay
