#include "kernels/mdn/mdn_reverse.cuh"

ASSAY_MDN_REVERSE(m64_2, true, 64, 2)
ASSAY_MDN_REVERSE(m64_4, true, 64, 4)
