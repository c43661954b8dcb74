// Gradients inside a chunk, all chunks at once, from the states before it, the cotangents of those
// after it, R and d_X. With u = scale d_O:
//
//   d_W = u R^T (j <= i)     w = d_W ∘ Γ η_j        d_L = -d_X R^T (j < i)    l = α_i d_L ∘ Γ⁻ η_j
//   d_Q = w K + ᾱ u S^T - b u M^T
//   d_K = w^T Q + l^T K + l K - ᾱ d_X S^T + b' d_X M^T + γ_C η R d_S^T - m_C η R d_M^T
//
// A warp has 16 steps and 16 columns; what is summed over whole rows of q and k goes to the gates.
#pragma once

#include "kernels/mdn/mdn_carry.cuh"
#include "kernels/mdn/mdn_zeros.cuh"

namespace assay::cuda {

template <bool momentum, int K, int V>
struct LocalMemory {
  static constexpr int kStates = momentum ? 2 : 1, kPitch = kChunk + 4;
  static constexpr int kRows = kChunk * K * 2, kValues = kChunk * V * 2, kSquare = kChunk * kChunk;
  static constexpr int kSlice = V * 64 * 2;  // 64 columns of K of a state
  static constexpr int kQ = 0, kK = kRows, kU = 2 * kRows, kR = kU + kValues, kX = kR + kValues;
  static constexpr int kW = kX + kValues, kL = kW + kSquare * 2, kStatesAt = kL + kSquare * 2;
  static constexpr int kCotangentsAt = kStatesAt + kStates * kSlice;
  static constexpr int kGamma = kCotangentsAt + kStates * kSlice;
  static constexpr int kDGamma = kGamma + kChunk * kPitch * 4;
  static constexpr int kVectors = kDGamma + kChunk * kPitch * 4;  // as in the record
  static constexpr int kGates = kVectors + kVectorsBytes;         // alpha, mu, beta, eta
  static constexpr int kParts = kGates + 4 * kChunk * 4;          // [8][4][kChunk]
  static constexpr int kBytes = kParts + 8 * 4 * kChunk * 4;
};

template <bool momentum, int K, int V>
struct Local {
  using Memory = LocalMemory<momentum, K, V>;
  static constexpr int kThreads = 512, kRowWarps = kChunk / 16;

  const MdnFast& f;
  const MdnParams& p;
  char* memory;
  MdnPlace at;
  int thread, lane, g, i, row_warp, column_warp;

  __device__ __forceinline__ float* floats(int offset) const {
    return reinterpret_cast<float*>(memory + offset);
  }
  __device__ __forceinline__ float& gamma(int row, int column) const {
    return floats(Memory::kGamma)[row * Memory::kPitch + column];
  }
  __device__ __forceinline__ float& d_gamma(int row, int column) const {
    return floats(Memory::kDGamma)[row * Memory::kPitch + column];
  }
  __device__ __forceinline__ float vector(int which, int t) const {
    return floats(Memory::kVectors)[which * kChunk + t];
  }
  __device__ __forceinline__ float gate(int which, int t) const {
    return floats(Memory::kGates)[which * kChunk + t];
  }
  /// Partial sum `which` of step t, by one of four groups of warps.
  __device__ __forceinline__ float& part(int which, int group, int t) const {
    return floats(Memory::kParts)[(which * 4 + group) * kChunk + t];
  }

  __device__ __forceinline__ void fetch_slice(int to, const char* from, int slice) const {
    from += at.index * Memory::kStates * kept_bytes(K, V) + slice * 8 * kTileBytes;
    for (int s = 0; s < Memory::kStates; ++s) {
#pragma unroll
      for (unsigned first = 0; first < V / 8 * 64; first += kThreads) {
        const unsigned x = first + thread;
        copy_async(memory + to + s * Memory::kSlice + x * 16,
                   from + s * kept_bytes(K, V) + (x / 64 * (K / 8)) * kTileBytes + x % 64 * 16,
                   true);
      }
    }
  }

