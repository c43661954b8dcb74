"""Identities of M2RNN, the cells, the gates, the convolution and the norms."""

import math

from mpmath import mp, mpf

from casefile import Tensor
from identities import agree, constant, random_case
from support import cut, run, same


def test_boxed_adjoint_with_a_wide_clip_is_the_gradient():
    tensors = random_case("m2rnn")
    agree(run("m2rnn", {}, tensors), run("m2rnn", {"state_grad_clip": 1e9}, tensors))


def test_boxed_adjoint_step_by_step():
    """The clip rule rebuilt from one-step gradients of the tape, with C_t clamped in between."""
    clip, T = mpf(1) / 4, 4
    tensors = random_case("m2rnn", T=T)
    _, want = run("m2rnn", {"state_grad_clip": 0.25}, tensors)
    h0, steps = tensors["h0"], []
    for t in range(T):
        part = {n: cut(tensors[n], 1, t, t + 1) for n in ("q", "k", "v", "f", "d_y")}
        part.update(w=tensors["w"], w_residual=tensors["w_residual"], h0=h0)
        steps.append(part)
        h0 = Tensor("F64", *run("m2rnn", {}, part)[0]["h_final"])
    C, sums, clamped = tensors["d_h_final"].values, {}, 0
    for t in reversed(range(T)):
        boxed = [max(-clip, min(clip, mpf(c))) for c in C]
        clamped += sum(a != b for a, b in zip(boxed, C))
        steps[t]["d_h_final"] = Tensor("F64", h0.shape, boxed)
        _, gradients = run("m2rnn", {}, steps[t])
        C = gradients["d_h0"][1]
        for name in ("d_w", "d_w_residual"):
            values = gradients[name][1]
            sums[name] = [a + b for a, b in zip(sums.get(name, [0] * len(values)), values)]
        for name in ("d_q", "d_k", "d_v", "d_f"):
            whole = Tensor("F64", *want[name])
            same(cut(whole, 1, t, t + 1).values, gradients[name][1], f"{name} at {t}")
    same(want["d_h0"][1], C, "d_h0")
    for name, values in sums.items():
        same(want[name][1], values, name)
    assert clamped > 8, "the clip hardly acts"


def test_rnn_is_the_first_row_of_m2rnn():
    """f = 0, q = k = e_1: y follows the vector recurrence, here with D = V = K."""
    rnn = random_case("rnn", without=("h0",))
    e1 = Tensor("F64", [2, 4, 2, 3], [1.0, 0.0, 0.0] * 16)
    m2rnn = {"q": e1, "k": e1, "v": rnn["x"], "w": rnn["w"], "f": constant([2, 4, 2], 0.0),
             "d_y": rnn["d_y"]}
    plain = {n: x for n, x in rnn.items() if n != "d_h_final"}
    a, b = run("rnn", {}, plain), run("m2rnn", {}, m2rnn)
    same(a[0]["y"][1], b[0]["y"][1], "y")
    same(a[1]["d_x"][1], b[1]["d_v"][1], "d_x")
    same(a[1]["d_w"][1], b[1]["d_w"][1], "d_w")


def test_m2rnn_gate_is_a_power_of_a_sigmoid():
    tensors = random_case("m2rnn_gate")
    outputs, _ = run("m2rnn_gate", {}, tensors)
    x, a, b = (tensors[n].values for n in ("x", "a", "b"))
    want = [(1 + mp.exp(mpf(xi) + b[i % 2])) ** -mpf(a[i % 2]) for i, xi in enumerate(x)]
    same(outputs["f"][1], want, "f")


def test_block_is_made_of_its_parts():
    """Projections by hand; convolution, gate, recurrence and norm as operations of their own."""
    B, T, E, N, K, V = 2, 4, 3, 2, 3, 2
    case = random_case("m2rnn_block")
    outputs, _ = run("m2rnn_block", {"eps": 0.125}, case)
    x = case["x"].values

    def project(name, width):
        w = case[name].values
        return Tensor("F64", [B, T, width], [
            sum(mpf(x[bt * E + e]) * w[e * width + i] for e in range(E))
            for bt in range(B * T) for i in range(width)])

    m2rnn = {"w": case["w"], "w_residual": case["w_residual"], "h0": case["h0"]}
    for name, width in (("q", K), ("k", K), ("v", V)):
        conv = {"x": project("w_" + name, N * width),
                "weight": Tensor("F64", [N * width, 4], case["conv_" + name].values)}
        y = run("causal_conv1d", {"silu": True}, conv)[0]["y"][1]
        m2rnn[name] = Tensor("F64", [B, T, N, width], y)
    gate = {"x": project("w_f", N), "a": case["a"], "b": case["b"]}
    m2rnn["f"] = Tensor("F64", *run("m2rnn_gate", {}, gate)[0]["f"])
    recurrence = run("m2rnn", {}, m2rnn)[0]
    same(outputs["h_final"][1], recurrence["h_final"][1], "h_final")
    g = [u / (1 + mp.exp(-u)) for u in project("w_g", N * V).values]
    norm = {"x": Tensor("F64", [B, T, N * V], [a * b for a, b in zip(recurrence["y"][1], g)]),
            "weight": Tensor("F64", [N * V], case["norm_weight"].values)}
    z, w_o = run("rmsnorm", {"eps": 0.125}, norm)[0]["y"][1], case["w_o"].values
    want = [sum(z[bt * N * V + i] * w_o[i * E + e] for i in range(N * V))
            for bt in range(B * T) for e in range(E)]
    same(outputs["o"][1], want, "o")


def _softplus(x):
    return math.log(1 + math.exp(x))


