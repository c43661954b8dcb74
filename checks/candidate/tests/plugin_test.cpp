// Plug-ins that misbehave, each in its own way: the finding names kind, tensor and place, and the
// next case still runs.
#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <fstream>

#include "checks/candidate/tests/candidate_cases.hpp"

namespace assay {
namespace {

using namespace tests;
using Catch::Matchers::Contains;

constexpr double kFp32 = 1e-5;
constexpr bool kSanitized =
#if defined(__SANITIZE_ADDRESS__)
    true;
#else
    false;
#endif

int open_descriptors() {
  DIR* folder = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

/// Runs the case that shows the misbehaviour, then one that does not.
RunResult run_planted(const std::string& name, double seconds = 20,
                      std::uint64_t memory = 8ull << 30) {
  const auto candidate = open_plugin(name, seconds, memory);
  const ValidCase bad = attention_case(5), good = attention_case(6);
  RunResult result = candidate->run(bad, true);
  INFO(result.detail << "\n" << hygiene_text(result.hygiene));
  const RunResult next = candidate->run(good, true);
  INFO(next.detail << "\n" << hygiene_text(next.hygiene));
  CHECK(next.status == RunStatus::ran);
  CHECK(next.hygiene.empty());
  CHECK(distance_to_truth(good, next, true) < kFp32);
  return result;
}

void check_finding(const std::string& plugin, const std::string& kind, const std::string& tensor,
                   const std::string& detail) {
  const RunResult result = run_planted(plugin);
  INFO(plugin << ": " << result.detail << "\n" << hygiene_text(result.hygiene));
  CHECK(result.status == RunStatus::ran);
  REQUIRE(result.hygiene.size() == 1);
  CHECK(result.hygiene[0].kind == kind);
  CHECK(result.hygiene[0].tensor == tensor);
  CHECK_THAT(result.hygiene[0].detail, Contains(detail));
}

TEST_CASE("candidate/plugin: a correct one computes outputs and gradients", "[candidate]") {
  const auto candidate = open_plugin("correct");
  CHECK(candidate->info().name == "planted");
  CHECK(candidate->info().operations == std::vector<std::string>{"linear_attention"});
  CHECK(candidate->info().has_backward);
  REQUIRE(candidate->info().model);
  CHECK(candidate->info().model->state == NumberFormat::fp32);
  for (const std::int64_t T : {0, 1, 5, 33}) {
    for (const bool gradients : {false, true}) {
      const ValidCase c = attention_case(T);
      const RunResult result = candidate->run(c, gradients);
      INFO("T " << T << " " << result.detail << hygiene_text(result.hygiene));
      CHECK(result.status == RunStatus::ran);
      CHECK(result.hygiene.empty());
      CHECK(result.gradients.empty() == !gradients);
      CHECK(distance_to_truth(c, result, gradients) < kFp32);
    }
  }
}

TEST_CASE("candidate/plugin: what it does not support is no finding", "[candidate]") {
  const auto candidate = open_plugin("refuses");
  const ValidCase c = attention_case(5);
  const RunResult refused = candidate->run(c, true);
  CHECK(refused.status == RunStatus::unsupported);
  CHECK(refused.detail == "no gradients on Sundays");
  CHECK(candidate->run(c, false).status == RunStatus::ran);

  const RunResult bf16 = candidate->run(attention_case(5, DType::BF16), false);
  CHECK(bf16.status == RunStatus::unsupported);
  CHECK_THAT(bf16.detail, Contains("is not float 32"));
}

TEST_CASE("candidate/plugin: crashes are named by their signal", "[candidate]") {
  const RunResult segfault = run_planted("segfault");
  CHECK(segfault.status == RunStatus::crashed);
  CHECK_THAT(segfault.detail, Contains("SIGSEGV"));

  const RunResult aborted = run_planted("abort");
  CHECK(aborted.status == RunStatus::crashed);
  CHECK_THAT(aborted.detail, Contains("SIGABRT"));

  const RunResult exited = run_planted("exits");
  CHECK(exited.status == RunStatus::crashed);
  CHECK_THAT(exited.detail, Contains("exited with code 3"));
}

TEST_CASE("candidate/plugin: a write far outside names the tensor that it missed", "[candidate]") {
  const RunResult far = run_planted("far");
  CHECK(far.status == RunStatus::crashed);
  CHECK_THAT(far.detail, Contains("SIGSEGV") && Contains("16384 bytes after the end of 'o'"));
}

TEST_CASE("candidate/plugin: a hang ends at the time limit", "[candidate]") {
  const auto start = std::chrono::steady_clock::now();
  const RunResult result = run_planted("hang", 1.5);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  CHECK(result.status == RunStatus::timed_out);
  CHECK(result.detail == "no answer within 1.5 s");
  CHECK(took.count() >= 1.5);
}

TEST_CASE("candidate/plugin: hunger for memory is told from a crash", "[candidate]") {
  if (kSanitized) {
    WARN("skipped: an address sanitizer cannot run under a memory limit");
    return;
  }
  const RunResult result = run_planted("devour", 60, 256ull << 20);
  INFO(result.detail);
  CHECK(result.status == RunStatus::out_of_memory);
  CHECK_THAT(result.detail, Contains("the limit is 256 MiB"));
}

TEST_CASE("candidate/plugin: an error status carries the plug-in's words", "[candidate]") {
  const RunResult result = run_planted("error");
  CHECK(result.status == RunStatus::failed);
  CHECK(result.detail == "run returned ASSAY_FAILED: the planted error");
}

TEST_CASE("candidate/plugin: writes outside are found on both sides", "[candidate]") {
  check_finding("before", "written outside", "o", "before the beginning, the nearest 5 bytes");
  check_finding("after", "written outside", "o", "after the end, the nearest 0 bytes");
  check_finding("workspace", "written outside", "workspace", "1 bytes changed after the end");
}

TEST_CASE("candidate/plugin: outputs left unwritten are found", "[candidate]") {
  check_finding("unwritten", "not written", "s_final", "24 of 24 elements, the first at [0,0,0,0]");
  check_finding("partly", "not written", "o", "4 of 40 elements, the first at [0,4,1,0]");
}

TEST_CASE("candidate/plugin: a changed input is found", "[candidate]") {
  check_finding("input", "input modified", "v", "element [0,0,0,3]");
}

TEST_CASE("candidate/plugin: what it prints does not matter", "[candidate]") {
  const RunResult result = run_planted("prints");
  CHECK(result.status == RunStatus::ran);
  CHECK(result.hygiene.empty());
  CHECK(distance_to_truth(attention_case(5), result, true) < kFp32);
}

TEST_CASE("candidate/plugin: NaN comes back as NaN", "[candidate]") {
  const RunResult result = run_planted("nan_output");
  CHECK(result.status == RunStatus::ran);
  CHECK(std::isnan(result.outputs.at("o").data[1]));
}

TEST_CASE("candidate/plugin: children of the child do not outlive it", "[candidate]") {
  const RunResult result = run_planted("grandchild");
  CHECK(result.status == RunStatus::crashed);
  CHECK_THAT(result.detail, Contains("exited with code 9"));
}

/// Is there a process of that number that still runs?
bool runs(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string number, name, state;
  return stat >> number >> name >> state && state != "Z";
}

TEST_CASE("candidate/plugin: a kernel that hangs dies with the program", "[candidate]") {
  const pid_t program = fork();
  if (program == 0) {
    static_cast<void>(open_plugin("hang", 60)->run(attention_case(5), false));
    _exit(0);
  }
  pid_t host = 0;
  for (int i = 0; i < 100 && host == 0; ++i) {
    usleep(50'000);
    const std::string number = std::to_string(program);
    std::ifstream("/proc/" + number + "/task/" + number + "/children") >> host;
  }
  usleep(300'000);
  kill(program, SIGKILL);
  waitpid(program, nullptr, 0);
  REQUIRE(host != 0);
  for (int i = 0; i < 100 && runs(host); ++i) usleep(50'000);
  CHECK_FALSE(runs(host));
}

TEST_CASE("candidate/plugin: neither processes nor descriptors are left behind", "[candidate]") {
  static_cast<void>(open_plugin("correct"));
  const int before = open_descriptors();
  for (const char* name : {"correct", "segfault", "exits"}) {
    const auto candidate = open_plugin(name);
    static_cast<void>(candidate->run(attention_case(5), true));
    static_cast<void>(candidate->run(attention_case(5), true));
  }
  CHECK(open_descriptors() == before);
  CHECK(waitpid(-1, nullptr, WNOHANG) == -1);
  CHECK(errno == ECHILD);
}

TEST_CASE("candidate/plugin: what cannot be started is bad input", "[candidate]") {
  CHECK_THROWS_WITH(open_plugin("absent"), Contains("there is no such file"));
  CHECK_THROWS_WITH(open_plugin("no_table"), Contains("exports no 'assay_kernel_table'"));
  CHECK_THROWS_WITH(open_plugin("old_version"), Contains("abi_version is 99"));
  CHECK_THROWS_WITH(open_plugin("crash_at_load"), Contains("SIGSEGV"));
  CHECK_THROWS_WITH(open_candidate("nonsense", {}, {}), Contains("known are cpu, cuda, path.so"));
  const Environment host("ASSAY_HOST", "/nowhere/assay-host");
  CHECK_THROWS_WITH(open_plugin("correct"), Contains("ASSAY_HOST names '/nowhere/assay-host'"));
}

TEST_CASE("candidate/plugin: a form can be asked for", "[candidate]") {
  const std::string path = std::string(ASSAY_TEST_PLUGINS) + "/correct.so";
  const ValidCase c = attention_case(5);
  CHECK(open_candidate(path + "@recurrent", {}, {})->run(c, false).status == RunStatus::ran);
  const RunResult chunk = open_candidate(path + "@chunk=32", {}, {})->run(c, false);
  CHECK(chunk.status == RunStatus::unsupported);
  CHECK(chunk.detail == "only the recurrent form");
  CHECK_THROWS_WITH(open_candidate(path + "@chunk=x", {}, {}), Contains("positive integer"));
}

}  // namespace
}  // namespace assay
