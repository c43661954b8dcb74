"""How fast the CUDA kernels of mdn, gdn and delta are, and of mdn with its gates made inside.

usage: cuda_delta_bench.py PLUGIN.so --json OUT [--commit ID] [--repeat 20] [--only mdn]

Median, over replays of a CUDA graph, of the time of a forward call and of a call that also asks for
every gradient; bf16 tokens, gates as a trained model has them, no initial states; and the memory a
call needs besides its tensors. mdn_fused_gates is also timed as what it replaces: mdn_gates, mdn and
the way back through mdn_gates as calls of their own, with gates in fp32 between them.
"""

import argparse
import datetime
import json
import os
import sys

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cuda_plugin import Plugin, median_ms

# operation, B, T, H, width: goal forward, forward and backward, ms
CASES = [("mdn", 8, 2048, 8, 128, 0.26, 1.0), ("mdn", 4, 4096, 16, 128, 0.45, 1.9),
         ("gdn", 8, 2048, 8, 128, 0.16, 0.65), ("gdn", 4, 4096, 16, 128, 0.30, 1.25),
         ("gdn", 4, 4096, 16, 64, 0.18, 0.72), ("delta", 4, 4096, 16, 128, None, None),
         ("mdn_fused_gates", 8, 2048, 8, 128, None, None),
         ("mdn_fused_gates", 4, 4096, 16, 128, None, None)]
GATES = ["log_alpha", "beta", "log_mu", "eta"]


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


def prepare(plugin, op, x, cotangents, gradients=True):
    o = torch.empty_like(x["v"])
    if not gradients:
        return plugin.prepare(op, x, {"o": o})
    return plugin.prepare(op, x, {"o": o}, cotangents,
                          {"d_" + n: torch.empty_like(t) for n, t in x.items()})


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
    parser = argparse.ArgumentParser()
    parser.add_argument("plugin")
    parser.add_argument("--json")
    parser.add_argument("--commit", default="")
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--only", default="")
    parser.add_argument("--once", action="store_true", help="run once, for a profiler")
    arguments = parser.parse_args()
    plugin = Plugin(arguments.plugin)
    rows = []
    for op, B, T, H, D, goal_forward, goal_both in CASES:
        name = f"{op} {B},{T},{H},{D}"
        if arguments.only and arguments.only not in name:
            continue
        x, cotangents = tokens(op, B, T, H, D)
        forward, both = prepare(plugin, op, x, cotangents, False), prepare(plugin, op, x, cotangents)
        if arguments.once:
            both.run()
            torch.cuda.synchronize()
            continue
        row = {"operation": op, "B": B, "T": T, "H": H, "K": D, "V": D, "dtype": "bf16",
               "forward_ms": median_ms(forward.run, arguments.repeat),
               "both_ms": median_ms(both.run, arguments.repeat),
               "goal_forward_ms": goal_forward, "goal_both_ms": goal_both,
               "workspace_mib": both.workspace.numel() / 2**20,
               "forward_workspace_mib": forward.workspace.numel() / 2**20}
        if op == "mdn_fused_gates":
            for key, gradients in (("apart_forward_ms", False), ("apart_both_ms", True)):
                row[key] = median_ms(apart(plugin, x, cotangents, gradients), arguments.repeat)
            print(f"{name:28} as calls of their own: {row['apart_forward_ms']:8.3f} "
                  f"{row['apart_both_ms']:8.3f} ms")
        print(f"{name:28} {row['forward_ms']:8.3f} {row['both_ms']:8.3f} ms, goal {goal_forward} "
              f"{goal_both}, workspace {row['workspace_mib']:.0f} MiB", flush=True)
        rows.append(row)
    if arguments.json:
        with open(arguments.json, "w") as f:
            json.dump({"what": "CUDA kernels of the delta rules, median of graph replays",
                       "card": torch.cuda.get_device_name(), "commit": arguments.commit,
                       "date": datetime.date.today().isoformat(), "repeat": arguments.repeat,
                       "command": "kernels/bench/cuda_delta_bench.py " + " ".join(
                           a for a in sys.argv[1:] if "/" not in a), "rows": rows}, f, indent=1)


if __name__ == "__main__":
    main()