def _sigmoid(x):
    return 1 / (1 + math.exp(-x))


def test_gated_cells_in_double_precision():
    """One unit, two tokens, the equations of PyTorch's documentation in floats."""
    for op, gates in (("gru", 3), ("lstm", 4)):
        tensors = random_case(op, B=1, S=1, T=2, H=1, D=1, G=gates)
        wi, wh, bi, bh = (tensors[n].values for n in ("w_ih", "w_hh", "b_ih", "b_hh"))
        h, c = tensors["h0"].values[0], tensors.get("c0", tensors["h0"]).values[0]
        y = []
        for x in tensors["x"].values:
            if op == "gru":
                r = _sigmoid(wi[0] * x + bi[0] + wh[0] * h + bh[0])
                z = _sigmoid(wi[1] * x + bi[1] + wh[1] * h + bh[1])
                n = math.tanh(wi[2] * x + bi[2] + r * (wh[2] * h + bh[2]))
                h = (1 - z) * n + z * h
            else:
                i, f, g, o = (wi[j] * x + bi[j] + wh[j] * h + bh[j] for j in range(4))
                c = _sigmoid(f) * c + _sigmoid(i) * math.tanh(g)
                h = _sigmoid(o) * math.tanh(c)
            y.append(h)
        got = run(op, {}, tensors)[0]["y"][1]
        assert all(abs(a - b) < 1e-14 for a, b in zip(got, y)), (op, got, y)


def test_cell_matrices_act_as_documented():
    """Orientation: rnn multiplies from the left (h W), gru and lstm have outputs in rows (W h)."""
    one_way = Tensor("F64", [1, 2, 2], [0.0, 1.0, 0.0, 0.0])  # W_01 = 1
    h0, x = Tensor("F64", [1, 1, 2], [0.5, 0.0]), constant([1, 1, 1, 2], 0.0)
    y = run("rnn", {}, {"x": x, "w": one_way, "h0": h0})[0]["y"][1]
    same(y, [0, mp.tanh(mpf(1) / 2)], "h W reaches entry 1 from entry 0")
    rows = Tensor("F64", [1, 3, 2, 2], [0.0] * 8 + [0.0, 0.0, 1.0, 0.0])  # n gate, W_10 = 1
    still = constant([1, 3, 2, 2], 0.0)
    y = run("gru", {}, {"x": x, "w_ih": still, "w_hh": rows, "h0": h0})[0]["y"][1]
    n = mp.tanh(mpf(1) / 4)  # r = 1/2
    same(y, [mpf(1) / 4, n / 2], "W h reaches entry 1 from entry 0")


def test_convolution_by_hand():
    tensors = {"x": Tensor("F64", [1, 3, 1], [1.0, 2.0, 4.0]),
               "weight": Tensor("F64", [1, 3], [100.0, 10.0, 1.0]),
               "x0": Tensor("F64", [1, 2, 1], [7.0, 8.0]), "bias": Tensor("F64", [1], [0.5])}
    outputs, _ = run("causal_conv1d", {}, tensors)
    same(outputs["y"][1], [781.5, 812.5, 124.5], "y")
    same(outputs["x_final"][1], [2, 4], "x_final")


def test_sharded_norm_is_the_norm_and_its_published_gradient():
    """s p - r s^3 x / d with s = (mean x^2 + eps)^(-1/2), p = weight d_y, r = sum p x."""
    eps, P, D = 0.125, 2, 3
    sharded = random_case("rmsnorm_tp", P=P, D=D)
    flat = {n: Tensor("F64", x.shape[:-2] + [P * D], x.values) for n, x in sharded.items()}
    a, b = run("rmsnorm_tp", {"eps": eps}, sharded), run("rmsnorm", {"eps": eps}, flat)
    for part in range(2):
        for name, (_, values) in a[part].items():
            same(values, b[part][name][1], name)
    d = P * D
    for token in range(len(flat["x"].values) // d):
        x = [mpf(v) for v in flat["x"].values[token * d : (token + 1) * d]]
        d_y = flat["d_y"].values[token * d : (token + 1) * d]
        p = [w * u for w, u in zip(map(mpf, flat["weight"].values), d_y)]
        s = 1 / mp.sqrt(sum(v * v for v in x) / d + eps)
        r = sum(a * b for a, b in zip(p, x))
        same(b[1]["d_x"][1][token * d : (token + 1) * d],
             [s * pi - r * s**3 * xi / d for pi, xi in zip(p, x)], "d_x")


def test_mdn_gates_in_double_precision():
    tensors = random_case("mdn_gates", B=1, T=3, H=1)
    options = {"s": 0.5, "tau": 3, "log_mu_min": -0.25}
    for name in ("a_alpha", "a_mu"):
        tensors[name].values[0] = abs(tensors[name].values[0])
    outputs, _ = run("mdn_gates", options, tensors)
    a, b, a_mu, b_mu = (tensors[n].values[0] for n in ("a_alpha", "b_alpha", "a_mu", "b_mu"))
    for t in range(3):
        at = {n: tensors[n].values[t] for n in ("x_alpha", "x_beta", "x_mu", "x_eta")}
        eta = math.tanh(at["x_eta"] / 3) + 1
        theta = math.atan(eta / 2)
        want = {
            "eta": eta,
            "log_alpha": -a * _softplus(at["x_alpha"] + b) + 2 * math.log(math.cos(theta)),
            "beta": _sigmoid(at["x_beta"]) * math.sin(theta) ** 2,
            "log_mu": max(-a_mu * _softplus(at["x_mu"] + b_mu), -0.25),
        }
        for name, value in want.items():
            assert abs(outputs[name][1][t] - value) < 1e-14, (name, t)
