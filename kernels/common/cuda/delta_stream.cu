// One step of many heads whose states are 64 x 64 or 128 x 128 numbers without gaps; the equations
// are those of delta_decode.hpp. Nothing is left to do but to move the states, so that blocks stay
// on their multiprocessor: states of the next heads arrive in shared memory while this one's is
// changed in registers and stored. A warp of its own supplies q, k, v and gates, and stores o.
#include <type_traits>

#include "kernels/common/cuda/bulk.cuh"
#include "kernels/common/cuda/delta_decode.cuh"

namespace assay::cuda {

namespace {

template <int states_, int D_, Layout layout_>
struct StreamShape {
  static constexpr int states = states_, D = D_;
  static constexpr Layout layout = layout_;
  using Piece = std::conditional_t<layout == Layout::fp32, float4, uint2>;  // four columns
  static constexpr int unit = layout == Layout::fp32 ? 4 : 2, bytes = D * D * unit;
  static constexpr int warps = 8, workers = 32 * warps, threads = workers + 32;
  static constexpr int lanes = D / 4;                // threads of a row, four columns each
  static constexpr int together = workers / lanes;   // rows of the block at a time
  static constexpr int rows = D / together;          // of a thread
  static constexpr bool whole = bytes == 64 * 1024;  // shared memory has room for three
  static constexpr int stages = whole ? 3 : states == 2 ? 4 : D == 64 ? 3 : 2;
  static constexpr int blocks = whole ? 1 : D == 64 ? 4 - states : 3 - states;
};

template <Layout>
__device__ __forceinline__ Four four_of(const float4& x) {
  return {{x.x, x.y, x.z, x.w}};
}
template <Layout layout>
__device__ __forceinline__ Four four_of(const uint2& bits) {
  constexpr DType kFormat = format_of(layout);
  return unpack_four(bits, kFormat);
}

template <class Shape>
struct StreamScratch {
  // Of this unit and of the next.
  float4 written[2][Shape::together][Shape::lanes], read[2][Shape::together][Shape::lanes];
  float2 qk[2][Shape::D];
  float v[2][Shape::D];
  float alpha[2], mu[2], beta[2], eta[2];
  BulkCounter arrived[Shape::stages];
};

template <class Shape>
struct Stream {
  static constexpr int states = Shape::states, D = Shape::D, rows = Shape::rows;
  using Scratch = StreamScratch<Shape>;
  static constexpr int kBytes = Shape::stages * Shape::bytes + static_cast<int>(sizeof(Scratch));

  const DecodeParams& p;
  char* stage;
  Scratch& s;
  int units, lane;

  __device__ __forceinline__ Stream(const DecodeParams& params, char* memory, unsigned count)
      : p(params),
        stage(memory),
        s(*reinterpret_cast<Scratch*>(memory + Shape::stages * Shape::bytes)) {
    units = static_cast<int>((count - blockIdx.x + gridDim.x - 1) / gridDim.x);
    lane = threadIdx.x % 32;
  }

  /// A sequence and head, of this block's unit i.
  struct Place {
    std::int64_t sequence;
    int head;
  };
  __device__ __forceinline__ Place place(int i) const {
    const unsigned unit = blockIdx.x + static_cast<unsigned>(i) * gridDim.x;
    const unsigned sequence = unit / static_cast<unsigned>(p.H);
    return {sequence, static_cast<int>(unit - sequence * static_cast<unsigned>(p.H))};
  }
  static __device__ __forceinline__ char* state_at(const Strided& x, const Place& at) {
    return x.data + at.sequence * x.batch + at.head * x.head;
  }
  static __device__ __forceinline__ char* token_at(const Strided& x, const Place& at) {
    return x.data + at.sequence * x.batch + shared_head(at.head, x) * x.head;
  }

