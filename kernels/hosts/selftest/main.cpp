// assay-kernel-selftest: what an author can know of a plug-in without the reference. Loads it,
// checks its table, calls every operation on tiny cases with poison, red zones and repeats.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <new>

#include "kernels/hosts/crash_report.hpp"
#include "kernels/hosts/cuda_runtime.hpp"
#include "kernels/hosts/selftest/cases.hpp"

namespace assay::hosts {
namespace {

constexpr std::size_t kLabelSize = 256;
/// What a child is running, in memory that its parent reads when it has died.
char* running_label = nullptr;

std::string dtype_of_format(std::int32_t format) {
  switch (format) {
    case ASSAY_FP64:
      return "F64";
    case ASSAY_FP16:
      return "F16";
    case ASSAY_BF16:
      return "BF16";
    default:
      return "F32";
  }
}

/// A request and the bytes that it points into.
struct OwnedRequest {
  CallRequest request;
  std::vector<std::string> bytes;
};

OwnedRequest make_request(const assay_operation& operation, const CasePlan& plan,
                          const assay_precision& precision, bool states, bool backward) {
  OwnedRequest out;
  CallRequest& request = out.request;
  request.operation = operation.name;
  const std::string input = dtype_of_format(precision.input);
  out.bytes.reserve(plan.inputs.size() + plan.outputs.size());
  const auto add = [&](std::vector<StoredTensor>& list, TensorPlan tensor, const char* prefix) {
    tensor.name = prefix + tensor.name;
    out.bytes.push_back(draw_bytes(tensor, input));
    list.push_back({tensor.name, input, tensor.shape, out.bytes.back()});
  };
  for (const TensorPlan& tensor : plan.inputs) {
    if (tensor.state && !states) continue;
    add(request.inputs, tensor, "");
    if (backward) request.gradients.push_back({"d_" + tensor.name, input, tensor.shape});
  }
  for (const TensorPlan& tensor : plan.outputs) {
    request.outputs.push_back({tensor.name, dtype_of_format(precision.output), tensor.shape});
    if (backward) add(request.cotangents, tensor, "d_");
  }
  return out;
}

class Tester {
 public:
  explicit Tester(const Plugin& plugin) : plugin_(plugin), frame_(plugin) {}

  void test(const assay_operation& operation) {
    const auto can = [&](std::uint64_t bit) { return (operation.capabilities & bit) != 0; };
    const bool log_gates = can(ASSAY_CAN_LOG_GATES) && !can(ASSAY_CAN_LINEAR_GATES);
    const auto plan = case_for(operation.name, log_gates);
    if (!plan) {
      std::printf("  skipped  %s: the self-test has no case of it\n", operation.name);
      return;
    }
    for (int i = 0; i < plugin_.table().num_precisions; ++i) {
      const assay_precision& precision = plugin_.table().precisions[i];
      for (const bool states : {false, true}) {
        if (states && !can(ASSAY_CAN_INITIAL_STATE)) continue;
        for (const bool backward : {false, true}) {
          if (!can(backward ? ASSAY_CAN_BACKWARD : ASSAY_CAN_FORWARD)) continue;
          label_ = std::string(operation.name) + " " + format_name(precision.input) +
                   (backward ? " backward" : " forward") + (states ? " with state" : "");
          test_case(make_request(operation, *plan, precision, states, backward).request, precision,
                    operation);
        }
      }
    }
  }

  int failures() const { return failures_; }

 private:
  void test_case(CallRequest request, const assay_precision& precision,
                 const assay_operation& operation) {
    request.fresh_buffers = true;
    std::vector<std::string> first;
    if (!run(request, label_, first)) return;
    request.fresh_buffers = false;
    std::vector<std::string> again;
    if (run(request, label_ + ", repeated", again) && again != first && precision.atomics == 0) {
      fail(label_ + ", repeated", "other bits than the first time, and no atomics declared");
    }
    for (const auto& [bit, layout, name] :
         {std::tuple{ASSAY_CAN_STRIDED_ROWS, Layout::strided_rows, ", rows with gaps"},
          std::tuple{ASSAY_CAN_STRIDED, Layout::strided, ", elements with gaps"}}) {
      if ((operation.capabilities & bit) == 0) continue;
      request.layout = layout;
      run(request, label_ + name, again);
    }
  }

