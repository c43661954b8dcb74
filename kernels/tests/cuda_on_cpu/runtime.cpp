// The calls of the CUDA runtime that host code of the plug-in makes, on the CPU.
#include <cuda_runtime_api.h>

#include <cstring>

extern "C" {

cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t e) {
  return e == cudaSuccess ? "no error" : "a launch that a device would refuse";
}
cudaError_t cudaMemsetAsync(void* at, int byte, std::size_t bytes, cudaStream_t) {
  if (bytes > 0) std::memset(at, byte, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t) {
  if (bytes > 0) std::memmove(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
/// A small device, so that loops over tiles are exercised.
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrMultiProcessorCount ? 4 : 227 * 1024;
  return cudaSuccess;
}

}  // extern "C"
