#include "kernels/mdn/mdn_local.cuh"

ASSAY_MDN_LOCAL(g64_64, false, 64, 64)
ASSAY_MDN_LOCAL(g64_128, false, 64, 128)
