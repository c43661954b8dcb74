#include "kernels/mdn/mdn_scan.cuh"

ASSAY_MDN_SCAN(g128_2, false, 128, 2)
ASSAY_MDN_SCAN(g128_4, false, 128, 4)
