#include "checks/candidate/worker_link.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <optional>
#include <sstream>

#include "checks/candidate/stop_signal.hpp"
#include "reference/case/text.hpp"

namespace assay {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

constexpr int kProtocol = 1;
// Importing a framework and building its caches takes longer than a call.
constexpr double kStartFactor = 2, kShortestStart = 30;
constexpr int kTickMs = 100;
/// For a call in progress to come to its end after Ctrl-C.
constexpr std::chrono::seconds kGrace{1};
constexpr std::size_t kLongestLine = 4 << 20, kLongestTraceback = 64 << 10;
/// With so much of the limit in use, a crash is put down to the lack of memory.
constexpr double kNearlyAll = 0.75;

/// A nameless file in memory: it goes with the last process that has it open.
Fd shared_file(const char* name) {
  const int file = memfd_create(name, MFD_CLOEXEC);
  if (file >= 0) return Fd(file);
  std::string path = (std::filesystem::temp_directory_path() / "assay-XXXXXX").string();
  Fd fallback(mkostemp(path.data(), O_CLOEXEC));
  if (fallback.get() < 0) {
    throw InputError("no temporary file in " + path + ": " + std::strerror(errno));
  }
  unlink(path.c_str());
  return fallback;
}

void write_file(int file, std::string_view bytes) {
  if (ftruncate(file, static_cast<off_t>(bytes.size())) != 0) {
    throw InputError(std::string("no shared memory for a case: ") + std::strerror(errno));
  }
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count =
        pwrite(file, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      throw InputError(std::string("no shared memory for a case: ") + std::strerror(errno));
    }
    done += static_cast<std::size_t>(count);
  }
}

std::string with_last_line(std::string text, const Child& child) {
  const std::string line = child.last_line();
  return line.empty() ? text : text + "; its last line: " + line;
}

/// "deep (kernels.py:34)": the innermost Python line of a traceback by `faulthandler` that is not
/// of the interpreter's own library; "" where there is none.
std::string python_place(const std::string& traceback) {
  constexpr std::string_view kFile = "  File \"", kLine = "\", line ", kIn = " in ";
  std::string place;
  std::istringstream lines(traceback);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t number = line.find(kLine), in = line.find(kIn, number);
    if (line.rfind(kFile, 0) != 0 || in == std::string::npos) continue;
    const std::string file = line.substr(kFile.size(), number - kFile.size());
    const bool own = file.find("/lib/python3") == std::string::npos;
    if (!own && !place.empty()) continue;
    const std::size_t digits = number + kLine.size();
    place = printable(line.substr(in + kIn.size()) + " (" + file.substr(file.rfind('/') + 1) + ":" +
                      line.substr(digits, in - digits) + ")");
    if (own) break;
  }
  return place;
}

}  // namespace

WorkerLink::WorkerLink(ChildCommand command, const RunLimits& limits)
    : command_(std::move(command)), limits_(limits) {}

std::unique_ptr<WorkerLink> WorkerLink::to_child(ChildCommand command, const RunLimits& limits) {
  command.memory_bytes = limits.memory_bytes;
  return std::unique_ptr<WorkerLink>(new WorkerLink(std::move(command), limits));
}

std::unique_ptr<WorkerLink> WorkerLink::to_inherited(const std::array<int, 3>& descriptors,
                                                     const RunLimits& limits) {
  std::unique_ptr<WorkerLink> link(new WorkerLink({}, limits));
  for (const int descriptor : descriptors) {
    // Not for the children of ours, and an error when it is not open.
    if (fcntl(descriptor, F_SETFD, FD_CLOEXEC) != 0) {
      throw InputError("descriptor " + std::to_string(descriptor) + " is not open");
    }
  }
  link->control_.reset(descriptors[0]);
  link->request_file_.reset(descriptors[1]);
  link->reply_file_.reset(descriptors[2]);
  link->restartable_ = false;
  return link;
}

const json& WorkerLink::describe() {
  if (description_.is_null()) start();
  return description_;
}

void WorkerLink::start() {
  if (!connected()) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
      throw InputError(std::string("no socket for a child process: ") + std::strerror(errno));
    }
    control_.reset(ends[0]);
    const Fd theirs(ends[1]);
    if (request_file_.get() < 0) request_file_ = shared_file("assay-request");
    // Never that of a dead child: something of it could still be writing there.
    reply_file_ = shared_file("assay-reply");
    try {
      child_ = std::make_unique<Child>(
          command_, std::array<int, 3>{theirs.get(), request_file_.get(), reply_file_.get()});
    } catch (...) {
      close();
      throw;
    }
  }
  const Answer answer =
      exchange({{"method", "describe"}}, std::max(kShortestStart, kStartFactor * limits_.seconds));
  if (answer.status != RunStatus::ran) {
    close();
    throw InputError("the candidate cannot be started: " + answer.detail);
  }
  const std::string status = answer.reply.value("status", "");
  if (status != "ran") {
    close();
    throw InputError(
        printable(answer.reply.value("detail", "the candidate cannot be started"), 400));
  }
  if (answer.reply.value("protocol", 0) != kProtocol) {
    close();
    throw InputError("the candidate's host is of another version of assay");
  }
  description_ = answer.reply;
}

WorkerLink::Answer WorkerLink::call(json request, std::string_view bytes) {
  try {
    if (!connected() && !restartable_) {
      return {RunStatus::crashed, "the process that served the candidate is gone", {}};
    }
    if (!connected() || description_.is_null()) start();
    write_file(request_file_.get(), bytes);
  } catch (const InputError& error) {
    return {RunStatus::crashed, error.what(), {}};
  }
  request["bytes"] = bytes.size();
  return exchange(std::move(request), limits_.seconds);
}

