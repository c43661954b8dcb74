"""How fast single steps and Mixture-of-Memories are, medians of graph replays.

usage: cuda_mom_bench.py PLUGIN.so --json OUT [--commit ID] [--repeat 20] [--only TEXT] [--once]

Steps (T = 1) of gdn, delta, mdn and mom with initial and final states; mom over whole sequences, and
beside it its update alone over the same rows, already in packed order: the difference is what routing,
dispatch and combination cost. Tokens and outputs are bf16 unless said otherwise.
"""

import os
import sys

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cuda_plugin import Plugin, bench_parser, median_ms, report_of, write_report

TABLE = {torch.bfloat16: "bf16", torch.float32: "fp32"}
# operation, B, H, D, format of the state
STEPS = [("gdn", 128, 16, 128, torch.float32), ("mdn", 128, 16, 128, torch.float32),
         ("delta", 128, 16, 128, torch.float32), ("gdn", 128, 16, 128, torch.bfloat16)]
# update, B, T, H, D, M, top_k, shared
MIXTURES = [("gdn", 8, 2048, 8, 128, 4, 2, True), ("gdn", 4, 4096, 16, 128, 8, 2, False),
            ("mdn", 8, 2048, 8, 128, 4, 2, True)]
MIXTURE_STEPS = [("gdn", 128, 16, 128, 4, 2, True)]
# For compute-sanitizer; only by name ("small").
SMALL_STEPS = [("gdn", 3, 2, 20, torch.float32), ("mdn", 3, 2, 64, torch.bfloat16)]
SMALL_MIXTURES = [("gdn", 2, 300, 2, 64, 4, 2, True), ("mdn", 1, 70, 2, 20, 3, 1, False)]
SMALL_MIXTURE_STEPS = [("gdn", 3, 2, 20, 3, 2, True)]


class Random:
    def __init__(self, seed):
        self.generator = torch.Generator("cuda").manual_seed(seed)

    def normal(self, *shape):
        return torch.randn(*shape, generator=self.generator, device="cuda")

    def unit(self, *shape):
        return torch.nn.functional.normalize(self.normal(*shape), dim=-1)

    def update(self, op, tokens, H, D, suffix="", dtype=torch.bfloat16):
        """Inputs of an update but for the query; `tokens` is a shape."""
        x = {"k": self.unit(*tokens, H, D).to(dtype), "v": self.normal(*tokens, H, D).to(dtype),
             "beta": torch.sigmoid(self.normal(*tokens, H))}
        if op != "delta":
            x["log_alpha"] = torch.nn.functional.logsigmoid(self.normal(*tokens, H) + 4)
        if op == "mdn":
            x["log_mu"] = torch.nn.functional.logsigmoid(self.normal(*tokens, H))
            x["eta"] = 1 + 0.5 * torch.tanh(self.normal(*tokens, H))
        return {n + suffix: t for n, t in x.items()}


def step(plugin, op, B, H, D, state):
    r = Random(1)
    x = {"q": r.unit(B, 1, H, D).to(torch.bfloat16), **r.update(op, (B, 1), H, D)}
    names = ["s"] + (["m"] if op == "mdn" else [])
    for n in names:
        x[n + "0"] = r.normal(B, H, D, D).to(state)
    out = {"o": torch.empty_like(x["v"])}
    out.update({n + "_final": torch.empty_like(x[n + "0"]) for n in names})
    moved = sum(t.numel() * t.element_size() for t in (*x.values(), *out.values()))
    return plugin.prepare(op, x, out), moved, out


def mixture_inputs(op, B, T, H, D, M, shared):
    r = Random(2)
    x = {"router_logits": r.normal(B, T, M), "q": r.unit(B, T, H, D).to(torch.bfloat16)}
    x.update(r.update(op, (B, T, M), H, D, "_mem"))
    if shared:
        x.update(r.update(op, (B, T), H, D, "_shared"))
    return x, r.normal(B, T, H, D).to(torch.bfloat16)


def mixture_step(plugin, op, B, H, D, M, top_k, shared):
    x, d_o = mixture_inputs(op, B, 1, H, D, M, shared)
    r = Random(3)
    x["s0"] = r.normal(B, M + shared, H, D, D)
    out = {"o": torch.empty_like(d_o), "s_final": torch.empty_like(x["s0"])}
    moved = sum(t.numel() * t.element_size() for t in (x["s0"], out["s_final"]))
    return plugin.prepare("mom", x, out, top_k=top_k, update=op), moved, out


