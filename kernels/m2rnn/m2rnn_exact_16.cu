#include "kernels/m2rnn/m2rnn_instance.cuh"

ASSAY_M2RNN_FORWARD(exact, Exact, 16)
ASSAY_M2RNN_BACKWARD(exact, Exact, 16)
