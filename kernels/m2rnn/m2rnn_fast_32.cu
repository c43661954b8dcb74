#include "kernels/m2rnn/m2rnn_instance.cuh"

ASSAY_M2RNN_FORWARD(fast, Fast, 32)
ASSAY_M2RNN_BACKWARD(fast, Fast, 32)
