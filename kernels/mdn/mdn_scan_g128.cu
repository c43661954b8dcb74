#include "kernels/mdn/mdn_scan.cuh"

ASSAY_MDN_SCAN(g128, false, 128)