  __device__ __forceinline__ void fetch() const {
    copy_rows<K / 8, kThreads>(memory + Memory::kQ, q_rows(p, at.batch, at.first, at.head),
                               at.steps, thread);
    copy_rows<K / 8, kThreads>(
        memory + Memory::kK, k_rows(p, at.sequence, at.batch, at.first, at.head), at.steps, thread);
    if (p.d_o.data) {
      copy_rows<V / 8, kThreads>(memory + Memory::kU, rows_of(p.d_o, at.batch, at.first, at.head),
                                 at.steps, thread);
    } else {
      for (int x = thread * 16; x < Memory::kValues; x += kThreads * 16) {
        *reinterpret_cast<uint4*>(memory + Memory::kU + x) = make_uint4(0, 0, 0, 0);
      }
    }
    const std::int64_t kept = at.index * kept_bytes(kChunk, V);
    copy_piece<Memory::kValues, kThreads>(memory + Memory::kR, f.residuals + kept, thread);
    copy_piece<Memory::kValues, kThreads>(memory + Memory::kX, f.d_residuals + kept, thread);
    copy_piece<kVectorsBytes, kThreads>(
        memory + Memory::kVectors, f.records + at.index * kRecordBytes + kRecordVectors, thread);
    const char* coefficients =
        reinterpret_cast<const char*>(f.coefficients + at.index * kKeptFloats);
#pragma unroll
    for (unsigned first = 0; first < kChunk * kChunk / 4; first += kThreads) {
      const unsigned x = first + thread;
      copy_async(memory + Memory::kGamma + x / 16 * (Memory::kPitch * 4) + x % 16 * 16,
                 coefficients + x * 16, true);
    }
    copy_piece<4 * kChunk * 4, kThreads>(memory + Memory::kGates, coefficients + kKeptGates * 4,
                                         thread);
    copy_commit();
    fetch_slice(Memory::kStatesAt, f.kept, 0);
    fetch_slice(Memory::kCotangentsAt, f.d_kept, 0);
    copy_commit();
  }

