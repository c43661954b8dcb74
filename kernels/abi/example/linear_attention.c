/* A complete plug-in: linear attention, forward and backward, fp32, plain loops.
 *
 *   S_t = S_{t-1} + k_t v_t^T        o_t = scale * S_t^T q_t
 */
#include <assay_kernel.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct {
  int64_t B, T, H, K, V;
  float scale;
  const float *q, *k, *v, *s0;      /* s0 may be NULL: zero */
  const float *d_o, *d_s_final;     /* NULL: zero */
  float *o, *s_final;               /* NULL: not wanted, as below */
  float *d_q, *d_k, *d_v, *d_s0;
} problem;

static const assay_tensor *find(const assay_tensor *list, int32_t count, const char *role) {
  int32_t i;
  for (i = 0; i < count; ++i) {
    if (strcmp(list[i].role, role) == 0) return &list[i];
  }
  return NULL;
}

static float *data(const assay_tensor *list, int32_t count, const char *role) {
  const assay_tensor *t = find(list, count, role);
  return t ? (float *)((char *)t->view.data + t->view.byte_offset) : NULL;
}

/* Fills all but the pointers; says in `reason` what stands in the way. */
static int read_shapes(const assay_call *call, problem *p, char *reason, size_t size) {
  const assay_tensor *q = find(call->inputs, call->num_inputs, "q");
  const assay_tensor *v = find(call->inputs, call->num_inputs, "v");
  int32_t i, list;
  if (!q || !v || q->view.ndim != 4 || v->view.ndim != 4) {
    snprintf(reason, size, "q and v must be there, with 4 axes");
    return 0;
  }
  for (list = 0; list < 2; ++list) {
    const assay_tensor *tensors = list ? call->outputs : call->inputs;
    const int32_t count = list ? call->num_outputs : call->num_inputs;
    for (i = 0; i < count; ++i) {
      const assay_dtype type = tensors[i].view.dtype;
      if (type.code != ASSAY_FLOAT || type.bits != 32) {
        snprintf(reason, size, "%s is not float 32", tensors[i].role);
        return 0;
      }
    }
  }
  p->B = q->view.shape[0], p->T = q->view.shape[1], p->H = q->view.shape[2];
  p->K = q->view.shape[3], p->V = v->view.shape[3];
  p->scale = (float)(1 / sqrt((double)p->K));
  for (i = 0; i < call->num_options; ++i) {
    const assay_option *option = &call->options[i];
    if (strcmp(option->name, "scale") == 0) p->scale = (float)option->real;
    if (strcmp(option->name, "qk_l2norm") == 0 && option->integer) {
      snprintf(reason, size, "qk_l2norm");
      return 0;
    }
  }
  return 1;
}

static assay_status supports(const assay_call *call, char *reason, size_t size) {
  problem p;
  if (call->form != ASSAY_FORM_ANY && call->form != ASSAY_FORM_RECURRENT) {
    snprintf(reason, size, "only the recurrent form");
    return ASSAY_UNSUPPORTED;
  }
  return read_shapes(call, &p, reason, size) ? ASSAY_OK : ASSAY_UNSUPPORTED;
}

/* One state, or its cotangent. */
static assay_status workspace_bytes(const assay_call *call, uint64_t *bytes) {
  problem p;
  char reason[64];
  if (!read_shapes(call, &p, reason, sizeof reason)) return ASSAY_INVALID;
  *bytes = (uint64_t)(p.K * p.V) * sizeof(float);
  return ASSAY_OK;
}

/* Forward through one head: S is [K,V]. Also d_q, because it needs the states in this order. */
static void go_forward(const problem *p, int64_t b, int64_t h, float *S) {
  int64_t t, i, j;
  for (t = 0; t < p->T; ++t) {
    const int64_t row = (b * p->T + t) * p->H + h;
    const float *q = p->q + row * p->K, *k = p->k + row * p->K, *v = p->v + row * p->V;
    for (i = 0; i < p->K; ++i) {
      for (j = 0; j < p->V; ++j) S[i * p->V + j] += k[i] * v[j];
    }
    for (j = 0; p->o && j < p->V; ++j) {
      float sum = 0;
      for (i = 0; i < p->K; ++i) sum += S[i * p->V + j] * q[i];
      p->o[row * p->V + j] = p->scale * sum;
    }
    for (i = 0; p->d_q && i < p->K; ++i) {
      float sum = 0;
      for (j = 0; p->d_o && j < p->V; ++j) sum += S[i * p->V + j] * p->d_o[row * p->V + j];
      p->d_q[row * p->K + i] = p->scale * sum;
    }
  }
}

