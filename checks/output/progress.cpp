#include "checks/output/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace assay {
namespace {

constexpr double kQuietSeconds = 2.0;
constexpr double kBarEverySeconds = 0.1;
constexpr double kLineEverySeconds = 10.0;

int terminal_width() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

double seconds(std::chrono::steady_clock::duration d) {
  return std::chrono::duration<double>(d).count();
}

}  // namespace

Progress::Progress(std::string title, bool enabled)
    : title_(std::move(title)),
      enabled_(enabled),
      terminal_(isatty(STDERR_FILENO) != 0),
      start_(Clock::now()),
      last_(start_) {}

Progress::~Progress() { clear(); }

void Progress::update(double share, const std::string& what) {
  if (!enabled_) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  const Clock::time_point now = Clock::now();
  const double elapsed = seconds(now - start_);
  if (elapsed < kQuietSeconds) return;
  const double interval = terminal_ ? kBarEverySeconds : kLineEverySeconds;
  if (last_ != start_ && seconds(now - last_) < interval) return;
  last_ = now;
  share = std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 0.0;
  if (terminal_) {
    draw_bar(share, what);
  } else {
    const std::string line =
        fmt::format("{}: {:.0f} % after {}{}{}\n", title_, std::floor(100 * share),
                    duration_text(elapsed), what.empty() ? "" : ", ", what);
    std::fputs(line.c_str(), stderr);
  }
}

void Progress::draw_bar(double share, const std::string& what) {
  constexpr int kBarWidth = 24;
  const int filled = static_cast<int>(share * kBarWidth);
  std::string line = fmt::format("{} [{}{}] {:3.0f} % {} {}", title_, std::string(filled, '#'),
                                 std::string(kBarWidth - filled, '.'), std::floor(100 * share),
                                 duration_text(seconds(last_ - start_)), what);
  const std::size_t width = static_cast<std::size_t>(std::max(terminal_width() - 1, 1));
  if (line.size() > width) line.resize(width);
  std::fprintf(stderr, "\r\033[K%s", line.c_str());
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::clear() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!drawn_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  drawn_ = false;
}

std::function<void(double, const std::string&)> Progress::callback() {
  if (!enabled_) return {};
  return [this](double share, const std::string& what) { update(share, what); };
}

std::string duration_text(double seconds) {
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const long whole = std::lround(seconds);
  return fmt::format("{} min {:02d} s", whole / 60, whole % 60);
}

}  // namespace assay
