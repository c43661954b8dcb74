#include "fuzz/campaign/folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "reference/case/file_io.hpp"
#include "reference/case/text.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLargest = std::uint64_t{1} << 30;

std::string file(const std::string& folder, const char* name) { return folder + "/" + name; }

Json parse(const std::string& text, const std::string& where) {
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::exception&) {
    throw InputError(where + ": is no JSON");
  }
}

/// Every whole line; a last one without its end was being written when the process died.
void read_journal(const std::string& path, CampaignFolder::Contents& contents) {
  const std::string text = read_file_bytes(path, kLargest);
  std::size_t at = 0, number = 0;
  for (std::size_t end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string where = path + " line " + std::to_string(++number);
    const Json line = parse(text.substr(at, end - at), where);
    try {
      if (line.contains("found")) {
        CaseRecord record = record_from(line.at("found"));
        contents.found.emplace(record.index, std::move(record));
      } else if (line.contains("shrunk")) {
        contents.shrunk[line.at("index")] = shrunk_from(line.at("shrunk"));
      }
    } catch (const nlohmann::json::exception& error) {
      throw InputError(where + ": " + printable(error.what()));
    }
  }
}

/// What differs, for a message: "seed was 1 and is 2, model.operand was "fp32" and is "bf16"". Of
/// two objects of other names (models), the names.
std::string difference(const Json& a, const Json& b, const std::string& within = "") {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  const Json none;
  Json all = a;
  all.update(b);
  for (const auto& [key, ignored] : all.items()) {
    const std::string name = within + key;
    const Json &was = a.contains(key) ? a.at(key) : none, &is = b.contains(key) ? b.at(key) : none;
    if (was == is) continue;
    if (!was.is_object() || !is.is_object()) {
      add(name + " was " + (a.contains(key) ? was.dump() : "not given") + " and is " +
          (b.contains(key) ? is.dump() : "not given"));
    } else if (const Json before = was.value("name", none), now = is.value("name", none);
               before != now) {
      add(name + " was " + before.dump() + " and is " + now.dump());
    } else {
      add(difference(was, is, name + "."));
    }
  }
  return text;
}

}  // namespace

CampaignFolder::CampaignFolder(const std::string& path, const Json& settings, bool resume)
    : path_(path) {
  std::error_code error;
  fs::create_directories(file(path, "failures"), error);
  if (error) throw InputError(path + ": cannot make the folder: " + error.message());
  lock_ = open(file(path, "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_ < 0) throw InputError(path + ": cannot write there: " + std::strerror(errno));
  if (flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    close(lock_);
    throw InputError(path + ": another campaign is running in this folder");
  }
  const bool there = fs::exists(file(path, "campaign.json"), error);
  if (there && !resume) {
    close(lock_);
    throw InputError(path + ": holds a campaign already; --resume goes on with it");
  }
  if (there) {
    contents_ = read(path);
    const std::string differs = difference(contents_.settings, settings);
    if (!differs.empty()) {
      close(lock_);
      throw InputError(path + ": cannot resume with other settings: " + differs);
    }
  }
  contents_.settings = settings;
  if (!there) write_file_atomic(file(path, "campaign.json"), settings.dump(1) + "\n");
  journal_ =
      open(file(path, "journal.jsonl").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (journal_ < 0) {
    close(lock_);
    throw InputError(path + ": cannot write there: " + std::strerror(errno));
  }
  // What a killed process left of a line goes.
  struct stat info {};
  if (fstat(journal_, &info) == 0 && info.st_size > 0) {
    const std::string text = read_file_bytes(file(path, "journal.jsonl"), kLargest);
    const std::size_t end = text.rfind('\n');
    const auto whole = static_cast<off_t>(end == std::string::npos ? 0 : end + 1);
    if (whole != info.st_size && ftruncate(journal_, whole) != 0) {
      throw InputError(path + ": cannot repair the journal: " + std::strerror(errno));
    }
  }
}

CampaignFolder::~CampaignFolder() {
  if (journal_ >= 0) close(journal_);
  if (lock_ >= 0) close(lock_);
}

void CampaignFolder::append(const Json& line) {
  const std::string text = line.dump() + "\n";
  struct stat before {};
  const bool known = fstat(journal_, &before) == 0;
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = write(journal_, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += static_cast<std::size_t>(count);
  }
  if (done == text.size() && fdatasync(journal_) == 0) return;
  const std::string why = std::strerror(errno);
  if (known && ftruncate(journal_, before.st_size) != 0) {
    throw std::runtime_error(path_ + ": the journal is torn: " + why);
  }
  throw std::runtime_error(path_ + ": cannot write the journal: " + why);
}

void CampaignFolder::found(const CaseRecord& record) { append({{"found", record_json(record)}}); }

void CampaignFolder::shrunk(std::int64_t index, const Shrunk& s) {
  append({{"index", index}, {"shrunk", shrunk_json(s)}});
}

void CampaignFolder::progress(std::int64_t next, const std::set<std::int64_t>& given_up,
                              const Tally& tally, double seconds) {
  const Json json = {
      {"next", next}, {"given_up", given_up}, {"seconds", seconds}, {"tally", tally_json(tally)}};
  try {
    write_file_atomic(file(path_, "progress.json"), json.dump() + "\n");
  } catch (const InputError& error) {
    throw std::runtime_error(error.what());
  }
}

CampaignFolder::Contents CampaignFolder::read(const std::string& path) {
  Contents contents;
  std::error_code error;
  const std::string settings = file(path, "campaign.json");
  if (!fs::exists(settings, error)) throw InputError(path + ": holds no campaign");
  contents.settings = parse(read_file_bytes(settings, kLargest), settings);
  if (const std::string journal = file(path, "journal.jsonl"); fs::exists(journal, error)) {
    read_journal(journal, contents);
  }
  const std::string progress = file(path, "progress.json");
  if (!fs::exists(progress, error)) return contents;
  const Json json = parse(read_file_bytes(progress, kLargest), progress);
  try {
    contents.next = json.at("next");
    contents.given_up = json.value("given_up", std::set<std::int64_t>());
    contents.seconds = json.at("seconds");
    contents.tally = tally_from(json.at("tally"));
  } catch (const nlohmann::json::exception& e) {
    throw InputError(progress + ": " + printable(e.what()));
  }
  return contents;
}

}  // namespace assay
