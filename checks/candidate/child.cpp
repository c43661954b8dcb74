#include "checks/candidate/child.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "reference/case/tensor.hpp"
#include "reference/case/text.hpp"

extern char** environ;  // POSIX declares it nowhere

namespace assay {
namespace {

constexpr std::size_t kKeptOutput = 4096;
constexpr int kFirstDescriptor = 3;
constexpr int kFree = 16;  // descriptors from here on are not among those of the child

/// Everything the child needs between fork and exec, prepared beforehand: there it may only make
/// system calls, because another thread may have held a lock of the allocator.
struct Launch {
  std::vector<char*> arguments, environment;
  std::array<int, 3> descriptors;
  int output, failure;
  std::uint64_t memory_bytes;
  pid_t parent;
  bool main_thread;
};

void limit(decltype(RLIMIT_DATA) what, std::uint64_t bytes) {
  const rlimit value{bytes, bytes};
  setrlimit(what, &value);
}

[[noreturn]] void fail_in_child(int failure) {
  const int code = errno;
  const ssize_t ignored = write(failure, &code, sizeof code);
  static_cast<void>(ignored);
  _exit(127);
}

[[noreturn]] void become(const Launch& launch) {
  setpgid(0, 0);
  // Dies with its parent whatever it is doing. The signal comes when the THREAD that forked ends,
  // so only the main thread may use it; hosts also watch their line (channel.cpp).
  if (launch.main_thread) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launch.parent) _exit(0);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  limit(RLIMIT_CORE, 0);
  // RLIMIT_DATA counts private writable memory. RLIMIT_AS would also count what CUDA and malloc's
  // arenas merely reserve, and stop CUDA before its first call.
  if (launch.memory_bytes != 0) limit(RLIMIT_DATA, launch.memory_bytes);

  int moved[3];
  for (int i = 0; i < 3; ++i) {
    moved[i] = fcntl(launch.descriptors[i], F_DUPFD_CLOEXEC, kFree);
    if (moved[i] < 0) fail_in_child(launch.failure);
  }
  const int output = fcntl(launch.output, F_DUPFD_CLOEXEC, kFree);
  const int failure = fcntl(launch.failure, F_DUPFD_CLOEXEC, kFree);
  const int null = open("/dev/null", O_RDONLY);
  if (null < 0 || dup2(null, 0) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0) {
    fail_in_child(failure);
  }
  if (null > 2) close(null);
  for (int i = 0; i < 3; ++i) {
    if (dup2(moved[i], kFirstDescriptor + i) < 0) fail_in_child(failure);
  }
  execve(launch.arguments[0], launch.arguments.data(), launch.environment.data());
  fail_in_child(failure);
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

/// This process's environment with some variables set.
std::vector<std::string> merged_environment(const std::vector<std::string>& changes) {
  std::vector<std::string> out = changes;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('=') + 1);
    bool changed = false;
    for (const std::string& change : changes) changed = changed || change.rfind(name, 0) == 0;
    if (!changed) out.push_back(text);
  }
  return out;
}

struct Pipe {
  Fd read, write;
};

Pipe make_pipe(int flags) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | flags) != 0) {
    throw InputError(std::string("no pipe for a child process: ") + std::strerror(errno));
  }
  return {Fd(ends[0]), Fd(ends[1])};
}

std::string signal_text(int number) {
  const char* name = sigabbrev_np(number);
  const char* words = sigdescr_np(number);
  return (name != nullptr ? "SIG" + std::string(name) : "signal " + std::to_string(number)) +
         (words != nullptr ? " (" + std::string(words) + ")" : "");
}

}  // namespace

void Fd::reset(int fd) {
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
}

std::string ChildEnd::text() const {
  return signal != 0 ? signal_text(signal) : "exited with code " + std::to_string(exit_code);
}

Child::Child(const ChildCommand& command, const std::array<int, 3>& descriptors) {
  std::vector<std::string> arguments = command.arguments;
  std::vector<std::string> environment = merged_environment(command.environment);
  Pipe output = make_pipe(0), failure = make_pipe(0);
  fcntl(output.read.get(), F_SETFL, O_NONBLOCK);  // of our end only
  const Launch launch{pointers(arguments),
                      pointers(environment),
                      descriptors,
                      output.write.get(),
                      failure.write.get(),
                      command.memory_bytes,
                      getpid(),
                      getpid() == static_cast<pid_t>(syscall(SYS_gettid))};
  pid_ = fork();
  if (pid_ == 0) become(launch);
  if (pid_ < 0) throw InputError(std::string("no child process: ") + std::strerror(errno));
  setpgid(pid_, pid_);  // here too: whoever comes first
  output.write.reset();
  failure.write.reset();
  output_ = std::move(output.read);
  int code = 0;
  ssize_t count;
  do {
    count = read(failure.read.get(), &code, sizeof code);
  } while (count < 0 && errno == EINTR);
  if (count > 0) {
    end(1);
    throw InputError("cannot start " + quote_name(command.arguments[0]) + ": " +
                     std::strerror(code));
  }
}

Child::~Child() { end(0); }

void Child::kill_group() {
  kill(-pid_, SIGKILL);
  kill(pid_, SIGKILL);  // had setpgid not happened yet
}

void Child::drain() {
  char block[4096];
  // A child that prints without end must not keep us here.
  for (int i = 0; i < 64; ++i) {
    const ssize_t count = read(output_.get(), block, sizeof block);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    printed_.append(block, static_cast<std::size_t>(count));
    if (printed_.size() > kKeptOutput) printed_.erase(0, printed_.size() - kKeptOutput);
  }
}

std::string Child::last_line() const {
  const std::size_t last = printed_.find_last_not_of(" \t\r\n");
  if (last == std::string::npos) return "";
  const std::size_t before = printed_.find_last_of("\r\n", last);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  return printable(printed_.substr(begin, last + 1 - begin));
}

bool Child::ended() {
  if (pid_ < 0) return true;
  siginfo_t info{};
  // Not reaped yet: as long as the zombie is there, no other process can get its number.
  return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == pid_;
}

ChildEnd Child::end(double grace_seconds) {
  if (pid_ < 0) return {};
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::duration<double>(grace_seconds);
  while (!ended() && Clock::now() < deadline) {
    drain();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const bool went = ended();
  kill_group();
  drain();
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  ChildEnd end;
  end.killed = !went;
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
  return end;
}

}  // namespace assay
