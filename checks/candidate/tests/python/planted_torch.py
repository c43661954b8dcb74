"""PyTorch functions for python:planted_torch:NAME."""

import torch


def attention(q, k, v, s0=None, scale=None):
    B, T, H, K = q.shape
    S = s0 if s0 is not None else torch.zeros(B, H, K, v.shape[-1], dtype=q.dtype)
    o = []
    for t in range(T):
        S = S + k[:, t, :, :, None] * v[:, t, :, None, :]
        o.append((K ** -0.5 if scale is None else scale) * torch.einsum("bhkv,bhk->bhv", S, q[:, t]))
    return torch.stack(o, 1), S


def detached(q, k, v, s0=None):
    with torch.no_grad():
        return attention(q, k, v, s0)


def ignores_v(q, k, v, s0=None):
    return attention(q, k, v.detach(), s0)
