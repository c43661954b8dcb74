// The registry of operations. One entry per ASSAY_OPERATION line in `recurrences/`; made by CMake.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "reference/case/schema.hpp"
#include "reference/oracle/evaluate.hpp"
#include "reference/oracle/recurrence.hpp"
#include "reference/oracle/update.hpp"
#include "reference/scalars/scalars.hpp"

namespace assay {

/// An operation that is a map of the whole batch at once (mom_dispatch, mom_aux_loss).
template <class Real>
class WholeMap {
 public:
  virtual ~WholeMap() = default;
  /// Fills result.outputs, whose tensors are allocated and zero.
  virtual void forward(const Problem<Real>&, Result<Real>& result) const = 0;
  /// Adds into result.gradients, whose tensors are allocated and zero.
  virtual void adjoint(const Problem<Real>&, Result<Real>& result) const = 0;
};

/// What computes an operation over one scalar: a recurrence or a whole map.
template <class Real>
struct Engine {
  std::unique_ptr<Recurrence<Real>> recurrence;
  std::unique_ptr<WholeMap<Real>> whole;
  /// For the fast-weight family: the bare state update, which mom reuses.
  std::unique_ptr<Update<Real>> update;
};

class Operation {
 public:
  virtual ~Operation() = default;
  /// The schema; `data` (may be null) gives the options and tensors that it may depend on (mom).
  virtual Schema schema(const Case* data) const = 0;
  virtual std::string name() const = 0;
  /// Is it a fast-weight update that mom can use?
  virtual bool is_fast_weight() const = 0;
  /// What a user should know of this case: one line each (ties of a router).
  virtual std::vector<std::string> notes(const ValidCase&) const { return {}; }

  // One overload per scalar; the (null) pointer argument selects it.
#define ASSAY_MAKE(Real) virtual Engine<Real> make(const ValidCase&, const Real*) const = 0;
  ASSAY_FOR_EACH_SCALAR(ASSAY_MAKE)
#undef ASSAY_MAKE
};

template <class Real>
Engine<Real> make_engine(const Operation& operation, const ValidCase& c) {
  return operation.make(c, static_cast<const Real*>(nullptr));
}

/// All operations, in the order of their names.
const std::vector<const Operation*>& operations();
/// Throws InputError naming the nearest known operation.
const Operation& find_operation(const std::string& name);

}  // namespace assay
