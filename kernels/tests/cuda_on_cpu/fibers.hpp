// Blocks of device threads as fibers of one thread of the CPU. A thread gives way only where it
// waits: at a barrier, or where a warp does something together.
#pragma once

#include <cstddef>
#include <functional>

namespace assay::cuda_on_cpu {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};
struct Current {
  Index thread, block, block_size, grid_size;
};
extern Current current;

/// Waits at barrier `id` (0 to 15) until `count` threads have come; 0: all that still run.
void barrier(int id, int count);
/// Counts as having come, and goes on.
void barrier_arrive(int id, int count);
/// Each lane of a warp hands over its `mine`; the last to come calls `act` with those of all 32.
void warp_together(void* mine, void (*act)(void* const* lanes));
/// The block's dynamic shared memory, filled with NaN patterns at its start.
char* shared_memory();

/// Runs `body` once for each thread of each block. Aborts, with a message, when all threads wait.
void run_grid(Index grid, Index block, std::size_t shared_bytes, const std::function<void()>& body);

}  // namespace assay::cuda_on_cpu
