#include "fuzz/campaign/slice.hpp"

#include <algorithm>
#include <numeric>

#include "reference/case/validate.hpp"
#include "reference/oracle/registry.hpp"

namespace assay {
namespace {

using Indices = std::vector<std::int64_t>;

/// Axes of a tensor of the case as they are stored; empty for cu_seqlens.
std::string axes_of(const ValidCase& c, const std::string& name) {
  if (const InputSpec* in = c.schema.find_input(name)) {
    return stored_axes(in->axes, in->role == Role::state && c.packed());
  }
  if (name.rfind("d_", 0) == 0) {
    if (const OutputSpec* out = c.schema.find_output(name.substr(2))) {
      return stored_axes(out->axes, out->final_state && c.packed());
    }
  }
  return "";
}

template <class T>
std::vector<T> gather(const std::vector<T>& from, const Shape& shape, std::size_t axis,
                      const Indices& keep) {
  std::int64_t outer = 1, inner = 1;
  for (std::size_t a = 0; a < axis; ++a) outer *= shape[a];
  for (std::size_t a = axis + 1; a < shape.size(); ++a) inner *= shape[a];
  std::vector<T> out;
  out.reserve(static_cast<std::size_t>(outer * inner) * keep.size());
  for (std::int64_t o = 0; o < outer; ++o) {
    for (const std::int64_t k : keep) {
      const auto first = from.begin() + (o * shape[axis] + k) * inner;
      out.insert(out.end(), first, first + inner);
    }
  }
  return out;
}

void take(CaseTensor& t, std::size_t axis, const Indices& keep) {
  if (!t.values.empty()) t.values = gather(t.values, t.shape, axis, keep);
  if (!t.integers.empty()) t.integers = gather(t.integers, t.shape, axis, keep);
  t.shape[axis] = static_cast<std::int64_t>(keep.size());
}

/// Which heads of a shared tensor the heads `keep` of the state read; nothing when they would not
/// be shared evenly.
std::optional<Indices> shared_heads(const Indices& keep, std::int64_t heads, std::int64_t own) {
  const std::int64_t ratio = heads / own;
  Indices read;
  for (const std::int64_t h : keep) {
    if (read.empty() || read.back() != h / ratio) read.push_back(h / ratio);
  }
  const auto n = static_cast<std::int64_t>(keep.size()), m = static_cast<std::int64_t>(read.size());
  if (n % m != 0) return std::nullopt;
  for (std::int64_t i = 0; i < n; ++i) {
    if (keep[i] / ratio != read[i / (n / m)]) return std::nullopt;
  }
  return read;
}

/// Offsets after some tokens are gone.
void shorten(CaseTensor& cu, const Indices& tokens) {
  for (std::int64_t& offset : cu.integers) {
    offset = std::lower_bound(tokens.begin(), tokens.end(), offset) - tokens.begin();
  }
}

std::optional<Indices> indices_for(const ValidCase& c, char wanted, char letter,
                                   std::int64_t length, const Indices& keep) {
  if (letter == wanted) {
    if (wanted != c.schema.head_axis || length == c.sizes[wanted]) return keep;
    return shared_heads(keep, c.sizes[wanted], length);
  }
  for (const DerivedAxis& derived : c.schema.derived) {
    if (derived.axis != letter || derived.from != wanted) continue;
    Indices out = keep;  // what is beyond the first ones stays (a shared memory comes last)
    if (derived.offset < 0) return std::nullopt;
    for (std::int64_t i = length - derived.offset; i < length; ++i) out.push_back(i);
    return out;
  }
  return std::nullopt;
}

bool concerns(const ValidCase& c, char wanted, char letter) {
  if (letter == wanted) return true;
  return std::any_of(c.schema.derived.begin(), c.schema.derived.end(),
                     [&](const DerivedAxis& d) { return d.axis == letter && d.from == wanted; });
}

}  // namespace

std::optional<ValidCase> revalidated(Case data) {
  try {
    const Schema schema = find_operation(data.op).schema(&data);
    return validate(std::move(data), schema);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

std::optional<ValidCase> keep_indices(const ValidCase& c, char axis, const Indices& indices) {
  if (c.schema.fixed_axes.count(axis)) return std::nullopt;
  Case data = c.data;
  for (auto& [name, tensor] : data.tensors) {
    if (name == kCuSeqlens) {
      if (axis == 'T') shorten(tensor, indices);
      continue;
    }
    const std::string axes = axes_of(c, name);
    for (std::size_t a = 0; a < axes.size(); ++a) {
      if (!concerns(c, axis, axes[a])) continue;
      const auto keep = indices_for(c, axis, axes[a], tensor.shape[a], indices);
      if (!keep) return std::nullopt;
      take(tensor, a, *keep);
    }
  }
  return revalidated(std::move(data));
}

std::optional<ValidCase> keep_range(const ValidCase& c, char axis, std::int64_t first,
                                    std::int64_t count) {
  Indices indices(static_cast<std::size_t>(count));
  std::iota(indices.begin(), indices.end(), first);
  return keep_indices(c, axis, indices);
}

std::optional<ValidCase> drop_sequence(const ValidCase& c, std::int64_t sequence) {
  if (!c.packed() || c.sequences() < 2) return std::nullopt;
  Case data = c.data;
  const std::int64_t from = c.cu_seqlens[sequence], to = c.cu_seqlens[sequence + 1];
  Indices tokens, states;
  for (std::int64_t t = 0; t < c.cu_seqlens.back(); ++t) {
    if (t < from || t >= to) tokens.push_back(t);
  }
  for (std::int64_t s = 0; s < c.sequences(); ++s) {
    if (s != sequence) states.push_back(s);
  }
  for (auto& [name, tensor] : data.tensors) {
    if (name == kCuSeqlens) {
      tensor.integers.erase(tensor.integers.begin() + sequence);
      tensor.shape = {static_cast<std::int64_t>(tensor.integers.size())};
      shorten(tensor, tokens);
      if (sequence == 0) tensor.integers.front() = 0;
      continue;
    }
    const std::string axes = axes_of(c, name);
    for (std::size_t a = 0; a < axes.size(); ++a) {
      if (axes[a] == 'T') take(tensor, a, tokens);
      if (axes[a] == 'S') take(tensor, a, states);
    }
  }
  return revalidated(std::move(data));
}

std::optional<ValidCase> unpacked(const ValidCase& c) {
  if (!c.packed() || c.sequences() != 1) return std::nullopt;
  Case data = c.data;
  data.tensors.erase(kCuSeqlens);
  return revalidated(std::move(data));
}

std::optional<ValidCase> drop_tensor(const ValidCase& c, const std::string& name) {
  const InputSpec* in = c.schema.find_input(name);
  if (name == kCuSeqlens || (in && !in->optional)) return std::nullopt;
  Case data = c.data;
  data.tensors.erase(name);
  return revalidated(std::move(data));
}

std::optional<ValidCase> drop_option(const ValidCase& c, const std::string& name) {
  Case data = c.data;
  if (data.options.erase(name) == 0) return std::nullopt;
  return revalidated(std::move(data));
}

}  // namespace assay
