// One of the three convolved streams of the M²RNN block: SiLU(conv(x W)). The projection and the
// taps may be shared by different numbers of heads; the stream has the least number both divide.
#pragma once

#include "kernels/common/conv.hpp"
#include "kernels/common/elementary.hpp"
#include "kernels/common/m2rnn_cell.hpp"

ASSAY_CPU_BEGIN

template <class Real>
using Strided = Eigen::Map<Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, 0,
                           Eigen::OuterStride<>>;

/// u = x W backward: d_W [E,width] += x^T d_u, d_x [n,E] += d_u W^T.
template <class Real>
void project_adjoint(std::int64_t n, std::int64_t E, std::int64_t width, const Real* x,
                     const Real* W, const Real* d_u, Real* d_x, Real* d_W) {
  const ConstMatrix<Real> d(d_u, n, width);
  Matrix<Real>(d_W, E, width).noalias() += ConstMatrix<Real>(x, n, E).transpose() * d;
  Matrix<Real>(d_x, n, E).noalias() += d * ConstMatrix<Real>(W, E, width).transpose();
}

template <class Real>
class ConvStream {
 public:
  ConvStream() = default;
  ConvStream(std::int64_t E, std::int64_t width, std::int64_t taps, std::int64_t projected,
             std::int64_t tapped)
      : E_(E), width_(width), W_(taps), projected_(projected), tapped_(tapped) {
    heads_ = projected;
    while (heads_ % tapped != 0) heads_ += projected;
    taps_per_head_ = width * taps;
  }

  std::int64_t width() const { return width_; }
  std::int64_t channels() const { return heads_ * width_; }
  std::int64_t window_size() const { return (W_ - 1) * channels(); }
  std::int64_t head_of(std::int64_t h, std::int64_t N) const { return h / (N / heads_); }

  /// Inputs of the convolution with the window before them [W-1+n,channels], its outputs, and SiLU
  /// of those [n,channels].
  struct Kept {
    Real *padded, *pre, *activation;
  };

  Kept forward(std::int64_t n, const Real* x, const Real* W, const Real* taps, const Real* window,
               Arena& arena) const {
    Kept kept{arena.take<Real>((n + W_ - 1) * channels()), arena.zeros<Real>(n * channels()),
              arena.take<Real>(n * channels())};
    const ArenaScope scope(arena);
    const std::int64_t wide = projected_ * width_;
    Real* u = arena.take<Real>(n * wide);
    Matrix<Real>(u, n, wide).noalias() =
        ConstMatrix<Real>(x, n, E_) * ConstMatrix<Real>(W, E_, wide);
    copy(window_size(), window, kept.padded);
    for (std::int64_t s = 0; s < n; ++s) {
      for (std::int64_t h = 0; h < heads_; ++h) {
        copy(width_, u + s * wide + h / (heads_ / projected_) * width_,
             kept.padded + (s + W_ - 1) * channels() + h * width_);
      }
    }
    conv_forward(n, channels(), W_, all_taps(taps, arena), kept.padded, kept.pre);
    for (std::int64_t i = 0; i < n * channels(); ++i) kept.activation[i] = silu(kept.pre[i]);
    return kept;
  }

  /// d_activation [n,channels] is used up; d_window: of the window after the block in, before it
  /// out.
  void backward(std::int64_t n, const Real* x, const Real* W, const Real* taps, const Kept& kept,
                Real* d_activation, Real* d_window, Real* d_x, Real* d_W, Real* d_taps,
                Arena& arena) const {
    const ArenaScope scope(arena);
    for (std::int64_t i = 0; i < n * channels(); ++i) d_activation[i] *= silu_slope(kept.pre[i]);
    Real* d_padded = arena.zeros<Real>((n + W_ - 1) * channels());
    Real* d_all = arena.zeros<Real>(heads_ * taps_per_head_);
    copy(window_size(), d_window, d_padded + n * channels());
    conv_backward(n, channels(), W_, all_taps(taps, arena), kept.padded, d_activation, d_padded,
                  d_all);
    copy(window_size(), d_padded, d_window);
    for (std::int64_t h = 0; h < heads_; ++h) {
      axpy(taps_per_head_, Real(1), d_all + h * taps_per_head_,
           d_taps + h / (heads_ / tapped_) * taps_per_head_);
    }
    const std::int64_t wide = projected_ * width_;
    Real* d_u = arena.zeros<Real>(n * wide);
    for (std::int64_t s = 0; s < n; ++s) {
      for (std::int64_t h = 0; h < heads_; ++h) {
        axpy(width_, Real(1), d_padded + (s + W_ - 1) * channels() + h * width_,
             d_u + s * wide + h / (heads_ / projected_) * width_);
      }
    }
    project_adjoint(n, E_, wide, x, W, d_u, d_x, d_W);
  }

 private:
  // Taps of every head of the stream, [channels,W].
  const Real* all_taps(const Real* taps, Arena& arena) const {
    Real* all = arena.take<Real>(heads_ * taps_per_head_);
    for (std::int64_t h = 0; h < heads_; ++h) {
      copy(taps_per_head_, taps + h / (heads_ / tapped_) * taps_per_head_,
           all + h * taps_per_head_);
    }
    return all;
  }

  std::int64_t E_ = 0, width_ = 0, W_ = 0, projected_ = 1, tapped_ = 1, heads_ = 1,
               taps_per_head_ = 0;
};

ASSAY_CPU_END
