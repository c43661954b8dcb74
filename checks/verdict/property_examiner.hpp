// The parts of properties.hpp: what they share, and where they stand.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checks/verdict/properties.hpp"

namespace assay::properties {

using Values = std::map<std::string, std::vector<double>>;  // gradients as d_<input>

Values values_of(const RunResult& r);
Values reference_values(const ValidCase& c, bool gradients);

inline bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

/// Index along `axis` of a flat position, -1 where the tensor has no such axis.
struct AxisView {
  std::int64_t inner = 0, length = 0;
  AxisView(const Shape& shape, const std::string& axes, char letter) {
    const std::size_t at = axes.find(letter);
    if (at == std::string::npos || at >= shape.size()) return;
    length = shape[at];
    inner = 1;
    for (std::size_t a = at + 1; a < shape.size(); ++a) inner *= shape[a];
  }
  std::int64_t operator()(std::int64_t flat) const {
    return length > 0 ? flat / inner % length : -1;
  }
};

/// Axes of a tensor of the case, cotangents included.
std::string axes_of(const ValidCase& c, const std::string& name);

class PropertyExaminer {
 public:
  PropertyExaminer(Candidate& candidate, const ValidCase& c, const PrecisionModel& model,
                   bool gradients, const RunResult& first, const Expectation& expected)
      : candidate_(candidate),
        c_(c),
        model_(model),
        gradients_(gradients),
        first_(values_of(first)),
        expected_(expected),
        truth_(reference_values(c, gradients)) {}

  PropertyReport run();

 private:
  /// The candidate on another case; nothing (with a note) when it does not come back.
  std::optional<Values> call(const std::string& property, const ValidCase& c);
  /// Compares where `must_stay` holds. `got` and `want` are laid out like the expectation.
  void compare(const std::string& property, const Values& want, const Values& got,
               const std::function<bool(const std::string&, std::int64_t)>& must_stay,
               bool bits_expected);
  bool is_output(const std::string& name) const { return c_.schema.find_output(name) != nullptr; }
  /// A time in the last third that is no multiple of anything likely.
  std::int64_t cut() const { return std::max<std::int64_t>(1, c_.sizes['T'] * 2 / 3 | 1); }

  // Other data elsewhere changes nothing here (invariances.cpp).
  using Where = std::function<bool(const std::string& name, const ExpectedTensor&, std::int64_t)>;
  /// `other` differs from the case where `concerned` does not hold. Where the reference agrees that
  /// nothing concerned changes (not every operation has every property), the candidate must too.
  void invariance(const std::string& property, const ValidCase& other, const Where& concerned);
  void one_index(const std::string& property, char letter, std::int64_t index);
  void causality();
  void sequences();
  void heads();
  void permutation();
  void linearity();

  // The same work split otherwise gives the same (other_splits.cpp).
  std::string state_of(const OutputSpec& out) const;
  /// Steps [from, to) of the case; the states and their cotangents are left out.
  Case part(std::int64_t from, std::int64_t to) const;
  ValidCase valid(Case data) const;
  DType state_dtype(const std::string& state) const;
  /// Both halves in order, the second from the states of the first, handed on as `dtype` or, where
  /// that is none, as the case has them. Outputs only.
  std::optional<Values> halves(
      std::int64_t t0, std::optional<DType> dtype,
      const std::function<std::optional<Values>(const ValidCase&)>& run) const;
  void two_halves();
  void one_by_one();
  void chunk_lengths();

  Candidate& candidate_;
  const ValidCase& c_;
  const PrecisionModel& model_;
  const bool gradients_;
  const Values first_;
  const Expectation& expected_;
  const Values truth_;
  PropertyReport report_;
};

}  // namespace assay::properties
