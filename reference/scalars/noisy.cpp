#include "reference/scalars/noisy.hpp"

namespace assay::detail {

constinit thread_local NoiseState tls_noise;

}  // namespace assay::detail
