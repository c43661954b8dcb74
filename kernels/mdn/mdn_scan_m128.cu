#include "kernels/mdn/mdn_scan.cuh"

ASSAY_MDN_SCAN(m128, true, 128)
