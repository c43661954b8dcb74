// The fast-weight family: what differs between its members is the update of the matrix state.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "reference/oracle/recurrence.hpp"

namespace assay {

inline constexpr int kMaxUpdateInputs = 8;

/// The inputs of one step of an update, in the order of its schema (without q, skip,
/// q_correction and the states).
template <class Real>
using Fields = std::array<Real*, kMaxUpdateInputs>;

/// One step S_{t-1} -> S_t of the fast-weight family, over scalar Real. The state is one [K,V]
/// matrix, or two (mdn: S then M).
template <class Real>
class Update {
 public:
  virtual ~Update() = default;
  virtual int input_count() const = 0;
  virtual int state_count() const = 0;
  virtual std::int64_t saved_size(const Context<Real>&) const = 0;
  virtual void step(Context<Real>&, const Fields<Real>& x, Real* state, Real* saved) const = 0;
  /// d_state: cotangent of the new state in, of the previous state out. Adds into d_x.
  virtual void adjoint_step(Context<Real>&, const Fields<Real>& x, const Real* state_prev,
                            const Real* state, const Real* saved, Real* d_state,
                            const Fields<Real>& d_x) const = 0;
  /// A [n,n], n = state_count * K, row-major and zero on entry: the stacked state's next value is
  /// A times its previous one plus something that does not depend on it.
  virtual void transition(Context<Real>&, const Fields<Real>& x, Real* A) const = 0;

  /// A whole chunk of `count` steps: state and, with q given (null entries: none), the read-outs
  /// `o` [count,V] before scaling. x(i, s) as in the recurrent form.
  virtual bool has_chunk_form(Form) const { return false; }
  virtual std::int64_t chunk_saved_size(const Context<Real>&, std::int64_t) const { return 0; }
  virtual void chunk(Context<Real>&, const Block<Real>& /*x*/, std::int64_t /*count*/,
                     Real* /*state*/, Real* /*o*/, Real* /*saved*/) const {}
  virtual void chunk_adjoint(Context<Real>&, const Block<Real>& /*x*/, std::int64_t /*count*/,
                             const Real* /*state_prev*/, const Real* /*saved*/, const Real* /*d_o*/,
                             Real* /*d_state*/, const Block<Real>& /*d_x*/) const {}
};

}  // namespace assay