  /// d_W, d_L and what they meet; leaves w and l in tiles, and the cotangent of γ.
  __device__ __forceinline__ void inner_products() const {
    const RowMatrix q{memory + Memory::kQ}, k{memory + Memory::kK};
    const RowMatrix u{memory + Memory::kU};
    const TileMatrix<kChunk / 8> R{memory + Memory::kR}, X{memory + Memory::kX};
    float d_w[2][4] = {}, d_l[2][4] = {}, qk[2][4] = {}, kk[2][4] = {};
    if (column_warp <= row_warp) {
#pragma unroll
      for (int x = 0; x < V / 8; x += 2) {
        std::uint32_t a[4], b[4];
        R.template load_down<true>(b, x, 2 * column_warp, lane);
        u.template load_down<false>(a, 2 * row_warp, x, lane);
        multiply(d_w[0], a, b[0], b[1]), multiply(d_w[1], a, b[2], b[3]);
        X.template load_across<true>(a, x, 2 * row_warp, lane);
        multiply(d_l[0], a, b[0], b[1]), multiply(d_l[1], a, b[2], b[3]);
      }
#pragma unroll
      for (int x = 0; x < K / 8; x += 2) {
        std::uint32_t a[4], b[4];
        k.template load_across<false>(b, 2 * column_warp, x, lane);
        q.template load_down<false>(a, 2 * row_warp, x, lane);
        multiply(qk[0], a, b[0], b[1]), multiply(qk[1], a, b[2], b[3]);
        k.template load_down<false>(a, 2 * row_warp, x, lane);
        multiply(kk[0], a, b[0], b[1]), multiply(kk[1], a, b[2], b[3]);
      }
    }
    float of_alpha[2] = {}, below[2][4] = {};
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      float of_eta[2] = {};
      const int column = 16 * column_warp + 8 * n + 2 * i;
      if (column_warp <= row_warp) {
        const float eta[2] = {gate(3, column), gate(3, column + 1)};
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int row = 16 * row_warp + 8 * half + g;
          const float alpha = gate(0, row);
          const float2 here = *reinterpret_cast<const float2*>(&gamma(row, column));
          const float2 before =
              *reinterpret_cast<const float2*>(&gamma(row == 0 ? 0 : row - 1, column));
          float w[2], l[2], to_gamma[2];
#pragma unroll
          for (int y = 0; y < 2; ++y) {
            const int e = 2 * half + y;
            const bool inside = column + y <= row, strictly = column + y < row;
            const float to_w = inside ? p.scale * d_w[n][e] * eta[y] : 0.0f;
            const float to_l = strictly ? -d_l[n][e] * eta[y] : 0.0f;
            const float now = inside ? (y ? here.y : here.x) : 0.0f;
            const float above = strictly ? (y ? before.y : before.x) : 0.0f;
            w[y] = to_w * now, l[y] = to_l * alpha * above;
            to_gamma[y] = to_w * qk[n][e];
            below[n][e] = to_l * alpha * kk[n][e];
            const float of_l = to_l * above * kk[n][e];
            of_alpha[half] += of_l;
            if constexpr (momentum) {  // without the factor eta
              of_eta[y] += (inside ? p.scale * d_w[n][e] : 0.0f) * now * qk[n][e];
              of_eta[y] -= (strictly ? d_l[n][e] : 0.0f) * above * alpha * kk[n][e];
            }
          }
          const int tile = (2 * row_warp + half) * (kChunk / 8) + 2 * column_warp + n;
          const int offset = tile * kTileBytes + lane * 4;
          *reinterpret_cast<std::uint32_t*>(memory + Memory::kW + offset) = bf16_pair(w[0], w[1]);
          *reinterpret_cast<std::uint32_t*>(memory + Memory::kL + offset) = bf16_pair(l[0], l[1]);
          *reinterpret_cast<float2*>(&d_gamma(row, column)) = make_float2(to_gamma[0], to_gamma[1]);
        }
      }
      if constexpr (momentum) {
#pragma unroll
        for (int y = 0; y < 2; ++y) {
          const float sum = sum_rows(of_eta[y]);
          if (g == 0) part(7, row_warp, column + y) = sum;
        }
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = sum_columns(of_alpha[half]);
      if (i == 0) part(6, column_warp, 16 * row_warp + 8 * half + g) = sum;
    }
    __syncthreads();
    if (column_warp > row_warp) return;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = 16 * row_warp + 8 * (e >> 1) + g;
        const int column = 16 * column_warp + 8 * n + 2 * i + (e & 1);
        if (column < row) d_gamma(row - 1, column) += below[n][e];
      }
    }
  }

  /// The sum over a row of x times `rows`, this warp's share of it.
  __device__ __forceinline__ void add_dots(float (&sum)[2], const float (&x)[2][4],
                                           const RowMatrix& rows, int column_tile) const {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const std::uint32_t pair = rows.pair(2 * row_warp + half, column_tile + n, lane);
        sum[half] = fmaf(low_of(pair), x[n][2 * half], sum[half]);
        sum[half] = fmaf(high_of(pair), x[n][2 * half + 1], sum[half]);
      }
    }
  }
  /// out += factor[step] x
  __device__ __forceinline__ void add_rows(float (&out)[2][4], const float (&x)[2][4],
                                           const MdnVector which, float sign) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float factor = sign * vector(which, 16 * row_warp + 8 * half + g);
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        out[n][2 * half] = fmaf(factor, x[n][2 * half], out[n][2 * half]);
        out[n][2 * half + 1] = fmaf(factor, x[n][2 * half + 1], out[n][2 * half + 1]);
      }
    }
  }

  /// Where the rows of a gradient lie from some column on: by step, or by token.
  struct Out {
    char* first;
    std::int64_t time;
    const int* token;
    bool partial;

    __device__ __forceinline__ char* row(int t) const {
      return first + (token ? token[t] : t) * time;
    }
  };
  __device__ __forceinline__ Out out_rows(const MdnSink& to, int column,
                                          const MdnTable::Input* by_token = nullptr) const {
    if (to.partial) {
      const std::int64_t row = (at.batch * p.T + at.first) * p.H + at.head;
      return {reinterpret_cast<char*>(to.partial + row * to.width + column),
              std::int64_t{4} * p.H * to.width, nullptr, true};
    }
    if (!to.direct.data) return {nullptr, 0, nullptr, false};
    if (by_token && by_token->looked_up) {
      const MdnFound found = find_input(p.table, to.direct, *by_token, at.sequence, at.head);
      return {const_cast<char*>(found.data) + column * 2, found.time, p.table.token + at.first,
              false};
    }
    return {token_at(to.direct, at.batch, at.first, at.head) + column * 2, to.direct.time, nullptr,
            false};
  }
  __device__ __forceinline__ static void store_pair(const Out& to, char* row, int column, float x,
                                                    float y) {
    if (to.partial) {
      *reinterpret_cast<float2*>(row + column * 4) = make_float2(x, y);
    } else {
      *reinterpret_cast<std::uint32_t*>(row + column * 2) = bf16_pair(x, y);
    }
  }
  /// This warp's rows of a slice; `to` is of column 2 i.
  __device__ __forceinline__ void store_rows(const Out& to, const float (&x)[2][4],
                                             int column) const {
    if (!to.first) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int t = 16 * row_warp + 8 * half + g;
      if (t >= at.steps) continue;
      char* row = to.row(t);
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        store_pair(to, row, column + 8 * n, x[n][2 * half], x[n][2 * half + 1]);
      }
    }
  }

  __device__ __forceinline__ void values() const {
    const Out to = out_rows(p.d_v, 2 * i, &p.table.d_v);
    if (!to.first) return;
    const TileMatrix<kChunk / 8> X{memory + Memory::kX};
#pragma unroll
    for (int first = 0; first < kChunk / 8 * (V / 32); first += kThreads / 32) {
      const int x = first + thread / 32, tokens = x / (V / 32), v = x % (V / 32) * 4;
      std::uint32_t y[4];  // step g, columns 2i, 2i + 1 of four tiles
      load_tiles<true>(y, X.tile(v + (lane >> 3), tokens) + (lane & 7) * 16);
      if (8 * tokens + g >= at.steps) continue;
      char* row = to.row(8 * tokens + g);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        store_pair(to, row, 8 * (v + e), low_of(y[e]), high_of(y[e]));
      }
    }
  }

  /// R · d_X of each step, for gates that need it: without momentum, d_X is β times the cotangent
  /// of what is written.
  __device__ __forceinline__ void of_residuals() const {
    constexpr int kGroups = V / 32;
    const TileMatrix<kChunk / 8> R{memory + Memory::kR}, X{memory + Memory::kX};
#pragma unroll
    for (int first = 0; first < kChunk / 8 * 4; first += kThreads / 32) {
      const int x = first + thread / 32, tokens = x / 4, group = x % 4;
      float sum = 0;
      if (group < kGroups) {
        std::uint32_t r[4], d[4];
        load_tiles<true>(r, R.tile(4 * group + (lane >> 3), tokens) + (lane & 7) * 16);
        load_tiles<true>(d, X.tile(4 * group + (lane >> 3), tokens) + (lane & 7) * 16);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          sum = fmaf(low_of(r[e]), low_of(d[e]), sum);
          sum = fmaf(high_of(r[e]), high_of(d[e]), sum);
        }
      }
      sum = sum_columns(sum);
      if (i == 0) part(7, group, 8 * tokens + g) = sum;
    }
  }

  __device__ __forceinline__ void slice(int s, const Out& to_q, const Out& to_k,
                                        float (&dots)[6][2], float (&whole)[3]) const {
    const RowMatrix q{memory + Memory::kQ}, k{memory + Memory::kK};
    const RowMatrix u{memory + Memory::kU};
    const TileMatrix<kChunk / 8> R{memory + Memory::kR}, X{memory + Memory::kX};
    const TileMatrix<kChunk / 8> w{memory + Memory::kW}, l{memory + Memory::kL};
    const int column_tile = 8 * s + 2 * column_warp;
    float d_q[2][4] = {}, d_k[2][4] = {};
    const bool single = ASSAY_MDN_IS_FAULT(p, dk_single_path);
#pragma unroll
    for (int x = 0; x < kRowWarps; ++x) {
      std::uint32_t of_k[4], of_q[4], a[4];
      k.template load_down<true>(of_k, 2 * x, column_tile, lane);
      if (x <= row_warp) {
        w.template load_down<false>(a, 2 * row_warp, 2 * x, lane);
        multiply(d_q[0], a, of_k[0], of_k[1]), multiply(d_q[1], a, of_k[2], of_k[3]);
        l.template load_down<false>(a, 2 * row_warp, 2 * x, lane);
        multiply(d_k[0], a, of_k[0], of_k[1]), multiply(d_k[1], a, of_k[2], of_k[3]);
      }
      if (x >= row_warp) {
        q.template load_down<true>(of_q, 2 * x, column_tile, lane);
        w.template load_across<true>(a, 2 * x, 2 * row_warp, lane);
        multiply(d_k[0], a, of_q[0], of_q[1]), multiply(d_k[1], a, of_q[2], of_q[3]);
        if (single) continue;
        l.template load_across<true>(a, 2 * x, 2 * row_warp, lane);
        multiply(d_k[0], a, of_k[0], of_k[1]), multiply(d_k[1], a, of_k[2], of_k[3]);
      }
    }
    copy_wait<0>();
    __syncthreads();
    const TileMatrix<8> S{memory + Memory::kStatesAt};
    const TileMatrix<8> M{memory + Memory::kStatesAt + Memory::kSlice};
    const TileMatrix<8> d_S{memory + Memory::kCotangentsAt};
    const TileMatrix<8> d_M{memory + Memory::kCotangentsAt + Memory::kSlice};
#pragma unroll
    for (int first = 0; first < Memory::kSlice; first += kThreads * 16) {
      const auto take = [&](const TileMatrix<8>& from, std::uint32_t(&x)[4]) {
        const uint4 y = *reinterpret_cast<const uint4*>(from.base + first + thread * 16);
        x[0] = y.x, x[1] = y.y, x[2] = y.z, x[3] = y.w;
      };
      std::uint32_t y[4], z[4], m[4], d[4];
      take(d_S, y), take(S, z);
      if constexpr (momentum) take(M, m), take(d_M, d);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        whole[0] = fmaf(low_of(y[e]), low_of(z[e]), whole[0]);
        whole[0] = fmaf(high_of(y[e]), high_of(z[e]), whole[0]);
        if constexpr (momentum) {
          whole[1] = fmaf(low_of(y[e]), low_of(m[e]), whole[1]);
          whole[1] = fmaf(high_of(y[e]), high_of(m[e]), whole[1]);
          whole[2] = fmaf(low_of(d[e]), low_of(m[e]), whole[2]);
          whole[2] = fmaf(high_of(d[e]), high_of(m[e]), whole[2]);
        }
      }
    }
    {
      float u_S[2][4] = {}, u_M[2][4] = {}, x_S[2][4] = {}, x_M[2][4] = {};
#pragma unroll
      for (int v = 0; v < V / 8; v += 2) {
        std::uint32_t of_u[4], of_x[4], b[4];
        u.template load_down<false>(of_u, 2 * row_warp, v, lane);
        X.template load_across<true>(of_x, v, 2 * row_warp, lane);
        S.template load_down<true>(b, v, 2 * column_warp, lane);
        multiply(u_S[0], of_u, b[0], b[1]), multiply(u_S[1], of_u, b[2], b[3]);
        multiply(x_S[0], of_x, b[0], b[1]), multiply(x_S[1], of_x, b[2], b[3]);
        if constexpr (momentum) {
          M.template load_down<true>(b, v, 2 * column_warp, lane);
          multiply(u_M[0], of_u, b[0], b[1]), multiply(u_M[1], of_u, b[2], b[3]);
          multiply(x_M[0], of_x, b[0], b[1]), multiply(x_M[1], of_x, b[2], b[3]);
        }
      }
      add_dots(dots[0], u_S, q, column_tile);
      add_dots(dots[2], x_S, k, column_tile);
      add_rows(d_q, u_S, kDecay, p.scale), add_rows(d_k, x_S, kDecay, -1);
      if constexpr (momentum) {
        add_dots(dots[1], u_M, q, column_tile);
        add_dots(dots[3], x_M, k, column_tile);
        add_rows(d_q, u_M, kReadCarry, -p.scale), add_rows(d_k, x_M, kCarry, 1);
      }
    }
    const bool more = s + 1 < K / 64;
    if (more) {
      __syncthreads();
      fetch_slice(Memory::kStatesAt, f.kept, s + 1);
      copy_commit();
    }
    {
      float r_S[2][4] = {}, r_M[2][4] = {};
#pragma unroll
      for (int v = 0; v < V / 8; v += 2) {
        std::uint32_t a[4], b[4];
        R.template load_across<true>(a, v, 2 * row_warp, lane);
        d_S.template load_down<true>(b, v, 2 * column_warp, lane);
        multiply(r_S[0], a, b[0], b[1]), multiply(r_S[1], a, b[2], b[3]);
        if constexpr (momentum) {
          d_M.template load_down<true>(b, v, 2 * column_warp, lane);
          multiply(r_M[0], a, b[0], b[1]), multiply(r_M[1], a, b[2], b[3]);
        }
      }
      add_dots(dots[4], r_S, k, column_tile);
      add_rows(d_k, r_S, kWrite, 1);
      if constexpr (momentum) {
        add_dots(dots[5], r_M, k, column_tile);
        add_rows(d_k, r_M, kWriteMomentum, -1);
      }
    }
    if (more) {
      __syncthreads();
      fetch_slice(Memory::kCotangentsAt, f.d_kept, s + 1);
      copy_commit();
    }
    if (ASSAY_MDN_IS_FAULT(p, scale_missing_in_dq)) {
      for (auto& half : d_q) {
        for (float& x : half) x /= p.scale;
      }
    }
    store_rows(to_q, d_q, 8 * column_tile), store_rows(to_k, d_k, 8 * column_tile);
  }

  __device__ __forceinline__ void run() const {
    fetch();
    store_zeros<K, V, kThreads>(p, at, thread);
    copy_wait<1>();
    __syncthreads();
    inner_products();
    __syncthreads();
    values();
    if constexpr (!momentum) {
      if (!p.alpha.data) of_residuals();
    }
    float* out = f.cotangents + at.index * kCotangentFloats;
    for (int x = 4 * thread; x < kChunk * kChunk; x += 4 * kThreads) {  // upper: never read
      *reinterpret_cast<float4*>(out + x) =
          *reinterpret_cast<const float4*>(&d_gamma(x / kChunk, x % kChunk));
    }
    float dots[6][2] = {}, whole[3] = {};
    const Out to_q = out_rows(p.d_q, 2 * i), to_k = out_rows(p.d_k, 2 * i, &p.table.d_k);
#pragma unroll 1
    for (int s = 0; s < K / 64; ++s) slice(s, to_q, to_k, dots, whole);
#pragma unroll
    for (int x = 0; x < 6; ++x) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float sum = sum_columns(dots[x][half]);
        if (i == 0) part(x, column_warp, 16 * row_warp + 8 * half + g) = sum;
      }
    }
    float* sums = floats(Memory::kDGamma);  // no longer needed
    __syncthreads();
