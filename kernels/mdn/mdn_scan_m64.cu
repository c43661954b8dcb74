#include "kernels/mdn/mdn_scan.cuh"

ASSAY_MDN_SCAN(m64_2, true, 64, 2)
ASSAY_MDN_SCAN(m64_4, true, 64, 4)
