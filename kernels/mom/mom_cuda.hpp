// Mixture-of-Memories on the device: tokens are dispatched into (sequence, memory) segments, the
// update runs over them as over packed sequences, and what it reads is combined.  [MoM v4,
// Sec. 3.3]
//
// Rows are those of routing.hpp, and the shared memory is the last of each sequence, so the states
// [B,R,H,K,V] are those of the packed sequences as they lie.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/common/cuda/delta_decode.hpp"
#include "kernels/common/cuda/routing.hpp"

namespace assay::cuda {

/// A tensor per routed memory [B,T,M,heads,width] and, of the shared memory, [B,T,heads,width],
/// with its rows in packed order. The query has no axis of memories (to_memory = 0) and is the same
/// for all of them.
struct MomField {
  struct Side {
    Strided tensor;
    std::int64_t to_memory = 0;  // bytes
    int heads = 1;
    bool flat = false;  // the row is packed as it lies, 16 bytes at a time
  };
  Side mem, shared;
  char* packed = nullptr;  // [rows, heads, width]
  DType dtype = DType::f32;
  int heads = 1, width = 1;
  float missing = 1;  // of a side that is not there
};

inline constexpr int kMomFields = 7;  // q, k, v, alpha, beta, mu, eta

struct MomFields {
  Routing routing;
  MomField field[kMomFields];
  int count = 0;
};

/// Every packed row from its token and memory, and the other way round with zeros for memories
/// that were not selected. Heads of a side that are fewer than the packed ones are repeated, and
/// summed.
cudaError_t gather(const MomFields& f, cudaStream_t stream);
cudaError_t scatter(const MomFields& f, cudaStream_t stream);

/// out [token, width] = Σ over slots of packed [row, width], times the weight of the slot if
/// `weighted`. Rows are routing.row, or token by token where there is none. No gaps in `out`.
struct MomSum {
  Routing routing;
  const char* packed = nullptr;
  DType dtype = DType::f32;  // of packed
  Strided out;
  std::int64_t width = 0;
  bool weighted = false;
};
cudaError_t combine(const MomSum& s, cudaStream_t stream);

/// The cotangents of what is read.
struct MomReadOut {
  Routing routing;
  Strided d_o;          // [B,T,H,V]
  bool flat = false;    // its rows may be read by fours
  bool eights = false;  // all rows, of d_o and packed ones, are bf16 in pieces of 16 bytes
  int H = 1, V = 0;
  char* d_packed = nullptr;      // [rows,H,V] fp32 or bf16: weight times d_o
  DType d_dtype = DType::f32;    // of d_packed
  const char* packed = nullptr;  // [rows,H,V]: what was read
  DType dtype = DType::f32;      // of packed
  float* d_weight = nullptr;     // [tokens, slots]
  Strided d_logits;              // [B,T,M]
};
cudaError_t spread(const MomReadOut& r, cudaStream_t stream);
/// d_weight = <d_o, packed>, and d_logits through the softmax over the selected.
cudaError_t weigh(const MomReadOut& r, cudaStream_t stream);
/// combine and weigh together, where `reads_out_at_once`: what was read is loaded once.
bool reads_out_at_once(const MomReadOut& r, const MomSum& s);
cudaError_t read_out(const MomReadOut& r, const MomSum& s, cudaStream_t stream);

/// A state [B,R,H,K,V] with gaps, copied into one without.
struct MomStates {
  const char* from = nullptr;
  char* to = nullptr;
  DType dtype = DType::f32;
  std::int64_t shape[5] = {}, stride[5] = {};  // elements
};
cudaError_t copy_states(const MomStates& s, cudaStream_t stream);

/// One step of every sequence. Where the state is another tensor afterwards, memories that were not
/// selected are copied. `p` has the query, states of memory 0 and what is no tensor.
struct MomDecode {
  Routing routing;
  DecodeParams p;
  MomField::Side k, v, alpha, beta, mu, eta;
  MomField::Side k_shared, v_shared, alpha_shared, beta_shared, mu_shared, eta_shared;
  std::int64_t s0_memory = 0, m0_memory = 0, s_final_memory = 0, m_final_memory = 0;  // bytes
  float* packed = nullptr;  // [token, slots, H, V]: what each memory reads
};
cudaError_t launch_mom_decode(const MomDecode& d, cudaStream_t stream);

}  // namespace assay::cuda
