// The driver of every operation with a time axis. A unit of work (one head of one sequence) runs
// block by block: forward it keeps the state before each block, backward it takes the blocks in
// reverse and has the operation recompute what it needs inside one. Memory is O(T / block) states
// per thread, never O(T).
//
// An operation is a class template Op<Real> with
//   Scalar                                           Real itself
//   static Outcome check(const Binding&);            rules beyond names and shapes
//   explicit Op(const Binding&);                     shared by all threads, constant
//   int64 state_part(int p) const;                   elements of state tensor p (of one unit)
//   int64 state_size() const;                        all parts, and what is carried besides
//   int64 block_steps(int64 steps) const;
//   void forward(n, x, state, out, arena) const;     advances state; out[i] null: not wanted
//   void backward(n, x, state0, d_out, d_state, d, arena) const;
//                                                    d_state: of the last state in, the first out;
//                                                    d is added to (tokens start at zero)
// x may be changed in place (normalisation) except where a gate was given as a logarithm.
#pragma once

#include <cmath>
#include <iterator>

#include "kernels/common/arena.hpp"
#include "kernels/common/binding.hpp"
#include "kernels/common/gradients.hpp"
#include "kernels/common/parallel.hpp"

ASSAY_CPU_BEGIN

/// About sqrt(T) steps, in a range where the states of one block fit the caches.
inline std::int64_t balanced_block(std::int64_t steps) {
  std::int64_t block = 16;
  while (block < 256 && block * block < steps) block *= 2;
  return block;
}

/// The inputs of a block, or their gradients: [n,width] for tokens, [width] for parameters.
template <class Real>
struct Fields {
  Real* data[kMaxTensors] = {};
  std::int64_t width[kMaxTensors] = {};
  bool per_token[kMaxTensors] = {};

  Real* at(int i, std::int64_t s = 0) const { return data[i] + (per_token[i] ? s * width[i] : 0); }
};

template <class Op>
class UnitRun {
  using Real = typename Op::Scalar;

 public:
  UnitRun(const Binding& b, const Op& op, const GradientScratch<Real>& scratch, std::int64_t index,
          Arena& arena)
      : b_(b), op_(op), scratch_(scratch), index_(index), unit_(b.unit(index)), arena_(arena) {}

  void run() {
    const ArenaScope scope(arena_);
    block_ = op_.block_steps(unit_.steps);
    if (block_ > unit_.steps) block_ = unit_.steps;
    if (block_ < 1) block_ = 1;
    blocks_ = (unit_.steps + block_ - 1) / block_;
    take_buffers();
    if (b_.wants_gradients) {
      checkpoints_ = arena_.take<Real>(blocks_ * op_.state_size());
    }
    forward();
    if (b_.wants_gradients) backward();
  }

 private:
  std::int64_t head(const Operand& x) const { return unit_.head / (b_.H / x.heads); }
  std::int64_t count(std::int64_t n) const {
    const std::int64_t left = unit_.steps - n * block_;
    return left < block_ ? left : block_;
  }

  // Parameters are loaded once; so are the defaults of what is absent, tokens included.
  void take_buffers() {
    for (int i = 0; i < b_.fields; ++i) {
      const Operand& f = b_.field[i];
      const TensorSpec& spec = *b_.field_spec[i];
      x_.per_token[i] = spec.role == Role::token;
      x_.width[i] = f.present ? f.width : row_width(b_, spec);
      const std::int64_t size = (x_.per_token[i] ? block_ : 1) * x_.width[i];
      x_.data[i] = arena_.take<Real>(size);
      if (!f.present) fill(size, static_cast<Real>(spec.missing), x_.data[i]);
      if (f.present && !x_.per_token[i]) load(f, 0, 1, x_.data[i]);
    }
    d_ = x_;
    if (b_.wants_gradients) {
      for (int i = 0; i < b_.fields; ++i) {
        d_.data[i] = arena_.zeros<Real>((x_.per_token[i] ? block_ : 1) * x_.width[i]);
      }
    }
    int i = 0;
    for (int s = 0; s < b_.spec->count; ++s) {
      if (b_.spec->tensors[s].role != Role::token_output) continue;
      out_width_[i] = row_width(b_, b_.spec->tensors[s]);
      out_[i] = arena_.take<Real>(block_ * out_width_[i]);
      ++i;
    }
  }

