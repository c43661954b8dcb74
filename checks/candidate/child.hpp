// A child process that cannot hurt its parent: own process group, memory limit, no zombie, no
// orphan.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace assay {

/// A file descriptor that is closed with it.
class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  ~Fd() { reset(); }
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept {
    reset(other.release());
    return *this;
  }
  int get() const { return fd_; }
  int release() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }
  void reset(int fd = -1);

 private:
  int fd_;
};

struct ChildCommand {
  std::vector<std::string> arguments;    // the first is a path
  std::vector<std::string> environment;  // "NAME=value", on top of this process's own
  std::uint64_t memory_bytes = 0;        // 0: no limit
};

/// How a process ended.
struct ChildEnd {
  int signal = 0;  // 0: it exited by itself
  int exit_code = 0;
  bool killed = false;       // by `end`, because it would not go
  std::string text() const;  // "SIGSEGV (segmentation fault)", "exited with code 3"
};

class Child {
 public:
  /// The descriptors become 3, 4 and 5 of the child. Standard output and error go into a pipe of
  /// which the end is kept. Throws InputError when the program cannot be started.
  Child(const ChildCommand& command, const std::array<int, 3>& descriptors);
  /// Kills the whole process group and reaps.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  int output() const { return output_.get(); }
  /// Reads what the child has printed; never blocks.
  void drain();
  /// The last line it printed, safe for a terminal; "" when there is none.
  std::string last_line() const;
  /// Has it printed this within the part that is kept?
  bool printed(const std::string& text) const { return printed_.find(text) != std::string::npos; }

  /// Has it ended by itself?
  bool ended();
  /// Waits at most that long for its end, then kills the group; reaps in any case.
  ChildEnd end(double grace_seconds);

 private:
  void kill_group();

  pid_t pid_ = -1;
  Fd output_;
  std::string printed_;
};

}  // namespace assay
