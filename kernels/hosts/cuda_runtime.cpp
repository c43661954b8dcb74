#include "kernels/hosts/cuda_runtime.hpp"

#include <dlfcn.h>

#include <new>

namespace assay::hosts {
namespace {

// Numbers of the runtime's C interface; they have never changed.
constexpr int kSuccess = 0, kErrorMemory = 2;
constexpr int kHostToDevice = 1, kDeviceToHost = 2;

/// A plug-in that links the runtime has loaded it: then it must be that one. A plug-in that carries
/// a static runtime shares the device's context with whichever is found.
void* load_runtime() {
  const char* const names[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so"};
  for (const int flags : {RTLD_NOW | RTLD_NOLOAD, RTLD_NOW}) {
    for (const char* name : names) {
      if (void* library = dlopen(name, flags)) return library;
    }
  }
  throw CudaError("libcudart.so.13, .12 or libcudart.so: none can be loaded (LD_LIBRARY_PATH?)");
}

template <class Function>
void bind(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr) throw CudaError(std::string("libcudart has no ") + name);
}

}  // namespace

CudaRuntime::CudaRuntime() {
  void* library = load_runtime();
  bind(library, "cudaMalloc", malloc_);
  bind(library, "cudaFree", free_);
  bind(library, "cudaMemcpy", memcpy_);
  bind(library, "cudaDeviceSynchronize", synchronize_);
  bind(library, "cudaGetLastError", last_error_);
  bind(library, "cudaGetErrorString", error_text_);
  int (*device_count)(int*) = nullptr;
  bind(library, "cudaGetDeviceCount", device_count);
  int count = 0;
  check(device_count(&count), "cudaGetDeviceCount");
  if (count == 0) throw CudaError("no CUDA device");
}

void CudaRuntime::check(int code, const char* call) const {
  if (code == kSuccess) return;
  throw CudaError(std::string(call) + ": error " + std::to_string(code) + ", " + error_text_(code));
}

void* CudaRuntime::allocate(std::size_t bytes) {
  void* memory = nullptr;
  const int code = malloc_(&memory, bytes);
  if (code == kErrorMemory) {
    last_error_();  // not sticky: forget it, the next call may be smaller
    throw std::bad_alloc();
  }
  check(code, "cudaMalloc");
  return memory;
}

void CudaRuntime::release(void* memory) noexcept { free_(memory); }

void CudaRuntime::to_device(void* device, const void* host, std::size_t bytes) {
  check(memcpy_(device, host, bytes, kHostToDevice), "cudaMemcpy to the device");
}

void CudaRuntime::to_host(void* host, const void* device, std::size_t bytes) {
  check(memcpy_(host, device, bytes, kDeviceToHost), "cudaMemcpy to the host");
}

void CudaRuntime::synchronize() {
  check(synchronize_(), "cudaDeviceSynchronize");
  check(last_error_(), "cudaGetLastError");
}

}  // namespace assay::hosts
