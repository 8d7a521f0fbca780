"""Batching: a trace in which some values carry a hidden batch axis.

Input: a function written for one example and arguments with a batch axis.  Output: its results
for the whole batch, from one call of each primitive: `batch` rules say where the axis goes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.functionalize import mark_arguments
from stax.core.graph import Graph
from stax.core.primitive import Primitive
from stax.core.source import user_source
from stax.core.staging import eval_graph, stage
from stax.core.trace import STATE, Trace, Tracer, use_trace
from stax.dtypes import float0
from stax.errors import AxisError, PytreeError, ShapeError, TracerLeakError
from stax.primitives.views import broadcast, move_axis
from stax.pytree import (
    broadcast_prefix,
    tree_flatten,
    tree_leaves,
    tree_unflatten,
)
from stax.transforms.arguments import check_callable, check_leaves, finished, leaf_names, name_of
from stax.transforms.dual import known_value


class BatchTracer(Tracer):
    """A value of the enclosing trace and the position of its batch axis (None: no such axis)."""

    __slots__ = ("value", "dim", "_aval")
    owner: BatchTrace

    def __init__(self, trace: BatchTrace, value: Any, dim: int | None) -> None:
        self.owner = trace
        self.value = value
        self.dim = dim
        aval = aval_of(value)
        if dim is not None:
            shape = aval.shape
            aval = Aval(shape[:dim] + shape[dim + 1 :], aval.dtype)
        self._aval = aval

    @property
    def aval(self) -> Aval:
        """Type of one example."""
        return self._aval

    def concrete(self) -> Any:
        """The NumPy value when it is the same for every example."""
        return known_value(self.value) if self.dim is None else None


class BatchTrace(Trace):
    """Interprets a primitive through its `batch` rule.

    Rows of the families "call" (they carry a graph) and "collective" are given `size` and
    `axis_name` beside their parameters, and return a tuple of results and one of axes.

    A function with a rule of its own is batched in a second trace, whose `origin` is the one that
    met the call: what the function closes over is of the first, and counts as of the second.
    """

    __slots__ = ("size", "axis_name", "origin")
    parent: Trace
    origin: BatchTrace

    def __init__(
        self, parent: Trace, size: int, axis_name: Any = None, origin: BatchTrace | None = None
    ) -> None:
        super().__init__(parent)
        self.size = size
        self.axis_name = axis_name
        self.origin = self if origin is None else origin.origin

    def stands_for(self, trace: Trace) -> bool:
        """True for every trace of the same `vmap`."""
        return trace is self or (isinstance(trace, BatchTrace) and trace.origin is self.origin)

    def lift(self, value: Any) -> Any:
        """`value` as the same value for every example."""
        if isinstance(value, BatchTracer) and self.stands_for(value.owner):
            return value
        return BatchTracer(self, value, None)

    def split(self, args: Sequence[Any]) -> tuple[list[Any], list[int | None], bool]:
        """Values of the enclosing trace, their batch axes, and whether there is any."""
        values: list[Any] = []
        dims: list[int | None] = []
        batched = False
        for arg in args:
            if isinstance(arg, BatchTracer) and self.stands_for(arg.owner):
                values.append(arg.value)
                dims.append(arg.dim)
                batched = batched or arg.dim is not None
            else:
                values.append(arg)
                dims.append(None)
        return values, dims, batched

    def process(
        self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> tuple[Any, ...]:
        """Apply the row's `batch` rule in the enclosing trace."""
        values, dims, batched = self.split(args)
        before = STATE.trace
        parent = STATE.trace = self.parent
        try:
            if not batched and not self.concerns(prim, params):
                outs = parent.process(prim, values, params)
                out_dims = (None,) * len(outs)
            elif prim.family in ("call", "collective"):
                outs, out_dims = prim.batch(
                    values, dims, size=self.size, axis_name=self.axis_name, **params
                )
            else:
                outs, out_dims = prim.batch(values, dims, **params)
                if not prim.multi:
                    outs, out_dims = (outs,), (out_dims,)
        finally:
            STATE.trace = before
        return tuple(BatchTracer(self, v, d) for v, d in zip(outs, out_dims, strict=True))

    def concerns(self, prim: Primitive, params: dict[str, Any]) -> bool:
        """True when `prim`, or a graph it carries, may refer to this axis by name."""
        if self.axis_name is None:
            return False
        if prim.family == "collective":
            return bool(params["name"] == self.axis_name)
        return prim.family == "call"

    def process_call(self, call: Any, args: Sequence[Any]) -> tuple[Any, ...]:
        """The results of a function that carries its own rule (see `transforms.calls`)."""
        values, dims, batched = self.split(args)
        with use_trace(self.parent):
            if not batched and self.axis_name is None:
                try:
                    return tuple(BatchTracer(self, v, None) for v in call.bind(values))
                except TracerLeakError:
                    pass  # the function may close over values that are batched here
            outs = call.batched(dims, self.size, self.axis_name, self).bind(values)
            return tuple(BatchTracer(self, v, 0) for v in outs)

    def unwrap(self, value: Any) -> tuple[Any, int | None]:
        """The enclosing trace's value of a result, and its batch axis."""
        if isinstance(value, BatchTracer) and self.stands_for(value.owner):
            return value.value, value.dim
        return value, None


