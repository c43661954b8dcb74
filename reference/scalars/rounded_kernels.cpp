// Matrix products of Rounded under an Emulation.
#include <vector>

#include "reference/scalars/rounded.hpp"

namespace assay::la {
namespace {

using Generic = GenericKernels<Rounded, Kernels<Rounded>>;

bool plain(const Emulation& e) {
  return !e.casts && !e.fma && !e.truncates && e.order == SumOrder::forward;
}

double operand(const Emulation& e, Rounded x) {
  return e.casts ? round_to(e.operand, x.value()) : x.value();
}

/// The product of two operands: exact, or rounded as the working format does.
double product(const Emulation& e, Rounded a, Rounded b) {
  const double exact = operand(e, a) * operand(e, b);
  return e.fma ? exact : Rounded::from(exact).value();
}

void accumulate(const Emulation& e, Rounded& acc, double term) {
  const double sum = acc.value() + term;
  acc = e.truncates ? Rounded::truncated(sum) : Rounded::from(sum);
}

/// Σ of the terms [first, last) by halves.
double pairwise(const Emulation& e, const std::vector<double>& terms, long first, long last) {
  if (last - first == 1) return terms[first];
  const long middle = first + (last - first) / 2;
  Rounded sum = Rounded::from(pairwise(e, terms, first, middle));
  accumulate(e, sum, pairwise(e, terms, middle, last));
  return sum.value();
}

/// acc += sign Σ_i x_i y_i in the order of the emulation.
void sum_products(const Emulation& e, double sign, Rounded& acc, long n, const Rounded* x,
                  long incx, const Rounded* y, long incy) {
  const auto term = [&](long i) { return sign * product(e, x[i * incx], y[i * incy]); };
  if (e.order == SumOrder::pairwise) {
    if (n == 0) return;
    std::vector<double> terms(n);
    for (long i = 0; i < n; ++i) terms[i] = term(i);
    accumulate(e, acc, pairwise(e, terms, 0, n));
    return;
  }
  const bool reversed = e.order == SumOrder::reversed;
  for (long i = 0; i < n; ++i) accumulate(e, acc, term(reversed ? n - 1 - i : i));
}

void add_outer(const Emulation& e, double sign, long rows, long cols, const Rounded* x,
               const Rounded* y, Rounded* S) {
  for (long i = 0; i < rows; ++i) {
    for (long j = 0; j < cols; ++j) accumulate(e, S[i * cols + j], sign * product(e, x[i], y[j]));
  }
}

void add_columns(const Emulation& e, double sign, long rows, long cols, const Rounded* S,
                 const Rounded* x, Rounded* out) {
  for (long j = 0; j < cols; ++j) sum_products(e, sign, out[j], rows, S + j, cols, x, 1);
}

}  // namespace

void Kernels<Rounded>::dot_add(Rounded& acc, long n, const Rounded* x, long incx, const Rounded* y,
                               long incy) {
  const Emulation& e = working_emulation();
  if (plain(e)) return Generic::dot_add(acc, n, x, incx, y, incy);
  sum_products(e, 1, acc, n, x, incx, y, incy);
}

void Kernels<Rounded>::reduce_add(Rounded& acc, long n, const Rounded* x, const Rounded* y) {
  Emulation e = working_emulation();
  e.casts = false;
  if (plain(e)) return Generic::dot_add(acc, n, x, 1, y, 1);
  sum_products(e, 1, acc, n, x, 1, y, 1);
}

void Kernels<Rounded>::dot_sub(Rounded& acc, long n, const Rounded* x, long incx, const Rounded* y,
                               long incy) {
  const Emulation& e = working_emulation();
  if (plain(e)) return Generic::dot_sub(acc, n, x, incx, y, incy);
  sum_products(e, -1, acc, n, x, incx, y, incy);
}

void Kernels<Rounded>::gemv_t_add(long rows, long cols, const Rounded* S, const Rounded* x,
                                  Rounded* out) {
  const Emulation& e = working_emulation();
  if (plain(e)) return Generic::gemv_t_add(rows, cols, S, x, out);
  add_columns(e, 1, rows, cols, S, x, out);
}

void Kernels<Rounded>::gemv_t_sub(long rows, long cols, const Rounded* S, const Rounded* x,
                                  Rounded* out) {
  const Emulation& e = working_emulation();
  if (plain(e)) return Generic::gemv_t_sub(rows, cols, S, x, out);
  add_columns(e, -1, rows, cols, S, x, out);
}

void Kernels<Rounded>::ger_add(long rows, long cols, const Rounded* x, const Rounded* y,
                               Rounded* S) {
  const Emulation& e = working_emulation();
  if (plain(e)) return Generic::ger_add(rows, cols, x, y, S);
  add_outer(e, 1, rows, cols, x, y, S);
}

void Kernels<Rounded>::ger_sub(long rows, long cols, const Rounded* x, const Rounded* y,
                               Rounded* S) {
  const Emulation& e = working_emulation();
  if (plain(e)) return Generic::ger_sub(rows, cols, x, y, S);
  add_outer(e, -1, rows, cols, x, y, S);
}

void Kernels<Rounded>::scale_ger_add(long rows, long cols, const Rounded& a, const Rounded* x,
                                     const Rounded* y, Rounded* S) {
  const Emulation& e = working_emulation();
  if (plain(e)) return Generic::scale_ger_add(rows, cols, a, x, y, S);
  for (long i = 0; i < rows * cols; ++i) S[i] *= a;
  add_outer(e, 1, rows, cols, x, y, S);
}

}  // namespace assay::la
