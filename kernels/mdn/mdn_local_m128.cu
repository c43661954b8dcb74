#include "kernels/mdn/mdn_local.cuh"

ASSAY_MDN_LOCAL(m128_64, true, 128, 64)
ASSAY_MDN_LOCAL(m128_128, true, 128, 128)
