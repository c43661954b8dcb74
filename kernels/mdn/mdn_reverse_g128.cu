#include "kernels/mdn/mdn_reverse.cuh"

ASSAY_MDN_REVERSE(g128_2, false, 128, 2)
ASSAY_MDN_REVERSE(g128_4, false, 128, 4)
