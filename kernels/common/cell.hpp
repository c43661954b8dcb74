// Blocks of GRU and LSTM cells: G gates, input width E, state width D, PyTorch's weights [G,D,E]
// and [G,D,D]. The input's share of all steps of a block is one matrix product; so are, backward,
// the gradients of the weights.
#pragma once

#include "kernels/common/elementary.hpp"
#include "kernels/common/linalg.hpp"
#include "kernels/common/sequence.hpp"

ASSAY_CPU_BEGIN

/// Fields of both operations, in this order.
enum CellField { cell_x, cell_w_ih, cell_w_hh, cell_b_ih, cell_b_hh };

template <class Real>
struct CellShape {
  std::int64_t G, D, E;

  static Outcome check(const Binding& b, std::int64_t gates) {
    if (b.axis('G') == gates) return {};
    return refuse(Status::bad_argument, "%s: w_ih and w_hh must hold %lld gates", b.spec->op,
                  static_cast<long long>(gates));
  }
  /// a [n,G,D] = x W_ih^T + b_ih
  void inputs(std::int64_t n, const Fields<Real>& in, Real* a) const {
    Matrix<Real> out(a, n, G * D);
    out.noalias() = ConstMatrix<Real>(in.data[cell_x], n, E) *
                    ConstMatrix<Real>(in.data[cell_w_ih], G * D, E).transpose();
    for (std::int64_t s = 0; s < n; ++s) axpy(G * D, Real(1), in.data[cell_b_ih], a + s * G * D);
  }
  /// u [G,D] = W_hh h + b_hh
  void recurrent(const Fields<Real>& in, const Real* h, Real* u) const {
    copy(G * D, in.data[cell_b_hh], u);
    add_product(G * D, D, Real(1), in.data[cell_w_hh], h, u);
  }
  /// d_a of the inputs and d_u of the recurrent part [n,G,D], h [n,D] the states before each step.
  void adjoint(std::int64_t n, const Fields<Real>& in, const Real* h, const Real* d_a,
               const Real* d_u, const Fields<Real>& d) const {
    const ConstMatrix<Real> x(in.data[cell_x], n, E), before(h, n, D);
    const ConstMatrix<Real> dA(d_a, n, G * D), dU(d_u, n, G * D);
    Matrix<Real>(d.data[cell_w_ih], G * D, E).noalias() += dA.transpose() * x;
    Matrix<Real>(d.data[cell_w_hh], G * D, D).noalias() += dU.transpose() * before;
    Matrix<Real>(d.data[cell_x], n, E).noalias() +=
        dA * ConstMatrix<Real>(in.data[cell_w_ih], G * D, E);
    for (std::int64_t s = 0; s < n; ++s) {
      axpy(G * D, Real(1), d_a + s * G * D, d.data[cell_b_ih]);
      axpy(G * D, Real(1), d_u + s * G * D, d.data[cell_b_hh]);
    }
  }
};

ASSAY_CPU_END
