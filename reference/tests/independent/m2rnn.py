"""M2RNN: a matrix state with a non-linear transition, its gate, its block, its clipped rule.

    Z_t = tanh(H_{t-1} W + k_t v_t^T)    H_t = f_t H_{t-1} + (1 - f_t) Z_t
    y_t = H_t^T q_t + w_residual * v_t

    gate    f = exp(-a softplus(x + b))
    block   q, k, v = SiLU(conv(x W_.)),  f = gate(x w_f),  g = SiLU(x w_g),
            o = RMSNorm over all N*V of (y * g), times norm_weight, times w_o
"""

from mpmath import mpf

from fast_weight import initial
from parts import convolve, normalise
from tape import dot, exp, flatten, mat_map, mat_vec, outer, silu, softplus, tanh, value_of, vec_mat


def mat_mul(A, B):
    """A B"""
    return [vec_mat(row, B) for row in A]


def step(H, W, f, k, v):
    """(H_{t-1}, W, f_t, k_t, v_t) -> (H_t, Z_t)"""
    Z = mat_map(lambda a, b: tanh(a + b), mat_mul(H, W), outer(k, v))
    return mat_map(lambda h, z: f * h + (1 - f) * z, H, Z), Z


def read(H, q, v, w_residual):
    """H^T q + w_residual * v"""
    y = vec_mat(q, H)
    if w_residual is not None:
        y = [yj + wj * vj for yj, wj, vj in zip(y, w_residual, v, strict=True)]
    return y


def recur(case, q, k, v, f):
    """Runs the recurrence on nested lists [b][t][n]...; returns (y, h_final)."""
    N = case.dims["H"]
    y = [[[None] * N for _ in row] for row in q]
    final = [[None] * N for _ in case.segments]
    residual = case.x.get("w_residual")
    for s, b, t0, t1 in case.segments:
        for n in range(N):
            H = initial(case, "h0", s, n)
            for t in range(t0, t1):
                H, _ = step(H, case.x["w"][n], f[b][t][n], k[b][t][n], v[b][t][n])
                y[b][t][n] = read(H, q[b][t][n], v[b][t][n], residual and residual[n])
            final[s][n] = H
    return y, final


def forward(case):
    """Outputs y, h_final."""
    y, final = recur(case, *(case.x[name] for name in ("q", "k", "v", "f")))
    return {"y": y, "h_final": final}


def gate_value(a, b, x):
    """exp(-a softplus(x + b))"""
    return exp(-a * softplus(x + b))


def gate(case):
    """The forget gate alone."""
    a, b = case.x["a"], case.x["b"]
    return {"f": [[[gate_value(*parts) for parts in zip(a, b, token)] for token in row]
                  for row in case.x["x"]]}


def project(x, w):
    """x w for w [E, N, width] -> [N][width], or [E, N] -> [N]."""
    if not isinstance(w[0][0], list):
        return vec_mat(x, w)
    return [[dot(x, [w[e][n][i] for e in range(len(x))]) for i in range(len(w[0][0]))]
            for n in range(len(w[0]))]


def block(case):
    """The whole module: outputs o, h_final."""
    c, N = case.x, case.dims["H"]
    streams = {}
    for name in ("q", "k", "v"):
        raw = [[project(x, c["w_" + name]) for x in row] for row in c["x"]]
        streams[name] = [[[None] * N for _ in row] for row in raw]
        for s, b, t0, t1 in case.segments:
            for n in range(N):
                inputs = [raw[b][t][n] for t in range(t0, t1)]
                result, _ = convolve(inputs, c["conv_" + name][n])
                for t, row in zip(range(t0, t1), result):
                    streams[name][b][t][n] = [silu(u) for u in row]
    f = [[[gate_value(*parts) for parts in zip(c["a"], c["b"], project(x, c["w_f"]))]
          for x in row] for row in c["x"]]
    y, final = recur(case, streams["q"], streams["k"], streams["v"], f)
    o = case.blank("o")
    weight, eps = c.get("norm_weight"), mpf(case.options.get("eps", 1e-6))
    for b, row in enumerate(c["x"]):
        for t, x in enumerate(row):
            g = [silu(u) for u in flatten(project(x, c["w_g"]))]
            gated = [yi * gi for yi, gi in zip(flatten(y[b][t]), g, strict=True)]
            z = normalise(gated, eps, weight and flatten(weight))
            o[b][t] = vec_mat(z, [row for head in c["w_o"] for row in head])
    return {"o": o, "h_final": final}


