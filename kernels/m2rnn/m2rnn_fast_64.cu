#include "kernels/m2rnn/m2rnn_instance.cuh"

ASSAY_M2RNN_FORWARD(fast, Fast, 64)
ASSAY_M2RNN_BACKWARD(fast, Fast, 64)
