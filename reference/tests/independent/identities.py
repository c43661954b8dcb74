"""Identities between operations, and formulas of the papers, that the oracle must satisfy."""

import math
import os
import random
import tempfile

from mpmath import mp, mpf

import casefile
import oracle
from casefile import Tensor
from schema import FAST_WEIGHT, signature
from support import cut, run, same


def fill(rng, shape, low=-1.0, high=1.0):
    """A tensor of uniform numbers."""
    return Tensor("F64", shape, [rng.uniform(low, high) for _ in range(math.prod(shape))])


def constant(shape, value):
    """A tensor of one number."""
    return Tensor("F64", shape, [value] * math.prod(shape))


UNIT = {"alpha", "mu", "f", "gamma", "beta", "eta"}


def random_case(op, options=None, without=(), seed=3, **sizes):
    """All inputs (linear gates, optional ones too, but `without`) and all cotangents."""
    dims = {"B": 2, "T": 4, "H": 2, "K": 3, "V": 2, "J": 2, "M": 3, "R": 4, "D": 3, "S": 2, "G": 3,
            "E": 3, "W": 4, "L": 3, "P": 2, **sizes}
    rng, tensors = random.Random(f"{op}/{seed}"), {}
    inputs, outputs, _ = signature(op, options or {})
    for key, layout in inputs.items():
        name = key.rstrip("?").split("|")[0]
        if name not in without:
            low = 0.0 if name.removesuffix("_mem").removesuffix("_shared") in UNIT else -1.0
            tensors[name] = fill(rng, [dims[c] for c in layout], low)
    for name, layout in outputs.items():
        tensors["d_" + name] = fill(rng, [dims[c] for c in layout])
    return tensors


def agree(a, b, renamed=None):
    """Outputs and gradients present in both results agree; `renamed` maps names of a to b's."""
    compared = 0
    for part in range(2):
        for name, (_, values) in a[part].items():
            name_b = (renamed or {}).get(name, name)
            if name_b in b[part]:
                same(values, b[part][name_b][1], name)
                compared += 1
    assert compared > 3, "hardly anything compared"


def total(result, *names):
    """Entrywise sum of gradients."""
    return [sum(vs, mpf(0)) for vs in zip(*(result[1][name][1] for name in names), strict=True)]


def grouped(values, n):
    """Sums of n neighbours."""
    return [sum(values[i : i + n], mpf(0)) for i in range(0, len(values), n)]


def spread(tensor, n):
    """Every entry n times, along a new last axis."""
    return Tensor("F64", tensor.shape + [n], [v for v in tensor.values for _ in range(n)])


def test_mdn_without_momentum_is_gdn():
    gdn = random_case("gdn", without=("skip", "q_correction"))
    shape = gdn["alpha"].shape
    mdn = {**gdn, "mu": constant(shape, 0.0), "eta": constant(shape, 1.0)}
    agree(run("gdn", {}, gdn), run("mdn", {}, mdn))
    del mdn["eta"]
    agree(run("gdn", {}, gdn), run("mdn", {}, mdn))


def test_gates_of_one_reduce_to_the_ungated():
    for op, simple, gate in (("gdn", "delta", "alpha"), ("ssd", "linear_attention", "alpha"),
                             ("retention", "linear_attention", "gamma")):
        tensors = random_case(op)
        tensors[gate] = constant(tensors[gate].shape, 1.0)
        plain = {n: x for n, x in tensors.items() if n != gate}
        agree(run(simple, {}, plain), run(op, {}, tensors))


def test_comba_with_p_equal_k_is_gdn():
    gdn = random_case("gdn")
    comba = {**gdn, "p": gdn["k"]}
    a, b = run("gdn", {"qk_l2norm": False}, gdn), run("comba", {}, comba)
    same(total(b, "d_k", "d_p"), a[1]["d_k"][1], "d_k + d_p")
    del a[1]["d_k"]
    agree(a, b)


def test_one_householder_factor_is_gdn():
    gdn = random_case("gdn", without=("skip", "q_correction"))
    product = dict(gdn)
    for name in ("k", "v", "beta"):
        shape = gdn[name].shape
        product[name] = Tensor("F64", shape[:2] + [1] + shape[2:], gdn[name].values)
    agree(run("gdn", {"qk_l2norm": True}, gdn),
          run("gated_delta_product", {"qk_l2norm": True}, product))


def test_equal_diagonal_gates_are_scalar_gates():
    for op, wide in (("gdn", "kda"), ("ssd", "gla")):
        tensors = random_case(op)
        K = tensors["k"].shape[-1]
        a = run(op, {}, tensors)
        b = run(wide, {}, {**tensors, "alpha": spread(tensors["alpha"], K)})
        same(grouped(b[1].pop("d_alpha")[1], K), a[1]["d_alpha"][1], "d_alpha")
        agree(a, b)


