// Dispatch and combination of Mixture-of-Memories on the device; see mom_cuda.hpp. Each warp has a
// row: sums are made in the same order in every run.
#include <algorithm>

#include "kernels/common/cuda/device.cuh"
#include "kernels/common/cuda/four.cuh"
#include "kernels/common/cuda/items.cuh"
#include "kernels/mom/mom_cuda.hpp"

namespace assay::cuda {

namespace {

constexpr int kWarpsOfBlock = 8, kBlock = 32 * kWarpsOfBlock;
constexpr int kInFlight = 4;  // loads of 16 bytes by a lane before the first store
constexpr int kWeighedSlots = 4;

unsigned warp_blocks(std::int64_t rows) {
  const std::int64_t blocks = (rows + kWarpsOfBlock - 1) / kWarpsOfBlock;
  return static_cast<unsigned>(blocks < 1 << 20 ? blocks : 1 << 20);
}
__device__ __forceinline__ std::int64_t first_warp() {
  return blockIdx.x * std::int64_t{kWarpsOfBlock} + threadIdx.x / 32;
}
__device__ __forceinline__ std::int64_t warp_stride() {
  return std::int64_t{gridDim.x} * kWarpsOfBlock;
}
__device__ __forceinline__ int unit_of(DType dtype) { return dtype == DType::f32 ? 4 : 2; }
__device__ __forceinline__ int lane_of_warp() { return threadIdx.x % 32; }

__device__ __forceinline__ char* row_of_token(const MomField::Side& side, const Routing& r,
                                              std::int64_t token, int memory) {
  const std::int64_t b = token / r.T, t = token % r.T;
  return side.tensor.data + b * side.tensor.batch + t * side.tensor.time + memory * side.to_memory;
}
__device__ __forceinline__ char* packed_row(const MomField& f, std::int64_t row) {
  return f.packed + row * f.heads * f.width * unit_of(f.dtype);
}

/// Lanes of a warp that have a row together, and which of them this one is.
struct Lanes {
  int lane, count;
};
__device__ __forceinline__ Lanes whole_warp() { return {lane_of_warp(), 32}; }

/// Copies a row of 16-byte pieces, or stores zeros where it comes from nowhere.
__device__ void copy_flat(const char* from, char* to, std::int64_t bytes, Lanes of) {
  const std::int64_t pieces = bytes / 16;
  for (std::int64_t first = of.lane; first < pieces; first += of.count * kInFlight) {
    uint4 x[kInFlight] = {};
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      if (from && first + of.count * i < pieces) {
        x[i] = __ldcs(reinterpret_cast<const uint4*>(from) + first + of.count * i);
      }
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      if (first + of.count * i < pieces) {
        reinterpret_cast<uint4*>(to)[first + of.count * i] = x[i];
      }
    }
  }
}

__device__ void gather_row(const MomField& f, const Routing& r, std::int64_t token, int memory,
                           std::int64_t row) {
  const bool of_shared = memory == r.M;
  const MomField::Side& side = of_shared ? f.shared : f.mem;
  char* to = packed_row(f, row);
  const int elements = f.heads * f.width, unit = unit_of(f.dtype);
  if (side.flat) {
    return copy_flat(row_of_token(side, r, token, memory), to, elements * unit, whole_warp());
  }
  const char* from = side.tensor.data ? row_of_token(side, r, token, memory) : nullptr;
  const int repeat = f.heads / side.heads;
  for (int i = lane_of_warp(); i < elements; i += 32) {
    const int h = i / f.width / repeat, column = i % f.width;
    const float x = from ? load_element(from + h * side.tensor.head + column * side.tensor.column,
                                        side.tensor.dtype)
                         : f.missing;
    store_element(to + i * unit, f.dtype, x);
  }
}

__global__ void __launch_bounds__(kBlock) gather_kernel(const __grid_constant__ MomFields f) {
  const Routing& r = f.routing;
  for (std::int64_t at = first_warp(); at < r.rows(); at += warp_stride()) {
    const std::int64_t token = at / r.slots();
    const int memory = r.memory[at];
    for (int i = 0; i < f.count; ++i) gather_row(f.field[i], r, token, memory, r.row[at]);
  }
}

__device__ void scatter_row(const MomField& f, const Routing& r, std::int64_t token, int memory,
                            std::int64_t row, Lanes of) {
  const MomField::Side& side = memory == r.M ? f.shared : f.mem;
  if (!side.tensor.data) return;
  char* to = row_of_token(side, r, token, memory);
  const char* from = row < 0 ? nullptr : packed_row(f, row);
  const int unit = unit_of(f.dtype);
  if (side.flat) return copy_flat(from, to, f.heads * f.width * unit, of);
  const int repeat = f.heads / side.heads;
  for (int i = of.lane; i < side.heads * f.width; i += of.count) {
    const int h = i / f.width, column = i % f.width;
    float sum = 0;
    for (int j = 0; from && j < repeat; ++j) {
      sum += load_element(from + ((h * repeat + j) * f.width + column) * unit, f.dtype);
    }
    store_element(to + h * side.tensor.head + column * side.tensor.column, side.tensor.dtype, sum);
  }
}

/// `lanes` lanes for each token and memory, selected or not.
__global__ void __launch_bounds__(kBlock)
    scatter_kernel(const __grid_constant__ MomFields f, int lanes) {
  const Routing& r = f.routing;
  const int R = r.R(), slots = r.slots(), each = kBlock / lanes;
  const int thread = threadIdx.x;
  const Lanes of{thread % lanes, lanes};
  for (std::int64_t at = blockIdx.x * std::int64_t{each} + thread / lanes; at < r.tokens() * R;
       at += std::int64_t{gridDim.x} * each) {
    const std::int64_t token = at / R;
    const int memory = static_cast<int>(at - token * R);
    std::int64_t row = -1;
    for (int j = 0; j < slots; ++j) {
      if (r.memory[token * slots + j] == memory) row = r.row[token * slots + j];
    }
    for (int i = 0; i < f.count; ++i) scatter_row(f.field[i], r, token, memory, row, of);
  }
}

/// A power of two: as many as the widest row has pieces, or a warp.
int lanes_to_scatter(const MomFields& f) {
  std::int64_t widest = 1;
  for (int i = 0; i < f.count; ++i) {
    const MomField& field = f.field[i];
    for (const MomField::Side* side : {&field.mem, &field.shared}) {
      const std::int64_t elements = std::int64_t{side->heads} * field.width;
      const bool flat = side->flat;
      if (!side->tensor.given) continue;
      widest = std::max(widest, flat ? elements * bytes_of(field.dtype) / 16 : elements);
    }
  }
  int lanes = 1;
  while (lanes < 32 && lanes < widest) lanes *= 2;
  return lanes;
}

// ---- What is read ------------------------------------------------------------------------------

__device__ __forceinline__ std::int64_t summed_row(const Routing& r, std::int64_t at) {
  return r.row ? r.row[at] : at;
}

template <DType format>
__device__ __forceinline__ void load_some(const char* from, float (&x)[1]) {
  x[0] = load_element(from, format);
}
template <DType format>
__device__ __forceinline__ void load_some(const char* from, float (&x)[4]) {
  const Four y = load_four(from, format);
#pragma unroll
  for (int e = 0; e < 4; ++e) x[e] = y.x[e];
}
/// Of a 16-bit format.
template <DType format>
__device__ __forceinline__ void load_some(const char* from, float (&x)[8]) {
  const uint4 bits = __ldcs(reinterpret_cast<const uint4*>(from));
  const Four y = unpack_four(make_uint2(bits.x, bits.y), format);
  const Four z = unpack_four(make_uint2(bits.z, bits.w), format);
#pragma unroll
  for (int e = 0; e < 4; ++e) x[e] = y.x[e], x[e + 4] = z.x[e];
}

constexpr int kTogether = 2;  // tokens of a block: more loads in flight

/// `step` elements at a time. The compiler knows the format, so loads do not wait for each other.
template <int step, DType format>
__global__ void __launch_bounds__(kBlock, 4) combine_kernel(const __grid_constant__ MomSum s) {
  const Routing& r = s.routing;
  const int slots = r.slots(), unit = unit_of(s.out.dtype), packed_unit = unit_of(format);
  const std::int64_t tokens = r.tokens(), blocks = (tokens + kTogether - 1) / kTogether;
  // From the last: those rows are still in the cache.
  for (std::int64_t left = blocks - 1 - blockIdx.x; left >= 0; left -= gridDim.x) {
    const std::int64_t first = left * kTogether;
    for (std::int64_t c = threadIdx.x * step; c < s.width; c += blockDim.x * step) {
      float sum[kTogether][step] = {};
#pragma unroll 2
      for (int j = 0; j < slots; ++j) {
        float x[kTogether][step], w[kTogether];
#pragma unroll
        for (int y = 0; y < kTogether; ++y) {
          const std::int64_t at = min(first + y, tokens - 1) * slots + j;
          w[y] = s.weighted ? r.weight[at] : 1.0f;
          load_some<format>(s.packed + (summed_row(r, at) * s.width + c) * packed_unit, x[y]);
        }
#pragma unroll
        for (int e = 0; e < kTogether * step; ++e) {
          sum[e / step][e % step] += w[e / step] * x[e / step][e % step];
        }
      }
#pragma unroll
      for (int y = 0; y < kTogether; ++y) {
        if (first + y >= tokens) break;
        char* to = s.out.data + ((first + y) * s.width + c) * unit;
        if constexpr (step == 1) {
          store_element(to, s.out.dtype, sum[y][0]);
        } else {
#pragma unroll
          for (int e = 0; e < step; e += 4) {
            store_four(to + e * unit, s.out.dtype,
                       {{sum[y][e], sum[y][e + 1], sum[y][e + 2], sum[y][e + 3]}});
          }
        }
      }
    }
  }
}

__device__ __forceinline__ const char* cotangent_row(const MomReadOut& o, std::int64_t token) {
  const Routing& r = o.routing;
  return o.d_o.data + token / r.T * o.d_o.batch + token % r.T * o.d_o.time;
}
__device__ __forceinline__ float cotangent(const MomReadOut& o, const char* row, int i) {
  return load_element(row + i / o.V * o.d_o.head + i % o.V * o.d_o.column, o.d_o.dtype);
}

/// Four elements from 4 i on, of a row that lies without gaps.
__device__ __forceinline__ Four four_cotangents(const MomReadOut& o, const char* row, int i) {
  return load_four(row + i * 4 * unit_of(o.d_o.dtype), o.d_o.dtype);
}

/// Pieces of 16 bytes at a time: `first`, and those a warp further on; zeros behind the last.
struct Pieces {
  uint4 x[kInFlight] = {};

