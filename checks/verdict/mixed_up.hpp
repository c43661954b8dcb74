// What a kernel computes that reads one thing for another: gates or vectors exchanged, heads or
// batches of an input mixed up, an input doubled, halved, with the wrong sign or not read at all,
// time running backwards, an option that is not read. Each costs one evaluation in double, so that
// they are tried for rejected results alone.
#pragma once

#include "checks/verdict/accounts.hpp"
#include "checks/verdict/diagnosis.hpp"

namespace assay {

/// All of them that fit, what leaves least of the error first. Forward and backward pass may be
/// wrong together (with the gradients of an automatic differentiation, or those that a kernel
/// writes in the places of what it read) or one of them alone.
std::vector<FilterResult> mixed_up(const ValidCase& c, const Filters& filters, bool gradients,
                                   int threads);

/// Outputs as `of` accounts for them, and gradients that follow, as those of automatic
/// differentiation do.
FilterResult followed(const ValidCase& c, const Filters& filters, const std::vector<Account>& of);

/// Directions of every vector that the case gives (query, key, value, …) and of numbers among its
/// options, as `directions` has them of gates and the scale: a correct kernel is not accused by
/// them.
std::vector<Direction> vector_directions(const ValidCase& c, const Filters& filters, bool gradients,
                                         int threads);

/// Is the cause of the error what "gate NAME", "input NAME" or "option scale" say? The result
/// evaluated with that factor, which is fitted: a line is a guess, and far off a wrong one. False
/// when it leaves more than noise and a fiftieth of the error.
bool confirm(const ValidCase& c, const Filters& filters, bool gradients, FilterResult& r);

/// The case evaluated with one of "gate NAME", "input NAME" or "option NAME" (a number) multiplied.
Result<double> with_factor(const ValidCase& c, const std::string& id, double factor,
                           const RunOptions& run);

/// Results as errors: a - b, 0 where that is not finite.
ErrorTensors difference(const Result<double>& a, const Result<double>& b, double factor);

}  // namespace assay
