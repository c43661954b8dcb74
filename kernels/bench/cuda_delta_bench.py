"""How fast the CUDA kernels of mdn, gdn and delta are, and of mdn with its gates made inside.

usage: cuda_delta_bench.py PLUGIN.so --json OUT [--commit ID] [--repeat 20] [--only mdn]

Median, over replays of a CUDA graph, of the time of a forward call and of a call that also asks for
every gradient; bf16 tokens, of some also fp32 and fp16, gates as a trained model has them, no
initial states; and the memory a call needs besides its tensors. Of some, also with gradients from
windows of so many chunks, each computed once more when its turn comes, in place of everything
stored. mdn_fused_gates is also timed as what it replaces: mdn_gates, mdn and the way back through
mdn_gates as calls of their own, with gates in fp32 between them.
"""

import os
import sys

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cuda_plugin import Plugin, bench_parser, median_ms, report_of, write_report

# operation, B, T, H, width: goal forward, forward and backward, ms
CASES = [("mdn", 8, 2048, 8, 128, 0.26, 1.0), ("mdn", 4, 4096, 16, 128, 0.45, 1.9),
         ("gdn", 8, 2048, 8, 128, 0.16, 0.65), ("gdn", 4, 4096, 16, 128, 0.30, 1.25),
         ("gdn", 4, 4096, 16, 64, 0.18, 0.72), ("delta", 4, 4096, 16, 128, None, None),
         ("mdn_fused_gates", 8, 2048, 8, 128, None, None),
         ("mdn_fused_gates", 4, 4096, 16, 128, None, None)]
FORMATS = {"bf16": torch.bfloat16, "fp32": torch.float32, "fp16": torch.float16}
OTHERS = [case[:5] + (None, None) for case in CASES
          if case[:2] in (("mdn", 4), ("gdn", 4), ("delta", 4))]  # also in fp32 and fp16
GATES = ["log_alpha", "beta", "log_mu", "eta"]

WINDOWS = {("mdn", 4, 4096, 16, 128): (4, 8, 16, 32), ("gdn", 4, 4096, 16, 128): (4, 8, 16, 32)}


def tokens(op, B, T, H, D, seed=1, dtype=torch.bfloat16):
    g = torch.Generator("cuda").manual_seed(seed)
    normal = lambda *s: torch.randn(*s, generator=g, device="cuda")
    unit = lambda x: torch.nn.functional.normalize(x, dim=-1)
    x = {"q": unit(normal(B, T, H, D)), "k": unit(normal(B, T, H, D)), "v": normal(B, T, H, D)}
    x = {n: t.to(dtype) for n, t in x.items()}
    if op == "mdn_fused_gates":
        for name in ("alpha", "beta", "mu", "eta"):
            x["x_" + name] = normal(B, T, H).to(dtype)
        for name in ("alpha", "mu"):  # log alpha about -0.02 before the angle, log mu -0.7
            x["a_" + name] = torch.ones(H, device="cuda")
            x["b_" + name] = torch.full((H,), -4.0 if name == "alpha" else 0.0, device="cuda")
        return x, {"d_o": normal(B, T, H, D).to(dtype)}
    x["beta"] = torch.sigmoid(normal(B, T, H))
    if op != "delta":
        x["log_alpha"] = torch.nn.functional.logsigmoid(normal(B, T, H) + 4)
    if op == "mdn":
        x["log_mu"] = torch.nn.functional.logsigmoid(normal(B, T, H))
        x["eta"] = 1 + 0.5 * torch.tanh(normal(B, T, H))
    return x, {"d_o": normal(B, T, H, D).to(dtype)}


def prepare(plugin, op, x, cotangents, gradients=True, **options):
    o = torch.empty_like(x["v"])
    if not gradients:
        return plugin.prepare(op, x, {"o": o}, **options)
    return plugin.prepare(op, x, {"o": o}, cotangents,
                          {"d_" + n: torch.empty_like(t) for n, t in x.items()}, **options)


def results(call):
    call.run()
    torch.cuda.synchronize()
    return [t for group in ("outputs", "gradients") for t in call.tensors[group].values()]