  /// Starts the copy of the n-th state of this block.
  __device__ __forceinline__ void fetch(int n) const {
    if (n >= units * states) return;
    const Strided& x = n % states == 0 ? p.s0 : p.m0;
    const int to = n % Shape::stages;
    bulk_load(stage + to * Shape::bytes, state_at(x, place(n / states)), Shape::bytes,
              &s.arrived[to]);
  }

  // ---- The warp that supplies -------------------------------------------------------------------

  /// What a unit reads besides its states, as it lies in memory.
  struct Vectors {
    std::uint32_t q[D / 32], k[D / 32], v[D / 32], alpha, mu, beta, eta, q_correction;
  };
  __device__ __forceinline__ void load_row(std::uint32_t (&bits)[D / 32], const Strided& x,
                                           const Place& at) const {
    const char* from = token_at(x, at) + lane * x.column;
#pragma unroll
    for (int e = 0; e < D / 32; ++e) bits[e] = load_bits(from + 32 * e * x.column, x.dtype);
  }
  __device__ __forceinline__ double norm_of(const float (&x)[D / 32]) const {
    double sum = 0;  // squares of the smallest and the largest numbers of fp32 are beyond it
#pragma unroll
    for (int e = 0; e < D / 32; ++e) sum += static_cast<double>(x[e]) * x[e];
    return sqrt(warp_sum(sum) + p.eps);
  }

  __device__ __forceinline__ Vectors request(int i) const {
    Vectors x = {};
    if (i >= units) return x;
    const Place at = place(i);
    const auto bits_of = [&](const Strided& gate) {
      return gate.data ? load_bits(token_at(gate, at), gate.dtype) : 0u;
    };
    load_row(x.q, p.q, at), load_row(x.k, p.k, at), load_row(x.v, p.v, at);
    x.alpha = bits_of(p.alpha), x.beta = bits_of(p.beta);
    if (states == 2) x.mu = bits_of(p.mu), x.eta = bits_of(p.eta);
    const Strided& d = p.q_correction;
    if (d.data) x.q_correction = load_bits(d.data + shared_head(at.head, d) * d.head, d.dtype);
    return x;
  }

  __device__ __forceinline__ void deliver(int i, const Vectors& x) const {
    if (i >= units) return;
    const float q_correction = element_of_bits(x.q_correction, p.q_correction.dtype);
    float q[D / 32], k[D / 32];
#pragma unroll
    for (int e = 0; e < D / 32; ++e) {
      k[e] = element_of_bits(x.k[e], p.k.dtype);
      q[e] = element_of_bits(x.q[e], p.q.dtype) - q_correction * k[e];
    }
    if (p.normalise) {
      const double of_q = norm_of(q), of_k = norm_of(k);
#pragma unroll
      for (int e = 0; e < D / 32; ++e) {
        q[e] = static_cast<float>(q[e] / of_q), k[e] = static_cast<float>(k[e] / of_k);
      }
    }
    const int slot = i & 1;
#pragma unroll
    for (int e = 0; e < D / 32; ++e) {
      s.qk[slot][lane + 32 * e] = make_float2(q[e], k[e]);
      s.v[slot][lane + 32 * e] = element_of_bits(x.v[e], p.v.dtype);
    }
    const auto gate = [](const Strided& of, std::uint32_t bits, bool is_log) {
      if (!of.data) return 1.0f;
      const float g = element_of_bits(bits, of.dtype);
      return is_log ? expf(g) : g;
    };
    if (lane != 0) return;
    s.alpha[slot] = gate(p.alpha, x.alpha, p.alpha_is_log);
    s.beta[slot] = gate(p.beta, x.beta, false);
    s.mu[slot] = gate(p.mu, x.mu, p.mu_is_log), s.eta[slot] = gate(p.eta, x.eta, false);
  }

