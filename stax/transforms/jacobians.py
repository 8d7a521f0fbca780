"""Jacobians and Hessians: one batched pass over a basis, never a Python loop.

Input: a function over pytrees.  Output: functions that return, for each leaf of its result, a tree
of the structure of its arguments, whose leaves have both shapes, one behind the other.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.trace import STATE, use_trace
from stax.dtypes import float0, is_complex, is_inexact
from stax.errors import DtypeError
from stax.primitives.shapes import slice_axis
from stax.primitives.views import broadcast, move_axis, reshape
from stax.pytree import (
    PyTreeDef,
    tree_unflatten,
)
from stax.transforms.arguments import (
    FlatFunction,
    check_argnums,
    check_callable,
    finished,
)
from stax.transforms.grad import function_of_leaves, split_aux, with_aux
from stax.transforms.jvp import JVPTrace, instantiate
from stax.transforms.linearize import (
    linearize_flat,
)
from stax.transforms.pullback import pull_back
from stax.transforms.vmap import batch_flat


def jacfwd(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """The Jacobian of `f` by columns, as one batched forward pass: for few inputs.

    Args:
      argnums: the positional argument(s) to differentiate with respect to; a tuple gives a tuple.
      has_aux: `f` returns `(output, aux)`, and the Jacobian function `(jacobian, aux)`.
      holomorphic: `f` is holomorphic, with complex input and output.

    Returns:
      A function with the arguments of `f`. Its result has the structure of the output of `f`, each
      leaf holding the structure of the argument, whose leaves have shape
      `output.shape + input.shape`.

    Raises:
      NonDifferentiableError: an integer or boolean argument.

    >>> jacfwd(lambda x: x * x)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """
    check_callable(f, "jacfwd")
    check_argnums(argnums, "jacfwd")

    @functools.wraps(f)
    def jacobian_function(*args: Any, **kwargs: Any) -> Any:
        fun, leaves, treedef = function_of_leaves(
            "jacfwd", f, args, kwargs, argnums, has_aux, holomorphic
        )
        flat = with_aux(fun)
        basis, size = _basis([aval_of(p) for p in leaves])

        def push(*tangents: Any) -> list[Any]:
            trace = JVPTrace(STATE.trace)
            try:
                with use_trace(trace):
                    results = flat(*trace.wrap(leaves, tangents))
            finally:
                trace.alive = False
            outs = [trace.primal_of(v) for v in results]
            return [
                *outs,
                *(instantiate(trace.tangent_of(v), p) for v, p in zip(results, outs, strict=True)),
            ]

        found, dims = batch_flat(push, basis, [0] * len(basis), size)
        half = len(found) // 2
        outs, aux = split_aux(
            fun, [_unbatched(v, d) for v, d in zip(found[:half], dims, strict=False)]
        )
        assert fun.out_tree is not None
        columns = [_front(v, d, size) for v, d in zip(found[half:], dims[half:], strict=True)][
            : len(outs)
        ]
        in_shapes = [aval_of(p).shape for p in leaves]
        blocks = []
        for out, column in zip(outs, columns, strict=True):
            shape = aval_of(out).shape
            moved = move_axis(column, 0, len(shape))
            blocks.append(_split_last(moved, shape, in_shapes))
        return _assemble(fun, treedef, blocks, outs, aux, argnums, has_aux)

    return jacobian_function


def jacrev(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """The Jacobian of `f` by rows, as one batched reverse pass: for few outputs.

    Arguments, result and errors as for `jacfwd`; with `allow_int` integer arguments are accepted,
    and their part is float0 zeros.

    Raises:
      DtypeError: an output of integers, or a complex one without `holomorphic`.

    >>> jacrev(lambda x: np.stack([x.sum(), x.prod()]))(np.array([2.0, 3.0]))
    array([[1., 1.],
           [3., 2.]])
    """
    check_callable(f, "jacrev")
    check_argnums(argnums, "jacrev")

    @functools.wraps(f)
    def jacobian_function(*args: Any, **kwargs: Any) -> Any:
        fun, leaves, treedef = function_of_leaves(
            "jacrev", f, args, kwargs, argnums, has_aux, holomorphic, allow_int
        )
        linear = linearize_flat(with_aux(fun), leaves)
        outs, aux = split_aux(fun, linear.outs)
        out_avals = [aval_of(v) for v in outs]
        for aval in out_avals:
            if not is_inexact(aval.dtype) or is_complex(aval.dtype) != holomorphic:
                wanted = "complex" if holomorphic else "real floating-point"
                raise DtypeError(f"jacrev needs {wanted} outputs, got {aval.dtype}")
        basis, size = _basis(out_avals)
        in_avals = [aval_of(p) for p in leaves]
        rest = [None] * (len(linear.outs) - len(outs))

        def pull(*cts: Any) -> list[Any]:
            return pull_back(linear, [*cts, *rest], in_avals)

        found, dims = batch_flat(pull, basis, [0] * len(basis), size)
        rows = [_front(v, d, size) for v, d in zip(found, dims, strict=True)]
        blocks: list[list[Any]] = [[] for _ in outs]
        for row, in_aval in zip(rows, in_avals, strict=True):
            start = 0
            for block, aval in zip(blocks, out_avals, strict=True):
                part = _cut(row, 0, start, start + aval.size) if len(outs) > 1 else row
                start += aval.size
                block.append(_reshaped(part, (*aval.shape, *in_aval.shape)))
        return _assemble(fun, treedef, blocks, outs, aux, argnums, has_aux)

    return jacobian_function


jacobian = jacrev


def hessian(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """The Hessian of `f`, forward over reverse; arguments and errors as for `jacfwd`.

    Its leaves have shape `output.shape + input.shape + input.shape`. `hvp` gives its product with
    a vector without making it.

    >>> hessian(lambda x: (x**3).sum())(np.array([1.0, 2.0]))
    array([[ 6.,  0.],
           [ 0., 12.]])
    """
    check_callable(f, "hessian")
    check_argnums(argnums, "hessian")
    inner = jacrev(f, argnums, has_aux, holomorphic)
    return jacfwd(inner, argnums, has_aux, holomorphic)


def _basis(avals: Sequence[Aval]) -> tuple[list[Any], int]:
    """The unit vectors of the product space: for each part an array (size, *part.shape)."""
    size = sum(a.size for a in avals)
    found = []
    start = 0
    for aval in avals:
        if not is_inexact(aval.dtype):
            found.append(np.zeros((size, *aval.shape), float0))
            start += aval.size
            continue
        part = np.zeros((size, aval.size), aval.dtype)
        part[np.arange(start, start + aval.size), np.arange(aval.size)] = 1
        found.append(part.reshape((size, *aval.shape)))
        start += aval.size
    return found, size


def _front(value: Any, dim: int | None, size: int) -> Any:
    if dim is not None:
        return move_axis(value, dim, 0)
    aval = aval_of(value)
    if aval.dtype == float0:
        return np.zeros((size, *aval.shape), float0)
    return broadcast(value, (size, *aval.shape))


def _unbatched(value: Any, dim: int | None) -> Any:
    if dim is None:
        return value
    first = slice_axis(move_axis(value, dim, 0), 0, 0, 1)
    return reshape(first, aval_of(first).shape[1:])


def _cut(value: Any, axis: int, start: int, limit: int) -> Any:
    if aval_of(value).dtype == float0:
        return value[(slice(None),) * axis + (slice(start, limit),)]
    return slice_axis(value, axis, start, limit)


def _reshaped(value: Any, shape: tuple[int, ...]) -> Any:
    if aval_of(value).dtype == float0:
        return np.zeros(shape, float0)
    return value if aval_of(value).shape == shape else reshape(value, shape)


def _split_last(value: Any, shape: tuple[int, ...], parts: Sequence[tuple[int, ...]]) -> list[Any]:
    """The last axis of `value` cut into pieces of these shapes."""
    if len(parts) == 1:
        return [_reshaped(value, (*shape, *parts[0]))]
    found = []
    start = 0
    for part in parts:
        n = int(np.prod(part, dtype=np.int64))
        found.append(_reshaped(_cut(value, len(shape), start, start + n), (*shape, *part)))
        start += n
    return found


def _assemble(
    fun: FlatFunction,
    treedef: PyTreeDef,
    blocks: Sequence[Sequence[Any]],
    outs: Sequence[Any],
    aux: Any,
    argnums: Any,
    has_aux: bool,
) -> Any:
    single = not isinstance(argnums, tuple | list)
    trees = []
    for block in blocks:
        tree = tree_unflatten(treedef, finished(block))
        trees.append(tree[0] if single else tree)
    result = fun.unflatten(trees)
    return (result, aux) if has_aux else result
