"""How far the CUDA kernels of mdn, gdn and delta are from the truth.

usage: cuda_delta_accuracy.py PLUGIN.so --json OUT [--assay PROGRAM] [--commit ID]

The truth is the recurrence in fp64 on the device, differentiated step by step, from inputs rounded
to the format handed over. With --assay this reference is itself compared with `assay eval` first.
Relative errors are those of the l2 norm of a whole tensor. The map over constant gates compares the
read-out, head by head, with that of the published coefficients (logarithms and a difference) in
fp32, everything else of them in fp64.
"""

import math
import os
import subprocess
import sys
import tempfile

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cuda_plugin import Plugin, bench_parser, report_of, write_report

FORMATS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
GOALS = {"fp32": 1e-5, "bf16": 1e-2, "fp16": 1e-2}


def recurrence(op, x, scale):
    """Outputs in fp64 of inputs in fp64; heads shared as in the operation."""
    B, T = x["q"].shape[:2]
    K, V = x["q"].shape[3], x["v"].shape[3]
    H = max(t.shape[2] for n, t in x.items() if t.dim() > 2 and n not in ("s0", "m0"))
    wide = lambda t: t.repeat_interleave(H // t.shape[2], dim=2)
    gate = lambda n: wide(x["log_" + n].exp() if "log_" + n in x else x[n])
    q, k, v, beta = (wide(x[n]) for n in ("q", "k", "v", "beta"))
    one = torch.ones(B, T, H, dtype=q.dtype, device=q.device)
    alpha = one if op == "delta" else gate("alpha")
    mu, eta = (gate("mu"), wide(x["eta"]) if "eta" in x else one) if op == "mdn" else (0 * one, one)
    zero = torch.zeros(B, H, K, V, dtype=q.dtype, device=q.device)
    S, M = x.get("s0", zero), x.get("m0", zero)
    at = lambda g, t: g[:, t, :, None, None]
    rows = []
    for t in range(T):
        S = at(alpha, t) * S
        r = v[:, t, :, None, :] - k[:, t, :, None, :] @ S
        M = at(mu, t) * M - at(eta, t) * k[:, t, :, :, None] * r
        S = S - at(beta, t) * M
        rows.append(scale * (q[:, t, :, None, :] @ S).squeeze(-2))
    out = {"o": torch.stack(rows, 1), "s_final": S}
    if op == "mdn":
        out["m_final"] = M
    return out


def truth(op, x, cotangents, scale):
    x = {n: t.double().requires_grad_() for n, t in x.items()}
    out = recurrence(op, x, scale)
    loss = sum((out[n[2:]] * u.double()).sum() for n, u in cotangents.items())
    gradients = torch.autograd.grad(loss, list(x.values()), allow_unused=True)
    found = {n: t.detach() for n, t in out.items()}
    for (n, t), g in zip(x.items(), gradients):
        # d log x is x d x, and 0 where x is 0.
        found["d_" + n] = torch.zeros_like(t) if g is None else g.nan_to_num(0.0)
    return found


def inputs(op, kind, B, T, H, K, V, dtype, seed):
    g = torch.Generator("cuda").manual_seed(seed)
    normal = lambda *s: torch.randn(*s, generator=g, device="cuda")
    uniform = lambda *s: torch.rand(*s, generator=g, device="cuda")
    unit = lambda t: torch.nn.functional.normalize(t, dim=-1)
    x = {"q": unit(normal(B, T, H, K)), "v": normal(B, T, H, V)}
    k = normal(B, T, H, K)
    if kind == "correlated keys":
        k = normal(B, 1, H, K) + 0.3 * k
    if kind == "repeated keys":
        k = normal(B, 4, H, K)[:, torch.arange(T, device="cuda") % 4]
    x["k"] = unit(k)
    x["beta"] = uniform(B, T, H)
    gates = {"alpha": 0.2 + 0.8 * uniform(B, T, H), "mu": torch.exp(-2 * uniform(B, T, H))}
    if kind == "trained":
        gates = {"alpha": torch.sigmoid(normal(B, T, H) + 4), "mu": torch.sigmoid(normal(B, T, H))}
    if kind == "mu far below alpha":
        gates = {"alpha": 1 - 0.01 * uniform(B, T, H), "mu": 0.05 * uniform(B, T, H)}
    if kind == "gates of 0 and 1":
        for n in gates:
            choice = torch.randint(4, (B, T, H), generator=g, device="cuda")
            gates[n] = torch.where(choice == 0, 0.0, torch.where(choice == 1, 1.0, gates[n]))
    logs = kind == "log gates to -100"
    if logs:
        for n in gates:
            gates[n] = torch.where(uniform(B, T, H) < 0.2, -100 * uniform(B, T, H),
                                   -0.1 * uniform(B, T, H))
    prefix = "log_" if logs else ""
    if op != "delta":
        x[prefix + "alpha"] = gates["alpha"]
    if op == "mdn":
        x[prefix + "mu"] = gates["mu"]
        x["eta"] = 2 * uniform(B, T, H)
    x = {n: t.to(dtype) for n, t in x.items()}
    cotangents = {"d_o": normal(B, T, H, V).to(dtype), "d_s_final": normal(B, H, K, V)}
    x["s0"] = 0.5 * normal(B, H, K, V)
    if op == "mdn":
        x["m0"] = 0.5 * normal(B, H, K, V)
        cotangents["d_m_final"] = normal(B, H, K, V)
    return x, cotangents


def run(plugin, op, x, cotangents, gradients=True):
    B, T, H, K = x["q"].shape
    poison = lambda *s, dtype=torch.float32: torch.full(s, math.nan, dtype=dtype, device="cuda")
    V = x["v"].shape[3]
    outputs = {"o": poison(B, T, H, V, dtype=x["v"].dtype), "s_final": poison(B, H, K, V)}
    if op == "mdn":
        outputs["m_final"] = poison(B, H, K, V)
    found = {"d_" + n: torch.full_like(t, math.nan) for n, t in x.items()} if gradients else {}
    prepared = plugin.prepare(op, x, outputs, cotangents if gradients else {}, found)
    prepared.run()
    torch.cuda.synchronize()
    first = {n: t.clone() for n, t in {**outputs, **found}.items()}
    prepared.workspace.fill_(0xFE)
    prepared.run()
    torch.cuda.synchronize()
    same = all(torch.equal(first[n], t) for n, t in {**outputs, **found}.items())
    return first, same


def relative(ours, exact):
    return float((ours.double() - exact).norm() / exact.norm().clamp_min(1e-300))


def against_oracle(program):
    """The fp64 reference against certified values: the largest relative error."""
    from safetensors.torch import load_file

    worst = 0.0
    for op in ("mdn", "gdn", "delta"):
        with tempfile.TemporaryDirectory() as folder:
            case, out = (os.path.join(folder, n + ".safetensors") for n in ("case", "out"))
            command = [program, "gen", op, "--shape", "B=2,T=9,H=4,K=5,V=3,H.q=1,H.k=2", "--seed",
                       "3", "--out", case]
            if op == "mdn":
                command += ["--without", "q_correction"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            subprocess.run([program, "eval", case, "--digits", "20", "--grad", "--out", out],
                           check=True, stdout=subprocess.DEVNULL)
            x, known = load_file(case, device="cuda"), load_file(out, device="cuda")
            cotangents = {n: x.pop(n) for n in list(x) if n.startswith("d_")}
            found = truth(op, x, cotangents, x["q"].shape[3]**-0.5)
            names = [n for n in known if n in found]
            assert {"o", "s_final", "d_q", "d_k", "d_v", "d_beta", "d_s0"} <= set(names), names
            worst = max([worst] + [relative(found[n], known[n].double()) for n in names])
    return worst


def sweep(plugin, rows, kept):
    """Appends to `rows`, and calls `kept` when there is one more, so that a sweep that is ended
    keeps what it has."""
    shapes = [("trained", 1, T, 2, 64, 64) for T in (65, 127)]
    shapes += [("trained", 1, 200, 2, 128, 64), ("trained", 1, 200, 2, 64, 128),
               ("trained", 1, 200, 2, 128, 128), ("trained", 1, 130, 2, 100, 33),
               ("repeated keys", 1, 200, 2, 64, 128)]
    shapes += [(kind, 1, 300, 2, 128, 128)
               for kind in ("wide", "mu far below alpha", "gates of 0 and 1",
                            "log gates to -100", "correlated keys", "repeated keys")]
    shapes += [("trained", 1, 1000, 2, 64, 64), ("trained", 1, 16384, 1, 64, 64)]
    for kind, B, T, H, K, V in shapes:
        for op in ("mdn", "gdn", "delta"):
            for name, dtype in FORMATS.items():
                if T > 5000 and (name == "fp16" or op == "delta"):  # the reference takes long
                    continue
                x, cotangents = inputs(op, kind, B, T, H, K, V, dtype, len(rows))
                exact = truth(op, x, cotangents, K**-0.5)
                found, same = run(plugin, op, x, cotangents)
                errors = {n: relative(t, exact[n]) for n, t in found.items()}
                worst = max(errors, key=lambda n: errors[n] if errors[n] == errors[n] else math.inf)
                rows.append({"operation": op, "case": kind, "format": name, "B": B, "T": T, "H": H,
                             "K": K, "V": V, "worst": worst, "worst_error": errors[worst],
                             "goal": GOALS[name], "same_bits_twice": same, "errors": errors})
                kept()
                good = errors[worst] <= GOALS[name] and same
                print(f"{'ok   ' if good else 'ABOVE'} {op:5} {name} T={T:<5} {K}x{V} {kind:20} "
                      f"{errors[worst]:.2e} {worst} {'' if same else 'DIFFERS'}", flush=True)


def log_form(x, scale, chunk=64):
    """o of mdn by chunks with the published coefficients, those in fp32; one head each row."""
    q, k, v = (x[n].double()[0].transpose(0, 1) for n in ("q", "k", "v"))
    logs = lambda n: x[n].float()[0].transpose(0, 1).log()
    H, T = q.shape[:2]
    S = torch.zeros(H, q.shape[2], v.shape[2], dtype=torch.float64, device=q.device)
    M, rows = S.clone(), []
    for t in range(0, T, chunk):
        c = slice(t, t + chunk)
        Q, Y, X = q[:, c], k[:, c], v[:, c]
        A, U = logs("alpha")[:, c].cumsum(1), logs("mu")[:, c].cumsum(1)
        l = torch.logcumsumexp(logs("beta")[:, c] + U - A, 1)
        gamma = torch.exp(A + l)[:, :, None] * torch.exp(-U)[:, None, :]
        gamma[:, :, 1:] *= 1 - torch.exp(l[:, None, :-1] - l[:, :, None])
        gamma = gamma.tril().double()
        a, mu_bar, b = A.exp().double(), U.exp().double(), torch.exp(A + l).double()
        step = lambda z, first: torch.cat([torch.full_like(z[:, :1], first), z[:, :-1]], 1)
        P = x["alpha"].double()[0].transpose(0, 1)[:, c, None] * Y
        before = torch.cat([torch.zeros_like(gamma[:, :1]), gamma[:, :-1]], 1)
        L = torch.eye(Q.shape[1], dtype=torch.float64, device=q.device) + (
            P @ Y.transpose(1, 2)) * before.tril(-1)
        right = X - step(a, 1.0)[:, :, None] * (P @ S) + step(b, 0.0)[:, :, None] * (P @ M)
        R = torch.linalg.solve_triangular(L, right, upper=False, unitriangular=True)
        rows.append(scale * (a[:, :, None] * (Q @ S) - b[:, :, None] * (Q @ M) +
                             ((Q @ Y.transpose(1, 2)) * gamma) @ R))
        last = gamma[:, -1, :, None] * Y
        S, M = (a[:, -1, None, None] * S - b[:, -1, None, None] * M + last.transpose(1, 2) @ R,
                mu_bar[:, -1, None, None] * M -
                ((mu_bar[:, -1:] / mu_bar)[:, :, None] * Y).transpose(1, 2) @ R)
    return torch.cat(rows, 1).transpose(0, 1)[None]


def gate_map(plugin):
    """Relative errors of o over constant alpha and mu, T = 128, K = V = 64."""
    alphas = [0.2 + 0.05 * i for i in range(17)]
    log_mus = [-2 + 0.125 * i for i in range(17)]
    H = len(alphas) * len(log_mus)
    out = {"alpha": alphas, "mu": [math.exp(m) for m in log_mus], "T": 128, "K": 64, "V": 64}
    per_head = lambda ours, exact: ((ours.double() - exact).norm(dim=(1, 3)) /
                                    exact.norm(dim=(1, 3)))[0]
    for name in ("fp32", "bf16"):
        x, _ = inputs("mdn", "trained", 1, 128, H, 64, 64, torch.float32, 5)
        for n in ("s0", "m0", "eta"):
            del x[n]
        head = torch.arange(H, device="cuda")
        x["alpha"] = torch.tensor(alphas, device="cuda")[head // 17].expand(1, 128, H).contiguous()
        x["mu"] = torch.tensor(log_mus, device="cuda").exp()[head % 17].expand(1, 128, H).contiguous()
        for n in ("q", "k", "v"):
            x[n] = x[n].to(FORMATS[name])
        exact = recurrence("mdn", {n: t.double() for n, t in x.items()}, 64**-0.5)["o"]
        found, _ = run(plugin, "mdn", x, {}, gradients=False)
        grid = lambda e: [[float(y) for y in row] for row in e.view(17, 17)]
        out["ours_" + name] = grid(per_head(found["o"], exact))
        if name == "fp32":
            out["published_formula_fp32"] = grid(per_head(log_form(x, 64**-0.5), exact))
    worst = lambda n: max(y if y == y else math.inf for row in out[n] for y in row)
    for n in ("ours_fp32", "ours_bf16", "published_formula_fp32"):
        print(f"map over alpha and mu, largest relative error of o, {n}: {worst(n):.2e}", flush=True)
    return out


def main():
    parser = bench_parser()
    parser.add_argument("--assay")
    arguments = parser.parse_args()
    plugin = Plugin(arguments.plugin)
    out = report_of("CUDA kernels of the delta rules against the recurrence in fp64", arguments)
    if arguments.assay:
        out["reference_against_oracle"] = against_oracle(arguments.assay)
        print(f"fp64 reference against assay eval: {out['reference_against_oracle']:.2e}", flush=True)
    out["map"] = gate_map(plugin)
    out["sweep"] = []
    sweep(plugin, out["sweep"], lambda: write_report(out, arguments.json, indent=None))


if __name__ == "__main__":
    main()
