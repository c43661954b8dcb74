#!/usr/bin/python3
"""oracle.py CASE.safetensors [--digits 60] [--out F.json]

A second opinion on `assay eval --grad --json`: the outputs of a case and the gradients of

    L = sum over the outputs of <d_output, output>

with respect to every differentiable input in the file, as decimal strings.  It shares nothing with
the C++ code: forward equations in plain Python, gradients from a tape (tape.py), numbers from
mpmath.  Needs Debian's python3-mpmath.

How the digits are made certain: everything is evaluated again with twice the precision until two
evaluations agree.  A value that instead shrinks with the rounding error, twice in a row, is what
rounding leaves of an exact zero, and is printed as 0.  (So is a value too small for either
evaluation to tell from 0, such as tanh(-500) + 1.)
"""

import argparse
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from mpmath import mp, mpf  # noqa: E402

import casefile  # noqa: E402
import cells  # noqa: E402
import fast_weight  # noqa: E402
import m2rnn  # noqa: E402
import mom  # noqa: E402
import parts  # noqa: E402
from schema import FAST_WEIGHT, Case  # noqa: E402
from tape import adjoints, flatten, value_of  # noqa: E402

GUARD_DIGITS = 45
MOST_DIGITS = 20000

FORWARD = {
    **{op: fast_weight.forward for op in FAST_WEIGHT},
    **{op: cells.forward for op in cells.STEPS},
    "mom": mom.forward,
    "mom_aux_loss": mom.aux_loss,
    "m2rnn": m2rnn.forward,
    "m2rnn_gate": m2rnn.gate,
    "m2rnn_block": m2rnn.block,
    "mdn_gates": parts.mdn_gates,
    "mdn_fused_gates": fast_weight.forward_fused_gates,
    "causal_conv1d": parts.causal_conv1d,
    "rmsnorm": parts.rmsnorm,
    "rmsnorm_tp": parts.rmsnorm,
}


def forward(case):
    """name -> flat list of the output's numbers, with their history when the case has one."""
    nested = FORWARD[case.op](case)
    return {name: flatten(nested[name]) for name in case.outputs}


def evaluate(op, options, tensors):
    """One evaluation at the precision of mp: (outputs, gradients), name -> (shape, values)."""
    case = Case(op, options, tensors)
    flat = forward(case)
    outputs = {name: (case.shape(layout), [value_of(v) for v in flat[name]])
               for name, layout in case.outputs.items()}
    if "state_grad_clip" in options:
        adjoint = m2rnn.clipped_adjoint(case)
    else:
        adjoint = adjoints((node, cotangent) for name, d in case.d.items()
                           for node, cotangent in zip(flat[name], d, strict=True))
    gradients = {"d_" + name: (shape, [adjoint.get(leaf.serial, mpf(0)) for leaf in leaves])
                 for name, (shape, leaves) in case.leaves.items()}
    return outputs, gradients


def _settled(history, digits):
    """The value that a sequence of ever more precise results shows, or None: undecided.

    `history` holds (working digits, result), least precise first.
    """
    (_, older), (_, newer) = history[-2:]
    if older == newer or abs(older - newer) <= mpf(10) ** -(digits + 3) * abs(newer):
        return newer
    shrinks = [abs(b) <= abs(a) * mpf(10) ** (0.9 * (m - n)) if a else abs(b) < mpf(10) ** -m
               for (m, a), (n, b) in zip(history, history[1:])]
    return mpf(0) if len(shrinks) >= 2 and all(shrinks[-2:]) else None


def certain(op, options, tensors, digits):
    """Like `evaluate`, every value right to `digits` significant digits."""
    precision, history = digits + GUARD_DIGITS, []
    while precision <= MOST_DIGITS:
        with mp.workdps(precision):
            results = evaluate(op, options, tensors)
            history.append((precision, results))
            settled = len(history) > 1
            if settled:
                decided = []
                for part in range(2):
                    decided.append({})
                    for name, (shape, values) in results[part].items():
                        columns = [[(p, r[part][name][1][i]) for p, r in history]
                                   for i in range(len(values))]
                        values = [_settled(column, digits) for column in columns]
                        decided[part][name] = (shape, values)
                        settled = settled and None not in values
                if settled:
                    return decided
        precision *= 2
    raise ArithmeticError(f"{op}: not settled with {MOST_DIGITS} digits")


def _text(value, digits):
    if value == 0:
        return "0"
    return mp.nstr(value, digits, strip_zeros=False, min_fixed=0, max_fixed=0)


def answer(path, digits):
    """The JSON object for a case file."""
    op, options, tensors = casefile.read(path)
    outputs, gradients = certain(op, options, tensors, digits)
    with mp.workdps(digits + GUARD_DIGITS):
        def entry(tensor):
            shape, values = tensor
            return {"shape": shape, "values": [_text(value, digits) for value in values]}

        return {"op": op, "digits": digits,
                "outputs": {name: entry(tensor) for name, tensor in outputs.items()},
                "gradients": {name: entry(tensor) for name, tensor in gradients.items()}}


def main():
    parser = argparse.ArgumentParser(description="Independent values and gradients of a case file.")
    parser.add_argument("case")
    parser.add_argument("--digits", type=int, default=60)
    parser.add_argument("--out")
    arguments = parser.parse_args()
    text = json.dumps(answer(arguments.case, arguments.digits), indent=1)
    if arguments.out:
        with open(arguments.out, "w", encoding="utf-8") as file:
            file.write(text + "\n")
    else:
        print(text)


if __name__ == "__main__":
    main()
