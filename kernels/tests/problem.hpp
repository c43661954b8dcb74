// Random calls of the CPU kernels for tests: tensors by the operations' axes, held as doubles and
// handed over in any dtype and layout. The tests know no expected values: they compare calls with
// each other.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "kernels/common/call.hpp"

namespace assay::cpu::testing {

/// A tensor: shape and row-major values.
struct Values {
  std::vector<std::int64_t> shape;
  std::vector<double> data;
};
using Tensors = std::map<std::string, Values>;

/// One line per tensor of an operation: name, axes, kind and range of random values.
struct TensorLine {
  std::string name, axes;
  char kind;  // i input, s initial state, o output, f final state
  double lo = -1, hi = 1;
};
const std::vector<TensorLine>& lines_of(const std::string& op);
/// Operations with gradients; `recurrences` have a time axis and a state.
std::vector<std::string> all_operations();
std::vector<std::string> recurrences();
std::vector<std::string> chunked_operations();

struct Problem {
  std::string op;
  std::map<char, std::int64_t> size = {{'B', 2}, {'T', 9}, {'H', 2}, {'N', 2}, {'K', 4},
                                       {'V', 3}, {'J', 2}, {'M', 4}, {'R', 5}, {'D', 4},
                                       {'E', 5}, {'W', 3}, {'w', 2}, {'P', 2}, {'G', 3}};
  std::vector<std::int64_t> cu_seqlens;  // empty: not packed
  Options options;
  Tensors inputs, cotangents;
};

/// Random inputs and cotangents. `heads`: number of heads of single inputs (head groups).
Problem random_problem(const std::string& op, std::uint64_t seed,
                       const std::function<void(Problem&)>& adjust = {},
                       const std::map<std::string, std::int64_t>& heads = {});

struct RunSettings {
  DType dtype = DType::f64;
  int threads = 1;
  bool strided = false;  // inputs and cotangents with gaps, innermost axis too
  bool gradients = true;
  bool baseline = false;  // the build for any processor
};

/// Outputs by name, gradients as "d_<input>". Throws std::runtime_error with the kernel's message.
Tensors run(const Problem& p, const RunSettings& settings = {});

/// Largest |x - y| / (1 + |y|); infinity when a value is not finite or shapes differ.
double distance(const Values& x, const Values& y);
/// The same over all tensors both have; names the worst.
double distance(const Tensors& x, const Tensors& y, std::string* worst = nullptr);
bool same_bits(const Tensors& x, const Tensors& y, std::string* first = nullptr);

/// Steps from .. to-1 of every tensor with a time axis; the rest as it is.
Problem slice_steps(const Problem& p, std::int64_t from, std::int64_t to);
/// Axis `axis` of `v` from .. to-1.
Values slice(const Values& v, int axis, std::int64_t from, std::int64_t to);

}  // namespace assay::cpu::testing
