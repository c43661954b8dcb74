// What a wrong tensor holds in place of its own values: the same with a factor, the same in another
// order, or those of another tensor. Costs no evaluation: truth and result are there.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "checks/verdict/diagnosis.hpp"

namespace assay {

struct Account {
  std::string tensor;
  /// "heads 0 and 1 exchanged"; empty for a factor.
  std::string order;
  std::string other;  // the tensor whose values these are, if not its own
  std::vector<std::int64_t>
      source;  // element i holds what element source[i] should; not of factors
  /// Of a factor: what it is, its standard error. Otherwise 1.
  double factor = 1, factor_error = 0;
  double left = 0;  // of the tensor's error, in units of σ²
  FilterResult filter;
};

/// Of every tensor in `rejected`, and of those with a significant factor, the account that leaves
/// least; none where all leave more than noise and a thousandth of the error. A factor that only a
/// few elements speak of counts where another tensor has the same.
std::vector<Account> accounts(const ValidCase& c, const Filters& filters,
                              const std::set<std::string>& rejected);

/// "d_k is 2.0000(3) times what it should be; heads 0 and 1 exchanged in o and d_q".
std::string account_text(const std::vector<Account>& of);

/// The direction in which all of them together point, of size 1.
Direction account_direction(const Expectation& expectation, const std::vector<Account>& of);

/// "1.00012(3)": a value with its standard error in units of the last digit; "1e+30 ± 2e+23" where
/// it has many.
std::string value_with_error(double value, double error);

/// "0 and 1 exchanged", "in reverse order", "h holds h/2", …: a map of places to where their values
/// belong. Empty for the identity.
std::string map_text(const std::string& axis, const std::vector<std::int64_t>& source);

}  // namespace assay
