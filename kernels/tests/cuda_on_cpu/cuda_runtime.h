#pragma once
#include "kernels/tests/cuda_on_cpu/cuda_runtime_api.h"