_ARRAYS = (Tracer, np.ndarray, np.generic)


def batch_flat(
    fun: Callable[..., Sequence[Any]],
    values: Sequence[Any],
    dims: Sequence[int | None],
    size: int,
    axis_name: Any = None,
    origin: BatchTrace | None = None,
) -> tuple[list[Any], list[int | None]]:
    """Results of a flat function for the whole batch, and their batch axes (None: none)."""
    trace = BatchTrace(STATE.trace, size, axis_name, origin)
    tracers = [
        # An array that is not mapped becomes a tracer too, so that traced values can index it;
        # a Python scalar stays what it is.
        BatchTracer(trace, v, d) if d is not None or isinstance(v, _ARRAYS) else v
        for v, d in zip(values, dims, strict=True)
    ]
    try:
        with use_trace(trace):
            results = list(fun(*tracers))
    finally:
        trace.alive = False
    pairs = [trace.unwrap(v) for v in results]
    return [v for v, _ in pairs], [d for _, d in pairs]


def to_axis(value: Any, dim: int | None, axis: int, size: int) -> Any:
    """`value` with its batch axis at `axis` of the result; made by repetition when it has none."""
    if dim is None:
        aval = aval_of(value)
        if aval.dtype == float0:
            shape = list(aval.shape)
            shape.insert(axis, size)
            return np.zeros(shape, float0)
        value, dim = broadcast(value, (size, *aval.shape)), 0
    return move_axis(value, dim, axis)


def vmap(
    fun: Callable[..., Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
    spmd_axis_name: Any = None,
) -> Callable[..., Any]:
    """`fun`, mapped over an axis of its arguments, as one batched computation.

    Args:
      in_axes: the axis of each positional argument to map over, None for the same value in every
        call; an integer for all, or a tree that is a prefix of the arguments. Keyword arguments
        are mapped over their axis 0.
      out_axes: where the mapped axis goes in the results; None for results that do not vary.
      axis_name: the name by which collectives refer to the axis.
      axis_size: its extent, needed when no argument is mapped.
      spmd_axis_name: accepted for compatibility, without effect.

    Raises:
      ShapeError: mapped axes of different extents; names the arguments.
      AxisError: an argument without that axis.

    >>> vmap(lambda x, y: x * y, in_axes=(0, None))(np.arange(3.0), 2.0)
    array([0., 2., 4.])
    """
    check_callable(fun, "vmap")
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)

    @functools.wraps(fun)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        leaves, treedef = tree_flatten((args, kwargs))
        axes = _flat_in_axes(in_axes, args, kwargs, fun)
        # What is not mapped may be anything: the function gets it as it is.
        mapped_leaves = [v for v, axis in zip(leaves, axes, strict=True) if axis is not None]
        check_leaves(mapped_leaves, "mapped arguments of vmap")
        names = leaf_names(fun, args, kwargs)
        dims = [
            _axis_of(leaf, axis, name) for leaf, axis, name in zip(leaves, axes, names, strict=True)
        ]
        size = _batch_size(leaves, dims, names, axis_size, fun)
        trees: list[Any] = []

        def flat(*values: Any) -> list[Any]:
            mark_arguments(values)
            inner_args, inner_kwargs = tree_unflatten(treedef, values)
            found, tree = tree_flatten(fun(*inner_args, **inner_kwargs))
            check_leaves(found, f"results of {name_of(fun)}")
            trees.append(tree)
            return found

        outs, out_dims = batch_flat(flat, leaves, dims, size, axis_name)
        out_tree = trees[-1]
        positions = _flat_out_axes(out_axes, tree_unflatten(out_tree, outs), fun)
        results = [
            _placed(v, d, axis, size) for v, d, axis in zip(outs, out_dims, positions, strict=True)
        ]
        return tree_unflatten(out_tree, finished(results, leaves))

    return mapped


def _is_none(value: Any) -> bool:
    return value is None


