// Ctrl-C leaves nothing half done: no torn line on the terminal, no torn file.
#pragma once

#include <csignal>

namespace assay {

/// On SIGINT and SIGTERM: wipes the progress line, then dies by that signal, as the shell expects.
void catch_interrupts();

/// Holds SIGINT and SIGTERM back while it lives, for the moment in which a file is written.
class Uninterrupted {
 public:
  Uninterrupted();
  ~Uninterrupted();
  Uninterrupted(const Uninterrupted&) = delete;
  Uninterrupted& operator=(const Uninterrupted&) = delete;

 private:
  sigset_t before_;
};

}  // namespace assay
