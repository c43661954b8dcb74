/* The example plug-in with one planted misbehaviour, chosen when it is compiled. It shows when the
 * case has 5 steps, so that a test can also see that other cases still run. */
#define _GNU_SOURCE
#define assay_kernel_table correct_table
#include "kernels/abi/example/linear_attention.c"
#undef assay_kernel_table

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define CORRECT 0
#define SEGFAULT 1
#define ABORT 2
#define HANG 3
#define DEVOUR 4
#define BEFORE 5
#define AFTER 6
#define FAR 7
#define UNWRITTEN 8
#define PARTLY 9
#define INPUT 10
#define STALE 11
#define PRINTS 12
#define ERROR 13
#define EXITS 14
#define RANDOM 15
#define WORKSPACE 16
#define REFUSES 17
#define STRIDES 18
#define GRANDCHILD 19
#define NAN_OUTPUT 20

static float *first_output(const assay_call *call) {
  return data(call->outputs, call->num_outputs, "o");
}

static int64_t elements(const assay_tensor *t) {
  int64_t n = 1;
  int32_t i;
  for (i = 0; i < t->view.ndim; ++i) n *= t->view.shape[i];
  return n;
}

static void devour(void) {
  for (;;) {
    char *block = (char *)malloc(1 << 20);
    memset(block, 1, 1 << 20); /* a null pointer is not looked for, as in many a kernel */
  }
}

/* Keeps the results of the last call and takes the address of q for the identity of the data. */
static void answer_from_cache(const assay_call *call) {
  static const void *last;
  static float *kept;
  const assay_tensor *o = find(call->outputs, call->num_outputs, "o");
  const size_t size = (size_t)elements(o) * sizeof(float);
  const void *q = data(call->inputs, call->num_inputs, "q");
  if (q == last) {
    memcpy(first_output(call), kept, size);
    return;
  }
  last = q;
  kept = (float *)realloc(kept, size);
  memcpy(kept, first_output(call), size);
}

static assay_status misbehave(const assay_call *call) {
  float *o = first_output(call);
  const int64_t n = elements(find(call->outputs, call->num_outputs, "o"));
  switch (PLANTED) {
    case SEGFAULT: *(volatile int *)16 = 1; break;
    case ABORT: abort();
    case HANG: for (;;) pause();
    case DEVOUR: devour(); break;
    case BEFORE: o[-2] = 1; break;
    case AFTER: o[n] = 1; break;
    case FAR: ((volatile float *)o)[n + 4096] = 1; break;
    case INPUT: data(call->inputs, call->num_inputs, "v")[3] += 1; break;
    case STALE: answer_from_cache(call); break;
    case PRINTS: printf("{\"id\":0,\"status\":\"ran\"}\ngarbage on stdout\n"); fflush(stdout); break;
    case ERROR: return ASSAY_FAILED;
    case EXITS: exit(3);
    case RANDOM: o[0] += 1e-6f * (float)(rand() % 97 + 1); break;
    case WORKSPACE: ((char *)call->workspace)[call->workspace_bytes] = 1; break;
    case GRANDCHILD: if (fork() == 0) pause(); _exit(9);
    case NAN_OUTPUT: o[1] = (float)NAN; break;
    default: break;
  }
  return ASSAY_OK;
}

static assay_status planted_run(const assay_call *call) {
  const assay_tensor *q = find(call->inputs, call->num_inputs, "q");
  assay_call partial = *call;
  assay_status status;
  float *o = first_output(call);
  const int64_t n = elements(find(call->outputs, call->num_outputs, "o"));
  float *kept;
  if (q->view.shape[1] != 5) return run(call);
  if (PLANTED == UNWRITTEN) partial.num_outputs = 1; /* s_final is the second */
  if (PLANTED != PARTLY) {
    status = run(&partial);
    return status == ASSAY_OK ? misbehave(call) : status;
  }
  /* The last row keeps what was there before. */
  kept = (float *)malloc((size_t)n * sizeof *kept);
  memcpy(kept, o, (size_t)n * sizeof *kept);
  status = run(call);
  memcpy(o + n - 4, kept + n - 4, 4 * sizeof *kept);
  free(kept);
  return status;
}

static assay_status planted_supports(const assay_call *call, char *reason, size_t size) {
  if (PLANTED == REFUSES && call->num_gradients != 0) {
    snprintf(reason, size, "no gradients on Sundays");
    return ASSAY_UNSUPPORTED;
  }
  return supports(call, reason, size);
}

static const char *last_error(void) { return PLANTED == ERROR ? "the planted error" : ""; }

/* STRIDES declares what it does not do: the code takes every tensor for contiguous. */
static const assay_operation planted_operations[] = {
    {"linear_attention", ASSAY_CAN_FORWARD | ASSAY_CAN_BACKWARD | ASSAY_CAN_INITIAL_STATE |
                             (PLANTED == STRIDES ? ASSAY_CAN_STRIDED : 0)}};

ASSAY_KERNEL_EXPORT extern const assay_table assay_kernel_table;
const assay_table assay_kernel_table = {ASSAY_ABI_VERSION,
                                        sizeof(assay_table),
                                        "planted",
                                        NULL,
                                        ASSAY_DEVICE_CPU,
                                        1,
                                        planted_operations,
                                        precisions,
                                        1,
                                        0,
                                        planted_supports,
                                        workspace_bytes,
                                        planted_run,
                                        last_error};
