#include "kernels/mdn/mdn_scan.cuh"

ASSAY_MDN_SCAN(g64_2, false, 64, 2)
ASSAY_MDN_SCAN(g64_4, false, 64, 4)
