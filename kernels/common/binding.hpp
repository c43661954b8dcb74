// A call matched with the operation's description: where every row lies, and what was wrong if it
// cannot be matched.
#pragma once

#include "kernels/common/call.hpp"
#include "kernels/common/dtype.hpp"
#include "kernels/common/spec.hpp"

ASSAY_CPU_BEGIN

inline constexpr int kMaxInner = 5;

/// A tensor as the driver walks it: strides of the axes that select a row, and the row itself.
struct Operand {
  char* data = nullptr;
  DType dtype = DType::f32;
  bool present = false;
  bool is_log = false;
  bool per_token = false;
  std::int64_t heads = 1;  // 1 also when there is no axis of heads
  std::int64_t batch_stride = 0, time_stride = 0, head_stride = 0;
  int inner_rank = 0;
  std::int64_t inner_size[kMaxInner] = {}, inner_stride[kMaxInner] = {};
  std::int64_t width = 1;  // elements of a row
};

/// One independent piece of work: a head of a sequence (or a sequence, with coupled heads).
struct Unit {
  std::int64_t sequence = 0;  // index into states
  std::int64_t batch = 0;     // index into token tensors
  std::int64_t start = 0;     // first step in them
  std::int64_t steps = 0;
  std::int64_t head = 0;
};

struct Binding {
  const OpSpec* spec = nullptr;
  Options options;
  std::int64_t size[128] = {};  // by axis letter
  std::int64_t H = 1;           // heads of the state
  std::int64_t sequences = 0;
  std::int64_t tokens = 0;  // B T
  const char* cu_seqlens = nullptr;
  std::int64_t cu_stride = 1;
  bool cu_is_i32 = false;

  int fields = 0, states = 0, outputs = 0, finals = 0;  // fields: inputs that are no states
  const TensorSpec* field_spec[kMaxTensors] = {};
  Operand field[kMaxTensors], d_field[kMaxTensors];
  Operand state[2], d_state[2], final_state[2], d_final[2];
  Operand output[4], d_output[4];
  bool wants_outputs = false, wants_gradients = false, is_double = false;

  bool packed() const { return cu_seqlens != nullptr; }
  std::int64_t bound(std::int64_t s) const;
  Unit unit(std::int64_t index) const;
  std::int64_t units() const { return sequences * (spec->coupled_heads ? 1 : H); }
  std::int64_t axis(char letter) const { return size[static_cast<int>(letter)]; }
  bool chunked() const { return spec->chunk_form && options.form != Form::recurrent; }
};

/// Fills `b`, or says in the outcome which tensor breaks which rule.
Outcome bind(const OpSpec& spec, const Call& call, Binding& b);

/// The contents of cu_seqlens; apart from bind, because the data is not there when planning.
Outcome check_segments(const Binding& b);
/// Row width of a tensor, from the axes the others have given.
std::int64_t row_width(const Binding& b, const TensorSpec& spec);

Outcome refuse(Status status, const char* format, ...) __attribute__((format(printf, 2, 3)));
const View* find_view(const ViewList& list, const char* prefix, const char* name);

/// The rows [n,width] of steps t .. t+n-1 (counted from the unit's first) of head h, which counts
/// the heads of the tensor itself. Of a parameter or state: its one row, with n = 1 and t = 0. `x`
/// must be present.
template <class Real>
void load_rows(const Operand& x, const Unit& u, std::int64_t t, std::int64_t n, std::int64_t h,
               Real* out);
template <class Real>
void store_rows(const Operand& x, const Unit& u, std::int64_t t, std::int64_t n, std::int64_t h,
                const Real* in);

ASSAY_CPU_END