  static void fill(std::int64_t n, Real value, Real* x) {
    for (std::int64_t i = 0; i < n; ++i) x[i] = value;
  }
  void load(const Operand& x, std::int64_t t, std::int64_t n, Real* out) const {
    load_rows(x, unit_, t, n, head(x), out);
    if (!x.is_log) return;
    for (std::int64_t i = 0; i < n * x.width; ++i) out[i] = std::exp(out[i]);
  }
  void load_block(std::int64_t n) {
    for (int i = 0; i < b_.fields; ++i) {
      if (!x_.per_token[i]) continue;
      if (b_.field[i].present) {
        load(b_.field[i], n * block_, count(n), x_.data[i]);
      } else {  // an operation may have changed it in place
        fill(count(n) * x_.width[i], static_cast<Real>(b_.field_spec[i]->missing), x_.data[i]);
      }
    }
  }
  Real* load_state(const Operand* parts) {
    Real* state = arena_.zeros<Real>(op_.state_size());
    Real* at = state;
    for (int p = 0; p < b_.states; ++p) {
      if (parts[p].present) load(parts[p], 0, 1, at);
      at += op_.state_part(p);
    }
    return state;
  }
  void store_state(const Operand* parts, const Real* state) const {
    for (int p = 0; p < b_.states; ++p) {
      if (parts[p].present) store_rows(parts[p], unit_, 0, 1, head(parts[p]), state);
      state += op_.state_part(p);
    }
  }

  void forward() {
    Real* state = load_state(b_.state);
    const std::int64_t size = op_.state_size();
    for (std::int64_t n = 0; n < blocks_; ++n) {
      if (checkpoints_) copy(size, state, checkpoints_ + n * size);
      if (!b_.wants_outputs && n + 1 == blocks_) break;
      load_block(n);
      Real* wanted[4];
      for (int i = 0; i < b_.outputs; ++i) wanted[i] = b_.output[i].present ? out_[i] : nullptr;
      const ArenaScope scope(arena_);
      op_.forward(count(n), x_, state, wanted, arena_);
      for (int i = 0; i < b_.outputs; ++i) {
        if (!wanted[i]) continue;
        store_rows(b_.output[i], unit_, n * block_, count(n), head(b_.output[i]), wanted[i]);
      }
    }
    store_state(b_.final_state, state);
  }

  void backward() {
    Real* d_state = load_state(b_.d_final);
    for (std::int64_t n = blocks_; n-- > 0;) {
      load_block(n);
      for (int i = 0; i < b_.outputs; ++i) {
        const Operand& d = b_.d_output[i];
        fill(count(n) * out_width_[i], Real(0), out_[i]);
        if (d.present) load(d, n * block_, count(n), out_[i]);
      }
      for (int i = 0; i < b_.fields; ++i) {
        if (x_.per_token[i]) fill(count(n) * x_.width[i], Real(0), d_.data[i]);
      }
      const ArenaScope scope(arena_);
      op_.backward(count(n), x_, checkpoints_ + n * op_.state_size(), out_, d_state, d_, arena_);
      for (int i = 0; i < b_.fields; ++i) {
        if (x_.per_token[i]) store_gradient(i, n * block_, count(n));
      }
    }
    store_state(b_.d_state, d_state);
    for (int i = 0; i < b_.fields; ++i) {
      if (!x_.per_token[i]) scratch_.keep_param(i, index_, d_.data[i]);
    }
  }