def clipped_adjoint(case):
    """The rule `state_grad_clip` c, which is not the gradient: serial number of a leaf -> adjoint.

    C_t is clamped to [-c, c] before R_t is formed, C_T = d_h_final too; d_h0 = C_0 is not clamped.
    A sequence without tokens forms no R_t, so nothing is clamped there.

        R_t = C_t + q_t u_t^T          D_t = (1 - f_t) R_t * (1 - Z_t * Z_t)
        C_{t-1} = f_t R_t + D_t W^T    d_f = <R_t, H_{t-1} - Z_t>    d_w = sum H_{t-1}^T D_t
        d_k = D_t v_t    d_v = D_t^T k_t + w_residual * u_t
        d_q = H_t u_t    d_w_residual = sum v_t * u_t
    """
    clip = mpf(case.options["state_grad_clip"])
    K, V, N = (case.dims[letter] for letter in "KVH")
    adjoint = {}

    def add(leaves, amounts):
        for leaf, amount in zip(flatten(leaves), flatten(amounts), strict=True):
            adjoint[leaf.serial] = adjoint.get(leaf.serial, mpf(0)) + amount

    def numbers(x):
        return [numbers(y) for y in x] if isinstance(x, list) else value_of(x)

    def cotangent(name, position, *shape):
        size = K * V if len(shape) == 2 else V
        flat = case.d.get(name)
        part = [mpf(0)] * size if flat is None else flat[position * size : (position + 1) * size]
        return part if len(shape) == 1 else [part[i * V : (i + 1) * V] for i in range(K)]

    residual = case.x.get("w_residual")
    for s, b, t0, t1 in case.segments:
        for n in range(N):
            at = {name: [case.x[name][b][t][n] for t in range(t0, t1)] for name in "qkvf"}
            W = numbers(case.x["w"][n])
            H, Z = [numbers(initial(case, "h0", s, n))], []
            for f, k, v in zip(numbers(at["f"]), numbers(at["k"]), numbers(at["v"])):
                H_t, Z_t = step(H[-1], W, f, k, v)
                H.append(H_t)
                Z.append(Z_t)
            C = cotangent("h_final", s * N + n, K, V)
            for i in reversed(range(t1 - t0)):
                q, k, v, f = (numbers(at[name][i]) for name in "qkvf")
                u = cotangent("y", (b * case.dims["T"] + t0 + i) * N + n, V)
                C = mat_map(lambda x: max(-clip, min(clip, x)), C)
                R = mat_map(lambda x, y: x + y, C, outer(q, u))
                D = mat_map(lambda r, z: (1 - f) * r * (1 - z * z), R, Z[i])
                C = mat_map(lambda r, d: f * r + d, R, mat_mul(D, list(zip(*W))))
                difference = mat_map(lambda h, z: h - z, H[i], Z[i])
                add(at["f"][i], dot(flatten(R), flatten(difference)))
                add(case.x["w"][n], mat_mul(list(zip(*H[i])), D))
                add(at["k"][i], mat_vec(D, v))
                add(at["q"][i], mat_vec(H[i + 1], u))
                add(at["v"][i], vec_mat(k, D))
                if residual:
                    add(at["v"][i], [w * x for w, x in zip(numbers(residual[n]), u)])
                    add(residual[n], [x * y for x, y in zip(v, u)])
            if "h0" in case.x:
                add(case.x["h0"][s][n], C)
    return adjoint