def in_windows(plugin, op, x, cotangents, chunks, repeat):
    """Time and memory, and whether the bits are those with everything stored."""
    call = prepare(plugin, op, x, cotangents, recompute=chunks)
    stored = results(prepare(plugin, op, x, cotangents))
    same = all(torch.equal(a.view(torch.uint8), b.view(torch.uint8))
               for a, b in zip(results(call), stored))
    return {"chunks": chunks, "both_ms": median_ms(call.run, repeat),
            "workspace_mib": call.workspace.numel() / 2**20, "same_bits": same}


def apart(plugin, x, cotangents, gradients=True):
    """The same as three calls, or two without gradients."""
    before = {n: t for n, t in x.items() if n[:2] in ("x_", "a_", "b_")}
    gates = {n: torch.empty(x["x_eta"].shape, device="cuda") for n in GATES}
    rows = {n: x[n] for n in "qkv"}
    calls = [plugin.prepare("mdn_gates", before, gates),
             prepare(plugin, "mdn", {**rows, **gates}, cotangents, gradients)]
    if gradients:
        d = calls[1].tensors["gradients"]
        calls.append(plugin.prepare("mdn_gates", before, {}, {"d_" + n: d["d_" + n] for n in GATES},
                                    {"d_" + n: torch.empty_like(t) for n, t in before.items()}))
    return lambda: [call.run() for call in calls]


def main():
    parser = bench_parser(repeat=20)
    parser.add_argument("--only", default="")
    parser.add_argument("--once", action="store_true", help="run once, for a profiler")
    arguments = parser.parse_args()
    plugin = Plugin(arguments.plugin)
    rows = []
    cases = [("bf16", *case) for case in CASES]
    cases += [(dtype, *case) for dtype in ("fp32", "fp16") for case in OTHERS]
    for dtype, op, B, T, H, D, goal_forward, goal_both in cases:
        name = f"{op} {B},{T},{H},{D} {dtype}"
        if arguments.only and arguments.only not in name:
            continue
        x, cotangents = tokens(op, B, T, H, D, dtype=FORMATS[dtype])
        forward, both = prepare(plugin, op, x, cotangents, False), prepare(plugin, op, x, cotangents)
        if arguments.once:
            both.run()
            torch.cuda.synchronize()
            continue
        row = {"operation": op, "B": B, "T": T, "H": H, "K": D, "V": D, "dtype": dtype,
               "forward_ms": median_ms(forward.run, arguments.repeat),
               "both_ms": median_ms(both.run, arguments.repeat),
               "goal_forward_ms": goal_forward, "goal_both_ms": goal_both,
               "workspace_mib": both.workspace.numel() / 2**20,
               "forward_workspace_mib": forward.workspace.numel() / 2**20}
        if op == "mdn_fused_gates":
            for key, gradients in (("apart_forward_ms", False), ("apart_both_ms", True)):
                row[key] = median_ms(apart(plugin, x, cotangents, gradients), arguments.repeat)
            print(f"{name:32} as calls of their own: {row['apart_forward_ms']:8.3f} "
                  f"{row['apart_both_ms']:8.3f} ms")
        print(f"{name:32} {row['forward_ms']:8.3f} {row['both_ms']:8.3f} ms, goal {goal_forward} "
              f"{goal_both}, workspace {row['workspace_mib']:.0f} MiB", flush=True)
        del forward, both
        row["windows"] = [in_windows(plugin, op, x, cotangents, n, arguments.repeat)
                          for n in WINDOWS.get((op, B, T, H, D), ()) if dtype != "fp16"]
        for w in row["windows"]:
            print(f"  windows of {w['chunks']:2} chunks {w['both_ms']:8.3f} ms, workspace "
                  f"{w['workspace_mib']:.0f} MiB, same bits: {w['same_bits']}", flush=True)
        rows.append(row)
    write_report(report_of("CUDA kernels of the delta rules, median of graph replays", arguments,
                           rows=rows), arguments.json)


if __name__ == "__main__":
    main()
