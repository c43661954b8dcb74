// A loop over independent units on several threads. What a unit computes must not depend on which
// thread runs it; then the result has the same bits for every number of threads.
#pragma once

#include <cstdint>
#include <functional>

namespace assay {

/// Runs work(0) … work(n-1), each once, on up to `threads` threads that inherit the caller's
/// working precision and rounding format. The first exception is rethrown after all
/// threads have stopped.
void parallel_for(std::int64_t n, int threads, const std::function<void(std::int64_t)>& work);

}  // namespace assay
