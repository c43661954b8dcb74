#include "kernels/common/binding.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstring>

ASSAY_CPU_BEGIN

Outcome refuse(Status status, const char* format, ...) {
  Outcome outcome;
  outcome.status = status;
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(outcome.message, sizeof outcome.message, format, arguments);
  va_end(arguments);
  return outcome;
}

const View* find_view(const ViewList& list, const char* prefix, const char* name) {
  const std::size_t skip = std::strlen(prefix);
  for (int i = 0; i < list.count; ++i) {
    const char* have = list.views[i].name;
    if (std::strncmp(have, prefix, skip) == 0 && std::strcmp(have + skip, name) == 0) {
      return &list.views[i];
    }
  }
  return nullptr;
}

std::int64_t Binding::bound(std::int64_t s) const {
  if (cu_is_i32) return reinterpret_cast<const std::int32_t*>(cu_seqlens)[s * cu_stride];
  return reinterpret_cast<const std::int64_t*>(cu_seqlens)[s * cu_stride];
}

Unit Binding::unit(std::int64_t index) const {
  const std::int64_t heads = spec->coupled_heads ? 1 : H;
  Unit u;
  u.sequence = index / heads;
  u.head = index % heads;
  u.batch = packed() ? 0 : u.sequence;
  u.start = packed() ? bound(u.sequence) : 0;
  u.steps = packed() ? bound(u.sequence + 1) - u.start : size[static_cast<int>('T')];
  return u;
}

