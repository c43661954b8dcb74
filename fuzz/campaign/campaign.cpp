#include "fuzz/campaign/campaign.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <limits>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "checks/candidate/stop_signal.hpp"
#include "checks/output/failure_folder.hpp"
#include "fuzz/campaign/folder.hpp"
#include "fuzz/campaign/minimal.hpp"
#include "reference/case/text.hpp"
#include "reference/oracle/registry.hpp"

namespace assay {
namespace {

using Clock = std::chrono::steady_clock;

/// Every so many numbers get the full verdict with hygiene and properties, whatever the first look
/// says: what only all elements together show. Some more get repeated calls. Both are no multiples
/// of the number of operations.
constexpr std::int64_t kThorough = 97, kRepeated = 17;
/// Findings of one signature that are written down singly; further ones are counted.
constexpr std::int64_t kListed = 100;
/// Numbers handed to another process at a time.
constexpr std::int64_t kBlock = 8;
constexpr double kSaveEvery = 2;  // seconds
constexpr auto kPause = std::chrono::milliseconds(2);
/// For calls in progress to come to their end when the budget is over.
constexpr std::chrono::seconds kGrace{1};

std::optional<Clock::time_point> end_of_budget(const FuzzRequest& request) {
  if (!(request.budget_seconds > 0)) return std::nullopt;
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(request.budget_seconds));
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

PlanRequest plan_request(const FuzzRequest& request, const Examiner& examiner) {
  PlanRequest plan;
  plan.operations = request.operations;
  if (plan.operations.empty()) plan.operations = examiner.info().operations;
  if (plan.operations.empty()) {
    for (const Operation* operation : operations()) plan.operations.push_back(operation->name());
  }
  std::sort(plan.operations.begin(), plan.operations.end());
  plan.model = examiner.model();
  plan.seed = request.seed;
  plan.limits = request.limits;
  plan.phases = request.phases;
  if (!request.corpus.empty()) plan.corpus = load_corpus(request.corpus);
  for (const std::string& folder : request.past) {
    for (PinnedCase& c : load_failures(folder)) plan.past.push_back(std::move(c));
  }
  return plan;
}

/// What must agree for two runs to be one campaign.
Json settings_of(const FuzzRequest& request, const Plan& plan) {
  const PlanRequest& p = plan.request();
  std::vector<std::string> phases;
  for (const Phase phase : p.phases) phases.push_back(phase_name(phase));
  std::uint64_t pinned = 0xcbf29ce484222325ULL;
  for (const auto* cases : {&p.corpus, &p.past}) {
    for (const PinnedCase& c : *cases) {
      for (const char letter : case_hash(c.given)) {
        pinned = (pinned ^ static_cast<unsigned char>(letter)) * 0x100000001b3ULL;
      }
    }
  }
  return {{"schema_version", kJsonSchemaVersion},
          {"candidate", request.candidate.spec},
          {"model", Json::parse(model_json(p.model))},
          {"gradients", request.candidate.gradients},
          {"operations", p.operations},
          {"seed", request.seed},
          {"tokens", p.limits.tokens},
          {"width", p.limits.width},
          {"heads", p.limits.heads},
          {"phases", phases},
          {"target", target_name(request.target)},
          {"pinned", fmt::format("{} and {}, {:016x}", p.corpus.size(), p.past.size(), pinned)},
          {"fixed", plan.fixed()},
          {"shard", request.shard},
          {"shards", request.shards},
          {"keep", request.keep},
          {"shrink_steps", request.shrink_steps}};
}

/// While one lives, calls of the candidate are given up soon after that time.
class CallsUntil {
 public:
  CallsUntil(Examiner& examiner, std::optional<Clock::time_point> until) : examiner_(examiner) {
    if (until) examiner.give_up_at(*until + kGrace);
  }
  ~CallsUntil() { examiner_.give_up_at(std::nullopt); }
  CallsUntil(const CallsUntil&) = delete;
  CallsUntil& operator=(const CallsUntil&) = delete;

