// A candidate: somebody's claim to compute an operation. It runs in a child process that never sees
// reference, tolerance or verdict.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checks/verdict/precision_model.hpp"
#include "reference/case/schema.hpp"

namespace assay {

/// What happened to one call. Everything but `ran` and `unsupported` is a finding by itself.
enum class RunStatus {
  ran,
  unsupported,    // the candidate says it does not do this case; `detail` says why
  failed,         // it returned an error
  crashed,        // signal, or the child went away
  timed_out,      // no answer within the limit
  out_of_memory,  // memory limit hit
};

/// Findings of hygiene: each is a sentence with tensor and place.
struct HygieneFinding {
  std::string kind;  // "input modified", "written outside", "not written", "wrong shape",
                     // "wrong dtype", "nondeterministic", "stale"
  std::string tensor;
  std::string detail;
};

struct RunResult {
  RunStatus status = RunStatus::ran;
  std::string detail;                               // one line
  std::map<std::string, Tensor<double>> outputs;    // exact values of what was stored
  std::map<std::string, Tensor<double>> gradients;  // by input name
  std::map<std::string, DType> stored;  // dtypes of what was handed over, where they are known
  std::set<std::string> declined;       // results that it says it does not compute
  bool saved = false;                   // computed elsewhere: whoever saved it chose the dtypes
  std::vector<HygieneFinding> hygiene;
  double seconds = 0;

  /// An output, or a gradient as "d_<input>"; null when there is none.
  const Tensor<double>* find(const std::string& name) const {
    auto found = outputs.find(name);
    if (found != outputs.end()) return &found->second;
    if (name.rfind("d_", 0) != 0) return nullptr;
    found = gradients.find(name.substr(2));
    return found == gradients.end() ? nullptr : &found->second;
  }
};

struct RunLimits {
  double seconds = 60;
  std::uint64_t memory_bytes = 8ull << 30;
};

struct CandidateInfo {
  std::string name;
  std::vector<std::string> operations;  // empty: not declared
  std::optional<PrecisionModel> model;  // when the candidate declares one
  bool has_backward = true;
  bool any_case = true;  // false: results of one case, computed elsewhere
};

/// How the tensors of a call lie in memory.
struct CallLayout {
  bool strided = false;        // inputs and cotangents with gaps and offsets
  bool fresh_buffers = false;  // not the memory of the call before
};

class Candidate {
 public:
  virtual ~Candidate() = default;
  virtual const CandidateInfo& info() const = 0;
  /// Runs the case; inputs are handed over in the dtypes that the case stores. Never throws for
  /// what the candidate does; throws InputError when the candidate cannot be started at all, and
  /// Interrupted (stop_signal.hpp).
  virtual RunResult run(const ValidCase& c, bool gradients) = 0;
  /// The same with a layout; `unsupported` where the candidate has no such thing.
  virtual RunResult run_laid_out(const ValidCase& c, bool gradients, const CallLayout& layout);
  /// From then on calls throw Interrupted in place of waiting for the candidate; nothing: never.
  /// Only children that can be started again are given up.
  virtual void give_up_at(std::optional<std::chrono::steady_clock::time_point> when);
  /// Calls so far that were repeated because something outside (an operator, a batch system) killed
  /// the child: no fault of the candidate's.
  virtual int lost_children() const { return 0; }
};

/// SPEC: `cpu`, `cuda`, `path.so`, `python:module:function`, `fault:ID`, `outputs:FILE`, and those
/// of scheme.hpp. `cpu`, `cuda` and `path.so` may end in `@recurrent`, `@chunk`, `@chunk_log` or
/// `@chunk=32` to ask for a form. Throws InputError.
std::unique_ptr<Candidate> open_candidate(const std::string& spec, const PrecisionModel& model,
                                          const RunLimits& limits);

}  // namespace assay
