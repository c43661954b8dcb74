#include "kernels/hosts/channel.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <thread>

namespace assay::hosts {
namespace {

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

Channel::Channel(int control, int request, int reply)
    : control_(control), request_(request), reply_(reply) {}

bool Channel::receive(nlohmann::json& request) {
  std::size_t end;
  while ((end = pending_.find('\n')) == std::string::npos) {
    char block[4096];
    const ssize_t count = read(control_, block, sizeof block);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    pending_.append(block, static_cast<std::size_t>(count));
  }
  request = nlohmann::json::parse(pending_.substr(0, end));
  pending_.erase(0, end + 1);
  return true;
}

std::string Channel::request_bytes(std::size_t size) const {
  std::string bytes(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count =
        pread(request_, bytes.data() + done, size - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("reading the request's tensors");
    if (count == 0) throw std::runtime_error("the request's tensors are truncated");
    done += static_cast<std::size_t>(count);
  }
  return bytes;
}

void Channel::write_reply_bytes(const std::string& bytes) {
  if (ftruncate(reply_, static_cast<off_t>(bytes.size())) != 0) fail("sizing the reply");
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count =
        pwrite(reply_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail("writing the reply's tensors");
    done += static_cast<std::size_t>(count);
  }
}

void Channel::send(const nlohmann::json& reply) {
  // A kernel's words may be no UTF-8: replaced, not refused.
  const std::string line =
      reply.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  std::size_t done = 0;
  while (done < line.size()) {
    const ssize_t count = ::send(control_, line.data() + done, line.size() - done, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) _exit(0);  // nobody is left to answer
    done += static_cast<std::size_t>(count);
  }
}

void Channel::die_with_parent() const {
  std::thread([control = control_] {
    pollfd watched{control, 0, 0};  // POLLHUP is always reported
    while (poll(&watched, 1, -1) < 0 && errno == EINTR) {
    }
    _exit(0);
  }).detach();
}

}  // namespace assay::hosts
