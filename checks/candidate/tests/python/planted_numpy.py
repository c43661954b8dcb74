"""NumPy functions for python:planted_numpy:NAME."""

import numpy as np


def attention(q, k, v, s0=None, scale=None):
    B, T, H, K = q.shape
    S = np.zeros((B, H, K, v.shape[-1]), np.float32) if s0 is None else s0.astype(np.float32)
    o = np.empty((B, T, H, v.shape[-1]), np.float32)
    for t in range(T):
        S = S + k[:, t, :, :, None] * v[:, t, :, None, :]
        o[:, t] = (K ** -0.5 if scale is None else scale) * np.einsum("bhkv,bhk->bhv", S, q[:, t])
    return o, S


def modifies(q, k, v, s0=None):
    result = attention(q, k, v, s0)
    v[0, 0, 1, 3] = 7
    return result
