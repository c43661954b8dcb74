// Schemas and cases for the tests of `case/`, made up so that every rule of a schema is used.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "reference/case/schema.hpp"

namespace assay::fixtures {

/// Head groups, a gate with a logarithm, an optional gate, states, every type of option.
inline Schema gated() {
  Schema s;
  s.op = "gated";
  s.inputs = {
      {"q", "BTHK", Role::token, "query", {}},
      {"k", "BTHK", Role::token, "key", {}},
      {"v", "BTHV", Role::token, "value", {}},
      {"alpha", "BTH", Role::token, "decay", {0, 1}, false, 0, "log_alpha"},
      {"mu", "BTH", Role::token, "momentum", {0, 1}, true, 0, "log_mu"},
      {"beta", "BTH", Role::token, "write strength", {0, 2}},
      {"skip", "H", Role::param, "direct path", {}, true},
      {"s0", "BHKV", Role::state, "initial state", {}, true},
  };
  s.outputs = {{"o", "BTHV", "read-out"}, {"s_final", "BHKV", "final state", true}};
  s.options = {
      {"scale", OptionType::real, std::nullopt, "multiplies the read-out"},
      {"l2norm", OptionType::boolean, OptionValue(false), "normalise"},
      {"chunk", OptionType::integer, OptionValue(std::int64_t{64}), "chunk length", 1, 65536},
      {"update",
       OptionType::string,
       OptionValue(std::string("gdn")),
       "update",
       -kInf,
       kInf,
       {"gdn", "delta"}},
  };
  return s;
}

/// A derived axis, a fixed one, an integer input and an integer output; not packable.
inline Schema routed() {
  Schema s;
  s.op = "routed";
  s.head_axis = 'N';
  s.inputs = {
      {"x", "BTN", Role::token, "input", {}},
      {"w", "NGD", Role::param, "weights", {}},
      {"taps", "DW", Role::param, "taps", {}},
      {"choice", "BT", Role::token, "memory", {0, 3}},
      {"x0", "BwD", Role::state, "inputs before the first", {}, true},
  };
  s.inputs[3].integer = true;
  s.inputs[3].differentiable = false;
  s.outputs = {{"y", "BTND", "output"},
               {"x_final", "BwD", "last inputs", true},
               {"order", "BT", "permutation", false, true},
               {"loss", "", "loss"}};
  s.derived = {{'w', 'W', -1}};
  s.fixed_axes = {{'G', 3}};
  s.packable = false;
  return s;
}

inline CaseTensor floats(Shape shape, double value, DType dtype = DType::F32) {
  CaseTensor t;
  t.dtype = dtype;
  t.shape = std::move(shape);
  t.values.assign(static_cast<std::size_t>(element_count(t.shape)), value);
  return t;
}

inline CaseTensor integers(std::vector<std::int64_t> values, DType dtype = DType::I64) {
  CaseTensor t;
  t.dtype = dtype;
  t.shape = {static_cast<std::int64_t>(values.size())};
  t.integers = std::move(values);
  return t;
}

/// A valid case of `gated` with B=2 T=3 H=4 K=5 V=6; q and k have two heads.
inline Case gated_case() {
  Case c;
  c.op = "gated";
  c.source = "g.safetensors";
  c.tensors["q"] = floats({2, 3, 2, 5}, 0.5);
  c.tensors["k"] = floats({2, 3, 2, 5}, 0.25);
  c.tensors["v"] = floats({2, 3, 4, 6}, 1);
  c.tensors["log_alpha"] = floats({2, 3, 4}, -0.5);
  c.tensors["beta"] = floats({2, 3, 1}, 1);
  c.tensors["d_o"] = floats({2, 3, 4, 6}, 1);
  return c;
}

/// The same with B=1, packed into segments of 2, 0 and 1 steps.
inline Case packed_case() {
  Case c = gated_case();
  c.tensors["q"] = floats({1, 3, 2, 5}, 0.5);
  c.tensors["k"] = floats({1, 3, 2, 5}, 0.25);
  c.tensors["v"] = floats({1, 3, 4, 6}, 1);
  c.tensors["log_alpha"] = floats({1, 3, 4}, -0.5);
  c.tensors["beta"] = floats({1, 3, 1}, 1);
  c.tensors["d_o"] = floats({1, 3, 4, 6}, 1);
  c.tensors["s0"] = floats({3, 4, 5, 6}, 0);
  c.tensors["cu_seqlens"] = integers({0, 2, 2, 3});
  return c;
}

/// A valid case of `routed` with B=1 T=2 N=2 D=3 W=4.
inline Case routed_case() {
  Case c;
  c.op = "routed";
  c.source = "r.safetensors";
  c.tensors["x"] = floats({1, 2, 2}, 1);
  c.tensors["w"] = floats({1, 3, 3}, 1);
  c.tensors["taps"] = floats({3, 4}, 1);
  c.tensors["choice"] = integers({0, 3}, DType::I32);
  c.tensors["choice"].shape = {1, 2};
  c.tensors["x0"] = floats({1, 3, 3}, 1);
  return c;
}

/// A folder that is gone when the test ends.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "assay_case_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp: " + name);
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

/// The message of the InputError that `run` throws; empty when it throws none.
template <class Run>
std::string refusal(Run run) {
  try {
    run();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

/// One line of printable characters?
inline bool one_clear_line(const std::string& message) {
  if (message.empty() || message.size() > 1000) return false;
  for (const char c : message) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
  }
  return true;
}

}  // namespace assay::fixtures
