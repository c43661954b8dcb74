// scan with fp32: a block for columns of V of a head of a sequence, chunk after chunk. S and M stay
// in shared memory; what a chunk reads arrives while the one before is at work.
#include "kernels/mdn/mdn_fp32.cuh"

namespace assay::cuda {
namespace {

template <int tiles, int states>
struct FullScan : FullBlock<tiles, states> {
  using Block = FullBlock<tiles, states>;
  using Block::chunks, Block::column0, Block::f, Block::head, Block::k, Block::kPitch, Block::M,
      Block::p, Block::q, Block::S, Block::T, Block::u, Block::W, Block::x;

  using Block::Block;

  __device__ __forceinline__ float* keys(std::int64_t chunk) const {
    return chunk & 1 ? this->spare : k;
  }
  __device__ __forceinline__ float* chunk_vectors(std::int64_t chunk) const {
    return this->vectors + (chunk & 1) * (kVectorsBytes / 4);
  }
  __device__ __forceinline__ void fetch_keys(std::int64_t chunk) const {
    if (chunk < chunks) {
      fetch_lines(keys(chunk), row_pitch(p.K), this->rows(chunk, 1), kChunk, p.K);
      fetch_vectors(chunk_vectors(chunk), this->record(chunk));
    }
    copy_commit();
  }
  __device__ __forceinline__ void fetch_queries(std::int64_t chunk) const {
    if (chunk < chunks) fetch_lines(q, row_pitch(p.K), this->rows(chunk, 0), kChunk, p.K);
    copy_commit();
  }
  __device__ __forceinline__ void fetch_square(float* to, std::int64_t chunk, int which) const {
    if (chunk < chunks) fetch_lower(to, this->record(chunk) + which);
    copy_commit();
  }

  /// X = V - ᾱ K S + b' K M into shared memory; out = scale (ᾱ Q S - b Q M).
  __device__ __forceinline__ void read_states(std::int64_t chunk, Tiles<1, tiles>& out) const {
    const float* c = chunk_vectors(chunk);
    Tiles<1, tiles> rest;
    this->load(rest, p.v, chunk);
    const int pitch = row_pitch(p.K);
    const Lines key{keys(chunk) + this->row0 * pitch, pitch}, query{q + this->row0 * pitch, pitch};
#pragma unroll
    for (int which = 0; which < states; ++which) {
      const Lines state{(which == 0 ? S : M) + column0, kPitch};
      Tiles<2, tiles> reads;  // of keys, of queries
      reads.add(
          0, p.K, this->lane,
          [&](int r, int row, int place) { return (r == 0 ? key : query).along(row, place); },
          [&](int n, int column, int place) { return state.across(8 * n + column, place); });
      const float sign = which == 0 ? 1 : -1;
      this->add_scaled(rest.x[0], reads.x[0], c + (which == 0 ? kDecay : kCarry) * kChunk, -sign);
      this->add_scaled(out.x[0], reads.x[1], c + (which == 0 ? kDecay : kReadCarry) * kChunk,
                       sign * p.scale);
    }
    this->put(rest, x);
  }

  /// S' = ᾱ_C S - b_C M + (γ_C k̂)^T R, M' = μ̄_C M - (m_C k̂)^T R
  __device__ __forceinline__ void advance(std::int64_t chunk) const {
    const float* c = chunk_vectors(chunk);
    const float decay = c[kEndDecay], carry = c[kEndCarry], mu = c[kEndMomentum];
    const Lines key{keys(chunk), row_pitch(p.K)}, residual{x, kPitch};
    this->over_states(
        [&](Tiles<states, tiles>& sum, int row, int column) {
          sum.add(
              0, kChunk, this->lane,
              [&](int which, int r, int place) {
                const float* write = c + (which == 0 ? kWrite : kWriteMomentum) * kChunk + place;
                const float2 y = key.across(row + r, place);
                return make_float2(write[0] * y.x, write[1] * y.y);
              },
              [&](int n, int r, int place) { return residual.across(column + 8 * n + r, place); });
        },
        [&](int at, float to_S, float to_M) {
          S[at] = fmaf(decay, S[at], to_S);
          if constexpr (states == 2) {
            S[at] = fmaf(-carry, M[at], S[at]);
            if (!ASSAY_MDN_IS_FAULT(p, stale_second_state)) M[at] = fmaf(mu, M[at], -to_M);
          }
        });
  }

  __device__ __forceinline__ void run() const {
    if (passes_over(p, u)) return;
    fetch_keys(0), fetch_queries(0), fetch_square(T, 0, kFullT), fetch_square(W, 0, kFullW);
    const std::int64_t before = place_before(p, u);
    this->slice(S).load(p.s0, before, head);
    if (states == 2) this->slice(M).load(p.m0, before, head);
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      copy_wait<2>();  // not for T and W
      __syncthreads();
      fetch_keys(chunk + 1);
      if (f.kept) {
        this->slice(S).keep(this->kept(f.kept, chunk, 0));
        if (states == 2) this->slice(M).keep(this->kept(f.kept, chunk, 1));
      }
      Tiles<1, tiles> out;
      read_states(chunk, out);
      __syncthreads();
      fetch_queries(chunk + 1);
      copy_wait<3>();  // for T
      __syncthreads();
      Tiles<1, tiles> R;
      this->add_lower(R, T, x);
      __syncthreads();
      fetch_square(T, chunk + 1, kFullT);
      this->put(R, x);
      if (f.kept) this->keep(R, this->residual(f.residuals, chunk));
      copy_wait<3>();  // for W
      __syncthreads();
      this->add_lower(out, W, x);
      this->store(FullRows::of(p.o, u.batch, u.first + chunk * kChunk, head), out, chunk);
      advance(chunk);
      __syncthreads();
      fetch_square(W, chunk + 1, kFullW);
    }
    copy_wait<0>();
    __syncthreads();
    const std::int64_t after = place_after(u);
    this->slice(S).store(u.closes ? p.s_final : p.s_marks, after, head);
    if (states == 2) this->slice(M).store(u.closes ? p.m_final : p.m_marks, after, head);
  }
};

template <int tiles, int states>
__global__ void __launch_bounds__(kFullThreads, 1)
    mdn_fp32_scan_kernel(const __grid_constant__ MdnFast f) {
  ASSAY_SHARED_MEMORY(memory);
  const FullScan<tiles, states> scan(f, memory);
  scan.run();
}

template <int tiles, int states>
cudaError_t scan(const MdnFast& f, cudaStream_t stream) {
  using Block = FullBlock<tiles, states>;
  const dim3 grid(static_cast<unsigned>(f.p.units()),
                  static_cast<unsigned>((f.p.V + Block::kColumns - 1) / Block::kColumns));
  return launch(mdn_fp32_scan_kernel<tiles, states>, grid, kFullThreads, Block::bytes(f.p), stream,
                f);
}

}  // namespace

cudaError_t mdn_fp32_scan(const MdnFast& f, cudaStream_t stream) {
  if (f.p.momentum) return f.pairs == 4 ? scan<4, 2>(f, stream) : scan<2, 2>(f, stream);
  return f.pairs == 4 ? scan<4, 1>(f, stream) : scan<2, 1>(f, stream);
}

}  // namespace assay::cuda
