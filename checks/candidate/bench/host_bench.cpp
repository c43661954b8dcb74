// How many calls a second go through assay-host: cmake --build build --target host_bench, then
// build/checks/host_bench path.so. The tensors are tiny, so that the way there and back is
// measured.
#include <fmt/format.h>

#include <chrono>

#include "checks/candidate/candidate.hpp"
#include "reference/case/generate.hpp"
#include "reference/oracle/registry.hpp"

int main(int argc, char** argv) {
  using namespace assay;
  if (argc != 2) return 2;
  const auto candidate = open_candidate(argv[1], PrecisionModel{}, RunLimits{});
  const Operation& operation = find_operation("linear_attention");
  GenerateRequest request;
  request.op = "linear_attention";
  request.shape = "B=1,T=16,H=2,K=8,V=8";
  const Case data = generate([&](const Case* c) { return operation.schema(c); }, request);
  const ValidCase c = validate(data, operation.schema(&data));
  for (const bool gradients : {false, true}) {
    constexpr int kCalls = 2000;
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) {
      const RunResult result = candidate->run(c, gradients);
      if (result.status != RunStatus::ran) {
        fmt::print("{}\n", result.detail);
        return 1;
      }
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    fmt::print("{}: {:.0f} calls/s\n", gradients ? "forward and backward" : "forward",
               kCalls / took.count());
  }
}
