// What a kernel call is made of, once the plug-in interface is stripped off: named strided views
// and options. Plain data on purpose: these types cross between the builds of the kernels for
// different instruction sets, so they must not carry code of either.
#pragma once

#include <cstddef>
#include <cstdint>

namespace assay::cpu {

enum class DType : std::uint8_t { f32, f64, f16, bf16, i32, i64 };

inline constexpr int kMaxRank = 6;

/// A borrowed tensor. Strides count elements and may be anything, 0 and negative included.
struct View {
  const char* name = nullptr;
  void* data = nullptr;
  DType dtype = DType::f32;
  int rank = 0;
  std::int64_t shape[kMaxRank] = {};
  std::int64_t stride[kMaxRank] = {};
};

enum class Form : std::uint8_t { unspecified, recurrent, chunk };

/// Options of all operations; the defaults are those of the operations' definitions.
struct Options {
  bool has_scale = false;  // otherwise K^-1/2
  double scale = 1;
  bool qk_l2norm = false;
  double l2norm_eps = 0;
  std::int64_t chunk = 64;
  bool has_state_grad_clip = false;
  double state_grad_clip = 0;
  std::int64_t top_k = 2;
  const char* update = "gdn";              // mom
  bool silu = false;                       // causal_conv1d
  double eps = 1e-6;                       // rmsnorm
  double s = 1, tau = 1, log_mu_min = -2;  // mdn_gates
  /// How many chunks at a time the way back has the states of, computed once more from those that
  /// are kept between; 0: as the kernel likes. The results do not depend on it.
  std::int64_t recompute = 0;
  Form form = Form::unspecified;
};

/// One list of views.
struct ViewList {
  const View* views = nullptr;
  int count = 0;
};

/// What is listed in `outputs` and `gradients` is computed, nothing else.
struct Call {
  ViewList inputs;      // by name; and cu_seqlens
  ViewList outputs;     // o, s_final, ...
  ViewList cotangents;  // d_o, d_s_final, ...; missing is zero
  ViewList gradients;   // d_q, d_k, ...
  Options options;
  int threads = 0;  // 0: as many as the machine has
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
};

enum class Status : std::uint8_t { ok, bad_argument, unsupported, out_of_memory };

/// Status and, unless ok, one line saying which tensor and which rule.
struct Outcome {
  Status status = Status::ok;
  char message[200] = {};
};

/// A kernel of one operation, in the build for one instruction set.
struct OpKernel {
  const char* op;
  bool has_chunk_form;
  /// What running the call would need, in bytes; checks shapes, dtypes and options.
  Outcome (*plan)(const Call&, std::size_t* workspace_bytes);
  Outcome (*run)(const Call&);
};

struct KernelTable {
  const char* instruction_set;
  const OpKernel* const* kernels;
  int count;
};

/// The table of the best build this processor can run.
const KernelTable& kernel_table();
/// The portable build, whatever the processor; lets tests compare the two.
const KernelTable& baseline_kernel_table();
const OpKernel* find_kernel(const KernelTable& table, const char* op);

}  // namespace assay::cpu
