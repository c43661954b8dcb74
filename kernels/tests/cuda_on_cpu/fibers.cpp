#include "kernels/tests/cuda_on_cpu/fibers.hpp"

#include <setjmp.h>
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

namespace assay::cuda_on_cpu {

Current current;

namespace {

constexpr std::size_t kStackBytes = std::size_t{1} << 18;
constexpr int kWarp = 32, kBarriers = 16;

struct Barrier {
  int arrived = 0, generation = 0;
};
struct Warp {
  void* mine[kWarp] = {};
  int arrived = 0, generation = 0;
};
struct Fiber {
  ucontext_t start;
  jmp_buf resume;
  bool started = false, done = false;
  std::unique_ptr<char[]> stack;
};

std::vector<std::unique_ptr<Fiber>> fibers;
std::vector<Warp> warps;
Barrier barriers[kBarriers];
std::vector<char> shared;
const std::function<void()>* body = nullptr;
jmp_buf scheduler;
std::size_t running = 0;
int alive = 0;
bool progress = false;

void give_way() {
  if (_setjmp(fibers[running]->resume) == 0) _longjmp(scheduler, 1);
}

void entry() {
  (*body)();
  fibers[running]->done = true;
  --alive;
  progress = true;
  _longjmp(scheduler, 1);
}

void resume(std::size_t i) {
  running = i;
  Fiber& f = *fibers[i];
  if (_setjmp(scheduler) != 0) return;
  if (f.started) _longjmp(f.resume, 1);
  f.started = true;
  setcontext(&f.start);
}

void place(std::size_t i, const Index& size) {
  const unsigned at = static_cast<unsigned>(i);
  current.thread = {at % size.x, at / size.x % size.y, at / size.x / size.y};
}

void run_block(const Index& size) {
  const std::size_t threads = std::size_t{1} * size.x * size.y * size.z;
  while (fibers.size() < threads) {
    fibers.push_back(std::make_unique<Fiber>());
    fibers.back()->stack = std::make_unique<char[]>(kStackBytes);
  }
  warps.assign((threads + kWarp - 1) / kWarp, {});
  for (Barrier& b : barriers) b = {};
  std::memset(shared.data(), 0xff, shared.size());
  for (std::size_t i = 0; i < threads; ++i) {
    Fiber& f = *fibers[i];
    f.started = f.done = false;
    getcontext(&f.start);
    f.start.uc_stack.ss_sp = f.stack.get();
    f.start.uc_stack.ss_size = kStackBytes;
    f.start.uc_link = nullptr;
    makecontext(&f.start, entry, 0);
  }
  alive = static_cast<int>(threads);
  while (alive > 0) {
    progress = false;
    for (std::size_t i = 0; i < threads; ++i) {
      if (fibers[i]->done) continue;
      place(i, size);
      resume(i);
    }
    if (progress) continue;
    std::fprintf(stderr, "device code on the CPU: all threads of a block wait\n");
    std::abort();
  }
}

}  // namespace

void barrier_arrive(int id, int count) {
  Barrier& b = barriers[id];
  progress = true;
  if (++b.arrived < (count > 0 ? count : alive)) return;
  b.arrived = 0;
  ++b.generation;
}

void barrier(int id, int count) {
  Barrier& b = barriers[id];
  const int mine = b.generation;
  barrier_arrive(id, count);
  while (b.generation == mine) {
    give_way();
    // Threads that have ended since no longer have to come.
    if (count == 0 && b.generation == mine && b.arrived >= alive) b.arrived = 0, ++b.generation;
  }
}

void warp_together(void* mine, void (*act)(void* const*)) {
  Warp& w = warps[running / kWarp];
  w.mine[running % kWarp] = mine;
  progress = true;
  const int generation = w.generation;
  if (++w.arrived < kWarp) {
    while (w.generation == generation) give_way();
    return;
  }
  act(w.mine);
  w.arrived = 0;
  ++w.generation;
}

char* shared_memory() { return shared.data(); }

void run_grid(Index grid, Index block, std::size_t shared_bytes,
              const std::function<void()>& of_thread) {
  body = &of_thread;
  shared.resize(shared_bytes + 16);
  current.block_size = block, current.grid_size = grid;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        current.block = {x, y, z};
        run_block(block);
      }
    }
  }
}

}  // namespace assay::cuda_on_cpu