WorkerLink::Answer WorkerLink::exchange(json request, double seconds) {
  const std::int64_t id = next_id_++;
  request["id"] = id;
  last_word_ = nullptr;
  traceback_.clear();
  if (!send_line(request.dump() + "\n")) return lost();
  Answer answer = wait_for(id, seconds);
  // A worker that says it leaves is of no further use, and its end is no crash.
  if (answer.status == RunStatus::ran && answer.reply.value("leaving", false)) close();
  return answer;
}

bool WorkerLink::send_line(const std::string& line) {
  std::size_t done = 0;
  while (done < line.size()) {
    const ssize_t count =
        send(control_.get(), line.data() + done, line.size() - done, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<std::size_t>(count);
  }
  return true;
}

WorkerLink::Answer WorkerLink::wait_for(std::int64_t id, double seconds) {
  const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
  std::optional<Clock::time_point> give_up;
  Answer answer;
  bool over = false;
  while (!over) {
    while (received_.find('\n') != std::string::npos) {
      if (take_line(id, answer)) return answer;
    }
    if (received_.size() > kLongestLine) return lost();
    // A grandchild may hold the line open after the worker's end, so the end is asked for too.
    over = child_ && child_->ended();
    pollfd watched[2] = {{control_.get(), POLLIN, 0}, {child_ ? child_->output() : -1, POLLIN, 0}};
    poll(watched, 2, over ? 0 : kTickMs);
    if (child_) child_->drain();
    if (watched[0].revents != 0) {
      char block[4096];
      const ssize_t count = recv(control_.get(), block, sizeof block, MSG_DONTWAIT);
      if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) break;
      if (count > 0) received_.append(block, static_cast<std::size_t>(count));
      over = over && count < 0;
    }
    if (!over && Clock::now() >= deadline) return timed_out(seconds);
    if (!over && restartable_ && end_of_time_ && Clock::now() >= *end_of_time_) {
      close();
      throw Interrupted();
    }
    if (!over && StopSignal::received() != 0) {
      if (!give_up) give_up = Clock::now() + kGrace;
      if (Clock::now() >= *give_up) {
        close();
        throw Interrupted();
      }
    }
  }
  return lost();
}

bool WorkerLink::take_line(std::int64_t id, Answer& answer) {
  const std::size_t end = received_.find('\n');
  const std::string text = received_.substr(0, end + 1);
  const json line = json::parse(text, nullptr, false);
  received_.erase(0, end + 1);
  if (!line.is_object()) {
    if (traceback_.size() + text.size() <= kLongestTraceback) traceback_ += text;
    return false;
  }
  if (line.contains("crash")) {
    last_word_ = line;
    return false;
  }
  if (line.value("id", json()) != id) return false;
  answer.reply = line;
  return true;
}

WorkerLink::Answer WorkerLink::timed_out(double seconds) {
  std::string detail = "no answer within " + number_text(seconds) + " s";
  if (child_) {
    child_->end(0);
    detail = with_last_line(detail, *child_);
  }
  close();
  return {RunStatus::timed_out, detail, {}};
}

/// The line broke: finds out why.
WorkerLink::Answer WorkerLink::lost() {
  if (!child_) {
    close();
    return {RunStatus::crashed, "the process that serves the candidate hung up", {}};
  }
  const ChildEnd end = child_->end(2);
  Answer answer{RunStatus::crashed, end.text(), {}, false};
  std::uint64_t used = 0;
  try {
    if (last_word_.is_object()) {
      used = last_word_.value("data_bytes", std::uint64_t{0});
      const std::string where = printable(last_word_.value("where", ""));
      if (!where.empty()) answer.detail += ", at an address " + where;
    }
  } catch (const json::exception&) {
    // A last word that is garbled says nothing.
  }
  const std::string place = python_place(traceback_);
  if (!place.empty() && end.signal != 0) answer.detail += " in " + place;
  const bool refused = child_->printed("bad_alloc") || child_->printed("MemoryError") ||
                       child_->printed("Cannot allocate memory");
  const bool nearly_all =
      limits_.memory_bytes != 0 &&
      static_cast<double>(used) > kNearlyAll * static_cast<double>(limits_.memory_bytes);
  if (refused || nearly_all) {
    answer.status = RunStatus::out_of_memory;
    answer.detail += "; the limit is " + std::to_string(limits_.memory_bytes >> 20) + " MiB";
  } else if (end.killed) {
    answer.detail = "it hung up in the middle of a call";
  } else if (end.signal == SIGKILL) {
    // The system's own way out of a shortage.
    answer.status = RunStatus::out_of_memory;
    answer.detail = "killed from outside, most likely for lack of memory";
    answer.killed_from_outside = true;
  }
  answer.detail = with_last_line(answer.detail, *child_);
  close();
  return answer;
}

void WorkerLink::close() {
  child_.reset();
  control_.reset();
  received_.clear();
}

std::string WorkerLink::reply_bytes(std::size_t size) const {
  // What a worker claims is not believed: memory is taken for what is there.
  struct stat info {};
  if (fstat(reply_file_.get(), &info) != 0 || static_cast<std::uint64_t>(info.st_size) < size) {
    throw InputError("the candidate's tensors are truncated");
  }
  std::string bytes(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count =
        pread(reply_file_.get(), bytes.data() + done, size - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw InputError("the candidate's tensors are truncated");
    done += static_cast<std::size_t>(count);
  }
  return bytes;
}

}  // namespace assay
