// Fitting the shapes of a case together: which tensor fixes which axis, head groups, packing.
#include <algorithm>

#include "reference/case/text.hpp"
#include "reference/case/validate.hpp"

namespace assay {
namespace {

std::string axes_text(const std::string& axes) {
  std::string out = "[";
  for (std::size_t i = 0; i < axes.size(); ++i)
    out += (i == 0 ? "" : ",") + std::string(1, axes[i]);
  return out + "]";
}

class AxisSolver {
 public:
  AxisSolver(const Case& data, const Schema& schema, bool packed)
      : data_(data), schema_(schema), packed_(packed) {}

  Sizes solve(const std::vector<std::int64_t>& cu_seqlens) {
    for (const auto& [letter, length] : schema_.fixed_axes) fix(letter, length, "");
    if (packed_) fix('S', static_cast<std::int64_t>(cu_seqlens.size()) - 1, kCuSeqlens);
    for (const InputSpec& input : schema_.inputs) add_input(input);
    if (packed_) check_packing(cu_seqlens);
    for (const InputSpec& input : schema_.inputs) check_heads(input);
    const Sizes sizes = result();
    for (const OutputSpec& output : schema_.outputs) check_output(output, sizes);
    check_magnitude(sizes);
    return sizes;
  }

 private:
  struct Fixed {
    std::int64_t length;
    std::string tensor;  // that fixed it; empty: the operation itself
  };

  /// length(letter) = length(base) + offset.
  struct Base {
    char letter;
    std::int64_t offset;
  };

  Base base_of(char letter) const {
    Base base{letter, 0};
    for (std::size_t step = 0; step <= schema_.derived.size(); ++step) {
      const auto found = std::find_if(schema_.derived.begin(), schema_.derived.end(),
                                      [&](const DerivedAxis& d) { return d.axis == base.letter; });
      if (found == schema_.derived.end()) return base;
      base = {found->from, base.offset + found->offset};
    }
    throw std::invalid_argument("schema of " + schema_.op + ": derived axes form a ring");
  }

  bool is_derived(char letter) const { return base_of(letter).letter != letter; }

  void fix(char letter, std::int64_t length, const std::string& tensor) {
    fixed_.emplace(letter, Fixed{length, tensor});
  }

  std::string fixed_by(const std::string& tensor) const {
    if (tensor.empty()) return schema_.op;
    return "tensor " + quote_name(tensor) + " " + shape_text(data_.tensors.at(tensor).shape);
  }

  void add_input(const InputSpec& input) {
    const std::string name = given_name(data_, input);
    if (name.empty()) return;
    const Shape& shape = data_.tensors.at(name).shape;
    const std::string axes = stored_axes(input.axes, packed_ && input.role == Role::state);
    if (shape.size() != axes.size()) {
      refuse_tensor(data_, name,
                    "has " + std::to_string(shape.size()) + " axes, must have " +
                        std::to_string(axes.size()) + ": " + axes_text(axes));
    }
    for (std::size_t i = 0; i < axes.size(); ++i) {
      // An axis that follows from another may vanish: the W - 1 inputs before a convolution.
      const std::int64_t least = axes[i] == 'T' || is_derived(axes[i]) ? 0 : 1;
      if (shape[i] < least) {
        refuse_tensor(data_, name,
                      std::string("axis ") + axes[i] + " has length " + std::to_string(shape[i]) +
                          ", must be at least " + std::to_string(least));
      }
      if (axes[i] == schema_.head_axis) {
        add_heads(name, shape[i]);
      } else {
        add_axis(name, axes[i], shape[i]);
      }
    }
  }

  void add_heads(const std::string& name, std::int64_t heads) {
    const auto found = fixed_.find(schema_.head_axis);
    if (found == fixed_.end() || heads > found->second.length) {
      fixed_[schema_.head_axis] = Fixed{heads, name};
    }
  }

  void add_axis(const std::string& name, char letter, std::int64_t length) {
    const Base base = base_of(letter);
    const auto found = fixed_.find(base.letter);
    if (found == fixed_.end()) {
      const std::int64_t least = base.letter == 'T' ? 0 : 1;
      if (length - base.offset < least) {
        refuse_tensor(data_, name,
                      std::string("axis ") + letter + " has length " + std::to_string(length) +
                          ", must be at least " + std::to_string(base.offset + least));
      }
      fix(base.letter, length - base.offset, name);
      return;
    }
    if (found->second.length + base.offset == length) return;
    std::string rule =
        std::string("fixes ") + base.letter + " = " + std::to_string(found->second.length);
    if (base.letter != letter) {
      rule += std::string(" and so ") + letter + " = " +
              std::to_string(found->second.length + base.offset);
    }
    refuse_tensor(data_, name,
                  std::string("axis ") + letter + " has length " + std::to_string(length) +
                      ", but " + fixed_by(found->second.tensor) + " " + rule);
  }

