"""`stax.lax`, sequences: a function mapped over an axis, and prefix combinations of an axis.

Input: a function and a pytree of arrays with a common axis.  Output: its results along that axis.
`map` is a scan without a carry; `associative_scan` combines neighbours pairwise, so its depth is
logarithmic in the length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stax.core.aval import aval_of
from stax.core.source import user_source
from stax.errors import AxisError, PytreeError, ShapeError
from stax.lax.control_flow import scan
from stax.numpy.promotion import array_like
from stax.primitives.shapes import concatenate, slice_axis
from stax.primitives.views import reshape, rev
from stax.pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten
from stax.transforms.arguments import check_leaves, finished, name_of
from stax.transforms.vmap import vmap

__all__ = ["associative_scan", "map"]


def map(f: Callable[..., Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """`f` of each slice of the leading axis of xs, one after the other, the results stacked.

    Args:
      batch_size: how many slices are computed at once, by `vmap`.

    >>> map(lambda x: x * x, np.arange(3.0))
    array([0., 1., 4.])
    """
    if batch_size is None:
        return scan(lambda _, x: (None, f(x)), None, xs)[1]
    leaves = tree_leaves(xs)
    length = len(leaves[0]) if leaves else 0
    if batch_size < 1:
        raise ShapeError(f"map: batch_size={batch_size} is not positive")
    batched = vmap(f)
    chunks = length // batch_size
    whole = chunks * batch_size
    if not chunks:
        return batched(xs)
    cut = tree_map(lambda x: x[:whole].reshape((chunks, batch_size, *x.shape[1:])), xs)
    ys = scan(lambda _, x: (None, batched(x)), None, cut)[1]
    ys = tree_map(lambda y: y.reshape((whole, *y.shape[2:])), ys)
    if whole == length:
        return ys
    more = batched(tree_map(lambda x: x[whole:], xs))
    return tree_map(lambda a, b: concatenate([a, b], 0), ys, more)


def associative_scan(
    fn: Callable[..., Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """All prefix combinations of the elements along an axis: element k is e0 . e1 . ... . ek.

    Args:
      fn: combines two pytrees like `elems`, element by element along the axis; it must be
        associative.
      reverse: combine from the end.

    >>> associative_scan(np.add, np.arange(4))
    array([0, 1, 3, 6])
    """
    leaves, tree = tree_flatten(elems)
    check_leaves(leaves, "elements of associative_scan")
    if not leaves:
        return elems
    leaves = [array_like(leaf, "associative_scan") for leaf in leaves]
    axes = [_axis_of(leaf, axis) for leaf in leaves]
    sizes = {aval_of(leaf).shape[a] for leaf, a in zip(leaves, axes, strict=True)}
    if len(sizes) != 1:
        raise ShapeError(
            f"associative_scan: the elements have different sizes along axis {axis}",
            operands=[str(aval_of(leaf)) for leaf in leaves],
            where=user_source() or None,
        )
    values = [rev(v, (a,)) for v, a in zip(leaves, axes, strict=True)] if reverse else leaves

    def combine(left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
        result = fn(tree_unflatten(tree, left), tree_unflatten(tree, right))
        found, structure = tree_flatten(result)
        if structure != tree:
            raise PytreeError(
                f"associative_scan: {name_of(fn)} must return the structure {tree}, it returned "
                f"{structure}",
                where=user_source() or None,
            )
        for value, like in zip(found, left, strict=True):
            if aval_of(value).shape != aval_of(like).shape:
                raise ShapeError(
                    f"associative_scan: {name_of(fn)} must keep the shapes of its arguments",
                    operands=[str(aval_of(like)), str(aval_of(value))],
                    where=user_source() or None,
                )
        return found

    outs = _prefixes(combine, values, axes)
    if reverse:
        outs = [rev(v, (a,)) for v, a in zip(outs, axes, strict=True)]
    return tree_unflatten(tree, finished(outs, leaves))


def _axis_of(leaf: Any, axis: int) -> int:
    ndim = len(aval_of(leaf).shape)
    if not -ndim <= axis < ndim:
        raise AxisError(
            f"associative_scan: an element of {ndim} dimensions has no axis {axis}",
            axis=axis,
            ndim=ndim,
            operands=[str(aval_of(leaf))],
            where=user_source() or None,
        )
    return axis % ndim


Combine = Callable[[Sequence[Any], Sequence[Any]], list[Any]]


def _prefixes(combine: Combine, values: Sequence[Any], axes: Sequence[int]) -> list[Any]:
    """Prefix combinations: pairs are combined level by level, then spread out again."""

    def cut(parts: Sequence[Any], start: int, stop: int, step: int = 1) -> list[Any]:
        return [slice_axis(v, a, start, stop, step) for v, a in zip(parts, axes, strict=True)]

    def size_of(parts: Sequence[Any]) -> int:
        return int(aval_of(parts[0]).shape[axes[0]])

    levels = [list(values)]
    while (n := size_of(levels[-1])) >= 2:
        top = levels[-1]
        levels.append(combine(cut(top, 0, n - 1, 2), cut(top, 1, n, 2)))
    done = levels.pop()
    while levels:
        elements = levels.pop()
        n = size_of(elements)
        # `done` holds the prefixes that end at odd positions; those at even ones follow.
        odd = done
        before = cut(odd, 0, (n - 1) // 2)
        even = cut(elements, 0, 1)
        if n > 2:
            rest = combine(before, cut(elements, 2, n, 2))
            even = [
                concatenate([_typed(a, b), b], x) for a, b, x in zip(even, rest, axes, strict=True)
            ]
        done = [_interleaved(_typed(a, b), b, x) for a, b, x in zip(even, odd, axes, strict=True)]
    return list(done)


def _typed(value: Any, like: Any) -> Any:
    dtype = aval_of(like).dtype
    return value if aval_of(value).dtype == dtype else array_like(value, "map").astype(dtype)


def _interleaved(even: Any, odd: Any, axis: int) -> Any:
    """e0, o0, e1, o1, ... along an axis; `even` is as long as `odd` or longer by one."""
    shape = aval_of(odd).shape
    n = shape[axis]
    pair = (*shape[: axis + 1], 1, *shape[axis + 1 :])
    first = reshape(slice_axis(even, axis, 0, n), pair)
    both = concatenate([first, reshape(odd, pair)], axis + 1)
    mixed = reshape(both, (*shape[:axis], 2 * n, *shape[axis + 1 :]))
    if aval_of(even).shape[axis] == n:
        return mixed
    return concatenate([mixed, slice_axis(even, axis, n, n + 1)], axis)
