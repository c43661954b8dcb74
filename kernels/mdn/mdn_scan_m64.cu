#include "kernels/mdn/mdn_scan.cuh"

ASSAY_MDN_SCAN(m64, true, 64)
