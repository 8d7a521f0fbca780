"""Calls of library routines: whole-array work that no loop nest of ours does as well.

Input: the operands of an equation. Output: `lower` rules that hand them, row-major in memory, to a
routine of the target: code compiled once for the machine (sorting) or found in a library that is
loaded already (LAPACK, the loops of NumPy's transforms and of SciPy's functions). The target says
which routines it has; without one the equation runs by its NumPy implementation, outside compiled
code.

A routine is known by its name, for LAPACK with the element type behind it, and takes integers that
describe the call and the addresses of the operands and of the results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from stax.dtypes import FLOAT32, FLOAT64, real_part_dtype
from stax.loops.construct import cast, full, pointwise
from stax.loops.ops import Value, ops
from stax.loops.scalar_ops import is_half
from stax.loops.tensors import TensorNode

if TYPE_CHECKING:
    from stax.loops.lower import Lowering

Rule = Callable[..., Any]
UFUNC = "ufunc:"
# The order in which routines number element types; a Boolean is a byte.
SORTED_DTYPES = (
    "uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64".split()
)
UINT8 = np.dtype(np.uint8)


def sorted_code(dtype: np.dtype) -> int:
    """The number of an element type for the routines that compare elements."""
    name = "uint8" if dtype == np.bool_ else dtype.name
    return SORTED_DTYPES.index(name)


# Of each type of matrices or results, the type in which NumPy computes.
_DOUBLES = {
    FLOAT32: FLOAT64,
    FLOAT64: FLOAT64,
    np.dtype(np.complex64): np.dtype(np.complex128),
    np.dtype(np.complex128): np.dtype(np.complex128),
}


def matrix_routine(name: str, *flags: str, wide: bool = True) -> Rule:
    """The rule that calls the routine `name` on stacks of matrices.

    The routine is told the size of the stack, the extents of each operand's matrices, and the
    parameters named in `flags`.  `wide` is how NumPy computes: in double precision, rounded to the
    type of the results.  Matrices without elements are left to NumPy.
    """

    def rule(ctx: Lowering, *nodes: TensorNode, **params: Any) -> Any:
        assert ctx.eqn is not None
        dtype = nodes[0].dtype
        if dtype not in _DOUBLES or any(0 in n.shape for n in nodes):
            return NotImplemented
        sizes = [math.prod(nodes[0].shape[:-2])]
        for node in nodes:
            sizes += node.shape[-2:]
        sizes += [int(params[f]) for f in flags]
        double = _DOUBLES[dtype] if wide else dtype
        kinds = [v.dtype for v in ctx.eqn.outputs]
        results = [
            (v.shape, _DOUBLES[d] if wide else d)
            for v, d in zip(ctx.eqn.outputs, kinds, strict=True)
        ]
        routine = f"{name}_{double.kind}{8 * double.itemsize}"
        operands = [cast(n, _DOUBLES[n.dtype]) if wide else n for n in nodes]
        found = ctx.library(routine, operands, sizes, results)
        if found is NotImplemented:
            return found
        if not ctx.eqn.prim.multi:
            return cast(found, kinds[0])
        return tuple(cast(n, d) for n, d in zip(found, kinds, strict=True))

    return rule


_TRIANGULAR = matrix_routine(
    "triangular_solve", "left", "lower", "transposed", "conjugated", "unit", wide=False
)


def triangular_solve(
    ctx: Lowering, a: TensorNode, b: TensorNode, *, transposed: bool, conjugated: bool, **flags: Any
) -> Any:
    """Solutions of triangular systems; the routine conjugates what it transposes."""
    if conjugated and not transposed and a.dtype.kind == "c":
        a = pointwise(ops.conj, a, dtype=a.dtype)
    return _TRIANGULAR(ctx, a, b, transposed=transposed, conjugated=conjugated, **flags)


_SCHUR = matrix_routine("schur", wide=False)


def schur(ctx: Lowering, a: TensorNode, *, complex_form: bool) -> Any:
    """Schur forms; the complex form of real matrices is that of their complex copies."""
    assert ctx.eqn is not None
    return _SCHUR(ctx, cast(a, ctx.eqn.outputs[0].dtype) if complex_form else a)


_PINV = matrix_routine("pinv")


def pseudo_inverse(
    ctx: Lowering, a: TensorNode, share: TensorNode, *, hermitian: bool
) -> TensorNode | Any:
    """Pseudo-inverses; singular values below `share` times the largest count as 0."""
    return NotImplemented if hermitian else _PINV(ctx, a, share)


def ufunc_routine(name: str, results: int = 1, pick: int = 0) -> Rule:
    """The rule that calls the loop of SciPy's universal function `name` on whole arrays.

    `pick` is the result meant of a function of several.  Half types are computed in float32.
    """

    def rule(ctx: Lowering, *nodes: TensorNode, **params: Any) -> Any:
        assert ctx.eqn is not None
        out = ctx.eqn.outputs[0].aval
        dtype = FLOAT32 if is_half(out.dtype) else out.dtype
        wide = [cast(n, dtype) if is_half(n.dtype) else n for n in nodes]
        return _as_type(_ufunc(ctx, name, wide, dtype, results, pick), out.dtype)

    return rule


def expn(ctx: Lowering, x: TensorNode, *, n: int) -> Any:
    """The exponential integral of a fixed order."""
    order = full(tuple(x.shape), float(n), FLOAT64)
    return _as_type(_ufunc(ctx, "expn", [order, cast(x, FLOAT64)], FLOAT64), x.dtype)


def polygamma(ctx: Lowering, x: TensorNode, *, n: int) -> Any:
    """A fixed derivative of digamma, by Hurwitz's zeta function, in double precision, as SciPy."""
    order = full(tuple(x.shape), n + 1.0, FLOAT64)
    found = _ufunc(ctx, "zeta", [order, cast(x, FLOAT64)], FLOAT64) if n > 0 else NotImplemented
    if found is NotImplemented:
        return found
    factor = (-1.0) ** (n + 1) * math.gamma(n + 1.0) if n < 171 else math.inf
    scaled = pointwise(lambda v: ops.mul(ops.constant(factor, FLOAT64), v), found, dtype=FLOAT64)
    return _as_type(scaled, x.dtype)


