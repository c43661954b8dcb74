#include "checks/candidate/stop_signal.hpp"

#include <cstdint>
#include <cstdio>
#include <ctime>

namespace assay {
namespace {

volatile std::sig_atomic_t received_signal = 0;
volatile std::int64_t received_at = 0;  // ns

/// timeout(1) and terminals send one signal to the process and to its group: that is one request.
constexpr std::int64_t kSameRequest = 500'000'000;

std::int64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

extern "C" void note_signal(int signal) {
  if (received_signal != 0) {
    if (now_ns() - received_at < kSameRequest) return;
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  received_at = now_ns();
  received_signal = signal;
}

void take(int signal, struct sigaction& before) {
  struct sigaction action {};
  action.sa_handler = note_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_NODEFER | SA_RESTART;
  // What the parent wants ignored (nohup, background jobs) stays ignored.
  if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) {
    sigaction(signal, &action, nullptr);
  }
}

}  // namespace

StopSignal::StopSignal() {
  received_signal = 0;
  take(SIGINT, interrupt_);
  take(SIGTERM, terminate_);
}

StopSignal::~StopSignal() {
  sigaction(SIGINT, &interrupt_, nullptr);
  sigaction(SIGTERM, &terminate_, nullptr);
}

int StopSignal::received() { return received_signal; }

void die_by(int signal) {
  if (signal == 0) return;
  std::fflush(stdout);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace assay