  __device__ __forceinline__ Pieces(const char* row, int first, int pieces) {
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      if (first + 32 * i < pieces)
        x[i] = __ldcs(reinterpret_cast<const uint4*>(row) + first + 32 * i);
    }
  }
  __device__ __forceinline__ void get(int i, float (&out)[8]) const {
    const Four low = unpack_four(make_uint2(x[i].x, x[i].y), DType::bf16);
    const Four high = unpack_four(make_uint2(x[i].z, x[i].w), DType::bf16);
#pragma unroll
    for (int e = 0; e < 4; ++e) out[e] = low.x[e], out[e + 4] = high.x[e];
  }
};

/// A warp for each token: its row of d_o is read once.
__global__ void __launch_bounds__(kBlock)
    spread_eights_kernel(const __grid_constant__ MomReadOut o) {
  const Routing& r = o.routing;
  const int pieces = o.H * o.V / 8, slots = r.slots();
  for (std::int64_t token = first_warp(); token < r.tokens(); token += warp_stride()) {
    const char* from = cotangent_row(o, token);
    for (int first = lane_of_warp(); first < pieces; first += 32 * kInFlight) {
      const Pieces read(from, first, pieces);
      for (int j = 0; j < slots; ++j) {
        const std::int64_t at = token * slots + j;
        uint4* to = reinterpret_cast<uint4*>(o.d_packed) + std::int64_t{r.row[at]} * pieces;
        const float w = r.weight[at];
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
          if (first + 32 * i >= pieces) continue;
          float x[8];
          read.get(i, x);
          std::uint32_t out[4];
#pragma unroll
          for (int e = 0; e < 4; ++e)
            out[e] = pack_two(w * x[2 * e], w * x[2 * e + 1], DType::bf16);
          to[first + 32 * i] = make_uint4(out[0], out[1], out[2], out[3]);
        }
      }
    }
  }
}

