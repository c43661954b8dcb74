#include "kernels/common/cuda/side_stream.hpp"

#include <list>
#include <mutex>

namespace assay::cuda {

struct SideStream::Kept {
  int device = 0;
  cudaStream_t main{}, side{};
  cudaEvent_t begin{}, end{};
  bool in_use = false;
};

namespace {

/// Never destroyed: the device may be gone before the plug-in is.
struct Pool {
  std::mutex mutex;
  std::list<SideStream::Kept> all;
};
Pool& pool() {
  static Pool* const one = new Pool;
  return *one;
}

bool make(SideStream::Kept& kept) {
  constexpr unsigned kNoTiming = cudaEventDisableTiming;
  if (cudaStreamCreateWithFlags(&kept.side, cudaStreamNonBlocking) != cudaSuccess) return false;
  if (cudaEventCreateWithFlags(&kept.begin, kNoTiming) == cudaSuccess) {
    if (cudaEventCreateWithFlags(&kept.end, kNoTiming) == cudaSuccess) return true;
    cudaEventDestroy(kept.begin);
  }
  cudaStreamDestroy(kept.side);
  return false;
}

/// While a stream is captured, some calls of any thread end the capture unless a thread says that
/// its own do not matter: making a stream is none of the captured work.
class OutsideOfCapture {
 public:
  OutsideOfCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~OutsideOfCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  OutsideOfCapture(const OutsideOfCapture&) = delete;
  OutsideOfCapture& operator=(const OutsideOfCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// Only ever with the same stream of a caller: while that one is captured, so is the other, and a
/// stream that belongs to a capture must not be met by another. The stream that each thread has by
/// itself is another one in each thread, under one name.
SideStream::Kept* acquire(cudaStream_t main) {
  int device = 0;
  if (main == cudaStreamPerThread || cudaGetDevice(&device) != cudaSuccess) return nullptr;
  const std::lock_guard lock(pool().mutex);
  for (SideStream::Kept& kept : pool().all) {
    if (kept.in_use || kept.device != device || kept.main != main) continue;
    kept.in_use = true;
    return &kept;
  }
  SideStream::Kept fresh;
  const OutsideOfCapture outside;
  if (!make(fresh)) {
    cudaGetLastError();
    return nullptr;
  }
  fresh.device = device, fresh.main = main, fresh.in_use = true;
  return &pool().all.emplace_back(fresh);
}

}  // namespace

SideStream::~SideStream() {
  if (!kept_) return;
  join();
  const std::lock_guard lock(pool().mutex);
  kept_->in_use = false;
}

cudaStream_t SideStream::stream() const { return kept_ ? kept_->side : main_; }

cudaError_t SideStream::fork() {
  if (!kept_) kept_ = acquire(main_);
  if (!kept_) return cudaSuccess;
  const cudaError_t e = cudaEventRecord(kept_->begin, main_);
  if (e != cudaSuccess) return e;
  forked_ = true;
  return cudaStreamWaitEvent(kept_->side, kept_->begin, 0);
}

cudaError_t SideStream::join() {
  if (!kept_ || !forked_) return cudaSuccess;
  forked_ = false;
  const cudaError_t e = cudaEventRecord(kept_->end, kept_->side);
  return e == cudaSuccess ? cudaStreamWaitEvent(main_, kept_->end, 0) : e;
}

}  // namespace assay::cuda
