"""Parts of the models: gate parametrisation, convolution, normalisation.

    mdn_gates      eta = tanh(x_eta / tau) + 1,  theta = atan(s eta)
                   log alpha = -a softplus(x_alpha + b) + 2 log cos theta
                   beta = sigmoid(x_beta) sin^2 theta
                   log mu = max(-a softplus(x_mu + b), log_mu_min)
    causal_conv1d  y_t[d] = sum_{j<W} weight[d, j] x_{t-(W-1)+j}[d] + bias[d], perhaps SiLU
    rmsnorm        y = x (mean(x^2) + eps)^(-1/2) weight
    rmsnorm_tp     the same over the P*D entries of a token split into P shards of D
"""

from mpmath import mpf

from tape import atan, cos, dot, flatten, log, maximum, sigmoid, silu, sin, softplus, sqrt, tanh
from tape import zeros


def mdn_gates(case):
    """Outputs log_alpha, beta, log_mu, eta."""
    x, options = case.x, case.options
    s, tau = mpf(options.get("s", 1)), mpf(options.get("tau", 1))
    log_mu_min = mpf(options.get("log_mu_min", -2))
    dims = case.dims
    out = {name: [[[None] * dims["H"] for _ in range(dims["T"])] for _ in range(dims["B"])]
           for name in ("log_alpha", "beta", "log_mu", "eta")}
    for b in range(dims["B"]):
        for t in range(dims["T"]):
            for h in range(dims["H"]):
                eta = tanh(x["x_eta"][b][t][h] / tau) + 1
                theta = atan(s * eta)
                decay = -x["a_alpha"][h] * softplus(x["x_alpha"][b][t][h] + x["b_alpha"][h])
                momentum = -x["a_mu"][h] * softplus(x["x_mu"][b][t][h] + x["b_mu"][h])
                out["eta"][b][t][h] = eta
                out["log_alpha"][b][t][h] = decay + 2 * log(cos(theta))
                out["beta"][b][t][h] = sigmoid(x["x_beta"][b][t][h]) * sin(theta) * sin(theta)
                out["log_mu"][b][t][h] = maximum(momentum, log_mu_min)
    return out


def convolve(inputs, weight, window=None, bias=None):
    """Depthwise over a list of vectors; `window` holds the W-1 inputs before, oldest first.

    Returns the outputs and the last W-1 inputs.
    """
    width, D = len(weight[0]), len(weight)
    history = list(window if window is not None else zeros(width - 1, D)) + list(inputs)
    outputs = []
    for t in range(len(inputs)):
        y = [dot(weight[d], [history[t + j][d] for j in range(width)]) for d in range(D)]
        outputs.append([yd + bd for yd, bd in zip(y, bias, strict=True)] if bias else y)
    return outputs, history[len(inputs) :]


def causal_conv1d(case):
    """Outputs y, x_final."""
    x, out = case.x, {name: case.blank(name) for name in case.outputs}
    for s, b, t0, t1 in case.segments:
        window = x["x0"][s] if "x0" in x else None
        y, final = convolve(x["x"][b][t0:t1], x["weight"], window, x.get("bias"))
        for t, row in zip(range(t0, t1), y):
            out["y"][b][t] = [silu(u) for u in row] if case.options.get("silu") else row
        out["x_final"][s] = final
    return out


def normalise(x, eps, weight=None):
    """x (mean(x^2) + eps)^(-1/2) weight"""
    s = 1 / sqrt(dot(x, x) / len(x) + eps)
    y = [s * xi for xi in x]
    return [yi * wi for yi, wi in zip(y, weight, strict=True)] if weight else y


def rmsnorm(case):
    """Output y; a token's entries are normalised together whether or not they are in shards."""
    weight, eps = case.x.get("weight"), mpf(case.options.get("eps", 1e-6))
    weight = weight and flatten(weight)
    return {"y": [[normalise(flatten(x), eps, weight) for x in row] for row in case.x["x"]]}