__global__ void __launch_bounds__(kBlock) spread_kernel(const __grid_constant__ MomReadOut o) {
  const Routing& r = o.routing;
  const int elements = o.H * o.V, unit = unit_of(o.d_dtype);
  for (std::int64_t at = first_warp(); at < r.rows(); at += warp_stride()) {
    const char* from = cotangent_row(o, at / r.slots());
    char* to = o.d_packed + std::int64_t{r.row[at]} * elements * unit;
    const float w = r.weight[at];
    for (int i = lane_of_warp(); o.flat && i < elements / 4; i += 32) {
      Four x = four_cotangents(o, from, i);
      for (float& e : x.x) e *= w;
      store_four(to + 4 * i * unit, o.d_dtype, x);
    }
    for (int i = lane_of_warp(); !o.flat && i < elements; i += 32) {
      store_element(to + i * unit, o.d_dtype, w * cotangent(o, from, i));
    }
  }
}

/// Σ d_o · read over a row, this lane's part.
__device__ __forceinline__ float weigh_eights(const char* d_o, const char* read, int pieces) {
  float sum = 0;
  for (int first = lane_of_warp(); first < pieces; first += 32 * kInFlight) {
    const Pieces a(d_o, first, pieces), b(read, first, pieces);
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      float x[8], y[8];
      a.get(i, x), b.get(i, y);
#pragma unroll
      for (int e = 0; e < 8; ++e) sum += x[e] * y[e];
    }
  }
  return sum;
}

