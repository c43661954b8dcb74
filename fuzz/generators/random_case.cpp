#include "fuzz/generators/random_case.hpp"

#include <algorithm>
#include <set>

#include "reference/case/generate.hpp"
#include "reference/case/random.hpp"
#include "reference/case/text.hpp"

namespace assay {
namespace {

template <class T>
T pick(Stream& random, const std::vector<T>& from) {
  return from[random.below(static_cast<std::int64_t>(from.size()))];
}

bool chance(Stream& random, int percent) { return random.below(100) < percent; }

class Drawer {
 public:
  Drawer(const Operation& operation, const PrecisionModel& model, std::uint64_t seed,
         std::uint64_t index, const CaseLimits& limits)
      : operation_(operation),
        schema_(operation.schema(nullptr)),
        model_(model),
        limits_(limits),
        random_(seed * 0x9E3779B97F4A7C15u + index, operation.name()) {
    request_.op = operation.name();
    // Few enough to be written down, many enough not to repeat.
    request_.seed = static_cast<std::uint64_t>(random_.below(std::int64_t{1} << 40));
    request_.dtype = storage_dtype(model.input);
  }

  RandomCase draw() {
    shape();
    gates();
    optional_inputs();
    Case data = generate([&](const Case* c) { return operation_.schema(c); }, request_);
    keys(data);
    cotangents(data);
    const Schema schema = operation_.schema(&data);
    RandomCase out{{validate(std::move(data), schema), "", false}, std::move(classes_)};
    std::vector<std::string> words;
    for (const auto& [kind, value] : out.classes) words.push_back(kind + " " + value);
    out.given.why = join(words, ", ");
    return out;
  }

 private:
  bool uses(char letter) const {
    return std::any_of(schema_.inputs.begin(), schema_.inputs.end(), [&](const InputSpec& in) {
      return in.axes.find(letter) != std::string::npos;
    });
  }

  std::int64_t length() {
    const std::int64_t C = model_.chunk, most = limits_.tokens;
    if (chance(random_, 50)) {
      classes_["length"] = "around the chunk";
      std::vector<std::int64_t> edges;
      for (std::int64_t t : {std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, C - 1, C, C + 1,
                             2 * C - 1, 2 * C + 1}) {
        if (t <= most) edges.push_back(t);
      }
      return pick(random_, edges);
    }
    classes_["length"] = "any";
    return 1 + random_.below(most);
  }

  void add(const std::string& part) {
    request_.shape += (request_.shape.empty() ? "" : ",") + part;
  }

  void shape() {
    const bool packed = schema_.packable && uses('T') && chance(random_, 25);
    classes_["layout"] = packed ? "packed" : "batch";
    if (packed) {
      std::string text = "cu=0";
      std::int64_t at = 0;
      const std::int64_t sequences = 1 + random_.below(5);
      for (std::int64_t s = 0; s < sequences; ++s) {
        const std::int64_t room = limits_.tokens - at;
        at += chance(random_, 25)   ? 0
              : chance(random_, 25) ? std::min<std::int64_t>(1, room)
                                    : random_.below(room + 1);
        text += "," + std::to_string(at);
      }
      add(text);
    } else {
      if (uses('B')) add("B=" + std::to_string(1 + random_.below(3)));
      if (uses('T')) add("T=" + std::to_string(length()));
    }
    std::set<char> done = {'B', 'T'};
    for (const DerivedAxis& axis : schema_.derived) done.insert(axis.axis);
    for (const auto& [letter, fixed] : schema_.fixed_axes) done.insert(letter);
    std::int64_t heads = 1;
    for (const InputSpec& in : schema_.inputs) {
      for (const char letter : in.axes) {
        if (!done.insert(letter).second) continue;
        std::int64_t n = 1;
        if (letter == schema_.head_axis) {
          n = heads = pick<std::int64_t>(random_, {1, 2, limits_.heads});
        } else if (letter == 'K' || letter == 'V' || letter == 'D' || letter == 'E') {
          n = chance(random_, 20)   ? 1
              : chance(random_, 30) ? limits_.width
                                    : 1 + random_.below(limits_.width);
        } else if (letter == 'M') {
          n = 2 + random_.below(4);  // not fewer than top_k
        } else {
          n = 1 + random_.below(4);
        }
        add(std::string(1, letter) + "=" + std::to_string(n));
      }
    }
    classes_["heads"] = "own";
    if (heads == 1 || !chance(random_, 40)) return;
    bool first = true;
    for (const InputSpec& in : schema_.inputs) {
      if (in.role == Role::state || in.axes.find(schema_.head_axis) == std::string::npos) continue;
      // The first tensor keeps all heads, or the case would have fewer.
      if (first || !chance(random_, 50)) {
        first = false;
        continue;
      }
      const std::int64_t groups = heads == 4 ? pick<std::int64_t>(random_, {1, 2}) : 1;
      add(std::string(1, schema_.head_axis) + "." + in.name + "=" + std::to_string(groups));
      classes_["heads"] = "shared";
    }
  }

