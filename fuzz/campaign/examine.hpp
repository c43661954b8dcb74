// One case of a campaign on one candidate: a quick look first, the full verdict where it is due.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "checks/verdict/check.hpp"
#include "fuzz/campaign/screen.hpp"

namespace assay {

/// How a candidate is opened, in every thread and on every machine alike.
struct CandidateRequest {
  std::string spec = "cpu";
  std::string model;  // preset or file; empty: what the candidate declares, or fp32
  double call_seconds = 10;
  bool gradients = true;
};

/// What a finding is about, as far as two findings are of one kind.
struct Signature {
  VerdictKind kind = VerdictKind::pass;
  /// "values", "not finite", "bits" (exact case), "shape", "call", "hygiene: stale", "property: …"
  std::string what;
  std::string tensor;  // the first rejected one, outputs before gradients; may be empty
  bool same_class(const Signature& other) const { return kind == other.kind && what == other.what; }
};
Signature signature_of(const Verdict& verdict);

/// What became of one case.
struct Outcome {
  Signature signature;
  std::string sentence;
  bool full = false;  // was the full verdict needed?
  std::int64_t elements = 0;
  double max_z = 0, rms_z = 0, hard_ratio = 0, growth = 0, seconds = 0;
  int lost_children = 0;  // calls repeated because something outside killed the child
  bool finding() const { return is_finding(signature.kind); }
};

enum class Depth {
  quick,     // one call and a first look, the full verdict where that is suspicious
  repeated,  // besides, the calls that show what one does not (checks/candidate/hygiene.hpp)
  thorough,  // the full verdict with properties, whatever the first look says
};

class Examiner {
 public:
  /// Throws InputError when the candidate cannot be opened.
  explicit Examiner(const CandidateRequest& request);

  const PrecisionModel& model() const { return model_; }
  const CandidateInfo& info() const { return candidate_->info(); }

  Outcome examine(const CheckCase& c, Depth depth);

  /// Candidate::give_up_at.
  void give_up_at(std::optional<std::chrono::steady_clock::time_point> when) {
    candidate_->give_up_at(when);
  }

  /// The verdict that says what is wrong and why; `observe` sees what it was made from.
  Verdict verdict(const CheckCase& c, std::function<void(Verdict&, const Evidence&)> observe = {});

  /// Does this case still have a finding of that class? The cheapest way to tell.
  bool shows(const CheckCase& c, const Signature& wanted);

 private:
  Outcome examined(const CheckCase& c, Depth depth);
  bool shows_unguarded(const CheckCase& c, const Signature& wanted);
  Outcome outcome_of(const Verdict& verdict) const;
  RunResult run(const CheckCase& c, bool& gradients);
  /// Do repeated calls show something, or not come back?
  bool dirty_hands(const CheckCase& c, bool gradients);
  Verdict judged(const CheckCase& c, const RunResult& result, bool gradients, bool diagnose) const;

  CandidateRequest request_;
  PrecisionModel model_;
  std::unique_ptr<Candidate> candidate_;
};

}  // namespace assay