template <bool eights>
__global__ void __launch_bounds__(kBlock) weigh_kernel(const __grid_constant__ MomReadOut o) {
  const Routing& r = o.routing;
  const int elements = o.H * o.V;
  for (std::int64_t at = first_warp(); at < r.tokens() * r.top_k; at += warp_stride()) {
    const std::int64_t token = at / r.top_k, slot = token * r.slots() + at % r.top_k;
    const char* d_o = cotangent_row(o, token);
    const int unit = unit_of(o.dtype);
    const char* read = o.packed + std::int64_t{r.row[slot]} * elements * unit;
    float sum = 0;
    if constexpr (eights) {
      sum = weigh_eights(d_o, read, elements / 8);
    } else {
      for (int i = lane_of_warp(); o.flat && i < elements / 4; i += 32) {
        const Four x = four_cotangents(o, d_o, i);
        const Four y = load_four(read + 4 * i * unit, o.dtype);
        sum += x.x[0] * y.x[0] + x.x[1] * y.x[1] + (x.x[2] * y.x[2] + x.x[3] * y.x[3]);
      }
      for (int i = lane_of_warp(); !o.flat && i < elements; i += 32) {
        sum += cotangent(o, d_o, i) * load_element(read + i * unit, o.dtype);
      }
    }
    sum = warp_sum(sum);
    if (lane_of_warp() == 0) o.d_weight[slot] = sum;
  }
}

/// d_logit_m = g_m (d_g_m - Σ g d_g) for selected m, 0 otherwise.
__device__ __forceinline__ void store_d_logit(const MomReadOut& o, std::int64_t token, int m,
                                              float x) {
  char* out = o.d_logits.data + token / o.routing.T * o.d_logits.batch +
              token % o.routing.T * o.d_logits.time;
  store_element(out + m * o.d_logits.column, o.d_logits.dtype, x);
}

