#include "kernels/mdn/mdn_local.cuh"

ASSAY_MDN_LOCAL(g128_64, false, 128, 64)
ASSAY_MDN_LOCAL(g128_128, false, 128, 128)
