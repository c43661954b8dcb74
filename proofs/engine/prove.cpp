#include "proofs/engine/prove.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "proofs/checker/check.hpp"
#include "proofs/engine/gate_box.hpp"
#include "reference/case/text.hpp"

namespace assay::proofs {
namespace {

/// What the checker says to it; empty when it accepts.
std::string objection(const Json& statement, bool holds, const Json& proof) {
  try {
    checker::check_part(checker::parse_json(statement.dump()), holds,
                        checker::parse_json(proof.dump()));
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

bool established(const Found& found) {
  return found.answer == Answer::proved || found.answer == Answer::probable ||
         found.answer == Answer::refuted;
}

SiblingOutcome refuse(const Part& sibling) {
  SiblingOutcome outcome;
  const Found wrong = find(sibling.statement, sibling.holds, sibling.hint);
  if (established(wrong)) {
    outcome.how = "ACCEPTED: " + wrong.detail;
    return outcome;
  }
  outcome.refused = true;
  outcome.how = wrong.detail;
  // A witness against it is better than a failure to prove it.
  if (!sibling.holds) return outcome;
  const Json hint =
      sibling.hint.is_object() && sibling.hint.contains("point") ? sibling.hint : Json(nullptr);
  const Found against = find(sibling.statement, false, hint);
  if (against.answer == Answer::refuted &&
      objection(sibling.statement, false, against.proof).empty()) {
    outcome.how = "refuted: " + against.detail;
  }
  return outcome;
}

void add_method(std::string& methods, const std::string& method) {
  if (method.empty() || methods.find(method) != std::string::npos) return;
  methods += (methods.empty() ? "" : ", ") + method;
}

bool matches(const std::string& pattern, const std::string& text, std::size_t p = 0,
             std::size_t t = 0) {
  for (; p < pattern.size(); ++p, ++t) {
    if (pattern[p] == '*') {
      for (std::size_t rest = t; rest <= text.size(); ++rest) {
        if (matches(pattern, text, p + 1, rest)) return true;
      }
      return false;
    }
    if (t == text.size() || (pattern[p] != '?' && pattern[p] != text[t])) return false;
  }
  return t == text.size();
}

}  // namespace

Outcome prove(const Claim& claim, bool search) {
  const auto start = std::chrono::steady_clock::now();
  Outcome outcome;
  outcome.claim = &claim;
  Json parts = Json::array();
  bool good = !claim.parts.empty(), probable = false, proof_failed = false;
  for (const Part& part : claim.parts) {
    const bool recorded = part.hint.is_object() && part.hint.contains("pieces");
    Found found = find(part.statement, part.holds, search && recorded ? Json(nullptr) : part.hint);
    add_method(outcome.method, found.method);
    const bool right = part.holds
                           ? found.answer == Answer::proved || found.answer == Answer::probable
                           : found.answer == Answer::refuted;
    if (right) {
      const std::string why_not = objection(part.statement, part.holds, found.proof);
      if (!why_not.empty()) {
        found.answer = Answer::undecided;
        found.detail = "the checker rejects what was found: " + why_not;
        proof_failed = true;
      } else {
        probable = probable || found.answer == Answer::probable;
        parts.push_back(
            {{"statement", part.statement}, {"holds", part.holds}, {"proof", found.proof}});
      }
    }
    if (!established(found)) {
      good = false;
      // The opposite of what is stated is a finding; neither is undecided.
      const Found opposite = part.holds ? find(part.statement, false, nullptr) : Found{};
      if (opposite.answer == Answer::refuted) {
        proof_failed = true;
        found.detail = "false: " + opposite.detail;
      }
    }
    if (outcome.detail.empty() || !established(found)) outcome.detail = found.detail;
    outcome.parts.push_back(std::move(found));
  }
  for (const Part& sibling : claim.siblings) {
    outcome.siblings.push_back(refuse(sibling));
    if (!outcome.siblings.back().refused) {
      good = false;
      proof_failed = true;
      outcome.detail = "the false sibling was " + outcome.siblings.back().how;
    }
  }
  outcome.as_stated = good;
  outcome.undecided = !good && !proof_failed;
  if (good) {
    outcome.answer = claim.erratum ? "REFUTED" : probable ? "PROVED up to 2^-100" : "PROVED";
    outcome.certificate = make_certificate(claim.id, outcome.answer, parts);
  } else {
    outcome.answer = proof_failed ? "FAILED" : "UNDECIDED";
  }
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return outcome;
}

std::vector<const Claim*> select_claims(const std::vector<std::string>& patterns) {
  std::vector<const Claim*> chosen;
  std::vector<bool> used(patterns.size());
  for (const Claim& claim : all_claims()) {
    bool wanted = patterns.empty();
    for (std::size_t i = 0; i < patterns.size(); ++i) {
      if (!matches(patterns[i], claim.id)) continue;
      wanted = used[i] = true;
    }
    if (wanted) chosen.push_back(&claim);
  }
  std::vector<std::string> ids;
  for (const Claim& claim : all_claims()) ids.push_back(claim.id);
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    if (used[i]) continue;
    throw InputError("no claim matches " + quote_name(patterns[i]) +
                     did_you_mean(patterns[i], ids) + "; assay list claims has them all");
  }
  return chosen;
}

std::vector<Outcome> prove_all(const std::vector<const Claim*>& claims, int threads, bool search,
                               const std::function<void(const Outcome&, std::size_t)>& done) {
  std::vector<Outcome> outcomes(claims.size());
  std::atomic<std::size_t> next{0};
  std::size_t finished = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&] {
    for (std::size_t i = next++; i < claims.size(); i = next++) {
      try {
        outcomes[i] = prove(*claims[i], search);
      } catch (...) {
        const std::lock_guard<std::mutex> lock(mutex);
        if (!failure) failure = std::current_exception();
        next = claims.size();
        return;
      }
      const std::lock_guard<std::mutex> lock(mutex);
      ++finished;
      if (done) done(outcomes[i], finished);
    }
  };
  std::vector<std::thread> pool;
  for (int t = 1; t < threads; ++t) pool.emplace_back(work);
  work();
  for (std::thread& thread : pool) thread.join();
  if (failure) std::rethrow_exception(failure);
  return outcomes;
}

std::string file_stem(const std::string& id) {
  std::string stem = id;
  std::replace(stem.begin(), stem.end(), '/', '_');
  return stem;
}

}  // namespace assay::proofs
