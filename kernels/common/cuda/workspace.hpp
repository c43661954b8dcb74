// Dividing the workspace: run once with no memory to learn its size, once to get the pieces.
#pragma once

#include <cstddef>
#include <cstdint>

namespace assay::cuda {

class Workspace {
 public:
  explicit Workspace(void* memory) : memory_(static_cast<char*>(memory)) {}

  template <class T>
  T* take(std::int64_t count) {
    const std::size_t at = used_;
    used_ += (static_cast<std::size_t>(count) * sizeof(T) + 255) / 256 * 256;
    return memory_ ? reinterpret_cast<T*>(memory_ + at) : nullptr;
  }
  std::size_t used() const { return used_; }

 private:
  char* memory_;
  std::size_t used_ = 0;
};

}  // namespace assay::cuda