 private:
  Examiner& examiner_;
};

/// Nothing when the call was given up.
std::optional<CaseRecord> try_case(Examiner& examiner, const Plan& plan, std::int64_t index,
                                   Target target, std::optional<Clock::time_point> until) {
  const CallsUntil limit(examiner, until);
  CaseRecord record;
  record.index = index;
  record.phase = plan.phase(index);
  record.op = plan.operation(index);
  try {
    const PlannedCase planned = plan.make(index);
    if (planned.phase == Phase::target) return search(examiner, plan, planned, target);
    record.line = planned.line;
    record.classes = planned.classes;
    const bool pinned = planned.phase == Phase::corpus || planned.phase == Phase::past;
    const Depth depth = pinned || index % kThorough == 0 ? Depth::thorough
                        : index % kRepeated == 0         ? Depth::repeated
                                                         : Depth::quick;
    record.outcome = examiner.examine(planned.given, depth);
    if (record.outcome.finding()) record.hash = case_hash(planned.given);
  } catch (const Interrupted&) {
    return std::nullopt;
  } catch (const std::exception& error) {
    record.unbuilt = printable(error.what(), 300);
    record.classes.clear();
  }
  return record;
}

/// The case of a finding, for its folder.
CheckCase case_of(const Plan& plan, const CaseRecord& record) {
  if (record.recipe.empty()) return plan.make(record.index).given;
  return {build_case(parse_recipe(record.recipe)), "target search", false};
}

/// Numbers to try, from one place.
class Dispenser {
 public:
  Dispenser(const FuzzRequest& request, const Plan& plan, std::int64_t first,
            const std::set<std::int64_t>& given_up)
      : step_(request.shards),
        again_(given_up.begin(), given_up.end()),
        next_(first),
        until_(end_of_budget(request)) {
    end_ = plan.endless() ? std::numeric_limits<std::int64_t>::max() : plan.fixed();
    if (request.cases > 0) end_ = std::min(end_, request.cases);
  }

  /// At most `most` numbers; none when it is over.
  std::vector<std::int64_t> take(std::int64_t most) {
    const std::lock_guard lock(mutex_);
    std::vector<std::int64_t> numbers;
    while (static_cast<std::int64_t>(numbers.size()) < most && !over()) {
      if (!again_.empty() && (next_ >= end_ || taken_ % kBetween == kBetween - 1)) {
        numbers.push_back(again_.front());
        again_.pop_front();
      } else if (next_ < end_) {
        numbers.push_back(next_);
        next_ += step_;
      } else {
        break;
      }
      ++taken_;
    }
    return numbers;
  }
  std::optional<Clock::time_point> until() const { return until_; }
  void stop() { stopped_ = true; }
  std::int64_t end() const { return end_; }

 private:
  bool over() const {
    return stopped_ || StopSignal::received() != 0 || (until_ && Clock::now() >= *until_);
  }

  /// One in so many is a case that was given up: calls longer than the budget would otherwise be
  /// all that is ever tried.
  static constexpr std::int64_t kBetween = 8;

  const std::int64_t step_;
  std::int64_t taken_ = 0;
  std::deque<std::int64_t> again_;  // given up by an earlier run
  std::int64_t next_, end_ = 0;
  const std::optional<Clock::time_point> until_;
  std::atomic<bool> stopped_ = false;
  std::mutex mutex_;
};

/// Takes results in any order and counts them in that of their numbers.
class Collector {
 public:
  Collector(const FuzzRequest& request, CampaignFolder& folder, Dispenser& dispenser,
            std::int64_t first)
      : request_(request), folder_(folder), dispenser_(dispenser), next_(first) {
    const CampaignFolder::Contents& old = folder.contents();
    report_.tally = old.tally;
    report_.shrunk = old.shrunk;
    report_.found = old.found;
    given_up_ = old.given_up;
    for (const auto& [index, record] : report_.found) {
      if (index < next_ && !given_up_.count(index)) count(record);
    }
  }

