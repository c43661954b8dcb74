#include "reference/case/shape_text.hpp"

#include <algorithm>
#include <set>

#include "reference/case/text.hpp"
#include "reference/case/validate.hpp"

namespace assay {
namespace {

constexpr std::int64_t kMaxLength = std::int64_t{1} << 31;

std::int64_t default_length(char axis) {
  static const std::map<char, std::int64_t> lengths = {
      {'B', 1}, {'T', 16}, {'H', 2}, {'N', 2}, {'K', 8}, {'V', 8}, {'D', 8}, {'J', 2}, {'P', 2}};
  const auto found = lengths.find(axis);
  return found == lengths.end() ? 4 : found->second;
}

[[noreturn]] void refuse(const std::string& item, const std::string& rule) {
  throw InputError("shape " + quote_name(item) + ": " + rule);
}

const DerivedAxis* find_derived(const Schema& schema, char axis) {
  const auto found = std::find_if(schema.derived.begin(), schema.derived.end(),
                                  [&](const DerivedAxis& d) { return d.axis == axis; });
  return found == schema.derived.end() ? nullptr : &*found;
}

class ShapeParser {
 public:
  ShapeParser(const Schema& schema, const Schema& full) : schema_(schema), full_(full) {
    for (const Schema* s : {&schema, &full}) {
      for (const InputSpec& input : s->inputs) axes_.insert(input.axes.begin(), input.axes.end());
      for (const OutputSpec& out : s->outputs) axes_.insert(out.axes.begin(), out.axes.end());
      for (const DerivedAxis& derived : s->derived) axes_.insert(derived.from);
    }
  }

  ShapeRequest parse(const std::string& text) {
    for (const std::string& item : split(text, ',')) add(item);
    const bool packed = !result_.cu_seqlens.empty();
    if (packed) finish_packing();
    for (char axis : axes_) {
      if (is_free(axis)) result_.lengths.emplace(axis, default_length(axis));
    }
    check_heads();
    return std::move(result_);
  }

 private:
  void add(const std::string& item) {
    const std::size_t equals = item.find('=');
    if (equals == std::string::npos) {
      if (!in_offsets_) refuse(item, "must be axis=length");
      result_.cu_seqlens.push_back(number(item, item));
      return;
    }
    const std::string key = item.substr(0, equals);
    if (key.empty()) refuse(item, "must be axis=length");
    const std::int64_t value = number(item, item.substr(equals + 1));
    if (!keys_.insert(key).second) refuse(item, quote_name(key) + " is given twice");
    in_offsets_ = key == "cu" || key == kCuSeqlens;
    if (in_offsets_) {
      if (!schema_.packable) refuse(item, schema_.op + " takes no packed sequences");
      if (!result_.cu_seqlens.empty()) refuse(item, "the offsets are given twice");
      result_.cu_seqlens.push_back(value);
    } else if (key.size() == 1) {
      add_axis(item, key[0], value);
    } else {
      add_heads(item, key, value);
    }
  }

  std::int64_t number(const std::string& item, const std::string& text) const {
    const auto value = parse_integer(text);
    if (!value || *value < 0 || *value > kMaxLength) {
      refuse(item, "the length must be an integer from 0 to 2^31");
    }
    return *value;
  }

  /// H where the paper writes N, and the other way round, means the head axis.
  char axis_of(char letter) const {
    const bool head = (letter == 'H' || letter == 'N') && axes_.count(letter) == 0 &&
                      axes_.count(schema_.head_axis) != 0;
    return head ? schema_.head_axis : letter;
  }

  bool is_free(char axis) const {
    return find_derived(schema_, axis) == nullptr && schema_.fixed_axes.count(axis) == 0;
  }

