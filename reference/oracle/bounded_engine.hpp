// Recurrences over Bounded, for the hard bound of the verdict.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "reference/oracle/recurrence.hpp"
#include "reference/scalars/bounded.hpp"

namespace assay {

/// What `Recurrence::transition` is a map of.
enum class StateBlocks {
  columns,  // every column of the stacked [n,V] state, one matrix for all
  rows,     // every row of the [K,n] state, a matrix for each row
  whole,    // the state as one vector
};

struct BoundedEngine {
  std::unique_ptr<Recurrence<Bounded>> recurrence;
  StateBlocks blocks = StateBlocks::columns;

  virtual ~BoundedEngine() = default;
  /// The outputs of one step from the state after it.
  virtual void read(Context<Bounded>& c, const Block<Bounded>& x, const Bounded* state,
                    const Block<Bounded>& out) const = 0;
  /// The state enters output 0 as c · (its column j): writes c, or returns nothing.
  virtual std::vector<Bounded> functional(Context<Bounded>&, const Block<Bounded>&) const {
    return {};
  }
};

/// Null for an operation that has none; then `why` says so in a few words.
std::unique_ptr<BoundedEngine> bounded_engine(const ValidCase& c, std::string& why);

}  // namespace assay