  void add(CaseRecord record) {
    const std::lock_guard lock(mutex_);
    if (failed_) return;
    try {
      if (record.outcome.finding()) write_down(record);
      report_.lost_children += record.outcome.lost_children;
      if (given_up_.erase(record.index) > 0) {
        commit(record);
      } else {
        waiting_.emplace(record.index, std::move(record));
        count_waiting();
      }
      if (seconds_since(saved_) > kSaveEvery) save();
    } catch (const std::exception&) {
      failed_ = std::current_exception();
      dispenser_.stop();
    }
  }

  /// A case for which there was no time: those after it count all the same.
  void give_up(std::int64_t index) {
    const std::lock_guard lock(mutex_);
    if (given_up_.count(index)) return;
    skipped_.insert(index);
    count_waiting();
  }

  /// A finding that waits for its folder.
  std::optional<CaseRecord> job() {
    const std::lock_guard lock(mutex_);
    if (jobs_.empty() || failed_) return std::nullopt;
    CaseRecord record = std::move(jobs_.front());
    jobs_.pop_front();
    return record;
  }

  void done(const CaseRecord& record, const Shrunk& s) {
    const std::lock_guard lock(mutex_);
    report_.shrunk[record.index] = s;
    folder_.shrunk(record.index, s);
    if (request_.say) {
      request_.say(fmt::format("{} [{}] {}\n  {}\n{}  {}/{}\n", signature_text(record), record.hash,
                               record.line, record.outcome.sentence, shrunk_text(s), folder_.path(),
                               s.folder));
    }
  }

  void fail() {
    const std::lock_guard lock(mutex_);
    if (!failed_) failed_ = std::current_exception();
    dispenser_.stop();
  }

  void save() {
    folder_.progress(next_, given_up_, report_.tally, spent());
    saved_ = Clock::now();
    if (request_.progress) {
      const double of_cases =
          request_.cases > 0 ? static_cast<double>(next_) / static_cast<double>(request_.cases) : 0;
      const double of_time =
          request_.budget_seconds > 0 ? seconds_since(start_) / request_.budget_seconds : 0;
      request_.progress(
          std::min(1.0, std::max(of_cases, of_time)),
          fmt::format("{} cases, {} findings", report_.tally.cases, report_.tally.findings));
    }
  }

  FuzzReport finish() {
    const std::lock_guard lock(mutex_);
    if (failed_) std::rethrow_exception(failed_);
    save();
    report_.seconds = spent();
    report_.given_up = static_cast<std::int64_t>(given_up_.size());
    return std::move(report_);
  }

 private:
  double spent() const { return folder_.contents().seconds + seconds_since(start_); }

  /// On the disk before it counts.
  void write_down(const CaseRecord& record) {
    if (report_.first_finding < 0) report_.first_finding = seconds_since(start_);
    if (report_.found.count(record.index)) return;
    if (++listed_[signature_text(record)] > 2 * kListed) return;
    folder_.found(record);
  }

  void count_waiting() {
    for (;;) {
      if (const auto at = waiting_.find(next_); at != waiting_.end()) {
        commit(at->second);
        waiting_.erase(at);
      } else if (skipped_.erase(next_) > 0) {
        given_up_.insert(next_);
      } else {
        return;
      }
      next_ += request_.shards;
    }
  }

  void commit(const CaseRecord& record) {
    if (stopped_) return;
    report_.tally.add(record);
    if (!record.outcome.finding()) return;
    if (report_.tally.signatures[signature_text(record)] <= kListed) {
      report_.found.insert_or_assign(record.index, record);
    }
    count(record);
    if (request_.stop_after > 0 && report_.tally.findings >= request_.stop_after) {
      stopped_ = true;
      dispenser_.stop();
    }
  }

  /// The first ones of a signature get a folder.
  void count(const CaseRecord& record) {
    if (++kept_[signature_text(record)] > request_.keep) return;
    if (!report_.shrunk.count(record.index)) jobs_.push_back(record);
  }