def mixture(plugin, op, B, T, H, D, M, top_k, shared):
    """Forward and both passes of mom, and of its update over the same rows in packed order."""
    x, d_o = mixture_inputs(op, B, T, H, D, M, shared)
    empty = lambda tensors: {"d_" + n: torch.empty_like(t) for n, t in tensors.items()}
    options = dict(top_k=top_k, update=op)
    calls = {"mom_forward": plugin.prepare("mom", x, {"o": torch.empty_like(d_o)}, **options),
             "mom_both": plugin.prepare("mom", x, {"o": torch.empty_like(d_o)}, {"d_o": d_o},
                                        empty(x), **options)}
    # The segments as mom has them: those of the memories, the shared one last.
    scores, chosen = x["router_logits"].topk(top_k, dim=-1)
    R, S = M + shared, top_k + shared
    memory = torch.cat([chosen, torch.full((B, T, 1), M, device="cuda")], -1) if shared else chosen
    segment = torch.arange(B, device="cuda")[:, None, None] * R + memory
    time = torch.arange(T, device="cuda")[None, :, None].expand_as(segment)
    order = (segment.flatten() * T + time.flatten()).argsort()
    bounds = torch.zeros(B * R + 1, dtype=torch.int64, device="cuda")
    bounds[1:] = torch.bincount(segment.flatten(), minlength=B * R).cumsum(0)
    packed = {"q": x["q"].unsqueeze(2).expand(B, T, S, H, D).reshape(1, B * T * S, H, D)[:, order]}
    index = memory.unsqueeze(-1)
    for n in [n[:-4] for n in x if n.endswith("_mem")]:
        whole = x[n + "_mem"]
        if shared:
            whole = torch.cat([whole, x[n + "_shared"].unsqueeze(2)], 2)
        whole = whole.flatten(3) if whole.dim() > 4 else whole
        rows = whole.gather(2, index.expand(B, T, S, whole.shape[-1]))
        rows = rows.reshape(B * T * S, -1)[order]
        packed[n] = rows.view(1, B * T * S, *x[n + "_mem"].shape[3:]).contiguous()
    packed["q"] = packed["q"].contiguous()
    d_packed = Random(4).normal(1, B * T * S, H, D).to(torch.bfloat16)
    given = {**packed, "cu_seqlens": bounds}
    calls["update_forward"] = plugin.prepare(op, given, {"o": torch.empty_like(d_packed)})
    calls["update_both"] = plugin.prepare(op, given, {"o": torch.empty_like(d_packed)},
                                          {"d_o": d_packed}, empty(packed))
    return calls


def main():
    parser = bench_parser(repeat=20)
    parser.add_argument("--only", default="")
    parser.add_argument("--once", action="store_true", help="run once, for a profiler")
    arguments = parser.parse_args()
    plugin = Plugin(arguments.plugin)
    rows = []

    def wanted(name):
        return arguments.only in name

    def report(row):
        print(row, flush=True)
        rows.append(row)

    small = arguments.only.startswith("small")
    if small:
        arguments.only = arguments.only[5:].strip()

    steps = [(f"step {op} {TABLE[state]}", step, (op, B, H, D, state),
              dict(operation=op, B=B, T=1, H=H, K=D, V=D, state=TABLE[state]))
             for op, B, H, D, state in (SMALL_STEPS if small else STEPS)]
    steps += [(f"step mom {op}", mixture_step, (op, B, H, D, M, k, shared),
               dict(operation="mom", update=op, B=B, T=1, H=H, K=D, V=D, M=M, top_k=k,
                    shared=shared, state="fp32"))
              for op, B, H, D, M, k, shared in (
                  SMALL_MIXTURE_STEPS if small else MIXTURE_STEPS)]
    for name, make, of, row in steps:
        if not wanted(name):
            continue
        call, moved, kept = make(plugin, *of)
        if arguments.once:
            call.run()
            continue
        ms = median_ms(call.run, arguments.repeat)
        of_ten = median_ms(call.run, arguments.repeat, 10)
        report({**row, "ms": ms, "ms_of_ten": of_ten, "bytes": moved,
                "TB_per_s": moved / of_ten / 1e9})
        del call, kept
    for op, B, T, H, D, M, k, shared in (SMALL_MIXTURES if small else MIXTURES):
        if not wanted(f"mom {op}"):
            continue
        calls = mixture(plugin, op, B, T, H, D, M, k, shared)
        if arguments.once:
            for call in calls.values():
                call.run()
            continue
        row = dict(operation="mom", update=op, B=B, T=T, H=H, K=D, V=D, M=M, top_k=k,
                   shared=shared)
        for n, call in calls.items():
            row[n + "_ms"] = median_ms(call.run, arguments.repeat)
            row[n + "_workspace_mib"] = call.workspace.numel() / 2**20
        for n in ("forward", "both"):
            row["overhead_" + n] = row[f"mom_{n}_ms"] / row[f"update_{n}_ms"] - 1
        report(row)
        del calls
    torch.cuda.synchronize()
    write_report(report_of("single steps and Mixture-of-Memories, median of graph replays",
                           arguments, rows=rows), arguments.json)


if __name__ == "__main__":
    main()
