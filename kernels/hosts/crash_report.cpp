#include "kernels/hosts/crash_report.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>

namespace assay::hosts {
namespace {

struct Known {
  std::array<char, 48> name;
  const char *region_begin, *payload_begin, *payload_end, *region_end;
};

// Plain memory, because a signal handler reads it.
constexpr std::size_t kMaxKnown = 256;
std::array<Known, kMaxKnown> known;
std::size_t known_count = 0;
int report_fd = -1;

/// Bytes of private writable memory, which is what RLIMIT_DATA counts; 0 when unknown.
long data_bytes() {
  char text[256];
  const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  if (length <= 0) return 0;
  text[length] = '\0';
  long pages = 0;  // the sixth number
  int field = 1;
  for (const char* p = text; *p != '\0' && field <= 6; ++p) {
    if (*p == ' ') {
      ++field;
    } else if (field == 6 && *p >= '0' && *p <= '9') {
      pages = 10 * pages + (*p - '0');
    }
  }
  return pages * sysconf(_SC_PAGESIZE);
}

void describe(const char* address, char* text, std::size_t size) {
  text[0] = '\0';
  for (std::size_t i = 0; i < known_count; ++i) {
    const Known& k = known[i];
    if (address < k.region_begin || address >= k.region_end) continue;
    if (address >= k.payload_end) {
      snprintf(text, size, "%td bytes after the end of '%s'", address - k.payload_end,
               k.name.data());
    } else if (address < k.payload_begin) {
      snprintf(text, size, "%td bytes before the beginning of '%s'", k.payload_begin - address,
               k.name.data());
    }
    return;
  }
}

// snprintf is not on the list of safe functions; for integers and short strings glibc's takes no
// lock and no memory, and the process is lost anyway.
extern "C" void on_crash(int number, siginfo_t* info, void*) {
  const bool has_address = number == SIGSEGV || number == SIGBUS;
  const char* address = has_address ? static_cast<const char*>(info->si_addr) : nullptr;
  char where[128] = "", line[384];
  if (has_address) describe(address, where, sizeof where);
  const int length = snprintf(
      line, sizeof line, "{\"crash\":%d,\"address\":\"%p\",\"where\":\"%s\",\"data_bytes\":%ld}\n",
      number, static_cast<const void*>(address), where, data_bytes());
  if (length > 0) {
    const ssize_t ignored = write(report_fd, line, static_cast<std::size_t>(length));
    static_cast<void>(ignored);
  }
  signal(number, SIG_DFL);
  raise(number);
}

}  // namespace

void report_crashes_to(int fd) {
  report_fd = fd;
  // Its own stack, because running out of stack is a crash too.
  static std::array<char, 64 * 1024> stack_memory;
  stack_t stack{};
  stack.ss_sp = stack_memory.data();
  stack.ss_size = stack_memory.size();
  sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_sigaction = on_crash;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    sigaction(number, &action, nullptr);
  }
}

void remember_buffer(const std::string& name, const GuardedBuffer& buffer) {
  if (known_count == kMaxKnown) return;
  Known& k = known[known_count];
  std::size_t n = 0;
  for (const char c : name) {
    if (n + 1 == k.name.size()) break;
    // Goes into a JSON string as it is.
    k.name[n++] = c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' ' ? '?' : c;
  }
  k.name[n] = '\0';
  k.region_begin = buffer.region_begin();
  k.payload_begin = buffer.data();
  k.payload_end = buffer.data() + buffer.size();
  k.region_end = buffer.region_end();
  ++known_count;
}

void forget_buffers() { known_count = 0; }

}  // namespace assay::hosts
