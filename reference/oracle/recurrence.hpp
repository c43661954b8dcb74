// The interface between a recurrence and everything that runs it: the driver, gradient checks,
// reports. A recurrence sees one sequence of one head at a time; batches, packing, head groups,
// logarithmic gates and checkpoints are the driver's work.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "reference/case/schema.hpp"

namespace assay {

/// Scratch vectors for the inside of one step. Slots are handed out in order and keep their
/// storage (and so their MPFR limbs) from step to step; `release` makes all of them free again.
template <class Real>
class Arena {
 public:
  /// n zeros, valid until `release`.
  Real* zeros(std::int64_t n) {
    if (used_ == slots_.size()) slots_.emplace_back();
    std::vector<Real>& slot = slots_[used_++];
    if (static_cast<std::int64_t>(slot.size()) < n) slot.resize(n);
    for (std::int64_t i = 0; i < n; ++i) slot[i] = 0;
    return slot.data();
  }
  void release() { used_ = 0; }
  std::size_t mark() const { return used_; }
  void release_to(std::size_t mark) { used_ = mark; }

 private:
  std::deque<std::vector<Real>> slots_;
  std::size_t used_ = 0;
};

/// What a recurrence is told about the problem: local sizes (V is that of the column block at
/// hand), numeric options, form.
template <class Real>
struct Context {
  const ValidCase* problem = nullptr;
  std::int64_t K = 0, V = 0;
  std::int64_t first_column = 0;  // of the column block
  Form form = Form::recurrent;
  bool readout = true;  // false while states are recomputed: outputs need not be written
  Arena<Real>* arena = nullptr;
  std::int64_t size(char axis) const { return axis == 'V' ? V : problem->sizes[axis]; }
};

/// One input of the local problem: `data` holds `width` values per step (tokens) or `width` values
/// in all (params). Absent optional inputs are filled with their default.
template <class Real>
struct LocalInput {
  Real* data = nullptr;
  std::int64_t width = 0;
  bool per_token = false;
  Real* at(std::int64_t t) const { return per_token ? data + t * width : data; }
};

/// All inputs of the local problem in the order of Schema::inputs without states, seen from step
/// `t0`: x(i, s) is input i at step t0 + s.
template <class Real>
class Block {
 public:
  Block(const std::vector<LocalInput<Real>>* fields, std::int64_t t0) : fields_(fields), t0_(t0) {}
  Real* operator()(int input, std::int64_t s = 0) const { return (*fields_)[input].at(t0_ + s); }
  std::int64_t width(int input) const { return (*fields_)[input].width; }
  Block from(std::int64_t s) const { return Block(fields_, t0_ + s); }
  std::int64_t start() const { return t0_; }

 private:
  const std::vector<LocalInput<Real>>* fields_;
  std::int64_t t0_;
};

/// A recurrence over scalar Real. `forward` advances `count` steps (1 in the recurrent form, up to
/// C in a chunk form, or all: chunks_itself); `adjoint` is its transpose.
///
/// Layouts: `state` is the concatenation of the schema's state tensors in order, each with its
/// local shape (axes without B, S, T, H). `out` likewise holds the outputs that are not final
/// states, per step. `saved` carries whatever `forward` wants `adjoint` to know.
template <class Real>
class Recurrence {
 public:
  virtual ~Recurrence() = default;

  virtual std::int64_t saved_size(const Context<Real>&, std::int64_t count) const = 0;

  /// Extra state behind the schema's states, zero at the start of every sequence (the convolution
  /// windows of a block).
  virtual std::int64_t hidden_state_size(const Context<Real>&) const { return 0; }

  virtual void forward(Context<Real>& ctx, const Block<Real>& x, std::int64_t count, Real* state,
                       const Block<Real>& out, Real* saved) const = 0;

  /// In: d_state, the cotangent of `state` (after the steps), d_out. Out: d_state becomes the
  /// cotangent of state_prev; d_x is added to.
  virtual void adjoint(Context<Real>& ctx, const Block<Real>& x, std::int64_t count,
                       const Real* state_prev, const Real* state, const Real* saved,
                       const Block<Real>& d_out, Real* d_state, const Block<Real>& d_x) const = 0;

  /// Token-wise preparation of the gathered inputs, in place, before the first step (for example
  /// the L2 norm of q and k); `tape` keeps what `unprepare` needs to turn d_x with respect to
  /// prepared inputs into d_x with respect to given ones.
  virtual void prepare(Context<Real>&, const Block<Real>&, std::int64_t /*steps*/,
                       std::vector<Real>& /*tape*/) const {}
  virtual void unprepare(Context<Real>&, const Block<Real>&, std::int64_t /*steps*/,
                         const std::vector<Real>& /*tape*/, const Block<Real>&) const {}

  /// A_t = d state / d state_prev of one step, row-major, acting on one column of the stacked state
  /// matrices (fast-weight family) or on one row (m2rnn) or on the state vector (rnn, gru, lstm).
  /// Returns the order n of the matrix; A is resized to n*n. 0: this operation has none.
  virtual std::int64_t transition(Context<Real>&, const Block<Real>&, const Real* /*state_prev*/,
                                  std::vector<Real>& /*A*/) const {
    return 0;
  }

  /// In the chunk form: does `forward` take whole sequences and make the chunks itself, rather than
  /// one chunk of C steps at a time?
  virtual bool chunks_itself() const { return false; }

  /// May the value axis V be cut into independent column blocks?
  virtual bool splits_columns() const { return false; }
};

}  // namespace assay
