// Ctrl-C and SIGTERM ask a campaign to end in order; a second one ends it at once.
#pragma once

#include <csignal>

namespace assay {

class StopSignal {
 public:
  StopSignal();
  /// Puts the former handlers back.
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// The signal that came, or 0.
  static int received();

 private:
  struct sigaction interrupt_ {
  }, terminate_{};
};

}  // namespace assay
