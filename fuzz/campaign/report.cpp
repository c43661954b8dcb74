// What a campaign says in the end, and several of them as one.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "checks/output/progress.hpp"
#include "fuzz/campaign/campaign.hpp"
#include "fuzz/campaign/folder.hpp"
#include "fuzz/campaign/minimal.hpp"
#include "reference/case/text.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

std::string counts_text(const std::map<std::string, std::int64_t>& counts) {
  std::vector<std::string> parts;
  for (const auto& [name, count] : counts) parts.push_back(fmt::format("{} {}", name, count));
  return join(parts, ", ");
}

/// Settings without what may differ between parts of one whole.
Json common(Json settings) {
  for (const char* key : {"shard", "seed"}) settings.erase(key);
  return settings;
}

}  // namespace

Json fuzz_json(const FuzzReport& r) {
  Json json = json_document();
  json["settings"] = r.settings;
  json["tally"] = tally_json(r.tally);
  json["findings"] = Json::array();
  for (const auto& [index, record] : r.found) {
    Json finding = record_json(record);
    // What depends on the machine stands under "run".
    for (const char* key : {"seconds", "lost"}) finding.erase(key);
    finding["signature"] = signature_text(record);
    if (const auto s = r.shrunk.find(index); s != r.shrunk.end()) {
      finding["shrunk"] = shrunk_json(s->second);
    }
    json["findings"].push_back(std::move(finding));
  }
  json["run"] = {
      {"seconds", r.seconds},
      {"cases_per_second", r.seconds > 0 ? static_cast<double>(r.tally.cases) / r.seconds : 0},
      {"first_finding_seconds", r.first_finding},
      {"threads", r.threads},
      {"processes", r.processes},
      {"lost_children", r.lost_children},
      {"given_up", r.given_up},
      {"interrupted", r.signal != 0},
      {"resumed", r.resumed}};
  return json;
}

std::string fuzz_text(const FuzzReport& r) {
  const Tally& t = r.tally;
  std::string text = fmt::format(
      "assay fuzz: {} cases of {} operations, {} elements, in {} ({:.0f} cases/s, {} thread{}{})\n",
      t.cases, t.by_op.size(), t.elements, duration_text(r.seconds),
      r.seconds > 0 ? static_cast<double>(t.cases) / r.seconds : 0, r.threads,
      r.threads == 1 ? "" : "s", r.processes > 1 ? fmt::format(" x {} ranks", r.processes) : "");
  text += fmt::format("  {}\n", counts_text(t.by_phase));
  text +=
      fmt::format("  full verdict in {}, largest z of what passed {:.2f}, largest rms z {:.2f}\n",
                  t.full, t.max_z, t.max_rms_z);
  for (const auto& [kind, values] : t.mix.counts()) {
    if (kind == "grid" || kind == "phase") continue;
    text += fmt::format("  {}: {}\n", kind, counts_text(values));
  }
  if (t.unsupported > 0) {
    text += fmt::format("  {} cases are not supported", t.unsupported);
    if (!t.unsupported_because.empty()) {
      const auto& [op, why] = *t.unsupported_because.begin();
      text += fmt::format(", the first: {}: {}", op, why);
    }
    text += "\n";
  }
  if (const auto weak = t.verdicts.find(verdict_name(VerdictKind::weak_test));
      weak != t.verdicts.end()) {
    text +=
        fmt::format("  {} cases are too weak to tell right from wrong everywhere\n", weak->second);
  }
  for (const auto& [op, why] : t.unbuilt_because) {
    text += fmt::format("  {} cases could not be made or judged; {}: {}\n", t.unbuilt, op, why);
    break;
  }
  if (r.lost_children > 0) {
    text += fmt::format("  {} calls were repeated because the child was killed from outside\n",
                        r.lost_children);
  }
  if (r.given_up > 0) {
    text += fmt::format(
        "  {} cases were given up when the budget was over and are not counted; --resume tries "
        "them "
        "again\n",
        r.given_up);
  }
  if (t.findings == 0) return text + "no findings\n";
  text += fmt::format("{} findings of {} signatures:\n", t.findings, t.signatures.size());
  for (const auto& [signature, count] : t.signatures) {
    text += fmt::format("  {:>7}  {}\n", count, signature);
  }
  return text;
}

FuzzReport merge_campaigns(const std::vector<std::string>& folders, const std::string& out) {
  FuzzReport all;
  std::map<std::pair<std::uint64_t, std::int64_t>, std::string> seen;  // seed and shard
  const std::string* first = nullptr;
  std::error_code error;
  fs::create_directories(fs::path(out) / "failures", error);
  if (error) throw InputError(out + ": cannot make the folder: " + error.message());
  for (const std::string& folder : folders) {
    const CampaignFolder::Contents part = CampaignFolder::read(folder);
    const std::pair key{part.settings.at("seed").get<std::uint64_t>(),
                        part.settings.at("shard").get<std::int64_t>()};
    if (const auto twice = seen.find(key); twice != seen.end()) {
      throw InputError(folder + ": is the same shard as " + twice->second);
    }
    seen[key] = folder;
    if (!first) {
      first = &folder;
      all.settings = part.settings;
    } else if (common(part.settings) != common(all.settings)) {
      throw InputError(folder + ": has other settings than " + *first);
    }
    all.tally.add(part.tally);
    all.given_up += static_cast<std::int64_t>(part.given_up.size());
    all.seconds = std::max(all.seconds, part.seconds);
    for (const auto& [index, record] : part.found) {
      // Not counted yet when it was killed, or not counted at all.
      if (index >= part.next || part.given_up.count(index)) continue;
      // Numbers of other seeds are other cases.
      const bool known = all.found.count(index) != 0;
      const std::int64_t number = known ? all.found.rbegin()->first + 1 : index;
      all.found[number] = record;
      const auto s = part.shrunk.find(index);
      if (s == part.shrunk.end()) continue;
      all.shrunk[number] = s->second;
      const fs::path from = fs::path(folder) / s->second.folder;
      const fs::path to = fs::path(out) / s->second.folder;
      fs::copy(from, to, fs::copy_options::recursive | fs::copy_options::overwrite_existing, error);
      if (error)
        throw InputError(to.string() + ": cannot copy " + from.string() + ": " + error.message());
    }
  }
  all.settings["merged"] = seen.size();
  all.settings["shard"] = 0;
  all.processes = static_cast<int>(folders.size());
  return all;
}

}  // namespace assay
