#include "kernels/m2rnn/m2rnn_instance.cuh"

ASSAY_M2RNN_BACKWARD(half, Half, 64)
