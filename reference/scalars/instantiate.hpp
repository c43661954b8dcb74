// The scalars for which templates of the library are instantiated explicitly:
//
//   #define INSTANTIATE(Real) template void step<Real>(...);
//   ASSAY_FOR_EACH_SCALAR(INSTANTIATE)
#pragma once

#define ASSAY_FOR_EACH_SCALAR(X) \
  X(double)                      \
  X(::assay::DoubleDouble)       \
  X(::assay::Mpfr)               \
  X(::assay::Ball)               \
  X(::assay::Rational)           \
  X(::assay::Field)              \
  X(::assay::Rounded)            \
  X(::assay::Noisy)              \
  X(::assay::Dual<double>)       \
  X(::assay::Dual<::assay::Field>)