#pragma unroll
    for (int x = 0; x < 3; ++x) {
      const float sum = warp_sum(whole[x]);
      if (lane == 0) sums[x * 16 + thread / 32] = sum;
    }
    __syncthreads();
    if (thread < kChunk * 8) {
      const int which = thread / kChunk, t = thread % kChunk;
      float sum = 0;
      if (momentum || which != 7 || !p.alpha.data) {
        for (int group = 0; group < 4; ++group) sum += part(which, group, t);
      }
      out[kOfReadS + thread] = which < 2 ? p.scale * sum : sum;
    }
    if (thread < 3) {
      float sum = 0;
      for (int x = 0; x < 16; ++x) sum += sums[thread * 16 + x];
      out[kOfStates + thread] = sum;
    }
  }
};

template <bool momentum, int K, int V>
__device__ __forceinline__ void local_block(const MdnFast& f) {
  ASSAY_SHARED_MEMORY(memory);
  const MdnPlace at = place_of(f.p, blockIdx.x);
  if (at.steps == 0) return;
  const int thread = threadIdx.x, lane = thread & 31, warp = thread >> 5;
  const Local<momentum, K, V> local{f,    f.p,       memory,   at,       thread,
                                    lane, lane >> 2, lane & 3, warp & 3, warp >> 2};
  local.run();
}

}  // namespace assay::cuda

#define ASSAY_MDN_LOCAL(name, momentum, K, V)                                              \
  namespace assay::cuda {                                                                  \
  __global__ void __launch_bounds__(512, 1) mdn_local_kernel_                              \
      ##name(const __grid_constant__ MdnFast f) {                                          \
    local_block<momentum, K, V>(f);                                                        \
  }                                                                                        \
  cudaError_t mdn_local_##name(const MdnFast& f, cudaStream_t stream) {                    \
    return launch(mdn_local_kernel_##name, dim3(static_cast<unsigned>(f.p.places())), 512, \
                  LocalMemory<momentum, K, V>::kBytes, stream, f);                         \
  }                                                                                        \
  }