namespace {

bool is_head_axis(char a) { return a == 'H' || a == 'N'; }

Outcome learn_sizes(Binding& b, const TensorSpec& spec, const View& v, const char* name) {
  const int rank = static_cast<int>(std::strlen(spec.axes));
  if (v.rank != rank) {
    return refuse(Status::bad_argument, "tensor '%s' has %d axes, expected %d (%s)", name, v.rank,
                  rank, spec.axes);
  }
  for (int a = 0; a < rank; ++a) {
    const char letter = spec.axes[a];
    const bool state = spec.role == Role::state || spec.role == Role::final_state;
    if (is_head_axis(letter)) {
      if (v.shape[a] > b.H) b.H = v.shape[a];
      continue;
    }
    if (letter == 'B' && state) continue;  // S when packed; checked once S is known
    std::int64_t& have = b.size[static_cast<int>(letter)];
    if (have < 0) have = v.shape[a];
    if (have != v.shape[a]) {
      return refuse(Status::bad_argument, "tensor '%s': axis %c is %lld, elsewhere %lld", name,
                    letter, static_cast<long long>(v.shape[a]), static_cast<long long>(have));
    }
  }
  return {};
}

// Axes of a row that lie side by side become one, so that rows are read in as long runs as can be.
void merge_inner(Operand& x) {
  int kept = 0;
  for (int a = 1; a < x.inner_rank; ++a) {
    if (x.inner_stride[kept] == x.inner_size[a] * x.inner_stride[a]) {
      x.inner_size[kept] *= x.inner_size[a];
      x.inner_stride[kept] = x.inner_stride[a];
    } else {
      ++kept;
      x.inner_size[kept] = x.inner_size[a];
      x.inner_stride[kept] = x.inner_stride[a];
    }
  }
  if (x.inner_rank > 0) x.inner_rank = kept + 1;
}

Outcome place(const Binding& b, const TensorSpec& spec, const View& v, const char* name,
              Operand& x) {
  if (v.dtype == DType::i32 || v.dtype == DType::i64) {
    return refuse(Status::unsupported, "tensor '%s' is an integer tensor", name);
  }
  const bool state = spec.role == Role::state || spec.role == Role::final_state;
  x.data = static_cast<char*>(v.data);
  x.dtype = v.dtype;
  x.present = true;
  for (int a = 0; a < v.rank; ++a) {
    const char letter = spec.axes[a];
    if (letter == 'B') {
      x.batch_stride = v.stride[a];
      if (state && v.shape[a] != b.sequences) {
        return refuse(Status::bad_argument, "tensor '%s' holds %lld states for %lld sequences",
                      name, static_cast<long long>(v.shape[a]),
                      static_cast<long long>(b.sequences));
      }
    } else if (letter == 'T') {
      x.time_stride = v.stride[a];
      x.per_token = true;
    } else if (is_head_axis(letter) && !b.spec->coupled_heads) {
      x.heads = v.shape[a];
      x.head_stride = v.stride[a];
      const bool full = spec.role != Role::token && spec.role != Role::param;
      if (x.heads < 1 || b.H % x.heads != 0 || (full && x.heads != b.H)) {
        return refuse(Status::bad_argument, "tensor '%s' has %lld heads, the state has %lld", name,
                      static_cast<long long>(x.heads), static_cast<long long>(b.H));
      }
    } else {
      x.inner_size[x.inner_rank] = v.shape[a];
      x.inner_stride[x.inner_rank++] = v.stride[a];
      x.width *= v.shape[a];
    }
  }
  merge_inner(x);
  return {};
}

// One tensor with its gradient (or cotangent) beside it.
Outcome place_pair(const Call& call, Binding& b, const TensorSpec& spec, bool input, Operand& x,
                   Operand& d) {
  const char* name = spec.name;
  const View* v = find_view(input ? call.inputs : call.outputs, "", name);
  if (!v && input && spec.log_name) {
    name = spec.log_name;
    v = find_view(call.inputs, "", name);
    x.is_log = v != nullptr;
  }
  const View* d_v = find_view(input ? call.gradients : call.cotangents, "d_", name);
  const View* views[2] = {v, d_v};
  Operand* operands[2] = {&x, &d};
  for (int i = 0; i < 2; ++i) {
    if (!views[i]) continue;
    const Outcome o = place(b, spec, *views[i], views[i]->name, *operands[i]);
    if (o.status != Status::ok) return o;
    b.is_double = b.is_double || views[i]->dtype == DType::f64;
  }
  if (input && d.present) {
    if (!x.present) return refuse(Status::bad_argument, "gradient of absent input '%s'", name);
    b.wants_gradients = true;
  }
  if (!input && x.present) b.wants_outputs = true;
  if (input && !x.present && !spec.optional) {
    return refuse(Status::bad_argument, "input '%s' is missing", spec.name);
  }
  return {};
}

Outcome bind_sequences(const Call& call, Binding& b) {
  const std::int64_t B = b.size[static_cast<int>('B')], T = b.size[static_cast<int>('T')];
  b.tokens = B * T;
  b.sequences = B;
  const View* cu = find_view(call.inputs, "", "cu_seqlens");
  if (!cu) return {};
  if (cu->rank != 1 || cu->shape[0] < 1 || B != 1) {
    return refuse(Status::bad_argument, "cu_seqlens must be [S+1] and the batch 1");
  }
  if (cu->dtype != DType::i64 && cu->dtype != DType::i32) {
    return refuse(Status::bad_argument, "cu_seqlens must be an integer tensor");
  }
  b.cu_seqlens = static_cast<const char*>(cu->data);
  b.cu_stride = cu->stride[0];
  b.cu_is_i32 = cu->dtype == DType::i32;
  b.sequences = cu->shape[0] - 1;
  return {};
}

Outcome learn_all_sizes(const OpSpec& spec, const Call& call, Binding& b) {
  for (std::int64_t& n : b.size) n = -1;
  for (int i = 0; i < spec.count; ++i) {
    const TensorSpec& t = spec.tensors[i];
    const bool input = t.role != Role::token_output && t.role != Role::final_state;
    const View* views[] = {find_view(input ? call.inputs : call.outputs, "", t.name),
                           input && t.log_name ? find_view(call.inputs, "", t.log_name) : nullptr,
                           find_view(input ? call.gradients : call.cotangents, "d_", t.name)};
    if (views[0] && views[1]) {
      return refuse(Status::bad_argument, "both '%s' and '%s' are given", t.name, t.log_name);
    }
    for (const View* v : views) {
      if (!v) continue;
      if (const Outcome o = learn_sizes(b, t, *v, v->name); o.status != Status::ok) return o;
    }
  }
  for (std::int64_t& n : b.size) {
    if (n < 0) n = 0;
  }
  return {};
}

}  // namespace

