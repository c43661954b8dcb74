"""The fast-weight family: a matrix state S in R^{K x V}, read by o_t = scale * S_t^T q_t.

    linear_attention     S = S' + k v^T                         (S' is the previous state)
    retention            S = gamma_h S' + k v^T
    ssd                  S = alpha S' + k v^T                   o_t += skip_h v_t
    gla                  S = diag(alpha) S' + k v^T
    hgrn2                S = diag(f) S' + (1 - f) v^T
    delta                S = S' + beta k (v - S'^T k)^T
    gdn                  D = alpha S';        S = D + beta k (v - D^T k)^T
    kda                  D = diag(alpha) S';  S = D + beta k (v - D^T k)^T
    comba                D = alpha S';        S = D + beta k (v - D^T p)^T
    gated_delta_product  D = alpha S';  for j = 1..J: D += beta_j k_j (v_j - D^T k_j)^T;  S = D
    mdn                  p = alpha k;  r = v - S'^T p;  M = mu M' - eta k r^T;
                         S = alpha S' - beta M
    mdn_fused_gates      the same with the gates that parts.mdn_gates makes

Before the read q_t becomes q_t - d_h k_t (`q_correction` d, the k of the file); then `qk_l2norm`
divides q and k by sqrt(sum of squares + l2norm_eps).
"""

from mpmath import mp, mpf

import parts
from schema import FAST_WEIGHT
from tape import dot, mat_map, outer, sqrt, vec_mat, zeros


def scaled(factor, S):
    """factor * S"""
    return mat_map(lambda s: factor * s, S)


def row_scaled(factors, S):
    """diag(factors) S"""
    return [[a * s for s in row] for a, row in zip(factors, S, strict=True)]


def plus(A, B):
    """A + B"""
    return mat_map(lambda a, b: a + b, A, B)


def minus(A, B):
    """A - B"""
    return mat_map(lambda a, b: a - b, A, B)


def delta_rule(D, beta, k, v, p):
    """D + beta k (v - D^T p)^T"""
    r = [vj - uj for vj, uj in zip(v, vec_mat(p, D))]
    return plus(D, scaled(beta, outer(k, r)))


def step(op, S, M, x):
    """One token: (S', M') and the token's inputs by name -> (S, M).  M is the momentum of mdn."""
    k, v = x.get("k"), x.get("v")
    if op == "linear_attention":
        return plus(S, outer(k, v)), M
    if op == "retention":
        return plus(scaled(x["gamma"], S), outer(k, v)), M
    if op == "ssd":
        return plus(scaled(x["alpha"], S), outer(k, v)), M
    if op == "gla":
        return plus(row_scaled(x["alpha"], S), outer(k, v)), M
    if op == "hgrn2":
        return plus(row_scaled(x["f"], S), outer([1 - f for f in x["f"]], v)), M
    if op == "delta":
        return delta_rule(S, x["beta"], k, v, k), M
    if op == "gdn":
        return delta_rule(scaled(x["alpha"], S), x["beta"], k, v, k), M
    if op == "kda":
        return delta_rule(row_scaled(x["alpha"], S), x["beta"], k, v, k), M
    if op == "comba":
        return delta_rule(scaled(x["alpha"], S), x["beta"], k, v, x["p"]), M
    if op == "gated_delta_product":
        D = scaled(x["alpha"], S)
        for beta_j, k_j, v_j in zip(x["beta"], k, v, strict=True):
            D = delta_rule(D, beta_j, k_j, v_j, k_j)
        return D, M
    if op == "mdn":
        p = [x["alpha"] * ki for ki in k]
        r = [vj - uj for vj, uj in zip(v, vec_mat(p, S))]
        M = minus(scaled(x["mu"], M), scaled(x["eta"], outer(k, r)))
        return minus(scaled(x["alpha"], S), scaled(x["beta"], M)), M
    raise ValueError(f"no fast-weight operation {op}")


def unit(a, eps):
    """a / sqrt(sum of squares + eps)"""
    length = sqrt(dot(a, a) + eps)
    return [ai / length for ai in a]


class Read:
    """The read-out and its options: scale, q_correction, qk_l2norm, skip."""

    def __init__(self, case):
        self.options, self.x = case.options, case.x
        self.scale = mpf(self.options.get("scale", 1 / mp.sqrt(case.dims["K"])))
        self.norm = self.options.get("qk_l2norm", False)
        self.eps = mpf(self.options.get("l2norm_eps", 0))

    def prepare(self, token, h):
        """The token with q corrected first, then q and k normalised."""
        token = dict(token)
        if "q_correction" in self.x:
            d = self.x["q_correction"][h]
            token["q"] = [qi - d * ki for qi, ki in zip(token["q"], token["k"], strict=True)]
        if self.norm:
            token["q"] = unit(token["q"], self.eps)
            if "k" in token:
                many = isinstance(token["k"][0], list)  # J keys per token
                token["k"] = ([unit(k, self.eps) for k in token["k"]] if many
                              else unit(token["k"], self.eps))
        return token

    def __call__(self, S, token, h):
        """scale * S^T q [+ skip_h v]"""
        o = [self.scale * u for u in vec_mat(token["q"], S)]
        if "skip" in self.x:
            o = [oj + self.x["skip"][h] * vj for oj, vj in zip(o, token["v"], strict=True)]
        return o


def token_sources(case, op, suffix=""):
    """name -> nested list [b][t]... of every per-token input but q; gates made linear."""
    found = {}
    for key in FAST_WEIGHT[op]:
        name = key.rstrip("?").split("|")[0]
        if name == "eta" and "eta" + suffix not in case.x:
            continue
        linear = "|" not in key
        found[name] = case.x[name + suffix] if linear else case.gate(name + suffix)
    return found


def token_at(op, sources, case, b, t, h, m=None):
    """The inputs of one token for head h (and memory m), with the per-head gamma."""
    token = {}
    for name, source in sources.items():
        entry = source[b][t] if m is None else source[b][t][m]
        if op == "gated_delta_product" and name != "alpha":
            token[name] = [factor[h] for factor in entry]
        else:
            token[name] = entry[h]
    if op == "mdn":
        token.setdefault("eta", mpf(1))
    if op == "retention":
        token["gamma"] = case.x["gamma"][h]
    token["q"] = case.x["q"][b][t][h]
    return token


def initial(case, name, *index):
    """The given initial state, or zero."""
    state = case.x.get(name)
    if state is None:
        return zeros(case.dims["K"], case.dims["V"])
    for i in index:
        state = state[i]
    return state


def forward(case, op=None):
    """All outputs of a plain fast-weight operation."""
    op = op or case.op
    sources, read = token_sources(case, op), Read(case)
    out = {name: case.blank(name) for name in case.outputs}
    for s, b, t0, t1 in case.segments:
        for h in range(case.dims["H"]):
            S, M = initial(case, "s0", s, h), initial(case, "m0", s, h)
            for t in range(t0, t1):
                token = read.prepare(token_at(op, sources, case, b, t, h), h)
                S, M = step(op, S, M, token)
                out["o"][b][t][h] = read(S, token, h)
            out["s_final"][s][h] = S
            if op == "mdn":
                out["m_final"][s][h] = M
    return out


def forward_fused_gates(case):
    """mdn, once the gates stand among its inputs."""
    case.x.update(parts.mdn_gates(case))
    return forward(case, "mdn")