def _flat_in_axes(
    in_axes: Any, args: tuple[Any, ...], kwargs: dict[str, Any], fun: Callable[..., Any]
) -> list[int | None]:
    if isinstance(in_axes, tuple) and len(in_axes) != len(args):
        raise PytreeError(
            f"vmap: in_axes has {len(in_axes)} entries, {name_of(fun)} was called with "
            f"{len(args)} positional arguments",
            where=user_source() or None,
            hint="pass by position what in_axes speaks of; arguments given by keyword are all "
            "mapped along axis 0"
            if kwargs
            else "give one entry for each positional argument, or one integer for all",
        )
    for axis in tree_leaves(in_axes):
        if not isinstance(axis, int) or isinstance(axis, bool):
            raise PytreeError(f"vmap: in_axes must hold integers and None, found {axis!r}")
    try:
        axes = broadcast_prefix(in_axes, args, is_leaf=_is_none)
    except PytreeError as error:
        found = str(error).partition("\n")[0]
        raise PytreeError(
            f"vmap: in_axes does not fit the arguments of {name_of(fun)}: {found}",
            where=user_source() or None,
            hint="an entry of in_axes is None or an integer for a whole argument, or a container "
            "like the argument with an entry for each of its parts",
        ) from None
    return [*axes, *([0] * len(tree_leaves(kwargs)))]


def _axis_of(leaf: Any, axis: int | None, name: str) -> int | None:
    if axis is None:
        return None
    ndim = len(aval_of(leaf).shape)
    if not -ndim <= axis < ndim:
        raise AxisError(
            f"vmap: {name} has {ndim} dimensions, so it has no axis {axis} to map over",
            axis=axis,
            ndim=ndim,
            operands=[f"{name}: {aval_of(leaf)}"],
            where=user_source() or None,
            hint="give in_axes=None for arguments that are not mapped",
        )
    return axis % ndim


def _batch_size(
    leaves: Sequence[Any],
    dims: Sequence[int | None],
    names: Sequence[str],
    axis_size: int | None,
    fun: Callable[..., Any],
) -> int:
    sizes: dict[int, str] = {}
    for leaf, dim, name in zip(leaves, dims, names, strict=True):
        if dim is not None:
            shape = aval_of(leaf).shape
            sizes.setdefault(shape[dim], f"{name} of shape {shape}, axis {dim}")
    if axis_size is not None:
        sizes.setdefault(int(axis_size), "axis_size")
    if len(sizes) == 1:
        return next(iter(sizes))
    if not sizes:
        raise ShapeError(
            f"vmap: no argument of {name_of(fun)} is mapped",
            where=user_source() or None,
            hint="give axis_size, or an in_axes that is not None",
        )
    found = "; ".join(f"{n} ({text})" for n, text in sizes.items())
    raise ShapeError(
        f"vmap: inconsistent sizes of the mapped axes: {found}", where=user_source() or None
    )


def _flat_out_axes(out_axes: Any, out: Any, fun: Callable[..., Any]) -> list[int | None]:
    if isinstance(out_axes, list):
        out_axes = tuple(out_axes)
    try:
        return broadcast_prefix(out_axes, out, is_leaf=_is_none)
    except PytreeError as error:
        raise PytreeError(
            f"vmap: out_axes does not fit the result of {name_of(fun)}: {error}"
        ) from None


def _placed(value: Any, dim: int | None, axis: int | None, size: int) -> Any:
    if axis is None:
        if dim is None:
            return value
        raise ShapeError(
            "vmap: out_axes is None for a result that differs between examples",
            operands=[str(aval_of(value))],
            where=user_source() or None,
            hint="give the axis at which the examples shall be stacked",
        )
    ndim = len(aval_of(value).shape) + (dim is None)
    if not -ndim <= axis < ndim:
        raise AxisError(
            f"vmap: out_axes={axis} for a result of {ndim} dimensions", axis=axis, ndim=ndim
        )
    return to_axis(value, dim, axis % ndim, size)


def batch_graph(
    graph: Graph, dims: Sequence[int | None], size: int, axis_name: Any = None
) -> tuple[Graph, tuple[int | None, ...]]:
    """The graph for a whole batch, and the batch axis of each output: 0, or None for none.

    Cached on `graph`.
    """
    key = ("batch", tuple(dims), size, axis_name)
    found = graph.cache.get(key)
    if found is not None:
        return found  # type: ignore[no-any-return]  # what this function stored
    avals = [
        a if d is None else Aval((*a.shape[:d], size, *a.shape[d:]), a.dtype)
        for a, d in zip(graph.in_avals, dims, strict=True)
    ]
    out_dims: list[int | None] = []

    def fun(*values: Any) -> list[Any]:
        outs, places = batch_flat(lambda *a: eval_graph(graph, a), values, dims, size, axis_name)
        out_dims.extend(None if d is None else 0 for d in places)
        return [v if d is None else move_axis(v, d, 0) for v, d in zip(outs, places, strict=True)]

    result = stage(fun, avals, name=graph.name), tuple(out_dims)
    graph.cache[key] = result
    return result