/* Backward through one head: d_S is the cotangent of the state, [K,V]. */
static void go_backward(const problem *p, int64_t b, int64_t h, float *d_S) {
  int64_t t, i, j;
  for (t = p->T; t-- > 0;) {
    const int64_t row = (b * p->T + t) * p->H + h;
    const float *q = p->q + row * p->K, *k = p->k + row * p->K, *v = p->v + row * p->V;
    for (i = 0; p->d_o && i < p->K; ++i) {
      for (j = 0; j < p->V; ++j) d_S[i * p->V + j] += p->scale * q[i] * p->d_o[row * p->V + j];
    }
    for (i = 0; p->d_k && i < p->K; ++i) {
      float sum = 0;
      for (j = 0; j < p->V; ++j) sum += d_S[i * p->V + j] * v[j];
      p->d_k[row * p->K + i] = sum;
    }
    for (j = 0; p->d_v && j < p->V; ++j) {
      float sum = 0;
      for (i = 0; i < p->K; ++i) sum += d_S[i * p->V + j] * k[i];
      p->d_v[row * p->V + j] = sum;
    }
  }
}

/* Copies, or clears where there is nothing to copy from. */
static void load_state(float *S, const float *from, int64_t size) {
  if (from) {
    memcpy(S, from, (size_t)size * sizeof *S);
  } else {
    memset(S, 0, (size_t)size * sizeof *S);
  }
}

static assay_status run(const assay_call *call) {
  problem p;
  char reason[64];
  int64_t b, h;
  float *S = (float *)call->workspace;
  if (!read_shapes(call, &p, reason, sizeof reason)) return ASSAY_INVALID;
  p.q = data(call->inputs, call->num_inputs, "q");
  p.k = data(call->inputs, call->num_inputs, "k");
  p.v = data(call->inputs, call->num_inputs, "v");
  p.s0 = data(call->inputs, call->num_inputs, "s0");
  p.d_o = data(call->cotangents, call->num_cotangents, "d_o");
  p.d_s_final = data(call->cotangents, call->num_cotangents, "d_s_final");
  p.o = data(call->outputs, call->num_outputs, "o");
  p.s_final = data(call->outputs, call->num_outputs, "s_final");
  p.d_q = data(call->gradients, call->num_gradients, "d_q");
  p.d_k = data(call->gradients, call->num_gradients, "d_k");
  p.d_v = data(call->gradients, call->num_gradients, "d_v");
  p.d_s0 = data(call->gradients, call->num_gradients, "d_s0");
  for (b = 0; b < p.B; ++b) {
    for (h = 0; h < p.H; ++h) {
      const int64_t size = p.K * p.V, at = (b * p.H + h) * size;
      load_state(S, p.s0 ? p.s0 + at : NULL, size);
      go_forward(&p, b, h, S);
      if (p.s_final) memcpy(p.s_final + at, S, (size_t)size * sizeof *S);
      if (call->num_gradients == 0) continue;
      load_state(S, p.d_s_final ? p.d_s_final + at : NULL, size);
      go_backward(&p, b, h, S);
      if (p.d_s0) memcpy(p.d_s0 + at, S, (size_t)size * sizeof *S);
    }
  }
  return ASSAY_OK;
}

static const assay_operation operations[] = {
    {"linear_attention", ASSAY_CAN_FORWARD | ASSAY_CAN_BACKWARD | ASSAY_CAN_INITIAL_STATE}};

static const assay_precision precisions[] = {
    {ASSAY_FP32, ASSAY_FP32, ASSAY_FP32, ASSAY_FP32, ASSAY_FP32, ASSAY_FP32, ASSAY_FORM_RECURRENT,
     0, 0, 0, 0, 0, 0, 0}};

const assay_table assay_kernel_table = {ASSAY_ABI_VERSION,
                                        sizeof(assay_table),
                                        "linear attention in plain C",
                                        "1.0",
                                        ASSAY_DEVICE_CPU,
                                        1,
                                        operations,
                                        precisions,
                                        1,
                                        0,
                                        supports,
                                        workspace_bytes,
                                        run,
                                        NULL};
