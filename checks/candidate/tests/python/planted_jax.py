"""JAX functions for python:planted_jax:NAME."""

import jax.numpy as jnp


def attention(q, k, v, s0=None, scale=None):
    B, T, H, K = q.shape
    S = jnp.zeros((B, H, K, v.shape[-1]), q.dtype) if s0 is None else s0
    o = []
    for t in range(T):
        S = S + k[:, t, :, :, None] * v[:, t, :, None, :]
        o.append((K ** -0.5 if scale is None else scale) * jnp.einsum("bhkv,bhk->bhv", S, q[:, t]))
    return jnp.stack(o, 1), S