  __device__ __forceinline__ void store_read(int i) const {
    if (i < 0 || !p.o.data) return;
    char* to = token_at(p.o, place(i));
#pragma unroll
    for (int e = 0; e < D / 32; ++e) {
      const int column = lane + 32 * e;
      float sum = 0;
#pragma unroll
      for (int g = 0; g < Shape::together; ++g) {
        sum += reinterpret_cast<const float*>(s.read[i & 1][g])[column];
      }
      store_element(to + column * p.o.column, p.o.dtype, p.scale * sum);
    }
  }

  __device__ __forceinline__ void supply() const {
    deliver(0, request(0));
    Vectors next = request(1);  // a unit's time ahead: memory is busy, and answers late
    for (int i = 0; i < units; ++i) {
      __syncthreads();
      sync_threads(1, Shape::threads);  // for nothing but that all take part in every barrier
      deliver(i + 1, next);
      next = request(i + 2);
      store_read(i - 1);
    }
    __syncthreads();
    store_read(units - 1);
  }

  // ---- The warps that work ----------------------------------------------------------------------

  __device__ __forceinline__ void take(int n, int group, int at, Four (&to)[rows]) const {
    bulk_wait(&s.arrived[n % Shape::stages], n / Shape::stages & 1);
    const char* from =
        stage + n % Shape::stages * Shape::bytes + (group * D + 4 * at) * Shape::unit;
#pragma unroll
    for (int i = 0; i < rows; ++i, from += Shape::together * D * Shape::unit) {
      to[i] = four_of<Shape::layout>(*reinterpret_cast<const typename Shape::Piece*>(from));
    }
  }
  __device__ __forceinline__ void store_row(const Strided& x, char* head, int row, int at,
                                            const Four& value) const {
    if (!x.data) return;
    store_columns<Shape::layout>(head + row * x.row + 4 * at * x.column, x.column, x.dtype, 4,
                                 value);
  }

  __device__ __forceinline__ void work() const {
    const int group = threadIdx.x / Shape::lanes, at = threadIdx.x % Shape::lanes;
    if (threadIdx.x == 0) {
      for (int n = 0; n < Shape::stages; ++n) fetch(n);
    }
    for (int unit = 0; unit < units; ++unit) {
      const int slot = unit & 1;
      const Place here = place(unit);
      __syncthreads();
      const float alpha = s.alpha[slot], mu = s.mu[slot], beta = s.beta[slot], eta = s.eta[slot];
      Four S[rows], M[states == 2 ? rows : 1];
      take(unit * states, group, at, S);
      if constexpr (states == 2) take(unit * states + 1, group, at, M);
      float sum[4] = {};
#pragma unroll
      for (int i = 0; i < rows; ++i) {
        const float k = s.qk[slot][i * Shape::together + group].y;
        const float key = states == 2 ? alpha * k : k;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          if (states == 1) S[i].x[e] *= alpha;
          sum[e] += S[i].x[e] * key;
        }
      }
      s.written[slot][group][at] = make_float4(sum[0], sum[1], sum[2], sum[3]);
      sync_threads(1, Shape::threads);
      if (threadIdx.x == 0) {
        for (int n = 0; n < states; ++n) fetch(unit * states + n + Shape::stages);
      }
      float written[4] = {}, r[4];
#pragma unroll
      for (int g = 0; g < Shape::together; ++g) {
        const float4 x = s.written[slot][g][at];
        written[0] += x.x, written[1] += x.y, written[2] += x.z, written[3] += x.w;
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        r[e] = (states == 2 ? eta : beta) * (s.v[slot][4 * at + e] - written[e]), sum[e] = 0;
      }
      char *S_to = state_at(p.s_final, here), *M_to = state_at(p.m_final, here);
#pragma unroll
      for (int i = 0; i < rows; ++i) {
        const int row = i * Shape::together + group;
        const float2 qk = s.qk[slot][row];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          if constexpr (states == 2) {
            M[i].x[e] = mu * M[i].x[e] - qk.y * r[e];
            S[i].x[e] = alpha * S[i].x[e] - beta * M[i].x[e];
          } else {
            S[i].x[e] += qk.y * r[e];
          }
          sum[e] += S[i].x[e] * qk.x;
        }
        store_row(p.s_final, S_to, row, at, S[i]);
        if constexpr (states == 2) store_row(p.m_final, M_to, row, at, M[i]);
      }
      s.read[slot][group][at] = make_float4(sum[0], sum[1], sum[2], sum[3]);
    }
    __syncthreads();
  }
};

