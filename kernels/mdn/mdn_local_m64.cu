#include "kernels/mdn/mdn_local.cuh"

ASSAY_MDN_LOCAL(m64_64, true, 64, 64)
ASSAY_MDN_LOCAL(m64_128, true, 64, 128)
