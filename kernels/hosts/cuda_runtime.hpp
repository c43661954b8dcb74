// The few functions of the CUDA runtime that a host needs, loaded when a plug-in asks for them, so
// that the host itself runs where there is no CUDA.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

namespace assay::hosts {

/// A CUDA call failed; the text names the call and the runtime's reason.
struct CudaError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class CudaRuntime {
 public:
  /// Loads libcudart (the one that the process already has, if any). Throws CudaError when there is
  /// none or no device.
  CudaRuntime();

  /// Throws std::bad_alloc for lack of memory, CudaError for anything else.
  void* allocate(std::size_t bytes);
  void release(void* memory) noexcept;
  void to_device(void* device, const void* host, std::size_t bytes);
  void to_host(void* host, const void* device, std::size_t bytes);
  /// Waits for all work; throws CudaError for what went wrong in it.
  void synchronize();

 private:
  void check(int code, const char* call) const;

  int (*malloc_)(void**, std::size_t) = nullptr;
  int (*free_)(void*) = nullptr;
  int (*memcpy_)(void*, const void*, std::size_t, int) = nullptr;
  int (*synchronize_)() = nullptr;
  int (*last_error_)() = nullptr;
  const char* (*error_text_)(int) = nullptr;
};

}  // namespace assay::hosts
