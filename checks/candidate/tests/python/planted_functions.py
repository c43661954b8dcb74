"""Functions for python:planted_functions:NAME, correct ones and ones with a planted fault.

Written from S_t = S_{t-1} + k_t v_t^T, o_t = scale S_t^T q_t, in nested lists so that they run
without any library; the others are in planted_numpy.py and planted_torch.py.
"""

import ctypes
import os
import sys

framework = "list"


def zeros(*shape):
    return [zeros(*shape[1:]) for _ in range(shape[0])] if shape else 0.0


def attention(q, k, v, s0=None, scale=None):
    B, T = len(q), len(q[0])
    H, K, V = len(s0[0]), len(s0[0][0]), len(s0[0][0][0])
    scale = K ** -0.5 if scale is None else scale
    o = zeros(B, T, H, V)
    S = [[[list(row) for row in S_h] for S_h in S_b] for S_b in s0]
    for b in range(B):
        for t in range(T):
            for h in range(H):
                for i in range(K):
                    for j in range(V):
                        S[b][h][i][j] += k[b][t][h][i] * v[b][t][h][j]
                        o[b][t][h][j] += scale * q[b][t][h][i] * S[b][h][i][j]
    return o, S


def raises(q, k, v, s0=None):
    if len(q[0]) == 5:
        raise ValueError("planted")
    return attention(q, k, v, s0)


def exits(q, k, v, s0=None):
    if len(q[0]) == 5:
        sys.exit(4)
    return attention(q, k, v, s0)


def dies(q, k, v, s0=None):
    if len(q[0]) == 5:
        os._exit(4)
    return attention(q, k, v, s0)


def segfaults(q, k, v, s0=None):
    if len(q[0]) == 5:
        sys.stderr.write("noise\n")
        dereference(0)
    return attention(q, k, v, s0)


def dereference(address):
    return ctypes.string_at(address)


def hangs(q, k, v, s0=None):
    while len(q[0]) == 5:
        pass
    return attention(q, k, v, s0)


def prints(q, k, v, s0=None):
    print('{"id": 1}')
    sys.stderr.write("noise\n" * 20000)
    return attention(q, k, v, s0)


def devours(q, k, v, s0=None):
    kept = []
    while len(q[0]) == 5:
        kept.append(bytearray(1 << 20))
    return attention(q, k, v, s0)


def transposed(q, k, v, s0=None):
    o, S = attention(q, k, v, s0)
    return {"o": [list(map(list, zip(*o_b))) for o_b in o] if len(q[0]) == 5 else o, "s_final": S}


def output_only(q, k, v, s0=None):
    return attention(q, k, v, s0)[0]


def output_declared_only(q, k, v, s0=None):
    return attention(q, k, v, s0)[0], None


def modifies(q, k, v, s0=None):
    result = attention(q, k, v, s0)
    if len(q[0]) == 5:
        q[0][1][1][2] += 1.0
    return result


def without_state(q, k, v):
    return attention(q, k, v, zeros(len(q), len(q[0][0]), len(q[0][0][0]), len(v[0][0][0])))


def unsupported(q, k, v, s0=None):
    raise NotImplementedError("not on this machine")


def with_backward(q, k, v, s0=None):
    return attention(q, k, v, s0)


def with_backward_backward(q, k, v, s0, d_o=None, d_s_final=None):
    """The companion of with_backward, found by its name."""
    B, T = len(q), len(q[0])
    H, K, V = len(s0[0]), len(s0[0][0]), len(s0[0][0][0])
    scale = K ** -0.5
    S = [[[list(row) for row in S_h] for S_h in S_b] for S_b in s0]
    d_S = [[[list(row) for row in S_h] for S_h in S_b] for S_b in d_s_final]
    d_q, d_k, d_v = zeros(B, T, H, K), zeros(B, T, H, K), zeros(B, T, H, V)
    indices = [(b, h, i, j) for b in range(B) for h in range(H) for i in range(K) for j in range(V)]
    for t in range(T):
        for b, h, i, j in indices:
            S[b][h][i][j] += k[b][t][h][i] * v[b][t][h][j]
            d_q[b][t][h][i] += scale * S[b][h][i][j] * d_o[b][t][h][j]
    for t in reversed(range(T)):
        for b, h, i, j in indices:
            d_S[b][h][i][j] += scale * q[b][t][h][i] * d_o[b][t][h][j]
            d_k[b][t][h][i] += d_S[b][h][i][j] * v[b][t][h][j]
            d_v[b][t][h][j] += d_S[b][h][i][j] * k[b][t][h][i]
    return {"q": d_q, "k": d_k, "d_v": d_v, "s0": d_S}


def overwrites_cotangent(q, k, v, s0=None):
    return attention(q, k, v, s0)


def overwrites_cotangent_backward(q, k, v, s0, d_o=None, d_s_final=None):
    result = with_backward_backward(q, k, v, s0, d_o, d_s_final)
    d_o[0][1][1][2] += 1.0
    return result
