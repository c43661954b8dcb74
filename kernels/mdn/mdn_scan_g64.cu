#include "kernels/mdn/mdn_scan.cuh"

ASSAY_MDN_SCAN(g64, false, 64)
