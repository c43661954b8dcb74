// Ctrl-C and SIGTERM ask what calls candidates to end in order; a second one ends it at once.
#pragma once

#include <csignal>
#include <exception>

namespace assay {

/// A call of a candidate that was given up because the signal came, or the time for it was over
/// (Candidate::give_up_at): no result.
struct Interrupted : std::exception {
  const char* what() const noexcept override { return "interrupted"; }
};

/// While one lives, the signals are noted only.
class StopSignal {
 public:
  StopSignal();
  /// Puts the former handlers back.
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// The signal that came since the last one was made, or 0.
  static int received();

 private:
  struct sigaction interrupt_ {
  }, terminate_{};
};

/// Ends the process by that signal, as the shell expects; nothing for 0.
void die_by(int signal);

}  // namespace assay
