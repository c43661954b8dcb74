#include "checks/output/interrupt.hpp"

#include <pthread.h>
#include <unistd.h>

#include <cerrno>

namespace assay {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM};

extern "C" void on_signal(int signal) {
  const int saved = errno;
  if (isatty(STDERR_FILENO) != 0) {
    const ssize_t ignored = write(STDERR_FILENO, "\r\033[K", 4);
    static_cast<void>(ignored);
  }
  errno = saved;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_NODEFER;  // the handler raises its own signal again
  for (int signal : kSignals) {
    struct sigaction old {};
    // A signal that the parent wants ignored (nohup, background jobs) stays ignored.
    if (sigaction(signal, nullptr, &old) == 0 && old.sa_handler != SIG_IGN) {
      sigaction(signal, &action, nullptr);
    }
  }
}

Uninterrupted::Uninterrupted() {
  sigset_t held;
  sigemptyset(&held);
  for (int signal : kSignals) sigaddset(&held, signal);
  pthread_sigmask(SIG_BLOCK, &held, &before_);
}

Uninterrupted::~Uninterrupted() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

}  // namespace assay