  void store_gradient(int i, std::int64_t t, std::int64_t n) {
    if (!b_.d_field[i].present) return;
    Real* d = d_.data[i];
    if (b_.field[i].is_log) {  // d log x = x d x, and 0 where x is 0, whatever d x is
      for (std::int64_t j = 0; j < n * x_.width[i]; ++j) {
        d[j] = x_.data[i][j] == Real(0) ? Real(0) : x_.data[i][j] * d[j];
      }
    }
    if (scratch_.shared(i)) {
      scratch_.keep_token(i, unit_, t, n, d);
    } else {
      store_rows(b_.d_field[i], unit_, t, n, head(b_.d_field[i]), d);
    }
  }
  static void copy(std::int64_t n, const Real* from, Real* to) {
    for (std::int64_t i = 0; i < n; ++i) to[i] = from[i];
  }

  const Binding& b_;
  const Op& op_;
  const GradientScratch<Real>& scratch_;
  std::int64_t index_;
  Unit unit_;
  Arena& arena_;
  std::int64_t block_ = 1, blocks_ = 0;
  Fields<Real> x_, d_;
  Real* out_[4] = {};
  std::int64_t out_width_[4] = {};
  Real* checkpoints_ = nullptr;
};

/// The arenas of all threads of a call.
class ArenaSet {
 public:
  explicit ArenaSet(int threads) : arenas_(new Arena[threads]) {}
  ~ArenaSet() { delete[] arenas_; }
  ArenaSet(const ArenaSet&) = delete;
  ArenaSet& operator=(const ArenaSet&) = delete;
  Arena& operator[](int thread) const { return arenas_[thread]; }

 private:
  Arena* arenas_;
};

template <class Op>
void run_sequences(const Binding& b, const Call& call) {
  using Real = typename Op::Scalar;
  const Op op(b);
  const GradientScratch<Real> scratch(b, call.workspace);
  const std::int64_t units = b.units();
  const int threads = thread_count(call.threads, units);
  const ArenaSet arenas(threads);
  auto unit = [&](std::int64_t i, int thread) {
    UnitRun<Op>(b, op, scratch, i, arenas[thread]).run();
  };
  parallel_for(units, threads, unit);
  if (!b.wants_gradients) return;
  auto reduce = [&](std::int64_t i, int thread) { scratch.reduce(i, arenas[thread]); };
  parallel_for(scratch.reductions(), threads, reduce);
}

/// Matches the call with the description and says what workspace it needs.
template <template <class> class Op>
Outcome plan_sequences(const OpSpec& spec, const Call& call, Binding& b, std::size_t* bytes) {
  if (const Outcome o = bind(spec, call, b); o.status != Status::ok) return o;
  if (const Outcome o = Op<float>::check(b); o.status != Status::ok) return o;
  *bytes = b.is_double ? GradientScratch<double>(b, nullptr).bytes()
                       : GradientScratch<float>(b, nullptr).bytes();
  return {};
}

template <template <class> class Op>
Outcome call_sequences(const OpSpec& spec, const Call& call) {
  Binding b;
  std::size_t needed = 0;
  if (const Outcome o = plan_sequences<Op>(spec, call, b, &needed); o.status != Status::ok) {
    return o;
  }
  if (const Outcome o = check_segments(b); o.status != Status::ok) return o;
  if (call.workspace_bytes < needed) {
    return refuse(Status::bad_argument, "workspace of %zu bytes, %zu are needed",
                  call.workspace_bytes, needed);
  }
  try {
    if (b.is_double) {
      run_sequences<Op<double>>(b, call);
    } else {
      run_sequences<Op<float>>(b, call);
    }
  } catch (const std::bad_alloc&) {
    return refuse(Status::out_of_memory, "%s: no memory for temporaries", spec.op);
  }
  return {};
}

/// `Op` needs a name of its own in all of the program, also in an unnamed namespace: GCC gives
/// functions instantiated over a template (or alias template) of one external linkage all the same,
/// and the linker would keep one for two operations.
template <template <class> class Op, const OpSpec& kSpec>
constexpr OpKernel sequence_kernel() {
  return {kSpec.op, kSpec.chunk_form,
          [](const Call& call, std::size_t* bytes) {
            Binding b;
            return plan_sequences<Op>(kSpec, call, b, bytes);
          },
          [](const Call& call) { return call_sequences<Op>(kSpec, call); }};
}

ASSAY_CPU_END
