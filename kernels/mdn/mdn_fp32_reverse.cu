// reverse with fp32: as scan, from the last chunk to the first. d_X is d_V.
#include "kernels/mdn/mdn_fp32.cuh"

namespace assay::cuda {
namespace {

template <int tiles, int states>
struct FullReverse : FullBlock<tiles, states> {
  using Block = FullBlock<tiles, states>;
  using Block::chunks, Block::column0, Block::f, Block::head, Block::k, Block::kPitch, Block::p,
      Block::q, Block::row0, Block::T, Block::u, Block::W, Block::x;

  float *d_S, *d_M, *out;

  __device__ __forceinline__ FullReverse(const MdnFast& fast, char* memory)
      : Block(fast, memory), d_S(this->S), d_M(this->M), out(this->spare) {}

  __device__ __forceinline__ void fetch_rows(std::int64_t chunk) const {
    if (chunk >= 0) {
      fetch_lines(k, row_pitch(p.K), this->rows(chunk, 1), kChunk, p.K);
      fetch_lines(q, row_pitch(p.K), this->rows(chunk, 0), kChunk, p.K);
      fetch_vectors(this->vectors, this->record(chunk));
    }
    copy_commit();
  }
  __device__ __forceinline__ void fetch_square(float* to, std::int64_t chunk, int which) const {
    if (chunk >= 0) fetch_lower(to, this->record(chunk) + which);
    copy_commit();
  }

  __device__ __forceinline__ void load_cotangents(std::int64_t chunk) const {
    Tiles<1, tiles> own;
    this->load(own, p.d_o, chunk);
    this->put(own, out);
  }

  /// d_R = scale W^T d_O + γ_C η (k d_S) - m_C η (k d_M) into shared memory; W has the scale.
  __device__ __forceinline__ void right_side() const {
    Tiles<1, tiles> sum;
    this->add_upper(sum, W, out);
    const Lines key{k + row0 * row_pitch(p.K), row_pitch(p.K)};
    const Lines of_S{d_S + column0, kPitch}, of_M{d_M + column0, kPitch};
    Tiles<1, states * tiles> reads;
    reads.add(
        0, p.K, this->lane, [&](int, int row, int place) { return key.along(row, place); },
        [&](int n, int column, int place) {
          return (n < tiles ? of_S : of_M).across(8 * (n % tiles) + column, place);
        });
    const float* c = this->vectors;
    this->add_scaled(sum.x[0], reads.x[0], c + kWrite * kChunk, 1);
    if constexpr (states == 2) {
      this->add_scaled(sum.x[0], reads.x[0] + tiles, c + kWriteMomentum * kChunk, -1);
    }
    this->put(sum, x);
  }

  /// d_M' = μ̄_C d_M - b_C d_S - (scale b Q)^T d_O + (b' K)^T d_X
  /// d_S' = ᾱ_C d_S + (scale ᾱ Q)^T d_O - (ᾱ K)^T d_X
  __device__ __forceinline__ void go_back() const {
    const float* c = this->vectors;
    const float decay = c[kEndDecay], carry = c[kEndCarry], mu = c[kEndMomentum];
    this->over_states(
        [&](Tiles<states, tiles>& sum, int row, int column) {
          const auto add = [&](const float* rows, const float* values, int of_M, float sign) {
            const Lines left{rows, row_pitch(p.K)}, right{values, kPitch};
            sum.add(
                0, kChunk, this->lane,
                [&](int which, int r, int place) {
                  const float* factor = c + (which == 0 ? kDecay : of_M) * kChunk + place;
                  const float own = which == 0 ? sign : -sign;
                  const float2 y = left.across(row + r, place);
                  return make_float2(own * factor[0] * y.x, own * factor[1] * y.y);
                },
                [&](int n, int r, int place) { return right.across(column + 8 * n + r, place); });
          };
          add(q, out, kReadCarry, p.scale);
          add(k, x, kCarry, -1);
        },
        [&](int at, float to_S, float to_M) {
          if constexpr (states == 2) d_M[at] = fmaf(-carry, d_S[at], fmaf(mu, d_M[at], to_M));
          d_S[at] = fmaf(decay, d_S[at], to_S);
        });
  }

  __device__ __forceinline__ void run() const {
    if (passes_over(p, u)) return;
    const std::int64_t last = chunks - 1;
    fetch_square(T, last, kFullT), fetch_rows(last), fetch_square(W, last, kFullW);
    const bool ignored = ASSAY_MDN_IS_FAULT(p, final_cotangent_ignored);
    const std::int64_t after = place_after(u);
    const Strided none;
    this->slice(d_S).load(ignored ? none : u.closes ? p.d_s_final : p.s_marks, after, head);
    if (states == 2) {
      this->slice(d_M).load(ignored ? none : u.closes ? p.d_m_final : p.m_marks, after, head);
    }
    for (std::int64_t chunk = last; chunk >= 0; --chunk) {
      load_cotangents(chunk);
      copy_wait<0>();
      __syncthreads();
      this->slice(d_S).keep(this->kept(f.d_kept, chunk, 0));
      if (states == 2) this->slice(d_M).keep(this->kept(f.d_kept, chunk, 1));
      right_side();
      __syncthreads();
      fetch_square(W, chunk - 1, kFullW);
      Tiles<1, tiles> d_x;
      this->add_upper(d_x, T, x);
      __syncthreads();
      fetch_square(T, chunk - 1, kFullT);
      this->put(d_x, x);
      this->keep(d_x, this->residual(f.d_residuals, chunk));
      this->store(FullRows::of(p, p.d_v, u.batch, u.first + chunk * kChunk, head), d_x, chunk);
      __syncthreads();
      go_back();
      __syncthreads();
      fetch_rows(chunk - 1);
    }
    copy_wait<0>();
    __syncthreads();
    const std::int64_t before = place_before(p, u);
    this->slice(d_S).store(p.d_s0, before, head);
    if (states == 2) this->slice(d_M).store(p.d_m0, before, head);
  }
};

template <int tiles, int states>
__global__ void __launch_bounds__(kFullThreads, 1)
    mdn_fp32_reverse_kernel(const __grid_constant__ MdnFast f) {
  ASSAY_SHARED_MEMORY(memory);
  const FullReverse<tiles, states> reverse(f, memory);
  reverse.run();
}

template <int tiles, int states>
cudaError_t reverse(const MdnFast& f, cudaStream_t stream) {
  using Block = FullBlock<tiles, states>;
  const dim3 grid(static_cast<unsigned>(f.p.units()),
                  static_cast<unsigned>((f.p.V + Block::kColumns - 1) / Block::kColumns));
  return launch(mdn_fp32_reverse_kernel<tiles, states>, grid, kFullThreads, Block::bytes(f.p),
                stream, f);
}

}  // namespace

cudaError_t mdn_fp32_reverse(const MdnFast& f, cudaStream_t stream) {
  if (f.p.momentum) return f.pairs == 4 ? reverse<4, 2>(f, stream) : reverse<2, 2>(f, stream);
  return f.pairs == 4 ? reverse<4, 1>(f, stream) : reverse<2, 1>(f, stream);
}

}  // namespace assay::cuda
