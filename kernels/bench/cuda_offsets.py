"""Tensors of more than 2^31 elements: do the CUDA kernels find all of them?

usage: cuda_offsets.py PLUGIN.so [--json OUT] [--commit ID] [--steps T]

B = 1, T = 2^20, H = 16, K = V = 128 in bf16 has 2^31 elements, 4 GiB, in each of q, k, v and o. The
case is run whole, and its last 256 steps are run once more alone, from the state that a run without
them ends in. What both give for these steps must agree: outputs, final states, and gradients of the
cotangents that only those steps see. A 32-bit offset reads or writes somewhere else. It takes about
25 GiB forward and 95 GiB with the gradients of mdn; what does not fit is skipped, and said so.
"""

import os
import sys

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cuda_plugin import Plugin, bench_parser, report_of, write_report

H, K, V, LAST = 16, 128, 128, 256
GOAL = 1e-2  # relative l2 error; in each run states are operands in bf16


def inputs(op, T):
    """Made in pieces: a tensor of this size in fp32 would take twice its place."""
    g = torch.Generator("cuda").manual_seed(1)
    piece = 1 << 14

    def rows(width, unit):
        x = torch.empty(1, T, H, width, dtype=torch.bfloat16, device="cuda")
        for t in range(0, T, piece):
            y = torch.randn(1, min(piece, T - t), H, width, generator=g, device="cuda")
            x[:, t:t + piece] = torch.nn.functional.normalize(y, dim=-1) if unit else y
        return x

    uniform = lambda: torch.rand(1, T, H, generator=g, device="cuda")
    x = {"q": rows(K, True), "k": rows(K, True), "v": rows(V, False),
         "alpha": 0.98 + 0.02 * uniform(), "beta": uniform()}
    if op == "mdn":
        x["mu"], x["eta"] = 0.5 * uniform(), uniform()
    return {n: t.to(torch.bfloat16) for n, t in x.items()}


def states(op):
    return ["s", "m"] if op == "mdn" else ["s"]


def run(plugin, op, x, cotangents=None):
    T = x["q"].shape[1]
    state = lambda: torch.full((1, H, K, V), float("nan"), device="cuda")
    outputs = {"o": torch.full((1, T, H, V), float("nan"), dtype=torch.bfloat16, device="cuda")}
    outputs.update({n + "_final": state() for n in states(op)})
    wanted = {n: t for n, t in x.items() if n[:2] not in ("s0", "m0")}
    gradients = {"d_" + n: torch.full_like(t, float("nan")) for n, t in wanted.items()}
    if cotangents is None:
        gradients = {}
    prepared = plugin.prepare(op, x, outputs, cotangents or {}, gradients)
    prepared.run()
    torch.cuda.synchronize()
    return {**outputs, **gradients}


def difference(a, b):
    return float((a.float() - b.float()).norm() / b.float().norm().clamp_min(1e-30))


def compare(plugin, op, T, gradients):
    x = inputs(op, T)
    cut = lambda part: {n: t[:, part].contiguous() for n, t in x.items()}
    before = run(plugin, op, {n: t[:, :T - LAST] for n, t in x.items()})
    start = {n + "0": before[n + "_final"] for n in states(op)}
    del before
    tail = {**cut(slice(T - LAST, T)), **start}
    cotangents = None
    if gradients:
        d_o = torch.zeros_like(x["v"])
        d_o[:, T - LAST:] = torch.randn(1, LAST, H, V, device="cuda").to(torch.bfloat16)
        cotangents = {"d_o": d_o}
    whole = run(plugin, op, x, cotangents)
    whole = {n: t if n.endswith("_final") else t[:, T - LAST:].clone() for n, t in whole.items()}
    del x
    if gradients:
        cotangents = {"d_o": cotangents["d_o"][:, T - LAST:].contiguous()}
    alone = run(plugin, op, tail, cotangents)
    return {n: difference(whole[n], alone[n]) for n in alone}


def main():
    parser = bench_parser()
    parser.add_argument("--steps", type=int, default=1 << 20)
    arguments = parser.parse_args()
    plugin, rows, bad = Plugin(arguments.plugin), [], False
    for op in ("gdn", "mdn"):
        for gradients in (False, True):
            row = {"operation": op, "T": arguments.steps, "H": H, "K": K, "V": V,
                   "elements": arguments.steps * H * K, "gradients": gradients}
            try:
                row["differences"] = compare(plugin, op, arguments.steps, gradients)
                good = all(x <= GOAL for x in row["differences"].values())
            except torch.cuda.OutOfMemoryError as error:
                row["skipped"], good = str(error).splitlines()[0], True
            bad = bad or not good
            rows.append(row)
            print("ok   " if good else "WRONG", row, flush=True)
            torch.cuda.empty_cache()
    write_report(report_of("tensors of more than 2^31 elements, last steps against those alone",
                           arguments, rows=rows), arguments.json)
    return bad


if __name__ == "__main__":
    sys.exit(main())