/// combine, weigh and the gradient of the logits in one: a warp for each token, which reads each
/// row once. Of up to kWeighedSlots slots, all rows in pieces of 16 bytes.
__global__ void __launch_bounds__(kBlock, 2)
    read_out_kernel(const __grid_constant__ MomReadOut o, const __grid_constant__ MomSum s) {
  const Routing& r = o.routing;
  const int pieces = o.H * o.V / 8, slots = r.slots(), unit = unit_of(s.out.dtype);
  for (std::int64_t left = r.tokens() - 1 - first_warp(); left >= 0; left -= warp_stride()) {
    const std::int64_t token = left;
    const char* d_o = cotangent_row(o, token);
    float weight[kWeighedSlots] = {}, d_weight[kWeighedSlots] = {};
    const char* row[kWeighedSlots] = {};
#pragma unroll
    for (int j = 0; j < kWeighedSlots; ++j) {
      if (j >= slots) continue;
      weight[j] = r.weight[token * slots + j];
      row[j] = s.packed + std::int64_t{r.row[token * slots + j]} * pieces * 16;
    }
    for (int first = lane_of_warp(); first < pieces; first += 32 * kInFlight) {
      const Pieces cotangents(d_o, first, pieces);
      float sum[kInFlight][8] = {};
#pragma unroll
      for (int j = 0; j < kWeighedSlots; ++j) {
        if (j >= slots) continue;
        const Pieces read(row[j], first, pieces);
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
          float x[8], d[8];
          read.get(i, x), cotangents.get(i, d);
#pragma unroll
          for (int e = 0; e < 8; ++e) {
            sum[i][e] += weight[j] * x[e];
            d_weight[j] += d[e] * x[e];
          }
        }
      }
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        if (first + 32 * i >= pieces) continue;
        char* to = s.out.data + (token * s.width + std::int64_t{first + 32 * i} * 8) * unit;
#pragma unroll
        for (int e = 0; e < 8; e += 4) {
          store_four(to + e * unit, s.out.dtype,
                     {{sum[i][e], sum[i][e + 1], sum[i][e + 2], sum[i][e + 3]}});
        }
      }
    }
    float mean = 0;
#pragma unroll
    for (int j = 0; j < kWeighedSlots; ++j) {
      d_weight[j] = warp_sum(d_weight[j]);
      if (j < r.top_k) mean += weight[j] * d_weight[j];
    }
    for (int m = lane_of_warp(); m < r.M; m += 32) {
      float d_logit = 0;
#pragma unroll
      for (int j = 0; j < kWeighedSlots; ++j) {
        if (j < r.top_k && r.memory[token * slots + j] == m) {
          d_logit = weight[j] * (d_weight[j] - mean);
        }
      }
      store_d_logit(o, token, m, d_logit);
    }
  }
}

__global__ void __launch_bounds__(kItemThreads)
    logits_kernel(const __grid_constant__ MomReadOut o) {
  const Routing& r = o.routing;
  for (std::int64_t token = first_item(); token < r.tokens(); token += item_stride()) {
    for (int m = 0; m < r.M; ++m) store_d_logit(o, token, m, 0.0f);
    if (!o.d_o.data) continue;
    const std::int64_t first = token * r.slots();
    float mean = 0;
    for (int j = 0; j < r.top_k; ++j) mean += r.weight[first + j] * o.d_weight[first + j];
    for (int j = 0; j < r.top_k; ++j) {
      store_d_logit(o, token, r.memory[first + j],
                    r.weight[first + j] * (o.d_weight[first + j] - mean));
    }
  }
}

__global__ void copy_states_kernel(const __grid_constant__ MomStates s) {
  std::int64_t items = 1;
  for (const std::int64_t n : s.shape) items *= n;
  const int unit = unit_of(s.dtype);
  for (std::int64_t at = first_item(); at < items; at += item_stride()) {
    std::int64_t rest = at, offset = 0;
    for (int a = 4; a >= 0; --a) {
      offset += rest % s.shape[a] * s.stride[a];
      rest /= s.shape[a];
    }
    if (unit == 4) {
      reinterpret_cast<float*>(s.to)[at] = reinterpret_cast<const float*>(s.from)[offset];
    } else {
      reinterpret_cast<std::uint16_t*>(s.to)[at] =
          reinterpret_cast<const std::uint16_t*>(s.from)[offset];
    }
  }
}

}  // namespace

