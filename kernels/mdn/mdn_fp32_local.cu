// local with fp32; equations in mdn_local.cuh. A block for a chunk and head. Up to the gradients of
// W and L a warp has 16 steps and 32 columns; after that 32 steps and 16 columns of K at a time,
// with states from where they are kept.
#include "kernels/mdn/mdn_fp32.cuh"

namespace assay::cuda {
namespace {

template <int states>
struct FullLocal {
  static constexpr int kParts = 8, kGroups = 4;

  const MdnFast& f;
  const MdnParams& p;
  const MdnPlace at;
  int lane, g, i, warp;
  float *u, *R, *X, *q, *k, *w, *l, *vectors, *gates, *parts;

  __device__ __forceinline__ FullLocal(const MdnFast& fast, const MdnPlace& place, char* memory)
      : f(fast),
        p(fast.p),
        at(place),
        lane(static_cast<int>(threadIdx.x & 31)),
        g(lane >> 2),
        i(lane & 3),
        warp(__shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x >> 5), 0)) {
    float* next = reinterpret_cast<float*>(memory);
    const auto take = [&](int count) {
      float* from = next;
      next += count;
      return from;
    };
    vectors = take(kVectorsBytes / 4), gates = take(4 * kChunk);
    parts = take(kParts * kGroups * kChunk);
    w = take(kChunk * kSquarePitch), l = take(kChunk * kSquarePitch);
    q = take(kChunk * row_pitch(p.K)), k = take(kChunk * row_pitch(p.K));
    u = take(kChunk * row_pitch(p.V)), R = take(kChunk * row_pitch(p.V));
    X = take(kChunk * row_pitch(p.V));
  }
  static int bytes(const MdnParams& p) {
    const int lines = 2 * kSquarePitch + 2 * row_pitch(p.K) + 3 * row_pitch(p.V);
    return 4 * (kVectorsBytes / 4 + 4 * kChunk + kParts * kGroups * kChunk + kChunk * lines);
  }

  __device__ __forceinline__ float& part(int which, int group, int t) const {
    return parts[(which * kGroups + group) * kChunk + t];
  }
  __device__ __forceinline__ float* out() const {
    return f.cotangents + at.index * kCotangentFloats;
  }
  __device__ __forceinline__ const float* state(const char* all, int which) const {
    return reinterpret_cast<const float*>(all) + (at.index * states + which) * p.K * p.V;
  }

  __device__ __forceinline__ void fetch() const {
    const float* rows = f.rows + 2 * at.index * kChunk * p.K;
    fetch_lines(q, row_pitch(p.K), rows, kChunk, p.K);
    fetch_lines(k, row_pitch(p.K), rows + kChunk * p.K, kChunk, p.K);
    const auto values = [&](float* to, const char* all) {
      const float* from = reinterpret_cast<const float*>(all) + at.index * kChunk * p.V;
      fetch_lines(to, row_pitch(p.V), from, kChunk, p.V);
    };
    values(R, f.residuals), values(X, f.d_residuals);
    fetch_vectors(vectors, vectors_of(f, at.index));
    copy_commit();
    const float* kept = f.coefficients + at.index * kKeptFloats + kKeptGates;
    for (int x = threadIdx.x; x < 4 * kChunk; x += kFullThreads) gates[x] = kept[x];
    for (int x = threadIdx.x; x < kParts * kGroups * kChunk; x += kFullThreads) parts[x] = 0;
    load_lines<kFullThreads>(u, row_pitch(p.V), p.d_o, at, p.V);
    copy_wait<0>();
  }

  /// Left Right^T, rows of `width` numbers: 16 steps and 32 columns of it.
  __device__ __forceinline__ void square(Tiles<1, 4>& sum, const float* left, const float* right,
                                         int width) const {
    const int pitch = row_pitch(width);
    const Lines a{left + 16 * (warp & 3) * pitch, pitch},
        b{right + 32 * (warp >> 2) * pitch, pitch};
    sum.add(
        0, width, lane, [&](int, int row, int place) { return a.along(row, place); },
        [&](int c, int column, int place) { return b.along(8 * c + column, place); });
  }

