#include "kernels/common/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace assay::cpu {

int thread_count(int wanted, std::int64_t tasks) {
  const std::int64_t machine = std::max(1u, std::thread::hardware_concurrency());
  return static_cast<int>(
      std::clamp<std::int64_t>(wanted > 0 ? wanted : machine, 1, std::max<std::int64_t>(tasks, 1)));
}

// Threads live for one call. A pool that outlived it would have to be joined when the plug-in is
// unloaded, where joining can deadlock; starting a thread costs less than the smallest task here.
void parallel_for(std::int64_t tasks, int threads, void (*task)(void*, std::int64_t, int),
                  void* context) {
  std::atomic<std::int64_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const auto work = [&](int thread) {
    try {
      for (std::int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < tasks;) {
        task(context, i, thread);
      }
    } catch (...) {
      next.store(tasks, std::memory_order_relaxed);
      const std::lock_guard lock(failure_mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  others.reserve(std::max(0, threads - 1));
  for (int i = 1; i < threads; ++i) {
    try {
      others.emplace_back(work, i);
    } catch (const std::system_error&) {
      break;  // a machine short of threads runs the rest on those it has
    }
  }
  work(0);
  for (std::thread& other : others) other.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace assay::cpu
