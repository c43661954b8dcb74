// Which instance of a fast kernel takes a call.
#include <initializer_list>

#include "kernels/mdn/mdn_fast.hpp"

namespace assay::cuda {

#define ASSAY_MDN_KEYS(X, kernel) X(kernel, m64) X(kernel, m128) X(kernel, g64) X(kernel, g128)
#define ASSAY_MDN_WIDTHS(X, kernel) \
  X(kernel, m64_2)                  \
  X(kernel, m64_4)                  \
  X(kernel, m128_2)                 \
  X(kernel, m128_4) X(kernel, g64_2) X(kernel, g64_4) X(kernel, g128_2) X(kernel, g128_4)
#define ASSAY_MDN_SHAPES(X, kernel) \
  X(kernel, m64_64)                 \
  X(kernel, m64_128)                \
  X(kernel, m128_64)                \
  X(kernel, m128_128) X(kernel, g64_64) X(kernel, g64_128) X(kernel, g128_64) X(kernel, g128_128)
#define ASSAY_MDN_DECLARE(kernel, name) \
  cudaError_t mdn_##kernel##_##name(const MdnFast& f, cudaStream_t stream);
ASSAY_MDN_KEYS(ASSAY_MDN_DECLARE, scan)
ASSAY_MDN_WIDTHS(ASSAY_MDN_DECLARE, reverse)
ASSAY_MDN_SHAPES(ASSAY_MDN_DECLARE, local)
cudaError_t mdn_prepare_bf16(const MdnFast& f, cudaStream_t stream);
cudaError_t mdn_fp32_prepare(const MdnFast& f, cudaStream_t stream);
cudaError_t mdn_fp32_scan(const MdnFast& f, cudaStream_t stream);
cudaError_t mdn_fp32_reverse(const MdnFast& f, cudaStream_t stream);
cudaError_t mdn_fp32_local(const MdnFast& f, cudaStream_t stream);

namespace {

using Launch = cudaError_t (*)(const MdnFast&, cudaStream_t);

#define ASSAY_MDN_ADDRESS(kernel, name) mdn_##kernel##_##name,
constexpr Launch kScans[] = {ASSAY_MDN_KEYS(ASSAY_MDN_ADDRESS, scan)};
constexpr Launch kReverses[] = {ASSAY_MDN_WIDTHS(ASSAY_MDN_ADDRESS, reverse)};
constexpr Launch kLocals[] = {ASSAY_MDN_SHAPES(ASSAY_MDN_ADDRESS, local)};

int index_of(const MdnParams& p, bool last) {
  return (p.momentum ? 0 : 4) + (p.K == 128 ? 2 : 0) + (last ? 1 : 0);
}
bool is_width(int width) { return width == 64 || width == 128; }

}  // namespace

bool mdn_bf16_takes(const MdnParams& p) {
  if (!is_width(p.K) || !is_width(p.V)) return false;
  for (const Strided* x : {&p.q, &p.k, &p.v, &p.d_o, &p.o}) {
    if (x->given && x->dtype != DType::bf16) return false;
  }
  return p.places() < std::int64_t{1} << 31;
}
bool mdn_fp32_takes(const MdnParams& p) {
  const auto is_width = [](int width) { return width % 16 == 0 && width <= 128; };
  return is_width(p.K) && is_width(p.V) && p.places() < std::int64_t{1} << 31;
}

cudaError_t mdn_prepare(const MdnFast& f, cudaStream_t stream) {
  return f.full ? mdn_fp32_prepare(f, stream) : mdn_prepare_bf16(f, stream);
}
cudaError_t mdn_scan(const MdnFast& f, cudaStream_t stream) {
  if (f.full) return mdn_fp32_scan(f, stream);
  return kScans[index_of(f.p, false) / 2](f, stream);
}
cudaError_t mdn_reverse(const MdnFast& f, cudaStream_t stream) {
  if (f.full) return mdn_fp32_reverse(f, stream);
  return kReverses[index_of(f.p, f.pairs == 4)](f, stream);
}
cudaError_t mdn_local(const MdnFast& f, cudaStream_t stream) {
  if (f.full) return mdn_fp32_local(f, stream);
  return kLocals[index_of(f.p, f.p.V == 128)](f, stream);
}

}  // namespace assay::cuda