  /// d_W, d_L and what they meet; leaves w and l, the cotangent of γ, and sums for alpha and eta.
  __device__ __forceinline__ void inner_products() const {
    const int row_warp = warp & 3, column_warp = warp >> 2;
    const bool within = 32 * column_warp < 16 * (row_warp + 1);
    const float* gamma = f.coefficients + at.index * kKeptFloats;
    Tiles<1, 4> d_w, d_l, qk, kk;
    float now[4][4] = {}, above[4][4] = {};  // γ of the step and of the one before it
    if (within) {
      square(d_w, u, R, p.V), square(d_l, X, R, p.V);
      square(qk, q, k, p.K), square(kk, k, k, p.K);
#pragma unroll
      for (int x = 0; x < 16; ++x) {
        const int n = x / 4, e = x % 4, row = row_of(e), column = column_of(n, e);
        if (column <= row) now[n][e] = gamma[row * kChunk + column];
        if (column < row) above[n][e] = gamma[(row - 1) * kChunk + column];
      }
    }
    float of_alpha[2] = {}, to_gamma[4][4], below[4][4];
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      float of_eta[2] = {};
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = row_of(e), column = column_of(n, e);
        const float alpha = gates[row], eta = gates[3 * kChunk + column];
        const float to_w = p.scale * d_w.x[0][n][e], to_l = -d_l.x[0][n][e];
        to_gamma[n][e] = column <= row ? to_w * eta * qk.x[0][n][e] : 0.0f;
        below[n][e] = column < row ? to_l * eta * alpha * kk.x[0][n][e] : 0.0f;
        w[row * kSquarePitch + column] = to_w * eta * now[n][e];
        l[row * kSquarePitch + column] = to_l * eta * alpha * above[n][e];
        of_alpha[e >> 1] += to_l * eta * above[n][e] * kk.x[0][n][e];
        of_eta[e & 1] += to_w * now[n][e] * qk.x[0][n][e];
        of_eta[e & 1] += to_l * above[n][e] * alpha * kk.x[0][n][e];
      }
      if constexpr (states == 2) {
#pragma unroll
        for (int y = 0; y < 2; ++y) {
          const float sum = sum_rows(of_eta[y]);
          if (g == 0) part(7, row_warp, column_of(n, y)) = sum;
        }
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = sum_columns(of_alpha[half]);
      if (i == 0) part(6, column_warp, row_of(2 * half)) = sum;
    }
    // γ of a step is in L of the next one. That is the next lane's, and of the warp's last step the
    // next warp's.
    float* const first_rows = parts;  // [kChunk / 16, kChunk], of parts 0 that are not in use yet
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int y = 0; y < 2; ++y) {
        if (g == 0) first_rows[row_warp * kChunk + column_of(n, y)] = below[n][y];
      }
    }
    __syncthreads();
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float own = next_row(below[n][e]), other = next_row(below[n][2 + (e & 1)]);
        float next = own;
        if (g == 7 && e < 2) next = other;
        if (g == 7 && e >= 2) {
          next = row_warp == 3 ? 0 : first_rows[(row_warp + 1) * kChunk + column_of(n, e)];
        }
        to_gamma[n][e] += next;
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        *reinterpret_cast<float2*>(out() + row_of(2 * half) * kChunk + column_of(n, 0)) =
            make_float2(to_gamma[n][2 * half], to_gamma[n][2 * half + 1]);
      }
    }
    __syncthreads();
    for (int x = threadIdx.x; x < kChunk / 16 * kChunk; x += kFullThreads) first_rows[x] = 0;
  }
  /// Of a warp's 16 steps and 32 columns, that of accumulator e, in tile n.
  __device__ __forceinline__ int row_of(int e) const { return 16 * (warp & 3) + 8 * (e >> 1) + g; }
  __device__ __forceinline__ int column_of(int n, int e) const {
    return 32 * (warp >> 2) + 8 * n + 2 * i + (e & 1);
  }

  /// R · d_X of each step, for gates that need it; see mdn_local.cuh.
  __device__ __forceinline__ void of_residuals() const {
    for (int t = warp; t < kChunk; t += kFullWarps) {
      float sum = 0;
      for (int x = lane; x < p.V; x += 32) {
        sum = fmaf(R[t * row_pitch(p.V) + x], X[t * row_pitch(p.V) + x], sum);
      }
      sum = warp_sum(sum);
      if (lane == 0) part(7, 0, t) = sum;
    }
  }

  using Slice = float[2][2][4];  // 32 steps and 16 columns of K, as Tiles<2, 2>

  /// sum += sign factor[step] x, and what x is along `rows`, step by step.
  __device__ __forceinline__ void take(Slice& sum, const float (*x)[2][4], const float* rows,
                                       int which, float sign, int dot, int row) const {
    const int group = warp >> 1;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int t = row + 16 * r + 8 * half + g;
        const float factor = sign * vectors[which * kChunk + t];
        float along = 0;
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const float2 own =
              *reinterpret_cast<const float2*>(rows + t * row_pitch(p.K) + 8 * c + 2 * i);
          const float* y = x[r][c] + 2 * half;
          float* to = sum[r][c] + 2 * half;
          to[0] = fmaf(factor, y[0], to[0]), to[1] = fmaf(factor, y[1], to[1]);
          along = fmaf(own.x, y[0], fmaf(own.y, y[1], along));
        }
        along = sum_columns(along);
        if (i == 0) part(dot, group, t) += along;
      }
    }
  }

  __device__ __forceinline__ void store(const Slice& from, const FullRows& to, int row, int column,
                                        float factor) const {
    if (!to.first) return;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int t = row + 16 * r + 8 * half + g;
        if (t >= at.steps) continue;
        char* at_row = to.row(t);
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const float* x = from[r][c] + 2 * half;
          to.store(at_row, column + 8 * c + 2 * i, factor * x[0], factor * x[1]);
        }
      }
    }
  }

  __device__ __forceinline__ void rows() const {
    const int row = 32 * (warp & 1), pitch = row_pitch(p.V);
    const FullRows to_q = FullRows::of(p, p.d_q, at.batch, at.first, at.head);
    const FullRows to_k = FullRows::of(p, p.d_k, at.batch, at.first, at.head);
    const Lines of_w{w, kSquarePitch}, of_l{l, kSquarePitch};
    const Lines of_u{u + row * pitch, pitch}, of_X{X + row * pitch, pitch},
        of_R{R + row * pitch, pitch};
    for (int column = 16 * (warp >> 1); column < p.K; column += 16 * kGroups) {
      const Lines queries{q + column, row_pitch(p.K)}, keys{k + column, row_pitch(p.K)};
      const auto query = [&](int c, int x, int place) { return queries.across(8 * c + x, place); };
      const auto key = [&](int c, int x, int place) { return keys.across(8 * c + x, place); };
      Tiles<4, 2> both;  // w K, l K
      both.add(
          0, row + 32, lane,
          [&](int r, int x, int place) {
            return (r < 2 ? of_w : of_l).along(row + 16 * (r % 2) + x, place);
          },
          key);
      Tiles<2, 2> back;  // w^T Q + l^T K
      const auto transposed = [&](const Lines& lower) {
        return [&, row](int r, int x, int place) { return lower.across(row + 16 * r + x, place); };
      };
      back.add(row, kChunk, lane, transposed(of_w), query);
      if (!ASSAY_MDN_IS_FAULT(p, dk_single_path)) {
        back.add(row, kChunk, lane, transposed(of_l), key);
      }
      Slice d_q, d_k;
#pragma unroll
      for (int x = 0; x < 16; ++x) {
        const int r = x / 8, c = x / 4 % 2, e = x % 4;
        d_q[r][c][e] = both.x[r][c][e], d_k[r][c][e] = both.x[r + 2][c][e] + back.x[r][c][e];
      }
#pragma unroll
      for (int which = 0; which < states; ++which) {
        const bool S = which == 0;
        const Lines before{state(f.kept, which) + column * p.V, p.V};
        const Lines after{state(f.d_kept, which) + column * p.V, p.V};
        Tiles<4, 2> reads;  // of u, of d_X
        reads.add(
            0, p.V, lane,
            [&](int r, int x, int place) {
              return (r < 2 ? of_u : of_X).along(16 * (r % 2) + x, place);
            },
            [&](int c, int x, int place) { return before.along(8 * c + x, place); });
        take(d_q, reads.x, q + column, S ? kDecay : kReadCarry, S ? p.scale : -p.scale, S ? 0 : 1,
             row);
        take(d_k, reads.x + 2, k + column, S ? kDecay : kCarry, S ? -1 : 1, S ? 2 : 3, row);
        Tiles<2, 2> writes;
        writes.add(
            0, p.V, lane, [&](int r, int x, int place) { return of_R.along(16 * r + x, place); },
            [&](int c, int x, int place) { return after.along(8 * c + x, place); });
        take(d_k, writes.x, k + column, S ? kWrite : kWriteMomentum, S ? 1 : -1, S ? 4 : 5, row);
      }
      store(d_q, to_q, row, column, ASSAY_MDN_IS_FAULT(p, scale_missing_in_dq) ? 1 / p.scale : 1);
      store(d_k, to_k, row, column, 1);
    }
  }

  /// <d_S, S>, <d_S, M>, <d_M, M>, over all of the states.
  __device__ __forceinline__ void whole_states(float (&sums)[3]) const {
    const auto four = [](const float* x, int n) { return reinterpret_cast<const float4*>(x)[n]; };
    const auto dot = [](const float4& x, const float4& y, float sum) {
      return fmaf(x.w, y.w, fmaf(x.z, y.z, fmaf(x.y, y.y, fmaf(x.x, y.x, sum))));
    };
#pragma unroll 4
    for (int n = threadIdx.x; n < p.K * p.V / 4; n += kFullThreads) {
      const float4 d_S = four(state(f.d_kept, 0), n);
      sums[0] = dot(d_S, four(state(f.kept, 0), n), sums[0]);
      if (states == 1) continue;
      const float4 M = four(state(f.kept, 1), n);
      sums[1] = dot(d_S, M, sums[1]);
      sums[2] = dot(four(state(f.d_kept, 1), n), M, sums[2]);
    }
  }

  __device__ __forceinline__ void run() const {
    fetch();
    __syncthreads();
    inner_products();
    if (states == 1 && !p.alpha.data) of_residuals();
    __syncthreads();
    rows();
    float sums[3] = {};
    whole_states(sums);
    __syncthreads();
    float* of_warps = w;  // no longer needed
#pragma unroll
    for (int x = 0; x < 3; ++x) {
      const float sum = warp_sum(sums[x]);
      if (lane == 0) of_warps[x * kFullWarps + warp] = sum;
    }
    __syncthreads();
    for (int x = threadIdx.x; x < kParts * kChunk; x += kFullThreads) {
      const int which = x / kChunk, t = x % kChunk;
      float sum = 0;
      for (int group = 0; group < kGroups; ++group) sum += part(which, group, t);
      out()[kOfReadS + x] = which < 2 ? p.scale * sum : sum;
    }
    if (threadIdx.x < 3) {
      float sum = 0;
      for (int x = 0; x < kFullWarps; ++x) sum += of_warps[threadIdx.x * kFullWarps + x];
      out()[kOfStates + threadIdx.x] = sum;
    }
  }
};

template <int states>
__global__ void __launch_bounds__(kFullThreads, 1)
    mdn_fp32_local_kernel(const __grid_constant__ MdnFast f) {
  ASSAY_SHARED_MEMORY(memory);
  const MdnPlace at = place_of(f.p, blockIdx.x);
  if (at.steps == 0) return;
  const FullLocal<states> local(f, at, memory);
  local.run();
}

}  // namespace

cudaError_t mdn_fp32_local(const MdnFast& f, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(f.p.places()));
  return f.p.momentum ? launch(mdn_fp32_local_kernel<2>, grid, kFullThreads,
                               FullLocal<2>::bytes(f.p), stream, f)
                      : launch(mdn_fp32_local_kernel<1>, grid, kFullThreads,
                               FullLocal<1>::bytes(f.p), stream, f);
}

}  // namespace assay::cuda