def test_hgrn2_is_gla_with_k_one_minus_f():
    hgrn2 = random_case("hgrn2")
    gla = {n: x for n, x in hgrn2.items() if n != "f"}
    gla["alpha"] = hgrn2["f"]
    gla["k"] = Tensor("F64", hgrn2["f"].shape, [1 - mpf(f) for f in hgrn2["f"].values])
    a, b = run("hgrn2", {}, hgrn2), run("gla", {}, gla)
    same([x - y for x, y in zip(b[1]["d_alpha"][1], b[1]["d_k"][1])], a[1]["d_f"][1], "d_f")
    agree(a, b)


def test_log_gates():
    for op in ("ssd", "gla", "gdn", "kda", "comba", "gated_delta_product", "mdn"):
        linear = random_case(op)
        linear["alpha"].values[0] = 0.0
        logs = {n: x for n, x in linear.items() if n != "alpha"}
        alpha = linear["alpha"]
        logs["log_alpha"] = Tensor("F64", alpha.shape, [
            mp.log(mpf(v)) if v else -mp.inf for v in alpha.values])
        a, b = run(op, {}, linear), run(op, {}, logs)
        assert b[1]["d_log_alpha"][1][0] == 0
        same([mpf(v) * g for v, g in zip(alpha.values, a[1]["d_alpha"][1])],
             b[1]["d_log_alpha"][1], f"{op} d_log_alpha")
        agree(a, b)


