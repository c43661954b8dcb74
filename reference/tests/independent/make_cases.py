#!/usr/bin/python3
"""make_cases.py --seed S --out DIR [--count n] [--op OP ...] [--open]: small awkward random cases.

Every operation gets `count` files (mom at least one per update).  Over the cases of an operation
the features vary: head groups, packed sequences with empty and one-token segments, T from 0 to 9,
widths of 1, gates of exactly 0 and 1 (log gates -inf and 0), beta 0, 1 and 2, states there or not,
q_correction, skip, l2norm, cotangents there, absent or one-hot, routers with ties and with
memories that no token selects.  Same seed, same bytes.

`--open` adds what the contract leaves open: q_correction and skip outside the operations that name
them.
"""

import argparse
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import casefile  # noqa: E402
from casefile import Tensor, rounded  # noqa: E402
from schema import FAST_WEIGHT, OPERATIONS, PACKABLE, signature  # noqa: E402

INF = float("inf")
UNIT_GATES = {"alpha", "mu", "f", "gamma"}
STATES = {"s0", "m0", "h0", "c0", "x0"}
# Head-grouped tensors for which the contract gives no "*": always the full head count.
FULL_HEADS = STATES | {"w_g", "norm_weight", "w_o", "w_residual"}


def draw_gate(rng, gentle):
    """A gate in [0, 1]; the ends are as likely as the middle."""
    edge = rng.random()
    if edge < 0.12 and not gentle:
        return 0.0
    if edge < 0.24:
        return 1.0
    if edge < 0.4:
        return 1 - 2.0 ** -rng.randint(3, 20)
    return rng.random()


def draw_log_gate(rng, gentle):
    """A log gate in [-inf, 0]."""
    edge = rng.random()
    if edge < 0.12 and not gentle:
        return -INF
    if edge < 0.24:
        return 0.0
    if edge < 0.34:
        return -rng.uniform(20, 90)
    return -rng.expovariate(1.5)


def draw(rng, name, gentle):
    """One entry of the tensor `name` (without _mem or _shared)."""
    base = name.removesuffix("_mem").removesuffix("_shared")
    if base in UNIT_GATES:
        return draw_gate(rng, gentle)
    if base in ("log_alpha", "log_mu"):
        return draw_log_gate(rng, gentle)
    if base in ("beta", "eta"):
        return rng.choice([0.0, 1.0, 2.0, rng.random(), rng.random(), rng.uniform(0, 2)])
    if base in ("a", "a_alpha", "a_mu"):
        return rng.choice([0.0, rng.random(), rng.uniform(0, 4)])
    if base in ("weight", "norm_weight"):
        return rng.uniform(-1.5, 1.5)
    value = rng.gauss(0, 1)
    return value if abs(value) > 1e-3 else 0.5


def store(rng, shape, values):
    """A tensor of a random floating type; every value is what that type makes of it."""
    dtype = rng.choice(["F64", "F64", "F32", "F32", "BF16", "BF16", "F16"])
    return rounded(dtype, shape, values)


def size(shape):
    product = 1
    for n in shape:
        product *= n
    return product


def draw_dims(rng, op, index):
    """Sizes per layout letter; every third case has a width of one somewhere."""
    d = {"B": rng.choice([1, 1, 2, 3]), "T": rng.choice([0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9]),
         "H": rng.choice([1, 2, 2, 3, 4]), "K": rng.randint(2, 4), "V": rng.randint(2, 3),
         "J": rng.randint(1, 3), "M": rng.randint(1, 4), "D": rng.randint(1, 4),
         "E": rng.randint(1, 4), "W": 4, "P": rng.randint(1, 3),
         "G": 4 if op == "lstm" else 3}
    if index % 3 == 1:
        d[rng.choice("KV")] = 1
    if op == "causal_conv1d":
        d["W"] = rng.choice([1, 2, 3, 4, 4, 4, 5])
    if op == "mom":
        d["T"], d["H"] = min(d["T"] + 1, 7), min(d["H"], 3)
    if op == "m2rnn_block":
        d["T"], d["H"], d["B"] = min(d["T"], 6), min(d["H"], 3), min(d["B"], 2)
    if op == "mom_aux_loss":
        d["T"] = max(d["T"], 1)
    if index == 0:
        d["T"] = max(d["T"], 5)
    d["L"] = d["W"] - 1
    return d


def draw_segments(rng, T):
    """Boundaries with an empty and, when there is a token for it, a one-token segment."""
    cuts = sorted(rng.randint(0, T) for _ in range(rng.randint(0, 2)))
    if T:
        first = rng.randrange(T)
        cuts += [first, first + 1]
    cuts += [rng.choice(cuts + [0, T])]
    return sorted([0, *cuts, T])


def choose_inputs(rng, inputs, op, open_features):
    """name -> layout: one of each alternative, optional inputs by chance."""
    chosen, with_shared = {}, rng.random() < 0.5
    for key, layout in inputs.items():
        name = rng.choice(key.rstrip("?").split("|"))
        if name.removesuffix("_shared") != name:
            take = with_shared and (not name.startswith("eta") or rng.random() < 0.5)
        elif name in ("skip", "q_correction"):
            named = op == "ssd" if name == "skip" else op in ("comba", "mdn", "mdn_fused_gates")
            take = (named or open_features) and rng.random() < 0.5
        else:
            take = not key.endswith("?") or rng.random() < 0.6
        if take:
            chosen[name] = layout
    return chosen