  void check_heads(const InputSpec& input) const {
    const std::string name = given_name(data_, input);
    const std::size_t axis = input.axes.find(schema_.head_axis);
    if (name.empty() || axis == std::string::npos) return;
    const std::int64_t heads = data_.tensors.at(name).shape[axis];
    const Fixed& all = fixed_.at(schema_.head_axis);
    const bool state = input.role == Role::state;
    if (state ? heads == all.length : all.length % heads == 0) return;
    refuse_tensor(data_, name,
                  std::string("axis ") + schema_.head_axis + " has length " +
                      std::to_string(heads) + (state ? ", a state must have " : ", must divide ") +
                      schema_.head_axis + " = " + std::to_string(all.length) + " fixed by " +
                      fixed_by(all.tensor));
  }

  void check_packing(const std::vector<std::int64_t>& cu_seqlens) const {
    const auto batch = fixed_.find('B');
    if (batch != fixed_.end() && batch->second.length != 1) {
      refuse(data_, std::string("tensor 'cu_seqlens': packed sequences need B = 1, but ") +
                        fixed_by(batch->second.tensor) +
                        " fixes B = " + std::to_string(batch->second.length));
    }
    const auto time = fixed_.find('T');
    if (time == fixed_.end()) {
      refuse(data_, "tensor 'cu_seqlens': " + schema_.op + " has no time axis to pack");
    }
    if (cu_seqlens.back() != time->second.length) {
      refuse_tensor(data_, kCuSeqlens,
                    "index [" + std::to_string(cu_seqlens.size() - 1) + "], value " +
                        std::to_string(cu_seqlens.back()) +
                        ": the last must be T = " + std::to_string(time->second.length) +
                        " fixed by " + fixed_by(time->second.tensor));
    }
  }

  Sizes result() const {
    Sizes sizes;
    for (const auto& [letter, fixed] : fixed_) sizes.by_letter[letter] = fixed.length;
    if (packed_) sizes.by_letter['B'] = 1;
    for (const DerivedAxis& derived : schema_.derived) {
      const Base base = base_of(derived.axis);
      if (!sizes.has(base.letter)) continue;
      const std::int64_t length = sizes[base.letter] + base.offset;
      if (length < 0) {
        refuse(data_, std::string("axis ") + derived.axis + " follows from " + base.letter +
                          " and would have length " + std::to_string(length));
      }
      sizes.by_letter[derived.axis] = length;
    }
    return sizes;
  }

  void check_output(const OutputSpec& output, const Sizes& sizes) const {
    const std::string axes = stored_axes(output.axes, packed_ && output.final_state);
    for (char letter : axes) {
      if (!sizes.has(letter)) {
        refuse(data_, std::string("axis ") + letter + " of output " + quote_name(output.name) +
                          " is fixed by no tensor");
      }
    }
    const std::string name = "d_" + output.name;
    const auto cotangent = data_.tensors.find(name);
    if (cotangent == data_.tensors.end() || schema_.find_input(name) != nullptr) return;
    const Shape expected = sizes.shape_of(axes);
    if (cotangent->second.shape != expected) {
      refuse_tensor(data_, name,
                    "must have the shape of output " + quote_name(output.name) + ", " +
                        axes_text(axes) + " = " + shape_text(expected));
    }
  }

  /// Outputs and the inputs that are absent and filled with defaults have sizes no byte of the file
  /// vouches for.
  void check_magnitude(const Sizes& sizes) const {
    const auto check = [&](const std::string& name, const std::string& axes) {
      Shape shape;
      for (char letter : axes) {
        if (!sizes.has(letter)) return;
        shape.push_back(std::max<std::int64_t>(sizes[letter], 1));
      }
      const auto count = checked_element_count(shape);
      if (!count || *count > kMaxElements) {
        refuse(data_, "tensor " + quote_name(name) + ": would have the shape " + shape_text(shape) +
                          ", more than 2^31 elements");
      }
    };
    for (const InputSpec& input : schema_.inputs) {
      check(input.name, stored_axes(input.axes, packed_ && input.role == Role::state));
    }
    for (const OutputSpec& output : schema_.outputs) {
      check(output.name, stored_axes(output.axes, packed_ && output.final_state));
    }
  }

  const Case& data_;
  const Schema& schema_;
  const bool packed_;
  std::map<char, Fixed> fixed_;
};

}  // namespace

Sizes solve_axes(const Case& data, const Schema& schema,
                 const std::vector<std::int64_t>& cu_seqlens) {
  return AxisSolver(data, schema, !cu_seqlens.empty()).solve(cu_seqlens);
}

}  // namespace assay
