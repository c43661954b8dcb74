// Tensors as device code walks them.
#pragma once

#include <cstdint>

#include "kernels/common/call.hpp"

namespace assay::cuda {

using cpu::DType;

/// A tensor [batch|sequence, time, head, row, column] with some of these axes; strides in bytes.
/// Head h of the state reads h / share. In planning there is no data yet: `given` says what will be
/// there.
struct Strided {
  char* data = nullptr;
  std::int64_t batch = 0, time = 0, head = 0, row = 0, column = 0;
  int share = 1;
  DType dtype = DType::f32;
  bool given = false;
  bool pairs = false;  // 16-bit, and two columns may be read at once
  bool wide = false;   // 16-bit, and every row may be read in pieces of 16 bytes
};

inline std::int64_t bytes_of(DType t) { return t == DType::f32 ? 4 : 2; }

/// `axes` are those of the operation ("BTNK"): B, T, heads (H or N), and up to two of a row.
/// `heads` are those of the state.
inline Strided strided(const cpu::View* view, const char* axes, std::int64_t heads) {
  Strided out;
  if (!view) return out;
  out.given = true;
  out.data = static_cast<char*>(view->data);
  out.dtype = view->dtype;
  const std::int64_t unit = bytes_of(view->dtype);
  for (int a = 0; a < view->rank; ++a) {
    const std::int64_t stride = view->stride[a] * unit;
    switch (axes[a]) {
      case 'B':
        out.batch = stride;
        break;
      case 'T':
        out.time = stride;
        break;
      case 'H':
      case 'N':
        out.head = stride;
        if (view->shape[a] > 0) out.share = static_cast<int>(heads / view->shape[a]);
        break;
      default:
        out.row = out.column, out.column = stride;
    }
  }
  const auto all = [&](std::int64_t bytes) {
    const auto at = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(out.data));
    return unit == 2 && out.column == unit && out.batch % bytes == 0 && out.time % bytes == 0 &&
           out.head % bytes == 0 && out.row % bytes == 0 && at % bytes == 0;
  };
  out.pairs = all(4), out.wide = all(16);
  return out;
}

/// Row-major fp32 memory of our own.
inline Strided own_tokens(float* data, std::int64_t T, std::int64_t heads, int share) {
  Strided out;
  out.given = true;
  out.data = reinterpret_cast<char*>(data);
  out.time = heads * 4, out.batch = T * heads * 4, out.head = 4, out.column = 4;
  out.share = share;
  return out;
}

/// [place, heads, K, V], the same.
inline Strided own_states(float* data, std::int64_t heads, std::int64_t K, std::int64_t V) {
  Strided out;
  out.given = true;
  out.data = reinterpret_cast<char*>(data);
  out.column = 4, out.row = V * 4, out.head = K * V * 4, out.batch = heads * K * V * 4;
  return out;
}

}  // namespace assay::cuda