def draw_router(rng, shape, full):
    """Logits with exact ties and, now and then, a memory far below all others."""
    M, values = shape[-1], []
    dead = rng.randrange(M) if rng.random() < 0.4 else None
    for _ in range(full // M):
        row = [rng.gauss(0, 1) for _ in range(M)]
        if M > 1 and rng.random() < 0.3:
            i, j = rng.sample(range(M), 2)
            row[i] = row[j]
        if dead is not None:
            row[dead] = -8.0
        values += row
    return values


def add_cotangents(rng, tensors, outputs, shape_of):
    """Random, one-hot or absent cotangents; in one case of ten none at all."""
    none = rng.random() < 0.1
    for name, layout in outputs.items():
        style = "absent" if none else rng.choice(["random"] * 6 + ["one-hot", "absent"])
        if len(outputs) == 1 and not none and style == "absent":
            style = "random"
        shape = shape_of(layout)
        if style == "absent":
            continue
        values = [rng.gauss(0, 1) if style == "random" else 0.0 for _ in range(size(shape))]
        if style == "one-hot" and values:
            values[rng.randrange(len(values))] = 1.0
        tensors["d_" + name] = store(rng, shape, values)


def draw_options(rng, op, dims, index):
    """Options of the case; None where the default is to be used."""
    options = {}
    if op == "mom":
        options["update"] = list(FAST_WEIGHT)[index % len(FAST_WEIGHT)]
        if options["update"] == "gdn" and rng.random() < 0.5:
            del options["update"]
    if op in ("mom", "mom_aux_loss"):
        options["top_k"] = rng.randint(1, dims["M"])
    update = options.get("update", op)
    if op in FAST_WEIGHT or op in ("mom", "mdn_fused_gates"):
        if rng.random() < 0.4:
            options["scale"] = rng.choice([1, 0.3, -2.5])
        if rng.random() < 0.35 and update != "hgrn2":
            options["qk_l2norm"] = True
            if rng.random() < 0.6:
                options["l2norm_eps"] = rng.choice([1e-6, 0.125])
    if op == "m2rnn" and index % 4 == 3:
        options["state_grad_clip"] = rng.choice([0.05, 0.25, 1])
    if op in ("mdn_gates", "mdn_fused_gates"):
        for name, values in {"s": [0.5, 2], "tau": [0.7, 3], "log_mu_min": [-1, -0.25]}.items():
            if rng.random() < 0.5:
                options[name] = rng.choice(values)
    if op.startswith("rmsnorm") or op == "m2rnn_block":
        if rng.random() < 0.5:
            options["eps"] = rng.choice([1e-5, 0.25])
    if op == "causal_conv1d" and rng.random() < 0.5:
        options["silu"] = rng.random() < 0.8
    return options


def make(seed, op, index, open_features=False):
    """(options, tensors) of one case."""
    rng = random.Random(f"{seed}/{op}/{index}")
    dims = draw_dims(rng, op, index)
    options = draw_options(rng, op, dims, index)
    inputs, outputs, _ = signature(op, options)
    chosen = choose_inputs(rng, inputs, op if op != "mom" or open_features else "", open_features)
    dims["R"] = dims["M"] + any(name.endswith("_shared") for name in chosen)
    tensors = {}
    if op in PACKABLE and index % 2:
        dims["B"] = 1
        cu = draw_segments(rng, dims["T"])
        tensors["cu_seqlens"] = Tensor("I64", [len(cu)], cu)
        dims["S"] = len(cu) - 1
    else:
        dims["S"] = dims["B"]
    gentle = rng.random() < 0.3
    zero_legal = not options.get("qk_l2norm") or "l2norm_eps" in options
    grouped = [name for name, layout in chosen.items() if "H" in layout and name not in FULL_HEADS]
    full = rng.choice([name for name in grouped if "T" in chosen[name]] or grouped or [None])
    for name, layout in chosen.items():
        H = dims["H"]
        if name in grouped and name != full and rng.random() < 0.5:
            H = rng.choice([h for h in range(1, H + 1) if H % h == 0])
        shape = [H if letter == "H" else dims[letter] for letter in layout]
        if name == "router_logits":
            values = draw_router(rng, shape, size(shape))
        else:
            values = [draw(rng, name, gentle) for _ in range(size(shape))]
            if values and zero_legal and rng.random() < 0.15 and not name.startswith("log_"):
                values[rng.randrange(len(values))] = 0.0
        tensors[name] = store(rng, shape, values)
    add_cotangents(rng, tensors, outputs, lambda layout: [dims[letter] for letter in layout])
    return options, tensors


def main():
    parser = argparse.ArgumentParser(description="Small awkward random case files.")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--op", nargs="*", choices=OPERATIONS, default=OPERATIONS)
    parser.add_argument("--open", action="store_true")
    arguments = parser.parse_args()
    os.makedirs(arguments.out, exist_ok=True)
    made = 0
    for op in arguments.op:
        count = max(arguments.count, len(FAST_WEIGHT)) if op == "mom" else arguments.count
        for index in range(count):
            options, tensors = make(arguments.seed, op, index, arguments.open)
            path = os.path.join(arguments.out, f"{op}_{index:03}.safetensors")
            casefile.write(path, op, options, tensors, arguments.seed)
            made += 1
    print(f"{made} cases in {arguments.out}")


if __name__ == "__main__":
    main()
