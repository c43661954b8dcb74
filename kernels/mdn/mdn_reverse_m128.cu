#include "kernels/mdn/mdn_reverse.cuh"

ASSAY_MDN_REVERSE(m128_2, true, 128, 2)
ASSAY_MDN_REVERSE(m128_4, true, 128, 4)
