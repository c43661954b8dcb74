/* The interface between a kernel and `assay`: C ABI, version 1.
 *
 * A plug-in is a shared library that exports ONE symbol, the constant table `assay_kernel_table`.
 * This header needs nothing but itself; it is C99 and C++. How to write one: example/README.md.
 * Names, layouts and equations of the operations: `assay list ops --json`.
 *
 * Ownership. Everything that crosses is allocated by the caller and borrowed: structs, arrays,
 * strings and tensor memory live until the function returns and no longer. A kernel keeps no
 * pointer to them and frees nothing. Inputs and cotangents are read only.
 *
 * Errors. Functions return an `assay_status`. No exception and no longjmp may leave a function, and
 * a kernel never ends the process. What is printed is not looked at.
 *
 * Threads. The caller runs one function of a table at a time, not always from the same thread. How
 * many threads a kernel starts is its own business within `assay_call.threads`; they must not touch
 * the call's memory after `run` has returned.
 */
#ifndef ASSAY_KERNEL_H
#define ASSAY_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ASSAY_ABI_VERSION 1u

#if defined(_WIN32)
#define ASSAY_KERNEL_EXPORT __declspec(dllexport)
#elif defined(__GNUC__)
#define ASSAY_KERNEL_EXPORT __attribute__((visibility("default")))
#else
#define ASSAY_KERNEL_EXPORT
#endif

/* ---- Tensors ------------------------------------------------------------------------------- */

/* DLPack's numbers (dlpack.h, version 0.6 and later). */
enum assay_device_type { ASSAY_DEVICE_CPU = 1, ASSAY_DEVICE_CUDA = 2 };
enum assay_dtype_code { ASSAY_INT = 0, ASSAY_UINT = 1, ASSAY_FLOAT = 2, ASSAY_BFLOAT = 4 };

/* DLDevice */
typedef struct assay_device {
  int32_t device_type; /* enum assay_device_type */
  int32_t device_id;   /* ordinal, 0 for the CPU */
} assay_device;

/* DLDataType. In use: float 64, 32, 16; bfloat 16; int 64, 32. */
typedef struct assay_dtype {
  uint8_t code;   /* enum assay_dtype_code */
  uint8_t bits;   /* of one element */
  uint16_t lanes; /* always 1 */
} assay_dtype;

/* DLTensor, member for member: a pointer to one may be cast to `const DLTensor *`. */
typedef struct assay_view {
  /* Element [0,..,0] lies at (char *)data + byte_offset. Device memory when the device is CUDA. May
   * be NULL in `supports` and `workspace_bytes`, and when the tensor has no element. */
  void *data;
  assay_device device;
  int32_t ndim; /* 0 for a scalar */
  assay_dtype dtype;
  const int64_t *shape;   /* [ndim], in the order of the operation's axes ("BTHK") */
  const int64_t *strides; /* [ndim], in ELEMENTS, never NULL, never negative */
  uint64_t byte_offset;   /* a multiple of the element size */
} assay_view;

/* A tensor and its role: "q", "log_alpha", "s0", "cu_seqlens"; cotangents and gradients of x are
 * "d_x". Outputs and gradients are always row-major without gaps and aligned to 64 bytes. Inputs
 * and cotangents are so too, unless the operation declares ASSAY_CAN_STRIDED_ROWS or
 * ASSAY_CAN_STRIDED; then they may also have gaps and an offset, and be aligned to their element
 * size only. Packed sequences: the input "cu_seqlens", int 64, [S + 1], in the same device memory
 * as the rest. */
typedef struct assay_tensor {
  const char *role;
  assay_view view;
} assay_tensor;

/* ---- Calls --------------------------------------------------------------------------------- */

enum assay_option_type {
  ASSAY_OPTION_BOOL = 0,   /* `integer`, 0 or 1 */
  ASSAY_OPTION_INT = 1,    /* `integer` */
  ASSAY_OPTION_REAL = 2,   /* `real` */
  ASSAY_OPTION_STRING = 3  /* `string`, UTF-8 */
};

typedef struct assay_option {
  const char *name; /* "scale", "qk_l2norm", "top_k" */
  int32_t type;     /* enum assay_option_type */
  int32_t reserved; /* 0 */
  int64_t integer;
  double real;
  const char *string; /* NULL unless the type is string */
} assay_option;

enum assay_form {
  ASSAY_FORM_ANY = 0, /* the kernel chooses */
  ASSAY_FORM_RECURRENT = 1,
  ASSAY_FORM_CHUNK = 2,
  ASSAY_FORM_CHUNK_LOG = 3 /* the published log-domain coefficients of mdn */
};

/* One call. Every array may be NULL when its count is 0.
 *
 * `run` computes all `outputs` and all `gradients` that are listed and overwrites what is there,
 * which is poison and not zero. No gradients listed: a forward pass. No outputs listed: only
 * gradients. An input that is absent has its default, a cotangent that is absent is zero, an option
 * that is absent has the default of the operation (scale: 1 / sqrt(K)).
 *
 * Tensors of one call may differ in dtype: bf16 tokens with fp32 gates and states. `assay` asks for
 * final states in the declared `state` format and, where the kernel does not support that, in its
 * `output` format. */
