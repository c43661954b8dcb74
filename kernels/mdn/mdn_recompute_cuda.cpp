// The way back window by window, from the last to the first. Forward, the windows are computed one
// after the other and leave nothing but the states between them, in marks, fp32; backward, a window
// is computed once more from its mark, with everything that the way back needs, in memory of one
// window. Once it has gone back, the cotangent of the states before it takes the mark's place. What
// the kernels do within a window is what they do with everything stored: the same bits.
#include "kernels/mdn/mdn_fast.hpp"

namespace assay::cuda {
namespace {

/// Window `first`, ... chunks; `kept`: with what the way back needs.
MdnFast at_window(const MdnFast& f, std::int64_t first, bool kept) {
  MdnFast w = f;
  w.p.first_chunk = first;
  if (first > 0) w.p.s0 = f.p.s_marks, w.p.m0 = f.p.m_marks;
  if (!kept) {
    w.kept = w.residuals = w.residual_rests = nullptr;
    w.coefficients = nullptr;
  }
  return w;
}

cudaError_t forward(const MdnFast& w, cudaStream_t stream) {
  const cudaError_t e = mdn_prepare(w, stream);
  return e == cudaSuccess ? mdn_scan(w, stream) : e;
}

cudaError_t again(MdnFast w, cudaStream_t stream) {
  w.p.o = w.p.s_final = w.p.m_final = w.p.s_marks = w.p.m_marks = {};
  return forward(w, stream);
}

cudaError_t backward(MdnFast w, cudaStream_t stream) {
  if (w.p.first_chunk > 0) w.p.d_s0 = w.p.s_marks, w.p.d_m0 = w.p.m_marks;
  constexpr MdnLaunch kAll[] = {mdn_reverse, mdn_local, mdn_last, mdn_gates};
  for (const MdnLaunch launch : kAll) {
    if (const cudaError_t e = launch(w, stream); e != cudaSuccess) return e;
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t mdn_recompute(const MdnFast& f, cudaStream_t stream) {
  const std::int64_t each = f.p.window, last = (f.p.longest_chunks() - 1) / each * each;
  cudaError_t e = cudaSuccess;
  for (std::int64_t first = 0; e == cudaSuccess && first <= last; first += each) {
    e = forward(at_window(f, first, first == last), stream);
  }
  for (std::int64_t first = last; e == cudaSuccess && first >= 0; first -= each) {
    const MdnFast w = at_window(f, first, true);
    if (first < last) e = again(w, stream);
    if (e == cudaSuccess) e = backward(w, stream);
  }
  return e;
}

}  // namespace assay::cuda
