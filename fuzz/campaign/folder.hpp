// The folder of a campaign. Whatever was found is on the disk before anything else happens, so that
// neither Ctrl-C nor kill -9 nor a full disk loses it.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fuzz/campaign/record.hpp"

namespace assay {

/// campaign.json  what was asked for; journal.jsonl  one line for every finding, shrink and start,
/// each on the disk before the next; progress.json  how far it came; result.json  the end;
/// failures/  one folder for each finding that is kept.
class CampaignFolder {
 public:
  struct Contents {
    Json settings;
    std::int64_t next = 0;            // numbers below it are in the tally,
    std::set<std::int64_t> given_up;  // but for these, for which there was no time
    Tally tally;
    std::map<std::int64_t, CaseRecord> found;  // by number
    std::map<std::int64_t, Shrunk> shrunk;
    double seconds = 0;
  };

  /// Takes the folder for this process (two campaigns in one folder are refused). A folder with a
  /// campaign is refused unless `resume`; then the settings must agree. Throws InputError.
  CampaignFolder(const std::string& path, const Json& settings, bool resume);
  ~CampaignFolder();
  CampaignFolder(const CampaignFolder&) = delete;
  CampaignFolder& operator=(const CampaignFolder&) = delete;

  const std::string& path() const { return path_; }
  /// What an earlier run left; empty when there was none.
  const Contents& contents() const { return contents_; }

  /// Throw std::runtime_error when the disk does not take it; the journal stays well-formed.
  void found(const CaseRecord& record);
  void shrunk(std::int64_t index, const Shrunk& s);
  void progress(std::int64_t next, const std::set<std::int64_t>& given_up, const Tally& tally,
                double seconds);

  /// Reads any campaign folder, finished or not. Throws InputError.
  static Contents read(const std::string& path);

 private:
  void append(const Json& line);

  std::string path_;
  Contents contents_;
  int lock_ = -1, journal_ = -1;
};

}  // namespace assay
