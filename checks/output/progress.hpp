// Progress of a long job on stderr: a bar on a terminal, plain lines otherwise.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <string>

namespace assay {

/// Silent for the first two seconds, so short jobs print nothing. Thread-safe. The bar is wiped
/// when the object dies or `clear` is called, so that results never share a line with it.
class Progress {
 public:
  /// `title` stands before the bar. `enabled` false: never prints.
  explicit Progress(std::string title, bool enabled = true);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// share in [0, 1]; `what` names the work at hand.
  void update(double share, const std::string& what);
  void clear();

  /// A callback for requests; valid as long as this object.
  std::function<void(double, const std::string&)> callback();

 private:
  using Clock = std::chrono::steady_clock;

  void draw_bar(double share, const std::string& what);

  std::string title_;
  bool enabled_;
  bool terminal_;
  std::mutex mutex_;
  Clock::time_point start_, last_;
  bool drawn_ = false;
};

/// "3.2 s", "4 min 05 s".
std::string duration_text(double seconds);

}  // namespace assay
