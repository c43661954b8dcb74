"""Recurrent cells with a vector state, D inputs and D outputs per head.

    rnn    h = tanh(h' W + x)                                       (row vector times matrix)

With W_g x_i = sum_j w[g, i, j] x_j, the orientation of PyTorch:

    gru    r = sigmoid(W_ir x + b_ir + W_hr h' + b_hr)      gates r, z, n
           z = sigmoid(W_iz x + b_iz + W_hz h' + b_hz)
           n = tanh(W_in x + b_in + r (W_hn h' + b_hn))     h = (1 - z) n + z h'
    lstm   i, f, o = sigmoid(W_i. x + b_i. + W_h. h' + b_h.), g = tanh(the same); gates i, f, g, o
           c = f c' + i g                                   h = o tanh(c)
"""

from tape import mat_vec, sigmoid, tanh, vec_mat, zeros


def rnn_step(x, state, p):
    """One token of the plain cell."""
    return [[tanh(u + xi) for u, xi in zip(vec_mat(state[0], p["w"]), x)]]


def _gates(x, h, p):
    """The two halves of every gate's pre-activation: [(from x, from h) per gate]."""
    halves = []
    for g in range(len(p["w_ih"])):
        parts = []
        for vector, w, bias in ((x, "w_ih", "b_ih"), (h, "w_hh", "b_hh")):
            u = mat_vec(p[w][g], vector)
            if bias in p:
                u = [ui + bi for ui, bi in zip(u, p[bias][g], strict=True)]
            parts.append(u)
        halves.append(parts)
    return halves


def gru_step(x, state, p):
    """One token of the gated recurrent unit."""
    (h,) = state
    (xr, hr), (xz, hz), (xn, hn) = _gates(x, h, p)
    r = [sigmoid(a + b) for a, b in zip(xr, hr)]
    z = [sigmoid(a + b) for a, b in zip(xz, hz)]
    n = [tanh(a + ri * b) for a, ri, b in zip(xn, r, hn)]
    return [[(1 - zi) * ni + zi * hi for zi, ni, hi in zip(z, n, h)]]


def lstm_step(x, state, p):
    """One token of the long short-term memory cell; the state is (h, c)."""
    h, c = state
    i, f, g, o = ([a + b for a, b in zip(*halves)] for halves in _gates(x, h, p))
    c = [sigmoid(fi) * ci + sigmoid(ii) * tanh(gi) for fi, ci, ii, gi in zip(f, c, i, g)]
    return [[sigmoid(oi) * tanh(ci) for oi, ci in zip(o, c)], c]


STEPS = {"rnn": rnn_step, "gru": gru_step, "lstm": lstm_step}


def forward(case):
    """Outputs y, h_final and for lstm c_final."""
    step, names = STEPS[case.op], ["h", "c"][: 2 if case.op == "lstm" else 1]
    out = {name: case.blank(name) for name in case.outputs}
    parameters = [name for name in ("w", "w_ih", "w_hh", "b_ih", "b_hh") if name in case.x]
    for s, b, t0, t1 in case.segments:
        for h in range(case.dims["H"]):
            p = {name: case.x[name][h] for name in parameters}
            state = [case.x[n + "0"][s][h] if n + "0" in case.x else zeros(case.dims["D"])
                     for n in names]
            for t in range(t0, t1):
                state = step(case.x["x"][b][t][h], state, p)
                out["y"][b][t][h] = state[0]
            for n, vector in zip(names, state):
                out[n + "_final"][s][h] = vector
    return out
