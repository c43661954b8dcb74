#include "reference/oracle/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "reference/scalars/precision.hpp"
#include "reference/scalars/rounded.hpp"

namespace assay {

void parallel_for(std::int64_t n, int threads, const std::function<void(std::int64_t)>& work) {
  const int workers = static_cast<int>(std::min<std::int64_t>(std::max(threads, 1), n));
  if (workers <= 1) {
    for (std::int64_t i = 0; i < n; ++i) work(i);
    return;
  }
  std::atomic<std::int64_t> next{0};
  std::exception_ptr error;
  std::mutex error_mutex;
  const long bits = working_precision();
  const Format format = working_format();
  const Emulation emulated = working_emulation();
  const auto loop = [&] {
    const PrecisionScope precision(bits);
    const FormatScope rounding(format);
    const EmulationScope emulation(emulated);
    try {
      for (std::int64_t i = next++; i < n; i = next++) work(i);
    } catch (...) {
      next = n;
      const std::lock_guard<std::mutex> lock(error_mutex);
      if (!error) error = std::current_exception();
    }
  };
  std::vector<std::thread> pool;
  for (int w = 1; w < workers; ++w) pool.emplace_back(loop);
  loop();
  for (std::thread& thread : pool) thread.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace assay
