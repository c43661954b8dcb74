#include "kernels/tests/problem.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <stdexcept>

namespace assay::cpu::testing {
namespace {

std::int64_t count(const std::vector<std::int64_t>& shape) {
  std::int64_t n = 1;
  for (std::int64_t s : shape) n *= s;
  return n;
}

// Memory of one tensor in a dtype, perhaps with gaps, and the view of it.
struct Stored {
  std::string name;
  std::vector<double> memory;  // doubles for their alignment
  View view;
};

std::size_t bytes_of(DType t) { return t == DType::f64 ? 8 : t == DType::f32 ? 4 : 2; }

void put(char* at, DType dtype, double value) {
  const float f = static_cast<float>(value);
  std::uint32_t u;
  std::memcpy(&u, &f, 4);
  const std::uint16_t half = static_cast<std::uint16_t>(u >> 16);
  if (dtype == DType::f64) std::memcpy(at, &value, 8);
  if (dtype == DType::f32) std::memcpy(at, &f, 4);
  if (dtype == DType::bf16) std::memcpy(at, &half, 2);
}

double get(const char* at, DType dtype) {
  double value = 0;
  float f = 0;
  std::uint16_t half = 0;
  if (dtype == DType::f64) {
    std::memcpy(&value, at, 8);
  } else if (dtype == DType::f32) {
    std::memcpy(&f, at, 4);
    value = f;
  } else {
    std::memcpy(&half, at, 2);
    const std::uint32_t u = std::uint32_t{half} << 16;
    std::memcpy(&f, &u, 4);
    value = f;
  }
  return value;
}

std::int64_t offset_of(const View& v, std::int64_t flat) {
  std::int64_t offset = 0;
  for (int a = v.rank; a-- > 0;) {
    offset += flat % v.shape[a] * v.stride[a];
    flat /= v.shape[a];
  }
  return offset;
}

std::unique_ptr<Stored> store(const std::string& name, const std::vector<std::int64_t>& shape,
                              DType dtype, bool strided) {
  auto s = std::make_unique<Stored>();
  s->name = name;
  View& v = s->view;
  v.name = s->name.c_str();
  v.dtype = dtype;
  v.rank = static_cast<int>(shape.size());
  std::int64_t next = strided ? 2 : 1;
  for (int a = v.rank; a-- > 0;) {
    v.shape[a] = shape[a];
    v.stride[a] = next;
    next = next * std::max<std::int64_t>(shape[a], 1) + (strided ? 1 : 0);
  }
  s->memory.assign(static_cast<std::size_t>(next) * bytes_of(dtype) / 8 + 2,
                   std::numeric_limits<double>::quiet_NaN());
  v.data = s->memory.data();
  return s;
}

std::vector<View> views_of(const std::vector<std::unique_ptr<Stored>>& stored) {
  std::vector<View> views;
  for (const auto& s : stored) views.push_back(s->view);
  return views;
}

std::vector<std::int64_t> shape_of(const Problem& p, const TensorLine& line) {
  std::vector<std::int64_t> shape;
  for (char axis : line.axes) {
    const bool state = line.kind == 's' || line.kind == 'f';
    const bool sequences = axis == 'B' && state && !p.cu_seqlens.empty();
    shape.push_back(sequences ? static_cast<std::int64_t>(p.cu_seqlens.size()) - 1
                              : p.size.at(axis));
  }
  return shape;
}

using Stores = std::vector<std::unique_ptr<Stored>>;

Stores hand_over(const Tensors& tensors, const RunSettings& settings) {
  Stores stores;
  for (const auto& [name, v] : tensors) {
    stores.push_back(store(name, v.shape, settings.dtype, settings.strided));
    const View& view = stores.back()->view;
    for (std::int64_t i = 0; i < count(v.shape); ++i) {
      put(static_cast<char*>(view.data) + offset_of(view, i) * bytes_of(settings.dtype),
          settings.dtype, v.data[i]);
    }
  }
  return stores;
}

// Logits far from ties, where the selection would jump: a rotation of 0, 1, .. with a little noise.
void spread(std::int64_t M, std::vector<double>& logits, std::mt19937_64& engine) {
  std::uint64_t shift = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (i % M == 0) shift = engine();
    logits[i] = static_cast<double>((i + shift) % M) / 2 + std::floor(4 * logits[i]) / 64;
  }
}

// The workspace starts as NaN, as do outputs: what is not written shows.
void execute(const std::string& op, const RunSettings& settings, Call& call) {
  const KernelTable& table = settings.baseline ? baseline_kernel_table() : kernel_table();
  const OpKernel* kernel = find_kernel(table, op.c_str());
  if (!kernel) throw std::runtime_error("no kernel for " + op);
  const auto succeed = [](const Outcome& o) {
    if (o.status != Status::ok) throw std::runtime_error(o.message);
  };
  succeed(kernel->plan(call, &call.workspace_bytes));
  std::vector<double> workspace(call.workspace_bytes / 8 + 1,
                                std::numeric_limits<double>::quiet_NaN());
  call.workspace = workspace.data();
  succeed(kernel->run(call));
}

Values contents(const Stored& s) {
  Values v;
  v.shape.assign(s.view.shape, s.view.shape + s.view.rank);
  v.data.resize(count(v.shape));
  for (std::size_t i = 0; i < v.data.size(); ++i) {
    v.data[i] =
        get(static_cast<const char*>(s.view.data) + i * bytes_of(s.view.dtype), s.view.dtype);
  }
  return v;
}

}  // namespace

