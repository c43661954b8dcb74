// A second stream beside the caller's, for work that nothing needs before the end of the run:
// forked from it and joined to it by events, within one run. The device is never waited for, and a
// stream capture of the caller's becomes a graph with two branches.
#pragma once

#include <cuda_runtime_api.h>

namespace assay::cuda {

/// Streams and events are made once for each stream of a caller, and kept. Two runs at the same
/// time never share one, and what runs of one caller do does not wait for another's: a side stream
/// goes with the caller's stream. Where none can be had, the work goes into the caller's stream.
class SideStream {
 public:
  struct Kept;

  explicit SideStream(cudaStream_t main) : main_(main) {}
  ~SideStream();
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

  /// What is launched on stream() from here on comes after what the caller's stream has now.
  cudaError_t fork();
  /// What is launched on the caller's stream from here on comes after all of stream()'s. Made up
  /// for at the end if it was left out, as after an error.
  cudaError_t join();

  cudaStream_t stream() const;

 private:
  cudaStream_t main_;
  Kept* kept_ = nullptr;
  bool forked_ = false;
};

}  // namespace assay::cuda