cudaError_t gather(const MomFields& f, cudaStream_t stream) {
  if (f.count == 0) return cudaSuccess;
  return launch(gather_kernel, dim3(warp_blocks(f.routing.rows())), kBlock, 0, stream, f);
}

cudaError_t scatter(const MomFields& f, cudaStream_t stream) {
  if (f.count == 0) return cudaSuccess;
  const int lanes = lanes_to_scatter(f);
  const std::int64_t each = kBlock / lanes, rows = f.routing.tokens() * f.routing.R();
  const std::int64_t blocks = std::min<std::int64_t>((rows + each - 1) / each, 1 << 20);
  return launch(scatter_kernel, dim3(static_cast<unsigned>(blocks)), kBlock, 0, stream, f, lanes);
}

cudaError_t combine(const MomSum& s, cudaStream_t stream) {
  const std::int64_t tokens = s.routing.tokens();
  const std::int64_t blocks = (tokens + kTogether - 1) / kTogether;
  const dim3 grid(static_cast<unsigned>(blocks < 1 << 20 ? blocks : 1 << 20));
  const auto start = [&](auto* kernel, std::int64_t step) {
    const std::int64_t threads = (s.width / step + 31) / 32 * 32;
    return launch(kernel, grid,
                  static_cast<unsigned>(std::clamp<std::int64_t>(threads, 32, kBlock)), 0, stream,
                  s);
  };
  const auto of_format = [&](auto* by_eights, auto* by_fours, auto* by_ones) {
    if (s.width % 8 == 0 && s.dtype != DType::f32) return start(by_eights, 8);
    return s.width % 4 == 0 ? start(by_fours, 4) : start(by_ones, 1);
  };
  constexpr DType kBf16 = DType::bf16, kHalf = DType::f16, kFloat = DType::f32;
  switch (s.dtype) {
    case DType::bf16:
      return of_format(combine_kernel<8, kBf16>, combine_kernel<4, kBf16>,
                       combine_kernel<1, kBf16>);
    case DType::f16:
      return of_format(combine_kernel<8, kHalf>, combine_kernel<4, kHalf>,
                       combine_kernel<1, kHalf>);
    default:
      return of_format(combine_kernel<4, kFloat>, combine_kernel<4, kFloat>,
                       combine_kernel<1, kFloat>);
  }
}

cudaError_t spread(const MomReadOut& r, cudaStream_t stream) {
  if (r.eights) {
    const dim3 grid(warp_blocks(r.routing.tokens()));
    return launch(spread_eights_kernel, grid, kBlock, 0, stream, r);
  }
  return launch(spread_kernel, dim3(warp_blocks(r.routing.rows())), kBlock, 0, stream, r);
}

cudaError_t weigh(const MomReadOut& r, cudaStream_t stream) {
  const std::int64_t tokens = r.routing.tokens();
  if (r.d_o.data) {
    const dim3 grid(warp_blocks(tokens * r.routing.top_k));
    auto* kernel = r.eights ? weigh_kernel<true> : weigh_kernel<false>;
    if (const cudaError_t e = launch(kernel, grid, kBlock, 0, stream, r)) return e;
  }
  if (tokens == 0) return cudaSuccess;
  return launch(logits_kernel, dim3(blocks_for(tokens)), kItemThreads, 0, stream, r);
}

bool reads_out_at_once(const MomReadOut& r, const MomSum& s) {
  return s.packed && s.packed == r.packed && r.eights && r.d_o.data && r.d_logits.data &&
         r.routing.slots() <= kWeighedSlots;
}

cudaError_t read_out(const MomReadOut& r, const MomSum& s, cudaStream_t stream) {
  const dim3 grid(warp_blocks(r.routing.tokens()));
  return launch(read_out_kernel, grid, kBlock, 0, stream, r, s);
}

cudaError_t copy_states(const MomStates& s, cudaStream_t stream) {
  std::int64_t items = 1;
  for (const std::int64_t n : s.shape) items *= n;
  if (items == 0) return cudaSuccess;
  return launch(copy_states_kernel, dim3(blocks_for(items)), kItemThreads, 0, stream, s);
}

}  // namespace assay::cuda