def test_mdn_chunk_form_is_the_recurrence():
    """The chunk equations and the division-free coefficients, one chunk, B = H = 1."""
    tensors = random_case("mdn", without=("skip", "q_correction"), B=1, S=1, H=1, T=5)
    tensors["alpha"].values[1], tensors["mu"].values[3] = 0.0, 0.0
    x = {n: [mpf(v) for v in tensor.values] for n, tensor in tensors.items()}
    C, K, V = 5, 3, 2
    alpha, mu, beta, eta = (x[n] for n in ("alpha", "mu", "beta", "eta"))
    Q, Kmat, Vmat, S0, M0 = (mp.matrix([x[n][i * w : (i + 1) * w] for i in range(len(x[n]) // w)])
                             for n, w in (("q", K), ("k", K), ("v", V), ("s0", V), ("m0", V)))
    G, m = mp.matrix(C, C), mp.matrix(C, C)
    for j in range(C):
        m[j, j], G[j, j] = 1, beta[j]
        for i in range(j + 1, C):
            m[i, j] = mu[i] * m[i - 1, j]
            G[i, j] = alpha[i] * G[i - 1, j] + beta[i] * m[i, j]
        for i in range(j, C):
            direct = sum(beta[r] * mp.fprod(alpha[r + 1 : i + 1]) * mp.fprod(mu[j + 1 : r + 1])
                         for r in range(j, i + 1))
            same([G[i, j]], [direct], "gamma")
    a_bar = [mp.fprod(alpha[: i + 1]) for i in range(C)]
    m_bar = [mp.fprod(mu[: i + 1]) for i in range(C)]
    b = []
    for i in range(C):
        b.append(alpha[i] * (b[-1] if b else 0) + beta[i] * m_bar[i])
    a_before, b_before = [mpf(1), *a_bar[:-1]], [mpf(0), *b[:-1]]
    P = mp.matrix([[alpha[i] * Kmat[i, j] for j in range(K)] for i in range(C)])
    K_hat = mp.matrix([[eta[i] * Kmat[i, j] for j in range(K)] for i in range(C)])
    below = mp.matrix(C, C)
    for i in range(1, C):
        for j in range(i):
            below[i, j] = G[i - 1, j]

    def masked(A, mask):
        return mp.matrix([[A[i, j] * mask[i, j] for j in range(C)] for i in range(C)])

    right = Vmat - mp.diag(a_before) * P * S0 + mp.diag(b_before) * P * M0
    R = mp.lu_solve(mp.eye(C) + masked(P * K_hat.T, below), right[:, 0])
    R2 = mp.lu_solve(mp.eye(C) + masked(P * K_hat.T, below), right[:, 1])
    R = mp.matrix([[R[i], R2[i]] for i in range(C)])
    O = (mp.diag(a_bar) * Q * S0 - mp.diag(b) * Q * M0 + masked(Q * K_hat.T, G) * R) / mp.sqrt(K)
    S = a_bar[-1] * S0 - b[-1] * M0 + (mp.diag([G[C - 1, j] for j in range(C)]) * K_hat).T * R
    M = m_bar[-1] * M0 - (mp.diag([m[C - 1, j] for j in range(C)]) * K_hat).T * R
    outputs, _ = run("mdn", {}, tensors)
    for name, A in (("o", O), ("s_final", S), ("m_final", M)):
        same(outputs[name][1], list(A), name)


def test_mom_with_one_memory_is_its_update():
    for op in FAST_WEIGHT:
        tensors = random_case(op, without=("skip", "q_correction"))
        plain = run(op, {}, tensors)
        once = {"router_logits": constant([2, 4, 1], 0.5)}
        routed, rename = dict(once), {}
        per_token = [k.rstrip("?").split("|")[0] for k in FAST_WEIGHT[op]]
        for name, x in tensors.items():
            if name in per_token:
                rename["d_" + name] = "d_" + name + "_mem"
                name, x = name + "_mem", Tensor("F64", x.shape[:2] + [1] + x.shape[2:], x.values)
            elif name.endswith(("0", "_final")):
                x = Tensor("F64", x.shape[:1] + [1] + x.shape[1:], x.values)
            routed[name] = x
        agree(plain, run("mom", {"update": op, "top_k": 1}, routed), rename)
        # The shared memory alone: a routed one that holds nothing and is never written.
        shared = random_case("mom", {"update": op}, ("skip", "q_correction"), M=1, R=2)
        for name, x in tensors.items():
            if name in per_token:
                shared[name + "_shared"] = x
            elif name in shared and not name.endswith(("0", "_final")):
                shared[name] = x
        for name in ("v_mem", "k_mem", "s0", "m0"):
            if name in shared:
                shared[name] = constant(shared[name].shape, 0.0)
        zero_start = {n: x for n, x in tensors.items() if n not in ("s0", "m0")}
        a, b = run(op, {}, zero_start), run("mom", {"update": op, "top_k": 1}, shared)
        same(a[0]["o"][1], b[0]["o"][1], f"{op} shared")


def test_mom_unselected_memory_is_untouched():
    options = {"top_k": 2, "update": "mdn"}
    tensors = random_case("mom", options, ("skip", "q_correction"))
    logits = tensors["router_logits"]
    logits.values[:] = [v for _ in range(8) for v in (1.0, 1.0, 1.0)]  # ties: 0 and 1 are selected
    outputs, gradients = run("mom", options, tensors)
    for name, state in (("s_final", "s0"), ("m_final", "m0")):
        kept = cut(Tensor("F64", *outputs[name]), 1, 2, 3).values
        assert kept == cut(tensors[state], 1, 2, 3).values
        kept = cut(Tensor("F64", *gradients["d_" + state]), 1, 2, 3).values
        assert kept == cut(tensors["d_" + name], 1, 2, 3).values
    printed = oracle.certain("mom", options, tensors, 30)[1]["d_router_logits"][1]
    assert all(v == 0 for v in printed[2::3]) and all(v != 0 for v in printed[:2])


def test_mom_aux_loss_by_hand():
    logits = Tensor("F64", [1, 2, 2], [0.0, mp.log(3), 0.0, 0.0])  # scores 1/4 3/4, 1/2 1/2
    tensors = {"router_logits": logits, "d_loss": constant([], 1.0)}
    outputs, gradients = run("mom_aux_loss", {"top_k": 1}, tensors)
    same(outputs["loss"][1], [2 * (mpf(1) / 2 * 3 / 8 + mpf(1) / 2 * 5 / 8)], "loss")
    same(gradients["d_router_logits"][1], [0, 0, 0, 0], "equal fractions")
    _, gradients = run("mom_aux_loss", {"top_k": 1}, {**tensors, "router_logits":
                       Tensor("F64", [1, 1, 2], [0.0, mp.log(3)])})
    same(gradients["d_router_logits"][1], [-mpf(3) / 8, mpf(3) / 8], "d_router_logits")


def test_normalised_scalar_query_has_gradient_zero():
    tensors = random_case("delta", K=1, without=("skip", "q_correction"))
    _, gradients = oracle.certain("delta", {"qk_l2norm": True}, tensors, 40)
    assert all(v == 0 for v in gradients["d_q"][1])


def test_case_file_round_trip():
    values = {"F64": [1 / 3, -0.0, 5e-324], "F32": [0.5, -2.0**-149, 3.0], "F16": [65504.0, -0.25],
              "BF16": [1.0, -float("inf"), 0.0078125, 3.140625], "I64": [0, 2**62], "I32": [-7]}
    tensors = {d.lower(): Tensor(d, [len(v)], v) for d, v in values.items()}
    tensors["scalar"] = Tensor("F64", [], [2.0])
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.safetensors")
        casefile.write(path, "op", {"a": 0.1}, tensors)
        op, options, back = casefile.read(path)
    assert (op, options) == ("op", {"a": 0.1})
    for name, tensor in tensors.items():
        assert (back[name].dtype, back[name].shape, back[name].values) == (
            tensor.dtype, tensor.shape, tensor.values), name
