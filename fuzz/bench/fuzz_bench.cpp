// What a case of a campaign costs, as it grows: the first look on the CPU kernels, oracle and child
// process included. Processor time of this process per case, so that a busy machine counts less.
//
// usage: fuzz_bench [OP]
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <exception>
#include <vector>

#include "fuzz/campaign/examine.hpp"
#include "fuzz/generators/recipe.hpp"

namespace {

using namespace assay;

double processor_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

/// Milliseconds for one quick examination: the median, because one case in some tens needs the
/// full verdict, which costs many times as much.
double cost(Examiner& examiner, const std::string& op, int T, int K, int V) {
  const std::string line = fmt::format("{} B=1,T={},H=2,K={},V={} fp32 seed=", op, T, K, V);
  std::vector<double> spent;
  for (int i = 0; i < 9; ++i) {
    const double start = processor_seconds();
    const CheckCase c{build_case(parse_recipe(line + std::to_string(i))), "bench", false};
    examiner.examine(c, Depth::quick);
    spent.push_back(1e3 * (processor_seconds() - start));
  }
  std::nth_element(spent.begin(), spent.begin() + 4, spent.end());
  return spent[4];
}

}  // namespace

int main(int argc, char** argv) {
  const std::string op = argc > 1 ? argv[1] : "gdn";
  try {
    CandidateRequest request;
    Examiner examiner(request);
    fmt::print("{:>5} {:>4} {:>4} {:>10} {:>16}\n", "T", "K", "V", "ms a case", "ns per T K V");
    for (const auto& [T, K, V] : {std::array{16, 4, 4},
                                  {64, 8, 8},
                                  {64, 16, 16},
                                  {128, 16, 16},
                                  {256, 16, 16},
                                  {256, 32, 32},
                                  {512, 32, 32},
                                  {512, 64, 64}}) {
      const double ms = cost(examiner, op, T, K, V);
      fmt::print("{:>5} {:>4} {:>4} {:>10.3f} {:>16.1f}\n", T, K, V, ms, 1e6 * ms / (T * K * V));
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "fuzz_bench: {}\n", error.what());
    return 2;
  }
  return 0;
}
