"""A small reverse-mode tape over mpmath numbers.

A recurrence is written once, as its forward equations.  It runs on plain `mpf` numbers (then only
the value is computed) or on `Var`s (then every elementary operation also remembers the partial
derivative with respect to each argument).  `adjoints` walks the recorded operations backwards:

    adj(x) = sum over the uses y of x:  adj(y) * dy/dx

No operation of the toolkit has an adjoint of its own here, and that is the point.
"""

import heapq
import itertools

from mpmath import mp, mpf

_serial = itertools.count()


class Var:
    """A number with its history: `parents` is a tuple of (argument, partial derivative)."""

    __slots__ = ("value", "parents", "serial")

    def __init__(self, value, parents=()):
        self.value = value
        self.parents = parents
        self.serial = next(_serial)

    def __add__(self, other):
        if isinstance(other, Var):
            return Var(self.value + other.value, ((self, 1), (other, 1)))
        return Var(self.value + other, ((self, 1),))

    __radd__ = __add__

    def __sub__(self, other):
        if isinstance(other, Var):
            return Var(self.value - other.value, ((self, 1), (other, -1)))
        return Var(self.value - other, ((self, 1),))

    def __rsub__(self, other):
        return Var(other - self.value, ((self, -1),))

    def __neg__(self):
        return Var(-self.value, ((self, -1),))

    def __mul__(self, other):
        if isinstance(other, Var):
            return Var(self.value * other.value, ((self, other.value), (other, self.value)))
        return Var(self.value * other, ((self, other),))

    __rmul__ = __mul__

    def __truediv__(self, other):
        if isinstance(other, Var):
            ratio = self.value / other.value
            return Var(ratio, ((self, 1 / other.value), (other, -ratio / other.value)))
        return Var(self.value / other, ((self, mpf(1) / other),))

    def __rtruediv__(self, other):
        ratio = other / self.value
        return Var(ratio, ((self, -ratio / self.value),))


def value_of(x):
    """The number itself, with or without history."""
    return x.value if isinstance(x, Var) else mpf(x)


def _unary(function, derivative):
    """Lifts `function` to Vars; `derivative(x, y)` is dy/dx at y = function(x)."""

    def lifted(x):
        if not isinstance(x, Var):
            return function(mpf(x))
        y = function(x.value)
        return Var(y, ((x, derivative(x.value, y)),))

    return lifted


def _sigmoid(x):
    return 1 / (1 + mp.exp(-x))


exp = _unary(mp.exp, lambda x, y: y)  # at x = -inf both the value and the partial are 0
log = _unary(mp.log, lambda x, y: 1 / x)
sqrt = _unary(mp.sqrt, lambda x, y: 1 / (2 * y))
sin = _unary(mp.sin, lambda x, y: mp.cos(x))
cos = _unary(mp.cos, lambda x, y: -mp.sin(x))
atan = _unary(mp.atan, lambda x, y: 1 / (1 + x * x))
tanh = _unary(mp.tanh, lambda x, y: 1 / mp.cosh(x) ** 2)  # 1 - y*y would cancel
sigmoid = _unary(_sigmoid, lambda x, y: y * _sigmoid(-x))
softplus = _unary(lambda x: mp.log1p(mp.exp(x)), lambda x, y: _sigmoid(x))


def silu(x):
    """x * sigmoid(x)"""
    return x * sigmoid(x)


def maximum(x, bound):
    """max(x, bound) for a constant bound; below the bound nothing flows to x."""
    return x if value_of(x) > bound else mpf(bound)


def adjoints(seeds):
    """Derivatives of sum(cotangent * node) over the pairs in `seeds`: serial number -> adjoint.

    Nodes are visited from the newest to the oldest, so that every use of a node has already added
    its share when the node is reached.
    """
    adjoint, pending = {}, []

    def add(node, amount):
        if node.serial in adjoint:
            adjoint[node.serial] += amount
        else:
            adjoint[node.serial] = amount
            heapq.heappush(pending, (-node.serial, node))

    for node, cotangent in seeds:
        if isinstance(node, Var) and cotangent != 0:
            add(node, mpf(cotangent))
    while pending:
        _, node = heapq.heappop(pending)
        amount = adjoint[node.serial]
        for parent, partial in node.parents:
            add(parent, amount * partial)
    return adjoint


# Vectors are lists, matrices lists of rows.


def dot(a, b):
    """sum_i a_i b_i"""
    total = mpf(0)
    for x, y in zip(a, b, strict=True):
        total = total + x * y
    return total


def vec_mat(a, A):
    """a^T A, the row vector times the matrix: entry j is sum_i a_i A_ij."""
    return [dot(a, column) for column in zip(*A, strict=True)]


def mat_vec(A, a):
    """A a: entry i is sum_j A_ij a_j."""
    return [dot(row, a) for row in A]


def outer(a, b):
    """a b^T"""
    return [[x * y for y in b] for x in a]


def mat_map(function, *matrices):
    """Entry by entry function of matrices of one shape."""
    return [[function(*entries) for entries in zip(*rows)] for rows in zip(*matrices)]


def zeros(*shape):
    """Nested lists of exact zeros."""
    if not shape:
        return mpf(0)
    return [zeros(*shape[1:]) for _ in range(shape[0])]


def nested_map(function, x):
    """Applies `function` to every number of a nested list."""
    return [nested_map(function, y) for y in x] if isinstance(x, list) else function(x)


def flatten(x):
    """All numbers of a nested list in row-major order."""
    return [z for y in x for z in flatten(y)] if isinstance(x, list) else [x]
