"""How far the CUDA kernels of m2rnn are from the truth.

usage: cuda_m2rnn_accuracy.py PLUGIN.so --json OUT [--assay PROGRAM] [--quick]

The truth is the recurrence and its adjoint in fp64 on the device, from inputs rounded to the format
handed over. With --assay this reference is itself compared with `assay eval` first. Relative errors
are those of the l2 norm of a whole tensor.
"""

import os
import subprocess
import sys
import tempfile

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cuda_plugin import Plugin, bench_parser, report_of, write_report

OUTPUTS, GRADIENTS = ("y", "h_final"), (*"qkvwfxab", "w_residual", "h0")


def truth(x, cotangents, clip=None):
    """Outputs and gradients in fp64; heads shared as in the operation."""
    x = {n: t.double() for n, t in x.items()}
    u = {n: t.double() for n, t in cotangents.items()}
    B, T = x["q"].shape[:2]
    N = max(x["q"].shape[2], x["k"].shape[2], x["v"].shape[2], x["w"].shape[0], x["f"].shape[2])
    K, V = x["q"].shape[3], x["v"].shape[3]
    wide = lambda t, axis: t.repeat_interleave(N // t.shape[axis], dim=axis)
    q, k, v, f = (wide(x[n], 2) for n in "qkvf")
    w = wide(x["w"], 0)
    H = torch.zeros(B, N, K, V, dtype=torch.float64, device=q.device)
    if "h0" in x:
        H = H + x["h0"]
    states, candidates = [H], []
    ys = []
    for t in range(T):
        Z = torch.tanh(H @ w + k[:, t, :, :, None] * v[:, t, :, None, :])
        g = f[:, t, :, None, None]
        H = g * H + (1 - g) * Z
        ys.append((q[:, t, :, None, :] @ H).squeeze(-2))
        states.append(H)
        candidates.append(Z)
    y = torch.stack(ys, 1) if T else torch.zeros(B, 0, N, V, dtype=torch.float64, device=q.device)
    if "w_residual" in x:
        y = y + x["w_residual"] * v
    d_y = u.get("d_y", torch.zeros_like(y))
    C = u.get("d_h_final", torch.zeros_like(H))
    d = {n: torch.zeros(B, T, N, s, dtype=torch.float64, device=q.device)
         for n, s in (("q", K), ("k", K), ("v", V), ("f", 1))}
    d_w = torch.zeros(N, V, V, dtype=torch.float64, device=q.device)
    for t in range(T - 1, -1, -1):
        if clip is not None:
            C = C.clamp(-clip, clip)
        u_t, Z, before = d_y[:, t], candidates[t], states[t]
        d["q"][:, t] = (states[t + 1] @ u_t[..., None]).squeeze(-1)
        R = C + q[:, t, :, :, None] * u_t[:, :, None, :]
        g = f[:, t, :, None, None]
        D = (1 - g) * R * (1 - Z * Z)
        d["f"][:, t, :, 0] = (R * (before - Z)).sum((-1, -2))
        d_w += (before.transpose(-1, -2) @ D).sum(0)
        d["k"][:, t] = (D @ v[:, t, :, :, None]).squeeze(-1)
        d["v"][:, t] = (k[:, t, :, None, :] @ D).squeeze(-2)
        C = g * R + D @ w.transpose(-1, -2)
    out = {"y": y, "h_final": H}
    narrow = lambda t, n: t.unflatten(2, (n, N // n)).sum(3)
    for n in "qkvf":
        out["d_" + n] = d[n]
    out["d_f"] = out["d_f"].squeeze(-1)
    if "w_residual" in x:
        out["d_v"] = out["d_v"] + x["w_residual"] * d_y
        out["d_w_residual"] = (v * d_y).sum((0, 1))
    for n in "qkvf":
        out["d_" + n] = narrow(out["d_" + n], x[n].shape[2])
    out["d_w"] = d_w.unflatten(0, (x["w"].shape[0], -1)).sum(1)
    if "h0" in x:
        out["d_h0"] = C
    return out


def inputs(shape, dtype, gate, seed, scale=0.7, optional=True):
    B, T, N, K, V, heads = (shape.get(n) for n in ("B", "T", "N", "K", "V", "heads"))
    heads = heads or {}
    g = torch.Generator("cuda").manual_seed(seed)
    normal = lambda *s: torch.randn(*s, generator=g, device="cuda")
    x = {n: normal(B, T, heads.get(n, N), K if n in "qk" else V) * scale for n in "qkv"}
    x["w"] = torch.eye(V, device="cuda") * 0.5 + normal(heads.get("w", N), V, V) * (0.5 / V**0.5)
    logit = normal(B, T, heads.get("f", N))
    if gate == "near 1":
        x["f"] = 1 - 0.01 * torch.sigmoid(logit)
    else:
        x["f"] = torch.sigmoid(logit)
    if optional:
        x["w_residual"] = normal(N, V)
        x["h0"] = normal(B, N, K, V) * 0.5
    x = {n: t.to(dtype) for n, t in x.items()}
    if "h0" in x:
        x["h0"] = x["h0"].float()
    cotangents = {"d_y": normal(B, T, N, V).to(dtype)}
    if optional:
        cotangents["d_h_final"] = normal(B, N, K, V)
    return x, cotangents


def run(plugin, x, cotangents, op="m2rnn", **options):
    B, T = x["q"].shape[:2]
    N = max([x[n].shape[2] for n in "qkvfx" if n in x] + [x["w"].shape[0]])
    K, V = x["q"].shape[3], x["v"].shape[3]
    poison = lambda t: t.fill_(float("nan"))
    outputs = {"y": poison(torch.empty(B, T, N, V, dtype=x["v"].dtype, device="cuda")),
               "h_final": poison(torch.empty(B, N, K, V, device="cuda"))}
    gradients = {"d_" + n: poison(torch.empty_like(x[n], memory_format=torch.contiguous_format))
                 for n in GRADIENTS if n in x}
    prepared = plugin.prepare(op, x, outputs, cotangents, gradients, **options)
    prepared.run()
    torch.cuda.synchronize()
    return {**outputs, **gradients}, prepared


def relative(ours, exact):
    error = (ours.double() - exact).norm() / exact.norm().clamp_min(1e-300)
    return float(error)


def against_oracle(program):
    """The fp64 reference against certified values."""
    with tempfile.TemporaryDirectory() as folder:
        case, out = (os.path.join(folder, n + ".safetensors") for n in ("case", "out"))
        shape = "B=2,T=9,N=4,K=5,V=3,N.q=1,N.k=2"
        subprocess.run([program, "gen", "m2rnn", "--shape", shape, "--seed", "3", "--out", case],
                       check=True, stdout=subprocess.DEVNULL)
        subprocess.run([program, "eval", case, "--digits", "20", "--grad", "--out", out],
                       check=True, stdout=subprocess.DEVNULL)
        from safetensors.torch import load_file
        x, known = load_file(case, device="cuda"), load_file(out, device="cuda")
        cotangents = {n: x.pop(n) for n in list(x) if n.startswith("d_")}
        ours = truth(x, cotangents)
        return {n: relative(ours[n], known[n].double()) for n in ours if n in known}


def cases(quick):
    long = 4096 if not quick else 256
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        for gate in ("sigmoid(normal)", "near 1"):
            yield dict(B=2, T=long, N=4, K=64, V=16, heads={"q": 1, "k": 1}), dtype, gate, {}
    shared = {"q": 1, "k": 2, "v": 4, "w": 1, "f": 2}
    for dtype in (torch.bfloat16, torch.float32):
        for K, V in ((128, 16), (64, 32), (128, 32), (64, 64), (128, 64), (256, 64), (200, 48),
                     (1, 1), (9, 5), (17, 33), (130, 7)):
            yield dict(B=2, T=77, N=4, K=K, V=V, heads=shared), dtype, "sigmoid(normal)", {}
        yield dict(B=3, T=50, N=4, K=64, V=16), dtype, "sigmoid(normal)", {"state_grad_clip": 0.5}
        many = dict(B=2, T=1000, N=84, K=64, V=16, heads={"q": 1, "k": 1})
        yield many, dtype, "sigmoid(normal)", {}


def fused_gate(plugin, dtype):
    """f = exp(-a softplus(x + b)) computed in the kernel, and its gradients."""
    x, cotangents = inputs(dict(B=2, T=300, N=4, K=64, V=16, heads={"q": 1, "f": 2}), dtype,
                           "sigmoid(normal)", 5)
    logit = torch.randn(x["f"].shape, device="cuda").to(dtype)
    a, b = torch.rand(2, device="cuda").to(dtype), torch.randn(1, device="cuda").to(dtype)
    leaves = [t.double().requires_grad_() for t in (logit, a, b)]
    f = torch.exp(-leaves[1] * torch.nn.functional.softplus(leaves[0] + leaves[2]))
    exact = truth({**x, "f": f.detach()}, cotangents)
    d_f = exact.pop("d_f")
    f.backward(d_f)
    exact.update({"d_x": leaves[0].grad, "d_a": leaves[1].grad, "d_b": leaves[2].grad})
    # Sums of hundreds of terms of either sign: what the errors of the terms make of them.
    terms = {"d_b": leaves[0].grad,
             "d_a": d_f * f.detach() * torch.nn.functional.softplus(leaves[0] + leaves[2]).detach()}
    given = {n: t for n, t in x.items() if n != "f"}
    given.update(x=logit, a=a, b=b)
    ours, _ = run(plugin, given, cotangents)
    errors = {n: relative(ours[n], exact[n]) for n in exact}
    for n, t in terms.items():
        errors[n] = float((ours[n].double() - exact[n]).norm() / t.norm())
    return errors


def far_apart(plugin):
    """Inputs whose elements lie more than 2^31 elements apart, with odd strides."""
    x, cotangents = inputs(dict(B=2, T=40, N=2, K=64, V=16), torch.bfloat16, "sigmoid(normal)", 6)
    plain, _ = run(plugin, x, cotangents)
    apart = dict(x)
    for n in "qkv":
        t = x[n]
        store = torch.empty(2**31 + 2 * t.numel() + 3, dtype=t.dtype, device="cuda")
        row = t[0, 0].numel() + 3
        view = store[1:].as_strided(t.shape, (2**31, row, t.shape[3] + 1, 1))
        view.copy_(t)
        apart[n] = view
    spread, _ = run(plugin, apart, cotangents)
    return all(torch.equal(plain[n].view(torch.uint8), spread[n].view(torch.uint8))
               for n in plain)


def repeated(plugin, times=50):
    """Are the bits of all results the same in every run?"""
    same = True
    for dtype in (torch.bfloat16, torch.float32):
        x, cotangents = inputs(dict(B=2, T=333, N=8, K=64, V=16, heads={"q": 1, "k": 2, "w": 1}),
                               dtype, "sigmoid(normal)", 7)
        first, prepared = run(plugin, x, cotangents)
        first = {n: t.clone() for n, t in first.items()}
        for _ in range(times - 1):
            prepared.workspace.fill_(0xFE)
            prepared.run()
            torch.cuda.synchronize()
            now = {**prepared.tensors["outputs"], **prepared.tensors["gradients"]}
            same = same and all(torch.equal(first[n].view(torch.uint8), now[n].view(torch.uint8))
                                for n in first)
    return same


def large_state(plugin):
    """Initial states far outside of fp16. Reported, not judged: most of Z is 1 to many digits
    there, and gradients that live on 1 - Z Z are as good as tanh.approx is."""
    x, cotangents = inputs(dict(B=1, T=100, N=2, K=64, V=16), torch.bfloat16, "sigmoid(normal)", 8)
    x["h0"] = x["h0"] * 1e5
    exact = truth(x, cotangents)
    ours, _ = run(plugin, x, cotangents)
    return {n: relative(ours[n], exact[n]) for n in exact}


def main():
    parser = bench_parser()
    parser.add_argument("--assay")
    parser.add_argument("--quick", action="store_true")
    a = parser.parse_args()
    plugin = Plugin(a.plugin)
    report = report_of("CUDA kernels of m2rnn against the recurrence in fp64", a, cases=[])
    if a.assay:
        report["reference_against_assay_eval"] = against_oracle(a.assay)
        print("reference:", max(report["reference_against_assay_eval"].values()))
    bad = 0
    for seed, (shape, dtype, gate, options) in enumerate(cases(a.quick)):
        x, cotangents = inputs(shape, dtype, gate, seed)
        exact = truth(x, cotangents, options.get("state_grad_clip"))
        ours, prepared = run(plugin, x, cotangents, **options)
        errors = {n: relative(ours[n], exact[n]) for n in ours}
        goal = 2e-6 if dtype == torch.float32 else 3e-3 if gate != "near 1" else 5e-3
        worst = max(errors.values()) if all(e == e for e in errors.values()) else float("nan")
        fine = worst <= goal
        bad += not fine
        report["cases"].append({"shape": shape, "dtype": str(dtype)[6:], "gate": gate,
                                "options": options, "relative_l2": errors, "goal": goal,
                                "within": fine, "workspace_bytes": prepared.call.workspace_bytes})
        print(f"{'ok ' if fine else 'BAD'} {shape} {str(dtype)[6:]} {gate} {options} "
              + " ".join(f"{n}={e:.1e}" for n, e in errors.items()), flush=True)
        del ours, prepared, exact
    for dtype, goal in ((torch.bfloat16, 3e-3), (torch.float32, 2e-6)):
        errors = fused_gate(plugin, dtype)
        fine = max(errors.values()) <= goal
        bad += not fine
        report["fused_gate_" + str(dtype)[6:]] = errors
        print("ok " if fine else "BAD", "fused gate", errors)
    report["large_initial_state"] = large_state(plugin)
    report["apart_by_more_than_2^31_elements_same_bits"] = far_apart(plugin)
    report["same_bits_in_50_runs"] = repeated(plugin)
    for name in ("large_initial_state", "apart_by_more_than_2^31_elements_same_bits",
                 "same_bits_in_50_runs"):
        print(name, report[name])
        bad += report[name] is False
    write_report(report, a.json)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
