#!/usr/bin/python3
"""Tests of the oracle itself: python3 test_oracle.py, exit code 0 when all hold, under 30 s.

Here: gradients against central differences, packed against separate runs, one run against two with
the state carried over, head groups against expanded heads.  Identities between operations are in
identities.py and identities_nonlinear.py.  Random cases come from make_cases.py;
a failure names the operation and the index.
"""

import os
import random
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from mpmath import mp, mpf  # noqa: E402

import identities  # noqa: E402
import identities_nonlinear  # noqa: E402
import oracle  # noqa: E402
from casefile import Tensor  # noqa: E402
from make_cases import make  # noqa: E402
from schema import FAST_WEIGHT, OPERATIONS, PACKABLE, Case, signature  # noqa: E402
from support import close, cut, heads_of, layouts_of, run, same  # noqa: E402
from tape import dot  # noqa: E402

SEED = 20
DIFFERENCE_DIGITS = 110
STEP = mpf("1e-30")
# Truncation is STEP^2 = 1e-60 and rounding 1e-110 / STEP = 1e-80, both times moderate derivatives.
DIFFERENCE_TOLERANCE = mpf("1e-50")


def loss(op, options, tensors, override):
    """L of a case, forward only, with some inputs replaced."""
    case = Case(op, options, tensors, differentiate=False, override=override)
    flat = oracle.forward(case)
    return sum((dot(d, flat[name]) for name, d in case.d.items()), mpf(0))


def direction_for(rng, name, tensor):
    """A random direction, 0 where L has no derivative (log gate -inf, router ties)."""
    direction = [mpf(rng.randint(-8, 8)) / 8 for _ in tensor.values]
    if name.startswith("log_"):
        direction = [0 if v == -mp.inf else d for v, d in zip(tensor.values, direction)]
    if name == "router_logits":
        M = tensor.shape[-1]
        for i in range(0, len(direction), M):
            if len(set(tensor.values[i : i + M])) < M:
                direction[i : i + M] = [0] * M
    return direction


def check_differences(op, index):
    """d/dh L(x + h direction) at h = 0, once per input tensor."""
    options, tensors = make(SEED, op, index)
    if "state_grad_clip" in options:
        del options["state_grad_clip"]
    with mp.workdps(DIFFERENCE_DIGITS):
        _, gradients = run(op, options, tensors)
        for name, (_, gradient) in gradients.items():
            rng, x = random.Random(f"{op}/{index}/{name}"), name[2:]
            direction = direction_for(rng, x, tensors[x])
            sides = []
            for h in (STEP, -STEP):
                moved = [mpf(v) + h * d if d else v for v, d in zip(tensors[x].values, direction)]
                sides.append(loss(op, options, tensors, {x: moved}))
            slope = (sides[0] - sides[1]) / (2 * STEP)
            want = dot(direction, gradient)
            size = 1 + abs(want) + sum((abs(g) for g in gradient), mpf(0))
            close(want, slope, DIFFERENCE_TOLERANCE * size, name)


def test_gradients_against_central_differences():
    for op in OPERATIONS:
        for index in range(len(FAST_WEIGHT) if op == "mom" else 6):
            check_differences(op, index)


def test_differences_catch_a_wrong_gradient():
    """The check above is able to fail."""
    true_run = globals()["run"]

    def wrong(op, options, tensors):
        outputs, gradients = true_run(op, options, tensors)
        shape, values = gradients["d_beta"]
        gradients["d_beta"] = shape, [v * (1 + mpf("1e-40")) for v in values]
        return outputs, gradients

    globals()["run"] = wrong
    try:
        caught = 0
        for index in range(4):
            try:
                check_differences("delta", index)
            except AssertionError:
                caught += 1
    finally:
        globals()["run"] = true_run
    assert caught, "a gradient wrong in its 40th digit passes"


def merged_separately(op, options, tensors):
    """Outputs and gradients of a packed case from one run per segment."""
    cu = tensors["cu_seqlens"].values
    layouts, (_, outs, _) = layouts_of(op, options, tensors), signature(op, options)
    runs = []
    for s in range(len(cu) - 1):
        part = {}
        for name, layout in layouts.items():
            span = (cu[s], cu[s + 1]) if "T" in layout else (s, s + 1)
            axis = layout.index("T") if "T" in layout else layout.find("S")
            part[name] = tensors[name] if axis < 0 else cut(tensors[name], axis, *span)
        runs.append(run(op, options, part))
    merged = ({}, {})
    for which, names in ((0, outs), (1, {"d_" + n: l for n, l in layouts.items()
                                         if not n.startswith("d_")})):
        for name, layout in names.items():
            columns = [r[which][name][1] for r in runs]
            if "T" in layout or "S" in layout:  # B = 1: time and states both lead
                merged[which][name] = [v for column in columns for v in column]
            else:
                merged[which][name] = [sum(vs, mpf(0)) for vs in zip(*columns)]
    return merged


