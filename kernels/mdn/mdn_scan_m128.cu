#include "kernels/mdn/mdn_scan.cuh"

ASSAY_MDN_SCAN(m128_2, true, 128, 2)
ASSAY_MDN_SCAN(m128_4, true, 128, 4)