  const FuzzRequest& request_;
  CampaignFolder& folder_;
  Dispenser& dispenser_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point saved_ = start_;
  std::mutex mutex_;
  std::int64_t next_;
  std::map<std::int64_t, CaseRecord> waiting_;
  std::set<std::int64_t> skipped_, given_up_;  // from next_ on, and before it
  std::deque<CaseRecord> jobs_;
  std::map<std::string, std::int64_t> kept_, listed_;
  FuzzReport report_;
  std::exception_ptr failed_;
  bool stopped_ = false;
};

/// One thread of this process: cases, and folders of what was found.
class Worker {
 public:
  Worker(const FuzzRequest& request, const Plan& plan, Dispenser& dispenser, Collector& collector,
         std::atomic<bool>& ending)
      : request_(request),
        plan_(plan),
        dispenser_(dispenser),
        collector_(collector),
        ending_(ending) {}

  void run(std::unique_ptr<Examiner> examiner) {
    try {
      if (!examiner) examiner = std::make_unique<Examiner>(request_.candidate);
      for (;;) {
        const bool last = ending_;
        if (const auto record = collector_.job()) {
          keep(*examiner, *record);
          continue;
        }
        const auto numbers = dispenser_.take(1);
        if (!numbers.empty()) {
          const std::int64_t number = numbers[0];
          auto record = try_case(*examiner, plan_, number, request_.target, dispenser_.until());
          if (record) {
            collector_.add(std::move(*record));
          } else if (StopSignal::received() == 0) {
            collector_.give_up(number);
          }
        } else if (last) {
          return;  // nothing came after the last result
        } else {
          std::this_thread::sleep_for(kPause);
        }
      }
    } catch (...) {
      collector_.fail();
    }
  }

 private:
  void keep(Examiner& examiner, const CaseRecord& record) {
    KeepRequest keep;
    keep.folder = request_.out;
    keep.candidate = request_.candidate.spec;
    keep.shrink.steps = request_.shrink_steps;
    keep.shrink.seconds = request_.shrink_seconds;
    keep.shrink.stop = [] { return StopSignal::received() != 0; };
    try {
      collector_.done(record, keep_finding(examiner, case_of(plan_, record), record, keep));
    } catch (const Interrupted&) {
      // It is in the journal, and --resume makes its folder.
    }
  }

  const FuzzRequest& request_;
  const Plan& plan_;
  Dispenser& dispenser_;
  Collector& collector_;
  std::atomic<bool>& ending_;
};

/// Rank 0's side: gives numbers to the others and takes what they send, until all were told to end.
class Others {
 public:
  Others(Cluster* cluster, const Json& settings, Dispenser& dispenser, Collector& collector)
      : cluster_(cluster), settings_(settings), dispenser_(dispenser), collector_(collector) {
    if (cluster) left_ = cluster->size() - 1;
  }
  bool done() const { return left_ == 0; }
  /// False when there was nothing to do.
  bool serve() {
    int from = 0;
    std::string text;
    if (!cluster_ || left_ == 0 || !cluster_->receive(from, text)) return false;
    const Json message = Json::parse(text);
    if (message.contains("settings") && message.at("settings") != settings_) {
      cluster_->send(from, Json{{"refused", true}}.dump());
      --left_;
      throw InputError(fmt::format("rank {} has other settings or other pinned cases", from));
    }
    if (message.contains("error")) {
      --left_;
      throw std::runtime_error(
          fmt::format("rank {}: {}", from, message.at("error").get<std::string>()));
    }
    if (message.contains("records")) {
      for (const Json& record : message.at("records")) collector_.add(record_from(record));
    }
    for (const std::int64_t number : message.value("given_up", std::vector<std::int64_t>())) {
      collector_.give_up(number);
    }
    const auto numbers = dispenser_.take(kBlock);
    cluster_->send(from, Json{{"numbers", numbers}}.dump());
    if (numbers.empty()) --left_;
    return true;
  }

