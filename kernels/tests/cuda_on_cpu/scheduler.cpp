// Fibers for the threads of a block. Warps take turns; a warp runs until all of its threads wait.
#include <sys/mman.h>

#include <bit>
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

using Act = void (*)(void* const* lanes);

struct Thread {
  Indices at;
  void* stack = nullptr;   // where it goes on
  std::uint32_t mask = 0;  // while it waits for lanes
  Act act = nullptr;       // what they do together
  int barrier = 0;         // while it waits at one: 0 for all threads, otherwise the id
  int turn = 0;            // of the two areas in which full warps exchange values
};

/// Sets of lanes. Those that are in no other wait at a barrier of the block.
struct Warp {
  std::uint32_t lanes = 0, ready = 0, at_warp = 0, done = 0;
  void* handed_over[32] = {};
  std::uint32_t at_block() const { return lanes & ~(ready | at_warp | done); }
};

constexpr std::uint32_t kFull = 0xffffffffu;

struct Block {
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  int alive = 0;
  int expected[kBarriers] = {}, arrived[kBarriers] = {};
  char* stacks = nullptr;
  void* scheduler = nullptr;
  Thread* running = nullptr;
  const std::function<void()>* kernel = nullptr;
  std::vector<unsigned char> exchange;  // of each warp three areas of 32 slots
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

Thread& thread_of(int warp, int lane) {
  return block.threads[static_cast<std::size_t>(warp * 32 + lane)];
}
Warp& own_warp() { return block.warps[static_cast<std::size_t>(current->warp)]; }
std::uint32_t own_bit() { return 1u << current->lane; }

/// Calls `visit` with each member of a set of lanes.
template <class Visit>
void for_each_lane(std::uint32_t set, Visit visit) {
  for (; set != 0; set &= set - 1) visit(std::countr_zero(set));
}

/// Lets the lanes of the mask go on if all that still run wait for just these. Several groups of
/// lanes may wait apart from each other.
void release_lanes(int warp, std::uint32_t mask) {
  Warp& w = block.warps[static_cast<std::size_t>(warp)];
  const std::uint32_t group = mask & w.lanes & ~w.done;
  if ((w.at_warp & group) != group || group == 0) return;
  const Act act = thread_of(warp, std::countr_zero(group)).act;
  bool agreed = true;
  for_each_lane(group, [&](int lane) {
    const Thread& t = thread_of(warp, lane);
    agreed = agreed && t.mask == mask && t.act == act;
  });
  if (!agreed) return;
  if (act && group != kFull) stop("only part of a warp does what all of it must");
  if (act) act(w.handed_over);
  w.at_warp &= ~group;
  w.ready |= group;
}

bool release_barriers() {
  int waiting[kBarriers] = {};
  for (std::size_t w = 0; w < block.warps.size(); ++w) {
    for_each_lane(block.warps[w].at_block(),
                  [&](int lane) { ++waiting[thread_of(static_cast<int>(w), lane).barrier]; });
  }
  bool any = false;
  for (int id = 0; id < kBarriers; ++id) {
    const int needed = block.expected[id] == 0 ? block.alive : block.expected[id];
    if (waiting[id] == 0 || waiting[id] + block.arrived[id] < needed) continue;
    block.arrived[id] = block.expected[id] = 0;
    for (std::size_t w = 0; w < block.warps.size(); ++w) {
      for_each_lane(block.warps[w].at_block(), [&](int lane) {
        if (thread_of(static_cast<int>(w), lane).barrier == id) block.warps[w].ready |= 1u << lane;
      });
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

/// The next lane in turn that is ready, -1 if none is.
int next_ready(const Warp& w, int after) {
  if (w.ready == 0) return -1;
  if (block.reverse) {
    const std::uint32_t below = w.ready & ((1u << after) - 1);
    return 31 - std::countl_zero(below != 0 ? below : w.ready);
  }
  const std::uint32_t above = w.ready & ~(kFull >> (31 - after));
  return std::countr_zero(above != 0 ? above : w.ready);
}

/// Goes on with the next lane of the warp, or with the scheduler.
void leave() {
  Thread& from = *block.running;
  const int next = next_ready(own_warp(), from.at.lane);
  if (next < 0) return assay_switch_stack(&from.stack, block.scheduler);
  Thread& to = thread_of(from.at.warp, next);
  if (&to == &from) return;
  block.running = &to;
  current = &to.at;
  assay_switch_stack(&from.stack, to.stack);
}

void enter() {
  (*block.kernel)();
  Warp& w = own_warp();
  w.ready &= ~own_bit();
  w.done |= own_bit();
  --block.alive;
  for_each_lane(w.at_warp, [&](int lane) {
    release_lanes(current->warp, thread_of(current->warp, lane).mask);
  });
  leave();
  std::abort();
}

void wait_for_lanes(std::uint32_t mask, Act act, void* mine) {
  if (!(mask >> current->lane & 1)) stop("a lane is not in its own mask");
  Warp& w = own_warp();
  block.running->mask = mask;
  block.running->act = act;
  w.handed_over[current->lane] = mine;
  w.ready &= ~own_bit();
  w.at_warp |= own_bit();
  release_lanes(current->warp, mask);
  leave();
}

void prepare_stack(Thread& t, std::size_t index) {
  char* top = block.stacks + (index + 1) * kStackBytes;
  void** at = reinterpret_cast<void**>(top);
  *--at = nullptr;  // the return address of `enter`
  *--at = reinterpret_cast<void*>(&enter);
  for (int i = 0; i < 6; ++i) *--at = nullptr;
  t.stack = at;
}

/// Until all of its threads wait. False if they did before.
bool run_warp(int warp) {
  const int first = next_ready(block.warps[static_cast<std::size_t>(warp)], block.reverse ? 0 : 31);
  if (first < 0) return false;
  block.running = &thread_of(warp, first);
  current = &block.running->at;
  assay_switch_stack(&block.scheduler, block.running->stack);
  return true;
}

void run_block() {
  for (int e = 0; e < kBarriers; ++e) block.expected[e] = block.arrived[e] = 0;
  const int warps = static_cast<int>(block.warps.size());
  while (block.alive > 0) {
    bool any = false;
    for (int w = 0; w < warps; ++w) any |= run_warp(block.reverse ? warps - 1 - w : w);
    any |= release_barriers();
    if (!any && block.alive > 0) stop("threads wait for others that never come");
  }
}

}  // namespace

char* shared_memory() { return static_cast<char*>(block.shared.get()); }
void barrier(int id, int threads) {
  expect(id, threads);
  block.running->barrier = id;
  own_warp().ready &= ~own_bit();
  leave();
}

void barrier_arrive(int id, int threads) {
  expect(id, threads);
  ++block.arrived[id];
}

void warp_barrier(std::uint32_t mask) { wait_for_lanes(mask, nullptr, nullptr); }

void warp_together(void* mine, Act act) { wait_for_lanes(kFull, act, mine); }

// All lanes take turns with two areas: who writes to one again has met all others since, and they
// have read by then. Others have an area where each waits for the rest once more.
const unsigned char* exchange(std::uint32_t mask, const void* mine, std::size_t bytes) {
  int& turn = block.running->turn;
  if (mask == kFull) turn ^= 1;
  unsigned char* slots =
      block.exchange.data() +
      static_cast<std::size_t>(current->warp * 3 + (mask == kFull ? turn : 2)) * 32 * kLaneBytes;
  std::memcpy(slots + static_cast<std::size_t>(current->lane) * kLaneBytes, mine, bytes);
  warp_barrier(mask);
  return slots;
}
void end_exchange(std::uint32_t mask) {
  if (mask != kFull) warp_barrier(mask);
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
    block.exchange.resize(kMaxThreads / 32 * 3 * 32 * kLaneBytes);
    const char* order = std::getenv("ASSAY_CUDA_ON_CPU_ORDER");
    block.reverse = order && std::strcmp(order, "reverse") == 0;
  }
  block.kernel = &kernel;
  block.threads.resize(count);
  block.warps.resize((count + 31) / 32);
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
      t.turn = 0;
      prepare_stack(t, i);
    }
    for (std::size_t w = 0; w < block.warps.size(); ++w) {
      const std::size_t lanes = std::min<std::size_t>(32, count - 32 * w);
      block.warps[w] = {};
      block.warps[w].lanes = block.warps[w].ready = kFull >> (32 - lanes);
    }
    block.alive = static_cast<int>(count);
    run_block();
  }
  current = nullptr;
  return cudaSuccess;
}

}  // namespace assay::cuda_on_cpu
