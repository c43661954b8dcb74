// The kernels are built twice from the same sources, for any x86-64 (or any other machine) and for
// AVX2 with FMA; kernel_table() chooses when the library is loaded. Everything that is code stands
// in a namespace of its build. Otherwise the linker would keep one copy of an inline function for
// both builds, and an old processor would meet the AVX2 copy. For the same reason Eigen's namespace
// is renamed in the AVX2 build (see CMakeLists.txt), and kernels use no templates of the standard
// library that leave out-of-line code behind.
#pragma once

#ifndef ASSAY_CPU_VARIANT
#define ASSAY_CPU_VARIANT baseline
#endif

#define ASSAY_CPU_BEGIN  \
  namespace assay::cpu { \
  inline namespace ASSAY_CPU_VARIANT {
#define ASSAY_CPU_END \
  }                   \
  }