 private:
  Cluster* cluster_;
  const Json& settings_;
  Dispenser& dispenser_;
  Collector& collector_;
  int left_ = 0;
};

std::string wait_for_message(Cluster& cluster) {
  int from = 0;
  std::string text;
  while (!cluster.receive(from, text)) std::this_thread::sleep_for(kPause);
  return text;
}

/// The other ranks: numbers in, records out.
void work_for_rank_0(const FuzzRequest& request, Cluster& cluster, std::unique_ptr<Examiner> first,
                     const Plan& plan, const Json& settings) {
  std::vector<std::unique_ptr<Examiner>> examiners;
  examiners.push_back(std::move(first));
  while (static_cast<int>(examiners.size()) < request.threads) {
    examiners.push_back(std::make_unique<Examiner>(request.candidate));
  }
  cluster.send(0, Json{{"settings", settings}}.dump());
  const auto until = end_of_budget(request);
  for (;;) {
    const Json message = Json::parse(wait_for_message(cluster));
    if (message.contains("refused") || message.at("numbers").empty()) return;
    const auto numbers = message.at("numbers").get<std::vector<std::int64_t>>();
    std::vector<std::optional<CaseRecord>> records(numbers.size());
    std::atomic<std::size_t> next = 0;
    std::vector<std::thread> threads;
    for (auto& examiner : examiners) {
      threads.emplace_back([&] {
        for (std::size_t i; (i = next++) < numbers.size();) {
          records[i] = try_case(*examiner, plan, numbers[i], request.target, until);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    Json answer = {{"records", Json::array()}, {"given_up", Json::array()}};
    for (std::size_t i = 0; i < records.size(); ++i) {
      if (records[i]) {
        answer["records"].push_back(record_json(*records[i]));
      } else if (StopSignal::received() == 0) {
        answer["given_up"].push_back(numbers[i]);
      }
    }
    cluster.send(0, answer.dump());
  }
}

FuzzReport lead(const FuzzRequest& request, Cluster* cluster, std::unique_ptr<Examiner> first,
                const Plan& plan, const Json& settings, CampaignFolder& folder) {
  const std::int64_t start = std::max(folder.contents().next, request.shard);
  Dispenser dispenser(request, plan, start, folder.contents().given_up);
  Collector collector(request, folder, dispenser, start);
  Others others(cluster, settings, dispenser, collector);
  std::atomic<bool> ending = false;
  std::atomic<int> running = request.threads;
  std::vector<std::thread> threads;
  for (int i = 0; i < request.threads; ++i) {
    threads.emplace_back([&, examiner = i == 0 ? std::move(first) : nullptr]() mutable {
      Worker(request, plan, dispenser, collector, ending).run(std::move(examiner));
      --running;
    });
  }
  while (running > 0 || !others.done()) {
    bool busy = false;
    try {
      busy = others.serve();
    } catch (...) {
      collector.fail();
    }
    if (others.done()) ending = true;
    if (!busy) std::this_thread::sleep_for(kPause);
  }
  for (std::thread& thread : threads) thread.join();
  FuzzReport report = collector.finish();
  report.settings = settings;
  report.threads = request.threads;
  report.processes = cluster ? cluster->size() : 1;
  report.resumed = folder.contents().seconds > 0;
  report.signal = StopSignal::received();
  return report;
}

}  // namespace

FuzzReport run_fuzz(const FuzzRequest& request, Cluster* cluster) {
  const StopSignal signals;
  std::unique_ptr<Examiner> examiner;
  std::optional<Plan> plan;
  std::optional<CampaignFolder> folder;
  Json settings;
  const bool leads = !cluster || cluster->rank() == 0;
  try {
    examiner = std::make_unique<Examiner>(request.candidate);
    plan.emplace(plan_request(request, *examiner));
    settings = settings_of(request, *plan);
    if (leads) folder.emplace(request.out, settings, request.resume);
  } catch (const std::exception& error) {
    // The others must hear of it, or they would wait for ever.
    if (!leads) cluster->send(0, Json{{"error", printable(error.what(), 400)}}.dump());
    if (leads && cluster) {
      for (int rank = 1; rank < cluster->size(); ++rank) {
        wait_for_message(*cluster);
        cluster->send(rank, Json{{"refused", true}}.dump());
      }
    }
    throw;
  }
  if (leads) return lead(request, cluster, std::move(examiner), *plan, settings, *folder);
  work_for_rank_0(request, *cluster, std::move(examiner), *plan, settings);
  return {};
}

}  // namespace assay
