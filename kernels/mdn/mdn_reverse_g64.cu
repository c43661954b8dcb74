#include "kernels/mdn/mdn_reverse.cuh"

ASSAY_MDN_REVERSE(g64_2, false, 64, 2)
ASSAY_MDN_REVERSE(g64_4, false, 64, 4)
