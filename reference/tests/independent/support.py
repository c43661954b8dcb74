"""Helpers of the oracle's own tests."""

from mpmath import mp, mpf

import oracle
from casefile import Tensor
from schema import signature

TOLERANCE = mpf("1e-60")  # the tests run with 80 digits


def run(op, options, tensors):
    """One evaluation at the current precision."""
    return oracle.evaluate(op, options, tensors)


def close(a, b, tolerance, what):
    """Raises unless |a - b| <= tolerance."""
    if not abs(a - b) <= tolerance:
        raise AssertionError(f"{what}: {mp.nstr(a, 15)} and {mp.nstr(b, 15)}")


def same(got, want, what):
    """Raises unless two flat lists agree entry by entry, relative to max(1, |entry|)."""
    if len(got) != len(want):
        raise AssertionError(f"{what}: {len(got)} and {len(want)} values")
    for i, (a, b) in enumerate(zip(got, want)):
        close(a, b, TOLERANCE * max(1, abs(b)), f"{what} [{i}]")


def layouts_of(op, options, tensors):
    """name -> layout of the tensors of a case, cotangents included, cu_seqlens not."""
    inputs, outputs, _ = signature(op, options)
    known = {name: layout for key, layout in inputs.items() for name in key.rstrip("?").split("|")}
    known.update({"d_" + name: layout for name, layout in outputs.items()})
    return {name: known[name] for name in tensors if name != "cu_seqlens"}


def heads_of(op, options, tensors):
    """H, the largest head count."""
    layouts = layouts_of(op, options, tensors)
    return max([tensors[n].shape[l.index("H")] for n, l in layouts.items() if "H" in l] or [1])


def cut(tensor, axis, begin, end):
    """tensor[..., begin:end, ...] on one axis."""
    outer, inner, n = 1, 1, tensor.shape[axis]
    for size in tensor.shape[:axis]:
        outer *= size
    for size in tensor.shape[axis + 1 :]:
        inner *= size
    values = []
    for i in range(outer):
        values += tensor.values[(i * n + begin) * inner : (i * n + end) * inner]
    shape = list(tensor.shape)
    shape[axis] = end - begin
    return Tensor("F64", shape, values)