  /// False when there is nothing to compare.
  bool run(const CallRequest& request, const std::string& label, std::vector<std::string>& bytes) {
    std::snprintf(running_label, kLabelSize, "%s", label.c_str());
    CallResult result = frame_.call(request);
    if (result.outcome.status == ASSAY_UNSUPPORTED) {
      std::printf("  refused  %s: %s\n", label.c_str(), result.outcome.detail.c_str());
      return false;
    }
    if (result.outcome.status != ASSAY_OK) {
      fail(label, result.outcome.detail);
      return false;
    }
    bytes.clear();
    for (const StoredTensor& tensor : result.results) {
      bytes.emplace_back(tensor.bytes);
      if (const std::int64_t bad = non_finite(tensor)) {
        result.findings.push_back({"not finite", tensor.name, std::to_string(bad) + " elements"});
      }
    }
    for (const Finding& f : result.findings)
      fail(label, f.kind + ": " + f.tensor + ": " + f.detail);
    if (result.findings.empty()) {
      std::printf("  ok       %s\n", label.c_str());
    }
    return true;
  }

  static std::int64_t non_finite(const StoredTensor& tensor) {
    const std::size_t unit = element_bytes(tensor.dtype);
    // The exponent of a number that is not finite is all ones.
    const std::uint64_t mask = tensor.dtype == "F64"    ? 0x7FF0000000000000u
                               : tensor.dtype == "F32"  ? 0x7F800000u
                               : tensor.dtype == "BF16" ? 0x7F80u
                                                        : 0x7C00u;
    std::int64_t bad = 0;
    for (std::size_t i = 0; i < tensor.bytes.size(); i += unit) {
      std::uint64_t bits = 0;
      std::memcpy(&bits, tensor.bytes.data() + i, unit);
      bad += (bits & mask) == mask;
    }
    return bad;
  }

  void fail(const std::string& label, const std::string& what) {
    std::printf("  FAILED   %s: %s\n", label.c_str(), what.c_str());
    ++failures_;
  }

  const Plugin& plugin_;
  CallFrame frame_;
  std::string label_;
  int failures_ = 0;
};

/// Exit status of the child that tests one operation.
int test_in_child(const char* path, int index) {
  try {
    const Plugin plugin(path);
    report_crashes_to(STDOUT_FILENO);
    Tester tester(plugin);
    tester.test(plugin.table().operations[index]);
    return tester.failures() == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::printf("  FAILED   %s\n", error.what());
    return 1;
  }
}

/// Every operation in its own process, so that a crash ends only its own test.
bool test_operation(const char* path, int index, const char* name) {
  std::fflush(stdout);
  *running_label = '\0';
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);  // a kernel that hangs dies of SIGALRM
    const int status = test_in_child(path, index);
    std::fflush(stdout);
    _exit(status);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) {
    std::printf("  FAILED   %s: no child process\n", name);
    return false;
  }
  if (WIFSIGNALED(status)) {
    std::printf("  FAILED   %s: %s\n", *running_label != '\0' ? running_label : name,
                strsignal(WTERMSIG(status)));
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int selftest(const char* path) {
  const Plugin plugin(path);
  const assay_table& table = plugin.table();
  std::printf("%s: '%s', ABI %u, %s, %d operations\n", path, table.name, table.abi_version,
              table.device_type == ASSAY_DEVICE_CUDA ? "CUDA" : "CPU", table.num_operations);
  void* shared =
      mmap(nullptr, kLabelSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw std::bad_alloc();
  running_label = static_cast<char*>(shared);
  int bad = 0;
  for (int i = 0; i < table.num_operations; ++i) {
    bad += !test_operation(path, i, table.operations[i].name);
  }
  std::printf("%d of %d operations failed the self-test\n", bad, table.num_operations);
  std::printf("Values were not judged: assay check --candidate %s\n", path);
  return bad == 0 ? 0 : 1;
}

}  // namespace
}  // namespace assay::hosts

int main(int argc, char** argv) {
  if (argc != 2 || argv[1][0] == '-') {
    std::fprintf(stderr, "usage: assay-kernel-selftest plugin.so\n");
    return 2;
  }
  // dlopen takes a bare name for a library of the system.
  const std::string path = std::strchr(argv[1], '/') ? argv[1] : std::string("./") + argv[1];
  try {
    return assay::hosts::selftest(path.c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "assay-kernel-selftest: %s\n", error.what());
    return 2;
  }
}
