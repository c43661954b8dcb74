"""Times and errors of the public M2RNN kernel, when its package (xma) can be imported.

usage: cuda_m2rnn_peer.py --json OUT [--commit ID] [--path FOLDER_OF_PACKAGE] [--times-only]

The package is accelerated-model-architectures (open-lm-engine); it is no part of this project. Its
backward computes the states again first, and so does the time given here. Errors are against the
fp64 recurrence of cuda_m2rnn_accuracy.py.
"""

import os
import sys

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cuda_m2rnn_accuracy import inputs, relative, truth
from cuda_plugin import bench_parser, report_of, write_report

SIZES = ((8, 4096, 16), (1, 16384, 64), (4, 4096, 84), (16, 2048, 84))


def median_ms(run, repeat=10):
    for _ in range(2):
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


def measure(m2rnn, B, T, N, K=64, V=16):
    x, cotangents = inputs(dict(B=B, T=T, N=N, K=K, V=V, heads={"q": 1, "k": 1}), torch.bfloat16,
                           "sigmoid(normal)", 1, optional=False)
    leaves = [x[n].requires_grad_() for n in "qkvwf"]
    forward = lambda: m2rnn(x["q"], x["k"], x["v"], x["w"], x["f"])
    with torch.no_grad():
        forward_ms = median_ms(forward)
    y, _ = forward()
    grad = lambda: torch.autograd.grad(y, leaves, cotangents["d_y"], retain_graph=True)
    backward_ms = median_ms(grad)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    grads = grad()
    torch.cuda.synchronize()
    kept = sum(g.numel() * g.element_size() for g in grads)
    extra = torch.cuda.max_memory_allocated() - before - kept
    return dict(B=B, T=T, N=N, K=K, V=V, forward_ms=forward_ms, backward_ms=backward_ms,
                extra_MiB=extra / 2**20)


def errors(m2rnn, gate, dtype):
    x, cotangents = inputs(dict(B=2, T=4096, N=4, K=64, V=16, heads={"q": 1, "k": 1}), dtype, gate,
                           {"sigmoid(normal)": 0, "near 1": 1}[gate], optional=False)
    exact = truth(x, cotangents)
    leaves = [x[n].requires_grad_() for n in "qkvwf"]
    y, last = m2rnn(x["q"], x["k"], x["v"], x["w"], x["f"])
    grads = torch.autograd.grad(y, leaves, cotangents["d_y"])
    ours = {"y": y.detach(), "h_final": last.detach(),
            **{"d_" + n: g for n, g in zip("qkvwf", grads)}}
    return dict(gate=gate, dtype=str(dtype)[6:], T=4096,
                relative_l2={n: relative(ours[n], exact[n]) for n in ours})


def main():
    parser = bench_parser(plugin=False)
    parser.add_argument("--path")
    parser.add_argument("--times-only", action="store_true")
    a = parser.parse_args()
    if a.path:
        sys.path.insert(0, a.path)
    try:
        from xma.layers.m2rnn import m2rnn
    except ImportError as problem:
        print(f"skipped: the package xma cannot be imported ({problem})")
        return 77
    report = report_of("the public kernel of m2rnn", a, times=[], errors=[])
    for size in SIZES:
        report["times"].append(measure(m2rnn, *size))
        print(report["times"][-1], flush=True)
    for dtype in () if a.times_only else (torch.bfloat16, torch.float32):
        for gate in ("sigmoid(normal)", "near 1"):
            report["errors"].append(errors(m2rnn, gate, dtype))
            print(report["errors"][-1], flush=True)
    write_report(report, a.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
