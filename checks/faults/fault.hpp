// The fault dictionary: wrong formulas that somebody has really written down or shipped, as
// executable code. A fault is the reference with exactly one step replaced.
#pragma once

#include <string>
#include <vector>

#include "reference/case/schema.hpp"
#include "reference/oracle/evaluate.hpp"
#include "reference/scalars/rounded.hpp"

namespace assay {

struct FaultInfo {
  std::string id;      // "mdn.gamma_diagonal_zeroed", "*.read_before_update"
  std::string title;   // what is wrong, one line
  std::string source;  // where it was found: a paper's equation, "public kernel", "class"
  /// The formula is right, something is rounded too coarsely: to bf16.
  bool rounding = false;
};

class Fault {
 public:
  virtual ~Fault() = default;
  virtual const FaultInfo& info() const = 0;
  /// Can this case show it? (The operation matches, a group is shared, a state is given, …)
  virtual bool applies(const ValidCase& c) const = 0;
  /// The wrong result, in double and in the calling thread's working format (FormatScope).
  virtual Result<double> evaluate(const ValidCase& c, const RunOptions& options) const = 0;
  virtual Result<Rounded> evaluate_rounded(const ValidCase& c, const RunOptions& options) const = 0;
};

/// All faults in the order of their ids.
const std::vector<const Fault*>& faults();
/// Throws InputError naming the nearest known fault.
const Fault& find_fault(const std::string& id);

}  // namespace assay