  void gates() {
    std::vector<std::string> names;
    for (const GatePreset& preset : gate_presets()) names.push_back(preset.name);
    request_.gates = {pick(random_, names)};
    classes_["gates"] = request_.gates[0];
    request_.log_gates = chance(random_, 50);
    classes_["gate form"] = request_.log_gates ? "logarithms" : "linear";
  }

  void optional_inputs() {
    classes_["optional inputs"] = "all";
    if (chance(random_, 25)) {
      request_.optional_inputs = false;
      classes_["optional inputs"] = "none";
    }
  }

  /// Degenerate directions: zero, one for all steps, axis-parallel, alternating in sign.
  void keys(Case& data) {
    const std::string kind = pick<std::string>(
        random_, {"random", "random", "random", "zero rows", "repeated", "one-hot", "alternating"});
    const bool l2norm = std::any_of(schema_.options.begin(), schema_.options.end(),
                                    [](const OptionSpec& o) { return o.name == "qk_l2norm"; }) &&
                        data.options.count("qk_l2norm") != 0;
    classes_["keys"] = kind;
    if (kind == "random" || (l2norm && kind == "zero rows")) return;
    for (auto& [name, tensor] : data.tensors) {
      if (name != "k" && name != "k_mem" && name != "k_shared") continue;
      if (tensor.shape.empty() || tensor.values.empty()) continue;
      const std::int64_t width = tensor.shape.back();
      const std::int64_t rows = static_cast<std::int64_t>(tensor.values.size()) / width;
      for (std::int64_t r = 0; r < rows; ++r) {
        double* row = tensor.values.data() + r * width;
        if (kind == "zero rows") {
          if (chance(random_, 30)) std::fill(row, row + width, 0.0);
        } else if (kind == "repeated") {
          std::copy_n(tensor.values.data(), width, row);
        } else if (kind == "alternating") {
          for (std::int64_t i = 0; i < width; ++i) row[i] = tensor.values[i] * (r % 2 ? -1 : 1);
        } else {
          std::fill(row, row + width, 0.0);
          row[random_.below(width)] = chance(random_, 50) ? 1 : -1;
        }
      }
    }
  }

  void cotangents(Case& data) {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : data.tensors) {
      if (name.rfind("d_", 0) == 0) names.push_back(name);
    }
    classes_["cotangents"] = "all";
    if (names.size() < 2 || chance(random_, 60)) return;
    const std::string kept = pick(random_, names);
    classes_["cotangents"] = "some";
    for (const std::string& name : names) {
      if (name != kept && chance(random_, 70)) data.tensors.erase(name);
    }
  }

  const Operation& operation_;
  const Schema schema_;
  const PrecisionModel& model_;
  const CaseLimits limits_;
  Stream random_;
  GenerateRequest request_;
  CaseClasses classes_;
};

}  // namespace

RandomCase random_case(const Operation& operation, const PrecisionModel& model, std::uint64_t seed,
                       std::uint64_t index, const CaseLimits& limits) {
  return Drawer(operation, model, seed, index, limits).draw();
}

void ClassMix::add(const CaseClasses& classes) {
  for (const auto& [kind, value] : classes) ++counts_[kind][value];
}

}  // namespace assay
