// Temporaries of one thread: taken in stack order, given back all at once. The first pass through a
// loop body grows the arena; every later one finds the memory there, so inner loops do not
// allocate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "kernels/common/variant.hpp"

ASSAY_CPU_BEGIN

class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() {
    for (int i = 0; i < slabs_; ++i) std::free(slab_[i].data);
  }

  /// n values, not initialised, aligned to 64 bytes.
  template <class X>
  X* take(std::int64_t n) {
    return static_cast<X*>(take_bytes(static_cast<std::size_t>(n) * sizeof(X)));
  }
  template <class X>
  X* zeros(std::int64_t n) {
    X* p = take<X>(n);
    for (std::int64_t i = 0; i < n; ++i) p[i] = X(0);
    return p;
  }

  struct Mark {
    int slab;
    std::size_t used;
  };
  Mark mark() const { return {current_, current_ < slabs_ ? slab_[current_].used : 0}; }
  void release(const Mark& m) {
    for (int i = m.slab + 1; i < slabs_ && i <= current_; ++i) slab_[i].used = 0;
    current_ = m.slab;
    if (current_ < slabs_) slab_[current_].used = m.used;
  }

 private:
  struct Slab {
    char* data;
    std::size_t size, used;
  };
  static constexpr int kMaxSlabs = 48;
  static constexpr std::size_t kAlign = 64, kFirst = std::size_t{1} << 16;

  void* take_bytes(std::size_t bytes) {
    bytes = (bytes + kAlign - 1) / kAlign * kAlign;
    while (current_ < slabs_ && slab_[current_].used + bytes > slab_[current_].size) {
      if (current_ + 1 == slabs_) break;
      ++current_;
    }
    if (current_ >= slabs_ || slab_[current_].used + bytes > slab_[current_].size) grow(bytes);
    void* at = slab_[current_].data + slab_[current_].used;
    slab_[current_].used += bytes;
    return at;
  }

  // Doubling keeps the number of slabs logarithmic in what one call needs.
  void grow(std::size_t bytes) {
    std::size_t size = slabs_ == 0 ? kFirst : 2 * slab_[slabs_ - 1].size;
    if (size < bytes) size = bytes;
    void* data = slabs_ < kMaxSlabs ? std::aligned_alloc(kAlign, size) : nullptr;
    if (!data) throw std::bad_alloc();
    slab_[slabs_] = {static_cast<char*>(data), size, 0};
    current_ = slabs_++;
  }

  Slab slab_[kMaxSlabs];
  int slabs_ = 0, current_ = 0;
};

/// Gives back, at the end of a scope, what was taken inside it.
class ArenaScope {
 public:
  explicit ArenaScope(Arena& arena) : arena_(arena), mark_(arena.mark()) {}
  ~ArenaScope() { arena_.release(mark_); }
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;

 private:
  Arena& arena_;
  Arena::Mark mark_;
};

ASSAY_CPU_END