Problem random_problem(const std::string& op, std::uint64_t seed,
                       const std::function<void(Problem&)>& adjust,
                       const std::map<std::string, std::int64_t>& heads) {
  Problem p;
  p.op = op;
  if (op == "lstm") p.size['G'] = 4;
  if (adjust) adjust(p);
  std::mt19937_64 engine(seed);
  for (const TensorLine& line : lines_of(op)) {
    Values v;
    v.shape = shape_of(p, line);
    const auto given = heads.find(line.name);
    if (given != heads.end()) v.shape[line.axes.find_first_of("HN")] = given->second;
    v.data.resize(count(v.shape));
    for (double& x : v.data) {
      // Multiples of 2^-7: exact in every dtype.
      const double steps = std::floor((line.hi - line.lo) * 128);
      x = line.lo + std::floor(static_cast<double>(engine() >> 11) * 0x1p-53 * (steps + 1)) / 128;
    }
    if (line.name == "router_logits") spread(p.size.at('M'), v.data, engine);
    const bool input = line.kind == 'i' || line.kind == 's';
    (input ? p.inputs[line.name] : p.cotangents["d_" + line.name]) = std::move(v);
  }
  return p;
}

Tensors run(const Problem& p, const RunSettings& settings) {
  const Stores in = hand_over(p.inputs, settings);
  const Stores cotangents = hand_over(p.cotangents, settings);
  Stores out, gradients;
  for (const TensorLine& line : lines_of(p.op)) {
    if (line.kind == 'o' || line.kind == 'f') {
      out.push_back(store(line.name, shape_of(p, line), settings.dtype, false));
    }
  }
  for (const auto& [name, v] : p.inputs) {
    if (settings.gradients) {
      gradients.push_back(store("d_" + name, v.shape, settings.dtype, false));
    }
  }
  std::vector<View> in_views = views_of(in);
  std::vector<std::int64_t> bounds = p.cu_seqlens;
  if (!bounds.empty()) {
    View cu;
    cu.name = "cu_seqlens";
    cu.data = bounds.data();
    cu.dtype = DType::i64;
    cu.rank = 1;
    cu.shape[0] = static_cast<std::int64_t>(bounds.size());
    cu.stride[0] = 1;
    in_views.push_back(cu);
  }
  const std::vector<View> out_views = views_of(out), d_views = views_of(cotangents),
                          g_views = views_of(gradients);
  const auto list = [](const std::vector<View>& v) {
    return ViewList{v.data(), static_cast<int>(v.size())};
  };
  Call call;
  call.inputs = list(in_views);
  call.outputs = list(out_views);
  call.cotangents = list(d_views);
  call.gradients = list(g_views);
  call.options = p.options;
  call.threads = settings.threads;
  execute(p.op, settings, call);
  Tensors result;
  for (const Stores* group : {&out, &gradients}) {
    for (const auto& s : *group) result[s->name] = contents(*s);
  }
  return result;
}

double distance(const Values& x, const Values& y) {
  if (x.shape != y.shape) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (std::size_t i = 0; i < x.data.size(); ++i) {
    const double d = std::fabs(x.data[i] - y.data[i]) / (1 + std::fabs(y.data[i]));
    if (!(d <= worst)) worst = std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
  }
  return worst;
}

double distance(const Tensors& x, const Tensors& y, std::string* worst_name) {
  double worst = 0;
  for (const auto& [name, v] : x) {
    const auto other = y.find(name);
    if (other == y.end()) continue;
    const double d = distance(v, other->second);
    if (d > worst) {
      worst = d;
      if (worst_name) *worst_name = name;
    }
  }
  return worst;
}

bool same_bits(const Tensors& x, const Tensors& y, std::string* first) {
  for (const auto& [name, v] : x) {
    const auto other = y.find(name);
    const bool same = other != y.end() && other->second.shape == v.shape &&
                      std::memcmp(v.data.data(), other->second.data.data(), 8 * v.data.size()) == 0;
    if (same) continue;
    if (first) *first = name;
    return false;
  }
  return true;
}

Values slice(const Values& v, int axis, std::int64_t from, std::int64_t to) {
  Values r;
  r.shape = v.shape;
  r.shape[axis] = to - from;
  std::int64_t outer = 1, inner = 1;
  for (int a = 0; a < axis; ++a) outer *= v.shape[a];
  for (std::size_t a = axis + 1; a < v.shape.size(); ++a) inner *= v.shape[a];
  for (std::int64_t o = 0; o < outer; ++o) {
    const auto begin = v.data.begin() + (o * v.shape[axis] + from) * inner;
    r.data.insert(r.data.end(), begin, begin + (to - from) * inner);
  }
  return r;
}

Problem slice_steps(const Problem& p, std::int64_t from, std::int64_t to) {
  Problem r = p;
  r.size['T'] = to - from;
  for (const TensorLine& line : lines_of(p.op)) {
    const std::size_t axis = line.axes.find('T');
    if (axis == std::string::npos) continue;
    for (Tensors* tensors : {&r.inputs, &r.cotangents}) {
      for (const std::string& name : {line.name, "d_" + line.name}) {
        const auto found = tensors->find(name);
        if (found == tensors->end()) continue;
        found->second = slice(found->second, static_cast<int>(axis), from, to);
      }
    }
  }
  return r;
}

}  // namespace assay::cpu::testing
