// What a case holds, as far as it decides whether a fault can be seen in it.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "reference/case/schema.hpp"

namespace assay::facts {

using Predicate = std::function<bool(double)>;

bool is_op(const ValidCase& c, std::initializer_list<const char*> names);
/// A fast-weight operation, or mom.
bool is_matrix_memory(const ValidCase& c);

/// Is the tensor there, with a value that is not 0?
bool has_value(const ValidCase& c, const std::string& tensor);
/// A cotangent that is not all zero.
bool any_cotangent(const ValidCase& c);
bool is_given(const ValidCase& c, const std::string& input);

/// Values of an input in the linear domain, whichever way it is given; the default, once, when it
/// is absent.
std::vector<double> values(const ValidCase& c, const std::string& input);
bool any(const ValidCase& c, const std::string& input, const Predicate& predicate);
bool all(const ValidCase& c, const std::string& input, const Predicate& predicate);
/// Is some value different from x?
bool differs_from(const ValidCase& c, const std::string& input, double x);
bool all_positive(const ValidCase& c, std::initializer_list<const char*> inputs);

/// One sequence: batch index (0 when packed), first step in the tensors, length.
struct Sequence {
  std::int64_t batch = 0, start = 0, steps = 0;
};
std::vector<Sequence> sequences(const ValidCase& c);
std::int64_t longest(const ValidCase& c);

/// Option `chunk`, or 64 for operations that have none.
std::int64_t chunk(const ValidCase& c);

bool has_state(const ValidCase& c);
/// Some step starts from a state that is not zero: an initial state, or a second step.
bool remembers(const ValidCase& c);

/// Axis of the heads of an input, or -1; their number.
int head_axis(const ValidCase& c, const InputSpec& input);
std::int64_t heads(const ValidCase& c);
std::int64_t heads(const ValidCase& c, const std::string& input);

/// "alpha" of "alpha_mem" and "alpha_shared".
std::string base_name(const std::string& input);
/// A gate that makes the state of the matrix memories decay: alpha, gamma, f, mu.
bool is_decay(const InputSpec& input);

}  // namespace assay::facts