typedef struct assay_call {
  uint32_t struct_size; /* sizeof(assay_call) of the caller; later versions only append members */
  uint32_t reserved;    /* 0 */
  const char *operation;
  const assay_tensor *inputs;
  const assay_tensor *outputs;
  const assay_tensor *cotangents; /* "d_<output>" */
  const assay_tensor *gradients;  /* "d_<input>", of the shape and dtype of that input */
  const assay_option *options;
  int32_t num_inputs, num_outputs, num_cotangents, num_gradients, num_options;
  int32_t form;    /* enum assay_form: what is asked for; a kernel that cannot says UNSUPPORTED */
  int64_t chunk;   /* chunk length asked for, 0: the kernel chooses */
  int32_t threads; /* CPU threads the kernel may use, 0: its own choice */
  int32_t reserved2;
  void *workspace;          /* aligned to 256 bytes, on the device; poisoned before each run */
  uint64_t workspace_bytes; /* at least what the function of this name said */
  void *stream;             /* cudaStream_t for the kernel's work; NULL: default stream, or CPU */
} assay_call;

typedef enum assay_status {
  ASSAY_OK = 0,
  ASSAY_UNSUPPORTED = 1,   /* a legal call that this kernel does not do */
  ASSAY_INVALID = 2,       /* the call contradicts itself or the operation */
  ASSAY_OUT_OF_MEMORY = 3, /* host or device */
  ASSAY_DEVICE_ERROR = 4,  /* a CUDA call or launch failed */
  ASSAY_FAILED = 5,        /* anything else */
  ASSAY_STATUS_SIZE_ = 0x7fffffff
} assay_status;

/* ---- What a plug-in declares --------------------------------------------------------------- */

/* Bits of assay_operation.capabilities. */
#define ASSAY_CAN_FORWARD (UINT64_C(1) << 0)
#define ASSAY_CAN_BACKWARD (UINT64_C(1) << 1)
#define ASSAY_CAN_PACKED (UINT64_C(1) << 2)       /* cu_seqlens */
#define ASSAY_CAN_HEAD_GROUPS (UINT64_C(1) << 3)  /* inputs with fewer heads than the state */
#define ASSAY_CAN_LOG_GATES (UINT64_C(1) << 4)    /* log_alpha, log_mu */
#define ASSAY_CAN_LINEAR_GATES (UINT64_C(1) << 5) /* alpha, mu */
#define ASSAY_CAN_INITIAL_STATE (UINT64_C(1) << 6)
#define ASSAY_CAN_STRIDED_ROWS (UINT64_C(1) << 7) /* gaps and offsets, the last axis contiguous */
#define ASSAY_CAN_STRIDED (UINT64_C(1) << 8)      /* any non-negative strides */

enum assay_format {
  ASSAY_FP64 = 1,
  ASSAY_FP32 = 2,
  ASSAY_TF32 = 3,
  ASSAY_FP16 = 4,
  ASSAY_BF16 = 5
};

/* How a kernel computes; the tolerance of a verdict follows from this and from nothing else.
 * Declare what is done, not what is wished for: a coarser declaration loses sensitivity, a finer
 * one gets a correct kernel convicted. */
typedef struct assay_precision {
  int32_t input;       /* enum assay_format: of the floating tensors handed over */
  int32_t operand;     /* of the operands of matrix products */
  int32_t accumulator; /* of sums */
  int32_t state;       /* of the state carried from step to step */
  int32_t gate;        /* of gate arithmetic and coefficients */
  int32_t output;      /* of outputs and gradients as stored */
  int32_t form;        /* enum assay_form, not ANY */
  int32_t chunk;       /* length, 0 for the recurrent form */
  /* Bounds of the relative error of the kernel's own transcendentals, 0: that of a good libm
   * (2^-22). Example: tanh.approx.f32 has 2^-11. */
  double exp_error, tanh_error, softplus_error, rsqrt_error;
  int32_t truncating_accumulator; /* 1: sums are truncated, as in tensor cores */
  int32_t atomics;                /* 1: results may differ from run to run in the last bits */
} assay_precision;

typedef struct assay_operation {
  const char *name;      /* as `assay list ops` has it */
  uint64_t capabilities; /* ASSAY_CAN_… */
} assay_operation;

typedef struct assay_table {
  uint32_t abi_version; /* ASSAY_ABI_VERSION */
  uint32_t struct_size; /* sizeof(assay_table) */
  const char *name;     /* of the plug-in, for reports */
  const char *version;  /* of the plug-in, may be NULL */
  int32_t device_type;  /* enum assay_device_type: where all tensors and the workspace lie */
  int32_t num_operations;
  const assay_operation *operations;
  /* One entry for each `input` format the plug-in takes; the first is the default. */
  const assay_precision *precisions;
  int32_t num_precisions;
  int32_t reserved; /* 0 */

  /* Is `run` able to do this call? Looks at everything but the data. ASSAY_OK or
   * ASSAY_UNSUPPORTED with one line in `reason` (always terminated, cut at reason_size). */
  assay_status (*supports)(const assay_call *call, char *reason, size_t reason_size);

  /* Bytes of workspace that `run` needs for this call. NULL: never any. */
  assay_status (*workspace_bytes)(const assay_call *call, uint64_t *bytes);

  /* Computes. Device work may still be running on `stream` on return. Called only with what
   * `supports` accepted. */
  assay_status (*run)(const assay_call *call);

  /* What was wrong when the last function called on this thread did not return ASSAY_OK: one line,
   * valid until the next call on this thread; "" when there is nothing to say. May be NULL. */
  const char *(*last_error)(void);
} assay_table;

/* The symbol. In C++ define it inside extern "C". */
ASSAY_KERNEL_EXPORT extern const assay_table assay_kernel_table;

#ifdef __cplusplus
}
#endif

#endif