  void add_axis(const std::string& item, char letter, std::int64_t value) {
    const char axis = axis_of(letter);
    if (axis == 'S' && axes_.count('S') == 0) refuse(item, "S follows from cu=..., the offsets");
    if (axes_.count(axis) == 0) {
      std::string known;
      for (char a : axes_) {
        if (is_free(a)) known += (known.empty() ? "" : ", ") + std::string(1, a);
      }
      refuse(item, schema_.op + " has no such axis, it has " + known);
    }
    if (const DerivedAxis* derived = find_derived(schema_, axis)) {
      refuse(item, std::string(1, axis) + " follows from " + derived->from);
    }
    if (!is_free(axis)) {
      refuse(item, std::string(1, axis) + " is not free, " + schema_.op + " fixes it");
    }
    if (axis != 'T' && value < 1) refuse(item, "the length must be at least 1");
    if (!result_.lengths.emplace(axis, value).second) refuse(item, "the axis is given twice");
  }

  void add_heads(const std::string& item, const std::string& key, std::int64_t value) {
    const std::string name = key.substr(key[1] == '.' ? 2 : 1);
    const InputSpec* input = schema_.find_input(name);
    if (input == nullptr) input = full_.find_input(name);
    const bool heads = axis_of(key[0]) == schema_.head_axis && input != nullptr &&
                       input->axes.find(schema_.head_axis) != std::string::npos;
    if (!heads) refuse(item, "must be axis=length, or H.name=heads of an input with a head axis");
    if (value < 1) refuse(item, "there must be at least 1 head");
    result_.heads[input->name] = value;
  }

  void finish_packing() {
    const std::vector<std::int64_t>& cu = result_.cu_seqlens;
    const auto wrong = [&](const std::string& rule) {
      std::vector<std::string> parts;
      for (std::int64_t offset : cu) parts.push_back(std::to_string(offset));
      refuse("cu=" + join(parts, ","), rule);
    };
    if (cu.size() < 2) wrong("needs at least two offsets");
    if (cu.front() != 0) wrong("the first must be 0");
    if (!std::is_sorted(cu.begin(), cu.end())) wrong("must not decrease");
    if (result_.lengths.emplace('T', cu.back()).first->second != cu.back()) {
      wrong("the last must be T = " + std::to_string(result_.lengths['T']));
    }
    if (result_.lengths.emplace('B', 1).first->second != 1) wrong("packed sequences need B = 1");
  }

  void check_heads() const {
    const auto all = result_.lengths.find(schema_.head_axis);
    for (const auto& [name, heads] : result_.heads) {
      if (all != result_.lengths.end() && all->second % heads == 0) continue;
      refuse(std::string(1, schema_.head_axis) + "." + name + "=" + std::to_string(heads),
             "must divide " + std::string(1, schema_.head_axis) + " = " +
                 std::to_string(all == result_.lengths.end() ? 0 : all->second));
    }
  }

  const Schema& schema_;
  const Schema& full_;
  std::set<char> axes_;
  std::set<std::string> keys_;
  bool in_offsets_ = false;
  ShapeRequest result_;
};

}  // namespace

Shape ShapeRequest::shape_of(const Schema& schema, const InputSpec& input) const {
  const bool state = input.role == Role::state;
  const auto length = [&](char axis) {
    const auto fixed = schema.fixed_axes.find(axis);
    if (fixed != schema.fixed_axes.end()) return fixed->second;
    if (axis == 'S' && !cu_seqlens.empty()) return static_cast<std::int64_t>(cu_seqlens.size()) - 1;
    std::int64_t offset = 0;
    for (const DerivedAxis* d = find_derived(schema, axis); d; d = find_derived(schema, axis)) {
      offset += d->offset;
      axis = d->from;
    }
    const auto own = heads.find(input.name);
    const bool grouped = axis == schema.head_axis && own != heads.end() && !state;
    const auto free = lengths.find(axis);
    const std::int64_t all = free == lengths.end() ? default_length(axis) : free->second;
    return (grouped ? own->second : all) + offset;
  };
  Shape shape;
  for (char axis : stored_axes(input.axes, state && !cu_seqlens.empty())) {
    shape.push_back(length(axis));
  }
  return shape;
}

ShapeRequest parse_shape(const std::string& text, const Schema& schema, const Schema& full) {
  return ShapeParser(schema, full).parse(text);
}

}  // namespace assay
