// Runs independent tasks on threads. Which thread runs which task is left open, so a task must not
// add into memory that another task adds into; sums over tasks are a second pass in fixed order.
#pragma once

#include <cstdint>

namespace assay::cpu {

/// Threads for that many tasks: `wanted` (0: all of the machine), never more than there are tasks.
int thread_count(int wanted, std::int64_t tasks);

/// Calls task(context, i, thread) for i = 0 .. tasks-1, where thread < threads is the same for no
/// two tasks that run at the same time. The first exception of a task is rethrown here, after all
/// threads have ended.
void parallel_for(std::int64_t tasks, int threads, void (*task)(void*, std::int64_t, int),
                  void* context);

template <class F>
void parallel_for(std::int64_t tasks, int threads, F& f) {
  parallel_for(
      tasks, threads,
      [](void* self, std::int64_t i, int thread) { (*static_cast<F*>(self))(i, thread); }, &f);
}

}  // namespace assay::cpu