def test_packed_equals_separate_runs():
    for op in PACKABLE:
        for index in (1, 3, 5, 7):
            options, tensors = make(SEED, op, index)
            outputs, gradients = run(op, options, tensors)
            want = merged_separately(op, options, tensors)
            for got, merged in ((outputs, want[0]), (gradients, want[1])):
                for name, (_, values) in got.items():
                    same(values, merged[name], f"{op} {index} {name}")


STATE_OF = {"s_final": "s0", "m_final": "m0", "h_final": "h0", "c_final": "c0", "x_final": "x0"}


def test_state_carried_over_equals_one_run():
    for op in PACKABLE:
        if op == "m2rnn_block":  # its convolutions start from zero history
            continue
        for index in (0, 2):
            options, tensors = make(SEED, op, index)
            whole, _ = run(op, options, tensors)
            layouts = layouts_of(op, options, tensors)
            T = next(tensors[n].shape[l.index("T")] for n, l in layouts.items() if "T" in l)
            halves, state = [], {}
            for span in ((0, T // 2), (T // 2, T)):
                part = {n: cut(tensors[n], l.index("T"), *span) if "T" in l else tensors[n]
                        for n, l in layouts.items() if not n.startswith("d_")}
                part.update(state)
                outputs, _ = run(op, options, part)
                state = {STATE_OF[n]: Tensor("F64", *outputs[n]) for n in outputs if n in STATE_OF}
                halves.append(outputs)
            for name, (shape, values) in whole.items():
                if name in STATE_OF:
                    same(values, halves[1][name][1], f"{op} {index} {name}")
                    continue
                for half, span in zip(halves, ((0, T // 2), (T // 2, T))):
                    same(cut(Tensor("F64", shape, values), 1, *span).values, half[name][1],
                         f"{op} {index} {name}")


def test_head_groups_equal_expanded_heads():
    seen = 0
    for op in OPERATIONS:
        for index in range(6):
            options, tensors = make(SEED, op, index)
            layouts, H = layouts_of(op, options, tensors), heads_of(op, options, tensors)
            expanded, groups = dict(tensors), {}
            for name, layout in layouts.items():
                if "H" in layout and not name.startswith("d_"):
                    axis = layout.index("H")
                    groups[name] = H // tensors[name].shape[axis], axis
                    expanded[name] = repeated(tensors[name], axis, groups[name][0])
            a, b = run(op, options, tensors), run(op, options, expanded)
            for name in a[0]:
                same(a[0][name][1], b[0][name][1], f"{op} {index} {name}")
            for name, (factor, axis) in groups.items():
                seen += factor > 1
                wide = Tensor("F64", *b[1]["d_" + name])
                same(a[1]["d_" + name][1], summed(wide, axis, factor), f"{op} {index} d_{name}")
    assert seen > 20, f"only {seen} shared tensors seen"


def repeated(tensor, axis, factor):
    """Every head `factor` times in a row."""
    parts, H = [], tensor.shape[axis]
    for h in range(H):
        parts += [cut(tensor, axis, h, h + 1)] * factor
    return joined(parts, axis)


def joined(parts, axis):
    """Concatenation along an axis of parts of width one."""
    shape = list(parts[0].shape)
    inner = 1
    for n in shape[axis:]:
        inner *= n
    values = []
    for i in range(len(parts[0].values) // inner if inner else 0):
        for part in parts:
            values += part.values[i * inner : (i + 1) * inner]
    shape[axis] = len(parts)
    return Tensor("F64", shape, values)


def summed(tensor, axis, factor):
    """Groups of `factor` heads added up."""
    groups = []
    for h in range(0, tensor.shape[axis], factor):
        parts = [cut(tensor, axis, i, i + 1).values for i in range(h, h + factor)]
        shape = list(tensor.shape)
        shape[axis] = 1
        groups.append(Tensor("F64", shape, [sum(vs, mpf(0)) for vs in zip(*parts)]))
    return joined(groups, axis).values


def main():
    modules = globals(), vars(identities), vars(identities_nonlinear)
    tests = [(name, f) for module in modules for name, f in list(module.items())
             if name.startswith("test_")]
    failed, begin = 0, time.time()
    for name, test in tests:
        start = time.time()
        try:
            with mp.workdps(80):
                test()
            print(f"ok    {name} ({time.time() - start:.1f} s)", flush=True)
        except Exception:  # a test that breaks is a failure like any other
            failed += 1
            print(f"FAIL  {name}\n{traceback.format_exc()}", flush=True)
    print(f"{len(tests) - failed} of {len(tests)} tests passed in {time.time() - begin:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
