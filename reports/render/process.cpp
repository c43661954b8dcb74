#include "reports/render/process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>

extern char** environ;  // POSIX declares it nowhere

namespace assay::render {
namespace {

[[noreturn]] void fail(const std::string& what, int code) {
  throw std::runtime_error(what + ": " + std::strerror(code));
}

/// A file in memory. Pipes would need somebody who reads while we write; this cannot block.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view contents = {}) : fd_(memfd_create("assay", MFD_CLOEXEC)) {
    if (fd_ < 0) fail("no file in memory", errno);
    while (!contents.empty()) {
      const ssize_t count = write(fd_, contents.data(), contents.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) {
        const int code = errno;
        close(fd_);
        fail("cannot fill a file in memory", code);
      }
      contents.remove_prefix(static_cast<std::size_t>(count));
    }
    lseek(fd_, 0, SEEK_SET);
  }
  ~MemoryFile() { close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  int get() const { return fd_; }

  std::string contents() const {
    std::string text(static_cast<std::size_t>(lseek(fd_, 0, SEEK_END)), '\0');
    std::size_t done = 0;
    while (done < text.size()) {
      const ssize_t count = pread(fd_, text.data() + done, text.size() - done, done);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) break;
      done += static_cast<std::size_t>(count);
    }
    text.resize(done);
    return text;
  }

 private:
  int fd_;
};

/// Waits for the child, kills it (and what it started) when its time is up.
int wait_or_kill(pid_t pid, double seconds, bool& timed_out) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  for (auto pause = std::chrono::milliseconds(1);;) {
    int status = 0;
    const pid_t done = waitpid(pid, &status, WNOHANG);
    if (done == pid) return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (done < 0 && errno != EINTR) fail("lost a child process", errno);
    if (!timed_out && Clock::now() >= end) {
      timed_out = true;
      kill(-pid, SIGKILL);
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::milliseconds(50));
  }
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& arguments, std::string_view input,
                          double seconds) {
  const MemoryFile in(input), out, errors;
  std::vector<std::string> texts = arguments;
  std::vector<char*> argv;
  for (std::string& text : texts) argv.push_back(text.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, in.get(), 0);
  posix_spawn_file_actions_adddup2(&files, out.get(), 1);
  posix_spawn_file_actions_adddup2(&files, errors.get(), 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t pid = -1;
  const int code = posix_spawnp(&pid, argv[0], &files, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);

  ProcessResult result;
  if (code == ENOENT) return result;
  if (code != 0) fail("cannot start " + arguments[0], code);
  result.started = true;
  result.exit_code = wait_or_kill(pid, seconds, result.timed_out);
  result.output = out.contents();
  result.errors = errors.contents();
  return result;
}

}  // namespace assay::render
