#include "reference/case/file_io.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "reference/case/tensor.hpp"
#include "reference/case/text.hpp"

namespace assay {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw InputError(printable(path) + ": " + what);
}

std::string last_error() { return std::strerror(errno); }

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  bool close() {
    const int fd = fd_;
    fd_ = -1;
    return fd < 0 || ::close(fd) == 0;
  }

 private:
  int fd_;
};

/// Opens for reading what is a regular file; says what it is instead otherwise. O_NONBLOCK because
/// opening a FIFO would wait for a writer.
int open_regular(const std::string& path, struct stat* info) {
  if (path.find('\0') != std::string::npos) fail(path, "a file name holds no NUL");
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail(path, "cannot be opened: " + last_error());
  Descriptor guard(fd);
  if (::fstat(fd, info) != 0) fail(path, "cannot be examined: " + last_error());
  if (S_ISDIR(info->st_mode)) fail(path, "is a directory, not a file");
  if (!S_ISREG(info->st_mode)) fail(path, "is not a regular file");
  return ::dup(guard.get());
}

/// Writes all of `bytes` and flushes them to the disk: a rename that outlives its data would leave
/// an empty file after a power cut.
bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return ::fsync(fd) == 0 || errno == EINVAL;
}

/// Where a link points to.
std::string resolved(const std::string& path) {
  char* found = ::realpath(path.c_str(), nullptr);
  if (!found) return path;
  const std::string target = found;
  std::free(found);
  return target;
}

}  // namespace

std::uint64_t machine_memory() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_size = ::sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_size <= 0) return std::uint64_t{1} << 34;
  return static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_size);
}

std::string read_file_bytes(const std::string& path, std::uint64_t limit) {
  struct stat info;
  Descriptor file(open_regular(path, &info));
  const std::uint64_t size = static_cast<std::uint64_t>(info.st_size);
  if (size > limit) {
    fail(path, "holds " + std::to_string(size) + " bytes, more than the limit of " +
                   std::to_string(limit));
  }
  std::string bytes;
  try {
    bytes.resize(size);
  } catch (const std::bad_alloc&) {
    fail(path, "holds " + std::to_string(size) + " bytes, more than there is memory for");
  }
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = ::read(file.get(), bytes.data() + filled, bytes.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path, "cannot be read: " + last_error());
    if (got == 0) fail(path, "became shorter while it was read");
    filled += static_cast<std::size_t>(got);
  }
  return bytes;
}

void check_writable(const std::string& path) {
  if (path.find('\0') != std::string::npos) fail(path, "a file name holds no NUL");
  struct stat info;
  if (::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    fail(path, "is a directory, cannot be written as a file");
  }
  // A rename would replace a device, a pipe or a link by a file.
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    fail(path, "is not a regular file, cannot be replaced");
  }
  const std::string target = resolved(path);
  const std::string folder = target.find('/') == std::string::npos
                                 ? std::string(".")
                                 : target.substr(0, target.rfind('/') + 1);
  if (::access(folder.c_str(), W_OK | X_OK) != 0) fail(path, "cannot be written: " + last_error());
}

void write_file_atomic(const std::string& path, std::string_view bytes) {
  check_writable(path);
  const std::string target = resolved(path);
  std::string temporary = target + ".XXXXXX";
  Descriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (file.get() < 0) fail(path, "cannot be written: " + last_error());
  // mkostemp makes the file private; give it the permissions any new file would get.
  const mode_t mask = ::umask(0);
  ::umask(mask);
  const bool written = write_all(file.get(), bytes) && ::fchmod(file.get(), 0666 & ~mask) == 0 &&
                       file.close() && std::rename(temporary.c_str(), target.c_str()) == 0;
  if (!written) {
    const std::string reason = last_error();
    ::unlink(temporary.c_str());
    fail(path, "cannot be written: " + reason);
  }
}

}  // namespace assay
