// libFuzzer: what a worker may answer (kernels/hosts/PROTOCOL.md). The input is everything that the
// worker ever says, a zero byte, and the tensors in its reply file. Whatever it is, the candidate
// cannot be started (InputError) or the call has a status; it neither hangs nor breaks.
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "checks/candidate/hosted.hpp"
#include "fuzz/generators/recipe.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const assay::ValidCase given =
      assay::build_case(assay::parse_recipe("gdn B=1,T=2,H=1,K=2,V=1 fp32 bare seed=1"));
  const std::string_view all(reinterpret_cast<const char*>(data),
                             std::min<std::size_t>(size, 65536));
  const std::size_t zero = std::min(all.find('\0'), all.size());
  const std::string_view lines = all.substr(0, zero);
  const std::string_view tensors = all.substr(std::min(zero + 1, all.size()));
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
  const int request = memfd_create("request", MFD_CLOEXEC);
  const int reply = memfd_create("reply", MFD_CLOEXEC);
  if (write(reply, tensors.data(), tensors.size()) < 0) std::abort();
  if (send(ends[1], lines.data(), lines.size(), MSG_NOSIGNAL) < 0) std::abort();
  shutdown(ends[1], SHUT_WR);
  assay::RunLimits limits;
  limits.seconds = 1;
  try {
    auto link = assay::WorkerLink::to_inherited({ends[0], request, reply}, limits);
    const auto candidate = assay::make_hosted_candidate(std::move(link), assay::WorkerKind::python,
                                                        assay::preset_model("fp32"), {});
    const assay::RunResult result = candidate->run(given, true);
    if (result.status == assay::RunStatus::ran && result.outputs.size() > 2) std::abort();
  } catch (const assay::InputError&) {
    // A worker that cannot be started.
  }
  close(ends[1]);
  return 0;
}
