// Dispatch of routed tokens into (batch, memory) segments: the B T top_k pairs (token, memory)
// sorted by segment b M + m, time order kept inside a segment (a counting sort).
//
//   token[i] = b T + t of packed row i        cu_seqlens: bounds of the segments
//   inverse[b,t,j]: packed row of the j-th best memory of the token        memory[b,t,j]: that
//   memory
#include "kernels/common/arena.hpp"
#include "kernels/common/kernels.hpp"
#include "kernels/common/router_call.hpp"
#include "kernels/common/routing.hpp"

ASSAY_CPU_BEGIN

namespace {

Outcome check(const Call& call, RouterCall& r) {
  if (const Outcome o = read_router("mom_dispatch", call, r); o.status != Status::ok) return o;
  if (call.gradients.count > 0) {
    return refuse(Status::unsupported, "mom_dispatch has nothing to differentiate");
  }
  for (int i = 0; i < call.outputs.count; ++i) {
    const View& v = call.outputs.views[i];
    if (v.dtype != DType::i64 && v.dtype != DType::i32) {
      return refuse(Status::bad_argument, "output '%s' must be an integer tensor", v.name);
    }
  }
  return {};
}

void store_integer(const View& v, std::int64_t flat, std::int64_t value) {
  std::int64_t offset = 0;
  for (int a = v.rank; a-- > 0;) {
    offset += flat % v.shape[a] * v.stride[a];
    flat /= v.shape[a];
  }
  if (v.dtype == DType::i64) {
    static_cast<std::int64_t*>(v.data)[offset] = value;
  } else {
    static_cast<std::int32_t*>(v.data)[offset] = static_cast<std::int32_t>(value);
  }
}

template <class Real>
void dispatch(const Call& call, const RouterCall& r) {
  const View* token = find_view(call.outputs, "", "token");
  const View* bounds = find_view(call.outputs, "", "cu_seqlens");
  const View* inverse = find_view(call.outputs, "", "inverse");
  const View* memory = find_view(call.outputs, "", "memory");
  Arena arena;
  std::int64_t* chosen = arena.take<std::int64_t>(r.rows() * r.top_k);
  std::int64_t* next = arena.zeros<std::int64_t>(r.B * r.M + 1);
  Real* logits = arena.take<Real>(r.M);
  for (std::int64_t row = 0; row < r.rows(); ++row) {
    r.row(row, logits);
    select_top_k(r.M, r.top_k, logits, chosen + row * r.top_k);
    for (std::int64_t j = 0; j < r.top_k; ++j) {
      ++next[row / r.T * r.M + chosen[row * r.top_k + j] + 1];
    }
  }
  for (std::int64_t s = 0; s <= r.B * r.M; ++s) {
    if (s > 0) next[s] += next[s - 1];
    if (bounds) store_integer(*bounds, s, next[s]);
  }
  for (std::int64_t row = 0; row < r.rows(); ++row) {
    for (std::int64_t j = 0; j < r.top_k; ++j) {
      const std::int64_t at = row * r.top_k + j;
      const std::int64_t packed = next[row / r.T * r.M + chosen[at]]++;
      if (token) store_integer(*token, packed, row);
      if (inverse) store_integer(*inverse, at, packed);
      if (memory) store_integer(*memory, at, chosen[at]);
    }
  }
}

Outcome plan(const Call& call, std::size_t* bytes) {
  RouterCall r;
  *bytes = 0;
  return check(call, r);
}

Outcome run(const Call& call) {
  RouterCall r;
  if (const Outcome o = check(call, r); o.status != Status::ok) return o;
  try {
    dispatch<double>(call, r);  // exact for every dtype: only comparisons
  } catch (const std::bad_alloc&) {
    return refuse(Status::out_of_memory, "mom_dispatch: no memory for temporaries");
  }
  return {};
}

}  // namespace

const OpKernel mom_dispatch_kernel{"mom_dispatch", false, plan, run};

ASSAY_CPU_END