Outcome bind(const OpSpec& spec, const Call& call, Binding& b) {
  b.spec = &spec;
  b.options = call.options;
  if (call.options.form == Form::chunk && !spec.chunk_form) {
    return refuse(Status::unsupported, "%s has no chunk form", spec.op);
  }
  if (call.options.chunk < 1) return refuse(Status::bad_argument, "chunk must be at least 1");
  if (const Outcome o = learn_all_sizes(spec, call, b); o.status != Status::ok) return o;
  if (const Outcome o = bind_sequences(call, b); o.status != Status::ok) return o;
  for (int i = 0; i < spec.count; ++i) {
    const TensorSpec& t = spec.tensors[i];
    Outcome o;
    if (t.role == Role::state) {
      o = place_pair(call, b, t, true, b.state[b.states], b.d_state[b.states]);
      ++b.states;
    } else if (t.role == Role::token_output) {
      o = place_pair(call, b, t, false, b.output[b.outputs], b.d_output[b.outputs]);
      ++b.outputs;
    } else if (t.role == Role::final_state) {
      o = place_pair(call, b, t, false, b.final_state[b.finals], b.d_final[b.finals]);
      ++b.finals;
    } else {
      b.field_spec[b.fields] = &t;
      o = place_pair(call, b, t, true, b.field[b.fields], b.d_field[b.fields]);
      ++b.fields;
    }
    if (o.status != Status::ok) return o;
  }
  return {};
}

namespace {

// Calls run(address, stride, count) for each run of elements, in row-major order of [n,width].
template <class Run>
void walk_rows(const Operand& x, const Unit& u, std::int64_t t, std::int64_t n, std::int64_t h,
               const Run& run) {
  if (n == 0 || x.width == 0) return;
  const std::int64_t bytes = element_size(x.dtype);
  const std::int64_t sequence = x.per_token ? u.batch : u.sequence;
  const std::int64_t first = x.per_token ? u.start + t : 0;
  char* base =
      x.data + bytes * (sequence * x.batch_stride + first * x.time_stride + h * x.head_stride);
  const std::int64_t last = x.inner_rank - 1;
  if (last < 0) return run(base, x.time_stride, n);
  if (last == 0 && x.inner_stride[0] == 1 && (n == 1 || x.time_stride == x.width)) {
    return run(base, 1, n * x.width);
  }
  for (std::int64_t s = 0; s < n; ++s, base += bytes * x.time_stride) {
    std::int64_t index[kMaxInner] = {};
    for (;;) {
      std::int64_t offset = 0;
      for (std::int64_t a = 0; a < last; ++a) offset += index[a] * x.inner_stride[a];
      run(base + bytes * offset, x.inner_stride[last], x.inner_size[last]);
      std::int64_t a = last - 1;
      for (; a >= 0 && ++index[a] == x.inner_size[a]; --a) index[a] = 0;
      if (a < 0) break;
    }
  }
}

}  // namespace

Outcome check_segments(const Binding& b) {
  if (!b.packed()) return {};
  const std::int64_t T = b.axis('T');
  bool legal = b.bound(0) == 0 && b.bound(b.sequences) == T;
  for (std::int64_t s = 0; s < b.sequences; ++s) legal = legal && b.bound(s) <= b.bound(s + 1);
  if (legal) return {};
  return refuse(Status::bad_argument, "cu_seqlens must rise from 0 to T = %lld",
                static_cast<long long>(T));
}

std::int64_t row_width(const Binding& b, const TensorSpec& spec) {
  std::int64_t width = 1;
  for (const char* a = spec.axes; *a; ++a) {
    if (*a == 'B' || *a == 'T' || (is_head_axis(*a) && !b.spec->coupled_heads)) continue;
    width *= is_head_axis(*a) ? b.H : b.axis(*a);
  }
  return width;
}

template <class Real>
void load_rows(const Operand& x, const Unit& u, std::int64_t t, std::int64_t n, std::int64_t h,
               Real* out) {
  walk_rows(x, u, t, n, h, [&](char* at, std::int64_t stride, std::int64_t count) {
    load_row(at, x.dtype, stride, count, out);
    out += count;
  });
}

template <class Real>
void store_rows(const Operand& x, const Unit& u, std::int64_t t, std::int64_t n, std::int64_t h,
                const Real* in) {
  walk_rows(x, u, t, n, h, [&](char* at, std::int64_t stride, std::int64_t count) {
    store_row(in, count, at, x.dtype, stride);
    in += count;
  });
}

template void load_rows(const Operand&, const Unit&, std::int64_t, std::int64_t, std::int64_t,
                        float*);
template void load_rows(const Operand&, const Unit&, std::int64_t, std::int64_t, std::int64_t,
                        double*);
template void store_rows(const Operand&, const Unit&, std::int64_t, std::int64_t, std::int64_t,
                         const float*);
template void store_rows(const Operand&, const Unit&, std::int64_t, std::int64_t, std::int64_t,
                         const double*);

ASSAY_CPU_END
