// Fibers for the threads of a block. Warps take turns; a warp runs until all of its threads wait.
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "kernels/tests/cuda_on_cpu/cuda_on_cpu.hpp"

// Saves the callee's registers and the stack pointer in *save, and goes on with another stack.
extern "C" void assay_switch_stack(void** save, void* load);
asm(R"(
.text
.type assay_switch_stack, @function
.hidden assay_switch_stack
.globl assay_switch_stack
assay_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size assay_switch_stack, .-assay_switch_stack
)");

namespace assay::cuda_on_cpu {

const Indices* current = nullptr;

namespace {

constexpr std::size_t kStackBytes = 256 * 1024, kSharedBytes = 227 * 1024;
constexpr int kMaxThreads = 1024, kBarriers = 16;

enum class State { ready, at_warp, at_block, done };

struct Thread {
  Indices at;
  void* stack = nullptr;  // where it goes on
  State state = State::done;
  std::uint32_t mask = 0;  // at_warp
  int barrier = 0;         // at_block: 0 for all threads, otherwise the id
};

struct Block {
  std::vector<Thread> threads;
  int count = 0, warps = 0, alive = 0;
  int expected[kBarriers] = {}, arrived[kBarriers] = {};
  char* stacks = nullptr;
  void* scheduler = nullptr;
  Thread* running = nullptr;
  const std::function<void()>* kernel = nullptr;
  std::vector<unsigned char> exchange;
  std::unique_ptr<void, decltype(&std::free)> shared{nullptr, &std::free};
  bool reverse = false;
};
Block block;

[[noreturn]] void stop(const char* what) {
  const Indices& a = *current;
  std::fprintf(stderr, "cuda_on_cpu: %s (block %u,%u,%u thread %u,%u,%u)\n", what, a.block.x,
               a.block.y, a.block.z, a.thread.x, a.thread.y, a.thread.z);
  std::abort();
}

void release_warp(int warp) {
  // Several groups of lanes may wait apart from each other, each with its own mask.
  const int begin = warp * 32, end = std::min(begin + 32, block.count);
  for (int i = begin; i < end; ++i) {
    Thread& first = block.threads[static_cast<std::size_t>(i)];
    if (first.state != State::at_warp) continue;
    bool complete = true;
    for (int j = begin; j < end; ++j) {
      const Thread& t = block.threads[static_cast<std::size_t>(j)];
      if (!(first.mask >> (j - begin) & 1) || t.state == State::done) continue;
      complete = complete && t.state == State::at_warp && t.mask == first.mask;
    }
    if (!complete) continue;
    const std::uint32_t mask = first.mask;
    for (int j = begin; j < end; ++j) {
      Thread& t = block.threads[static_cast<std::size_t>(j)];
      if ((mask >> (j - begin) & 1) && t.state == State::at_warp) t.state = State::ready;
    }
  }
}

bool release_barriers() {
  int waiting[kBarriers] = {};
  for (const Thread& t : block.threads) {
    if (t.state == State::at_block) ++waiting[t.barrier];
  }
  bool any = false;
  for (int id = 0; id < kBarriers; ++id) {
    const int needed = block.expected[id] == 0 ? block.alive : block.expected[id];
    if (waiting[id] == 0 || waiting[id] + block.arrived[id] < needed) continue;
    block.arrived[id] = block.expected[id] = 0;
    for (Thread& t : block.threads) {
      if (t.state == State::at_block && t.barrier == id) t.state = State::ready;
    }
    any = true;
  }
  return any;
}

void expect(int id, int threads) {
  if (id < 0 || id >= kBarriers) stop("no such barrier");
  if (block.expected[id] != 0 && block.expected[id] != threads) stop("a barrier with two counts");
  block.expected[id] = threads;
}

void leave() { assay_switch_stack(&block.running->stack, block.scheduler); }

void enter() {
  (*block.kernel)();
  block.running->state = State::done;
  --block.alive;
  release_warp(block.running->at.warp);
  leave();
  std::abort();
}

void prepare_stack(Thread& t, std::size_t index) {
  char* top = block.stacks + (index + 1) * kStackBytes;
  void** at = reinterpret_cast<void**>(top);
  *--at = nullptr;  // the return address of `enter`
  *--at = reinterpret_cast<void*>(&enter);
  for (int i = 0; i < 6; ++i) *--at = nullptr;
  t.stack = at;
}

bool run_warp(int warp) {
  const int begin = warp * 32, n = std::min(32, block.count - begin);
  bool any = false;
  for (bool again = true; again;) {
    again = false;
    for (int i = 0; i < n; ++i) {
      Thread& t = block.threads[static_cast<std::size_t>(begin + (block.reverse ? n - 1 - i : i))];
      if (t.state != State::ready) continue;
      block.running = &t;
      current = &t.at;
      assay_switch_stack(&block.scheduler, t.stack);
      again = any = true;
    }
  }
  return any;
}

void run_block() {
  for (int e = 0; e < kBarriers; ++e) block.expected[e] = block.arrived[e] = 0;
  while (block.alive > 0) {
    bool any = false;
    for (int w = 0; w < block.warps; ++w) {
      any |= run_warp(block.reverse ? block.warps - 1 - w : w);
    }
    any |= release_barriers();
    if (!any && block.alive > 0) stop("threads wait for others that never come");
  }
}

}  // namespace

char* shared_memory() { return static_cast<char*>(block.shared.get()); }
unsigned char* lanes() {
  return block.exchange.data() + static_cast<std::size_t>(current->warp) * 32 * kLaneBytes;
}

void barrier(int id, int threads) {
  expect(id, threads);
  block.running->barrier = id;
  block.running->state = State::at_block;
  leave();
}

void barrier_arrive(int id, int threads) {
  expect(id, threads);
  ++block.arrived[id];
}

void warp_together(void* mine, void (*act)(void* const* lanes)) {
  const auto all = gather(mine);
  if (current->lane == 0) act(all.lane);
  warp_barrier(0xffffffffu);
}

void warp_barrier(std::uint32_t mask) {
  if (!(mask >> current->lane & 1)) stop("a lane is not in its own mask");
  block.running->mask = mask;
  block.running->state = State::at_warp;
  release_warp(block.running->at.warp);
  leave();
}

cudaError_t run_grid(dim3 grid, dim3 threads, std::size_t shared_bytes,
                     const std::function<void()>& kernel) {
  const std::size_t count = std::size_t{threads.x} * threads.y * threads.z;
  const std::size_t blocks = std::size_t{grid.x} * grid.y * grid.z;
  if (count == 0 || count > kMaxThreads || blocks == 0 || shared_bytes > kSharedBytes ||
      grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535) {
    return cudaErrorInvalidConfiguration;
  }
  if (!block.stacks) {
    void* memory = mmap(nullptr, kStackBytes * kMaxThreads, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return cudaErrorMemoryAllocation;
    block.stacks = static_cast<char*>(memory);
    block.exchange.resize(32 * 32 * kLaneBytes);
    const char* order = std::getenv("ASSAY_CUDA_ON_CPU_ORDER");
    block.reverse = order && std::strcmp(order, "reverse") == 0;
  }
  block.kernel = &kernel;
  block.count = static_cast<int>(count), block.warps = (block.count + 31) / 32;
  block.threads.resize(count);
  block.shared.reset(std::aligned_alloc(128, (shared_bytes + 128) / 128 * 128));
  for (std::size_t n = 0; n < blocks; ++n) {
    const auto b = static_cast<unsigned>(block.reverse ? blocks - 1 - n : n);
    std::memset(block.shared.get(), 0xff, shared_bytes);
    for (std::size_t i = 0; i < count; ++i) {
      Thread& t = block.threads[i];
      const auto at = static_cast<unsigned>(i);
      t.at.thread = {at % threads.x, at / threads.x % threads.y, at / threads.x / threads.y};
      t.at.block = {b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y};
      t.at.threads = threads, t.at.blocks = grid;
      t.at.lane = static_cast<int>(i % 32), t.at.warp = static_cast<int>(i / 32);
      t.state = State::ready;
      prepare_stack(t, i);
    }
    block.alive = block.count;
    run_block();
  }
  current = nullptr;
  return cudaSuccess;
}

}  // namespace assay::cuda_on_cpu