def _ufunc(
    ctx: Lowering,
    name: str,
    nodes: Sequence[TensorNode],
    dtype: np.dtype,
    results: int = 1,
    pick: int = 0,
) -> Any:
    assert ctx.eqn is not None
    shape = ctx.eqn.outputs[0].shape
    size = math.prod(shape)
    if size == 0:
        return NotImplemented
    types = "".join(n.dtype.char for n in nodes) + "->" + dtype.char * results
    routine = f"{UFUNC}{name}:{types}"
    wide = [_spread(n, shape) for n in nodes]
    return ctx.library(routine, wide, [size], [(shape, dtype)] * results, pick)


def _as_type(found: Any, dtype: np.dtype) -> Any:
    return found if found is NotImplemented else cast(found, dtype)


def _spread(node: TensorNode, shape: Sequence[int]) -> TensorNode:
    """The operand repeated over the shape of the result."""
    lead = len(shape) - node.ndim
    return node.reshape((*(1,) * lead, *node.shape)).expand(tuple(shape))


def fourier(kind: str) -> Rule:
    """The rule of a Fourier transform: `fft`, `rfft` or `irfft`, over axes of a whole array."""

    def rule(
        ctx: Lowering, x: TensorNode, *, axes: Sequence[int], inverse: bool = False, n: int = 0
    ) -> Any:
        if 0 in x.shape:
            return NotImplemented
        if not axes:
            return x
        bits = 8 * real_part_dtype(x.dtype).itemsize
        sizes = [int(inverse), n, x.ndim, *x.shape, len(axes), *axes]
        return ctx.library(f"{kind}_f{bits}", [x], sizes)

    return rule


def sort(ctx: Lowering, *nodes: TensorNode, axis: int, num_keys: int) -> Any:
    """Operands of one shape, permuted along an axis by the order of the leading ones.

    Complex operands travel as their parts.  As keys they come in four classes, those without a NaN
    first, then with one in the imaginary part, in the real part, in both; and then by their parts.
    """
    shape = nodes[0].shape
    outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    keys: list[TensorNode] = []
    values: list[TensorNode] = []
    places: list[tuple[list[TensorNode], int]] = []  # of each operand: its list, and where
    for k, node in enumerate(nodes):
        target = keys if k < num_keys else values
        if node.dtype.kind != "c":
            places.append((target, len(target)))
            target.append(node)
            continue
        if k < num_keys:
            target.append(pointwise(_nan_class, node, dtype=UINT8))
        places.append((target, len(target)))
        part = real_part_dtype(node.dtype)
        target += [pointwise(f, node, dtype=part) for f in (ops.real, ops.imag)]
    parts = [*keys, *values]
    sizes = [outer, shape[axis], inner, len(keys), len(parts)]
    sizes += [sorted_code(n.dtype) for n in parts]
    found = ctx.library("sort", parts, sizes, [(shape, n.dtype) for n in parts])
    if found is NotImplemented:
        return found
    results = []
    for node, (target, at) in zip(nodes, places, strict=True):
        at += 0 if target is keys else len(keys)
        whole = node.dtype.kind == "c"
        pair = found[at : at + 2]
        results.append(pointwise(ops.complex, *pair, dtype=node.dtype) if whole else found[at])
    return tuple(results)


def _nan_class(x: Value) -> Value:
    real, imag = (ops.cast(ops.isnan(part), UINT8) for part in (ops.real(x), ops.imag(x)))
    return ops.add(ops.add(real, real), imag)


def searchsorted(ctx: Lowering, a: TensorNode, v: TensorNode, *, side: str) -> Any:
    """Where the elements of `v` would be inserted into a sorted vector."""
    part = sorted_code(real_part_dtype(a.dtype))
    sizes = [a.shape[0], math.prod(v.shape), int(side == "right"), part, int(a.dtype.kind == "c")]
    return ctx.library("searchsorted", [a, v], sizes)


def permutation(ctx: Lowering, pivots: TensorNode, *, size: int) -> Any:
    """The permutations that exchanges of rows make."""
    if pivots.dtype != np.int32 or 0 in pivots.shape:
        return NotImplemented
    sizes = [math.prod(pivots.shape[:-1]), pivots.shape[-1], size]
    return ctx.library("permutation", [pivots], sizes)