template <class Shape>
__global__ void __launch_bounds__(Shape::threads, Shape::blocks)
    delta_stream_kernel(const __grid_constant__ DecodeParams p, unsigned units) {
  ASSAY_SHARED_MEMORY(memory);
  const Stream<Shape> stream(p, memory, units);
  if (threadIdx.x == 0) bulk_prepare(stream.s.arrived, Shape::stages);
  __syncthreads();
  if (threadIdx.x >= Shape::workers) {
    stream.supply();
  } else {
    stream.work();
  }
}

cudaError_t multiprocessors(int* count) {
  int device = 0;
  const cudaError_t e = cudaGetDevice(&device);
  return e == cudaSuccess ? cudaDeviceGetAttribute(count, cudaDevAttrMultiProcessorCount, device)
                          : e;
}

/// No gaps within a state, and every state begins at a multiple of 16 bytes.
bool is_dense(const Strided& x, int D) {
  return x.row == D * x.column && x.head % 16 == 0 && x.batch % 16 == 0 &&
         reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0;
}

template <int states, Layout layout>
cudaError_t launch_width(const DecodeParams& p, unsigned units, int count, cudaStream_t stream) {
  const auto start = [&](auto shape) {
    using Shape = decltype(shape);
    const unsigned grid = static_cast<unsigned>(count * Shape::blocks);
    return launch(delta_stream_kernel<Shape>, dim3(units < grid ? units : grid), Shape::threads,
                  Stream<Shape>::kBytes, stream, p, units);
  };
  return p.K == 64 ? start(StreamShape<states, 64, layout>{})
                   : start(StreamShape<states, 128, layout>{});
}

template <int states>
cudaError_t launch_layout(const DecodeParams& p, Layout layout, unsigned units, int count,
                          cudaStream_t stream) {
  switch (layout) {
    case Layout::fp32:
      return launch_width<states, Layout::fp32>(p, units, count, stream);
    case Layout::bf16:
      return launch_width<states, Layout::bf16>(p, units, count, stream);
    default:
      return launch_width<states, Layout::fp16>(p, units, count, stream);
  }
}

}  // namespace

bool stream_applies(const DecodeParams& p) {
  if (p.T != 1 || p.cu_seqlens || p.made.given || p.K != p.V || (p.K != 64 && p.K != 128)) {
    return false;
  }
  if (!p.s0.data || !is_dense(p.s0, p.K)) return false;
  if (p.momentum && (!p.m0.data || !is_dense(p.m0, p.K))) return false;
  if (layout_of({&p.s0, &p.m0, &p.s_final, &p.m_final}, p.V) == Layout::any) return false;
  int count = 0;
  if (multiprocessors(&count) != cudaSuccess) return false;
  // With less than some units for each block, more of them at a time are better.
  return p.sequences * p.H >= 4 * count && p.sequences * p.H < 1 << 30;
}

cudaError_t launch_stream(const DecodeParams& p, cudaStream_t stream) {
  int count = 0;
  if (const cudaError_t e = multiprocessors(&count)) return e;
  const unsigned units = static_cast<unsigned>(p.sequences * p.H);
  const Layout layout = layout_of({&p.s0, &p.m0, &p.s_final, &p.m_final}, p.V);
  return p.momentum ? launch_layout<2>(p, layout, units, count, stream)
                    : launch_layout<1>(p, layout, units, count, stream);
}

}  // namespace assay::cuda
