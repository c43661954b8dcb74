"""Times of the public Gated DeltaNet kernels (Triton), when their package can be imported.

usage: cuda_delta_peer.py --json OUT [--commit ID] [--repeat 20]

The package is flash-linear-attention (fla); it is no part of this project. Sizes and tokens are those
of cuda_delta_bench.py and cuda_mom_bench.py: chunk_gated_delta_rule forward and both passes, and one
step of fused_recurrent_gated_delta_rule with initial and final state. Medians of graph replays, or of
plain calls where a call cannot be captured, which is said.
"""

import os
import sys

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cuda_mom_bench import Random
from cuda_plugin import bench_parser, median_ms, report_of, write_report

SIZES = ((8, 2048, 8, 128), (4, 4096, 16, 128), (4, 4096, 16, 64))


def plain_median_ms(run, repeat):
    for _ in range(3):
        run()
    times = []
    for _ in range(repeat):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return sorted(times)[len(times) // 2]


def timed(run, repeat):
    try:
        run()
    except RuntimeError as problem:  # the package may know better than to run
        return {"refused": str(problem)}
    try:
        return {"ms": median_ms(run, repeat), "graph": True}
    except RuntimeError:
        torch.cuda.synchronize()
        return {"ms": plain_median_ms(run, repeat), "graph": False}


def chunk(rule, B, T, H, D, repeat):
    r = Random(1)
    x = {"q": r.unit(B, T, H, D).to(torch.bfloat16), **r.update("gdn", (B, T), H, D)}
    x = {n: t.requires_grad_() for n, t in x.items()}
    d_o = r.normal(B, T, H, D).to(torch.bfloat16)
    run = lambda: rule(q=x["q"], k=x["k"], v=x["v"], g=x["log_alpha"], beta=x["beta"],
                       scale=D ** -0.5)[0]

    def both():
        torch.autograd.grad(run(), list(x.values()), d_o)

    with torch.no_grad():
        forward = timed(run, repeat)
    return dict(kernel="chunk_gated_delta_rule", B=B, T=T, H=H, K=D, V=D, forward=forward,
                both=timed(both, repeat))


def step(rule, B, H, D, repeat):
    r = Random(1)
    x = {"q": r.unit(B, 1, H, D).to(torch.bfloat16), **r.update("gdn", (B, 1), H, D)}
    s0 = r.normal(B, H, D, D)

    def run():
        with torch.no_grad():
            rule(q=x["q"], k=x["k"], v=x["v"], g=x["log_alpha"], beta=x["beta"], scale=D ** -0.5,
                 initial_state=s0, output_final_state=True)

    return dict(kernel="fused_recurrent_gated_delta_rule", B=B, T=1, H=H, K=D, V=D, state="fp32",
                forward=timed(run, repeat), ms_of_ten=median_ms(run, repeat, 10))


def main():
    a = bench_parser(plugin=False, repeat=20).parse_args()
    try:
        import fla
        from fla.ops.gated_delta_rule import (chunk_gated_delta_rule,
                                              fused_recurrent_gated_delta_rule)
    except ImportError as problem:
        print(f"skipped: the package fla cannot be imported ({problem})")
        return 77
    report = report_of("public Triton kernels of Gated DeltaNet", a, fla=fla.__version__, rows=[])

    def add(row):
        report["rows"].append(row)
        print(row, flush=True)
        write_report(report, a.json)

    add(step(fused_recurrent_gated_delta_rule, 128, 16, 128, a.repeat))
    for size in SIZES:
        add(chunk(chunk_gated_delta_rule, *size, a.repeat))
    return 0


if __name__ == "__main__":
    sys.exit(main())
