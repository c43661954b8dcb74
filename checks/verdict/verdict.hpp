// The verdict on one case.
#pragma once

#include <string>
#include <vector>

#include "checks/candidate/candidate.hpp"
#include "checks/verdict/diagnosis.hpp"
#include "checks/verdict/properties.hpp"
#include "checks/verdict/statistics.hpp"

namespace assay {

enum class VerdictKind {
  pass,
  wrong,         // beyond the hard bound, non-finite where the truth is finite, lattice violated,
                 // shape or hygiene broken
  inconsistent,  // not what the declared arithmetic can do, by statistics
  nondeterministic,
  weak_test,  // the sentinels pass too, or a tensor overflows everywhere: this case cannot tell
              // right from wrong
  failed,     // the candidate returned an error
  crashed,
  timed_out,
  out_of_memory,
  unsupported,
};
std::string verdict_name(VerdictKind kind);
/// Is it a finding (exit code 1)?
bool is_finding(VerdictKind kind);
/// Does it say nothing of the candidate (exit code 3 if nothing else was judged)?
bool says_nothing(VerdictKind kind);

struct TensorVerdict {
  std::string name;
  Shape shape;
  TensorStatistics stats;
  std::string where;          // of the worst element: "t=63 (t mod 64 = 63), head 1, row 5"
  std::string no_hard_bound;  // why stats.hard_ratio says nothing; empty when it does
};

struct Verdict {
  VerdictKind kind = VerdictKind::pass;
  std::string op;
  int number = 0;         // of the case in its operation's list, from 1; 0 for a case from a file
  std::string case_line;  // "mdn B=1,T=65,H=2,K=8,V=8 bf16 … seed=31"
  std::string sentence;   // what is wrong, in one sentence
  std::vector<std::string> blamed;  // ids of what the error is blamed on; several: one function
  std::string cause;                // probable cause, empty when none is known
  std::vector<TensorVerdict> tensors;
  std::vector<FilterResult> filters;         // the significant ones, best first
  std::vector<StructureFinding> structures;  // strongest first, at most 8
  std::vector<HygieneFinding> hygiene;
  std::vector<PropertyFinding> properties;  // broken ones
  std::vector<std::string> notes;           // weak sentinels and the like
  std::string replay;                       // command line
  double seconds = 0;                       // of the candidate
  /// The unit roundoff for which the rms of z would be that of correct arithmetic, beside the
  /// coarsest that the model declares ("2^-8 (bf16)"); 0 when nothing was judged.
  double fitted_unit = 0;
  std::string declared_unit;
  bool gradients_judged = true;  // false: the candidate computes none, or they were not asked for
};

struct JudgeRequest {
  bool gradients = true;
  int threads = 1;
  int lanes = 64;
  std::uint64_t seed = 1;
  bool diagnose = true;                   // false: only accept or reject
  std::vector<std::string> without = {};  // faults not to be considered as causes
  /// `directions` of the case and model, where the caller has them already.
  const std::vector<Direction>* known = nullptr;
  /// The exact lattice: bit equality is required, no statistics.
  bool exact = false;
};

/// What a correct candidate of this model would return, for `judge` and for properties.
Expectation expectation_for(const ValidCase& c, const PrecisionModel& model,
                            const JudgeRequest& request, const RunResult& result);

/// Judges what a candidate returned. `result.status` other than `ran` becomes its verdict.
Verdict judge(const ValidCase& c, const PrecisionModel& model, const RunResult& result,
              const JudgeRequest& request);
/// The same with an expectation that is there already.
Verdict judge(const ValidCase& c, const PrecisionModel& model, const RunResult& result,
              const JudgeRequest& request, const Expectation& expectation);

/// Adds broken properties to a verdict; one that passed so far becomes inconsistent.
void add_properties(const PropertyReport& report, Verdict& verdict);

/// "mdn B=1,T=65,H=2,K=8,V=8 bf16, packed, seed 31".
std::string case_line(const ValidCase& c);

}  // namespace assay
