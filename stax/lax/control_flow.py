"""`stax.lax`, control flow: branches and loops on traced values, under JAX's names.

Input: Python functions over pytrees and their arguments.  Output: their results, from one
equation that carries the functions as graphs, so a loop costs the same to trace whatever its
length and compiles to a loop.  Types are checked here: what a loop carries keeps its structure,
shapes and dtypes; branches agree.  Python scalars among the initial carries are weak: they take
the dtype that the body gives them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.functionalize import mark_arguments
from stax.core.graph import Graph
from stax.core.source import user_source
from stax.core.staging import eval_graph, lift_constants, stage
from stax.core.trace import bind
from stax.dtypes import is_integer, promote
from stax.errors import DtypeError, PytreeError, ShapeError, StaticArgumentError, StaxError
from stax.numpy.promotion import array_like, coerce
from stax.primitives.casts import convert
from stax.primitives.elementwise import add, lt, maximum, minimum, ne
from stax.primitives.families import literal
from stax.primitives.shapes import concatenate
from stax.pytree import (
    PyTreeDef,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
    tree_map,
    tree_structure,
    tree_unflatten,
)
from stax.transforms.arguments import check_leaves, finished, name_of
from stax.transforms.checkpoint import checkpoint as checkpointed
from stax.transforms.control_cond import cond_p
from stax.transforms.control_graphs import with_leading_inputs
from stax.transforms.control_scan import scan_p
from stax.transforms.control_while import while_p
from stax.transforms.jvp import known_value

__all__ = ["cond", "fori_loop", "scan", "switch", "while_loop"]

Function = Callable[..., Any]
_MISSING: Any = object()


class Staged(NamedTuple):
    """A function as a graph, whose first inputs are `consts`: outer traced values it reads."""

    graph: Graph
    consts: list[Any]
    tree: PyTreeDef

    def returning(self, dtypes: Sequence[Any]) -> Staged:
        """The same with its results converted to these dtypes."""
        if all(a.dtype == d for a, d in zip(self.graph.out_avals, dtypes, strict=True)):
            return self
        inner = self.graph

        def fun(*values: Any) -> list[Any]:
            outs = eval_graph(inner, values)
            return [
                v if aval_of(v).dtype == d else convert(v, d)
                for v, d in zip(outs, dtypes, strict=True)
            ]

        return self._replace(graph=stage(fun, inner.in_avals, name=inner.name))


def staged(fun: Function, treedef: PyTreeDef, avals: Sequence[Aval]) -> Staged:
    """`fun`, called with the arguments that `treedef` makes of values of these types."""
    trees: list[PyTreeDef] = []

    def flat(*values: Any) -> list[Any]:
        mark_arguments(values)
        outs, tree = tree_flatten(fun(*tree_unflatten(treedef, values)))
        check_leaves(outs, f"results of {name_of(fun)}")
        trees.append(tree)
        return outs

    graph, consts = lift_constants(stage(flat, avals, name=name_of(fun)))
    return Staged(graph, consts, trees[-1])


# --- loops --------------------------------------------------------------------------------------


def scan(
    f: Function,
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
    *,
    checkpoint: Any = None,
) -> tuple[Any, Any]:
    """The final carry and the stacked results of `carry, y = f(carry, x)` over the leading axis.

    Args:
      f: maps (carry, a slice of each leaf of xs) to (new carry, y).
      init: the first carry, a pytree; its structure, shapes and dtypes stay the same throughout.
      xs: a pytree of arrays with a common leading axis, or None.
      length: the number of steps; needed when xs has no leaves.
      reverse: run from the last slice to the first; ys are stacked in the order of xs.
      unroll: a hint, without effect on results.
      checkpoint: None keeps what the backward pass needs of every step; "all" keeps the carries
        and computes each step again; "sqrt" keeps the carries at about sqrt(length) steps.

    Raises:
      PytreeError, ShapeError, DtypeError: the carry changes its structure or types, or xs and
        length do not agree.

    >>> scan(lambda total, x: (total + x, total), 0.0, np.arange(4.0))
    (6.0, array([0., 0., 1., 3.]))
    """
    xs_leaves, xs_tree = tree_flatten(xs)
    check_leaves(xs_leaves, "xs of scan")
    steps = _scan_length(xs, length)
    if checkpoint == "sqrt":
        return _scan_in_chunks(f, init, xs, steps, reverse)
    if checkpoint == "all":
        f = checkpointed(f)
    elif checkpoint is not None:
        raise StaticArgumentError(
            f"scan: checkpoint={checkpoint!r} is not None, 'all' or 'sqrt'",
            where=user_source() or None,
        )
    leaves, carry_tree = tree_flatten(init)
    check_leaves(leaves, "the initial carry of scan")
    slices = [Aval(a.shape[1:], a.dtype) for a in map(aval_of, xs_leaves)]
    y_tree: list[PyTreeDef] = []

    def flat(carry: Any, x: Any) -> Any:
        result = f(carry, x)
        if not isinstance(result, tuple | list) or len(result) != 2:
            raise PytreeError(
                f"scan: {name_of(f)} must return a pair (carry, y), it returned "
                f"{type(result).__name__} {tree_structure(result)}",
                where=user_source() or None,
            )
        new, y = result
        _check_structure(init, new, "scan", name_of(f))
        y_tree.append(tree_structure(y))
        return new, y

    flat.__name__ = name_of(f)
    treedef = tree_structure((init, xs))
    body, values = _with_fixed_carry(
        lambda avals: staged(flat, treedef, [*avals, *slices]), leaves, init, "scan", name_of(f)
    )
    outs = bind(
        scan_p,
        *body.consts,
        *values,
        *xs_leaves,
        body=body.graph,
        consts=len(body.consts),
        carry=len(values),
        length=steps,
        reverse=bool(reverse),
        unroll=int(unroll),
    )
    outs = finished(outs, [*leaves, *xs_leaves])
    count = len(values)
    return tree_unflatten(carry_tree, outs[:count]), tree_unflatten(y_tree[-1], outs[count:])


def _scan_length(xs: Any, length: int | None) -> int:
    sizes: dict[int, str] = {}
    for path, leaf in tree_flatten_with_path(xs)[0]:
        aval = aval_of(leaf)
        name = f"xs{keystr(path)}: {aval}"
        if not aval.shape:
            raise ShapeError(
                "scan: every leaf of xs needs a leading axis to scan over",
                operands=[name],
                where=user_source() or None,
                hint="stack the values of the steps into an array, or put constants in a closure",
            )
        sizes.setdefault(aval.shape[0], name)
    if length is not None:
        sizes.setdefault(int(length), f"length={length}")
    if len(sizes) == 1:
        return next(iter(sizes))
    if not sizes:
        raise ShapeError("scan: give xs or length", where=user_source() or None)
    raise ShapeError(
        "scan: the leading axes of xs and length do not agree",
        operands=list(sizes.values()),
        where=user_source() or None,
    )


def _scan_in_chunks(f: Function, init: Any, xs: Any, steps: int, reverse: bool) -> Any:
    """`scan` that keeps the carry at every k-th step, k about the square root of the length."""
    inner = max(math.isqrt(steps), 1)
    outer = steps // inner
    rest = steps - inner * outer
    first, last = (rest, steps) if reverse else (0, steps - rest)

    def chunk(carry: Any, part: Any) -> Any:
        return scan(f, carry, part, inner, reverse)

    cut = tree_map(lambda x: x[first:last].reshape((outer, inner, *x.shape[1:])), xs)
    carry, ys = scan(checkpointed(chunk), init, cut, outer, reverse)
    ys = tree_map(lambda y: y.reshape((outer * inner, *y.shape[2:])), ys)
    if not rest:
        return carry, ys
    tail = tree_map(lambda x: x[:first] if reverse else x[last:], xs)
    carry, more = scan(f, carry, tail, rest, reverse)
    pair = (more, ys) if reverse else (ys, more)
    return carry, tree_map(lambda a, b: concatenate([a, b], 0), *pair)


def while_loop(cond_fun: Function, body_fun: Function, init_val: Any) -> Any:
    """The carry after `body_fun` was applied as long as `cond_fun(carry)` holds.

    It runs backwards in no derivative; `jvp` and `jacfwd` work. See `fori_loop` and `scan`.

    Raises:
      PytreeError, ShapeError, DtypeError: the carry changes its structure or types, or the
        condition is not a boolean scalar.

    >>> while_loop(lambda v: v < 100, lambda v: v * 2, 3)
    192
    """
    leaves, tree = tree_flatten(init_val)
    check_leaves(leaves, "the initial value of while_loop")
    treedef = tree_structure((init_val,))

    def flat(value: Any) -> Any:
        new = body_fun(value)
        _check_structure(init_val, new, "while_loop", name_of(body_fun))
        return new

    flat.__name__ = name_of(body_fun)
    body, values = _with_fixed_carry(
        lambda avals: staged(flat, treedef, avals), leaves, init_val, "while_loop", name_of(body_fun)
    )
    test = staged(cond_fun, treedef, body.graph.in_avals[len(body.consts) :])
    _check_condition(test, cond_fun)
    outs = bind(
        while_p,
        *test.consts,
        *body.consts,
        *values,
        cond=test.graph,
        body=body.graph,
        cond_consts=len(test.consts),
        body_consts=len(body.consts),
    )
    return tree_unflatten(tree, finished(outs, leaves))


def _check_condition(test: Staged, cond_fun: Function) -> None:
    avals = test.graph.out_avals
    if len(avals) == 1 and not avals[0].shape and avals[0].dtype == np.dtype(bool):
        return
    raise DtypeError(
        f"while_loop: {name_of(cond_fun)} must return a boolean scalar",
        operands=[f"result: {', '.join(map(str, avals)) or 'nothing'}"],
        where=user_source() or None,
        hint="compare, or reduce with np.any / np.all",
    )


def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Function,
    init_val: Any,
    *,
    unroll: int | bool | None = None,
    checkpoint: Any = None,
) -> Any:
    """The value after `value = body_fun(i, value)` for i from `lower` to `upper - 1`.

    With bounds that are known while tracing it is a `scan`, differentiable in both modes;
    otherwise a `while_loop`, differentiable in forward mode.

    Args:
      checkpoint: as in `scan`; needs known bounds.

    >>> fori_loop(0, 5, lambda i, total: total + i, 0)
    10
    """
    bounds = [_bound(v, name) for v, name in ((lower, "lower"), (upper, "upper"))]
    start, stop = (known_value(v) for v in bounds)
    if start is not None and stop is not None:
        weak = isinstance(start, int) and isinstance(stop, int)
        dtype = np.dtype(np.int64) if weak else np.result_type(start, stop)
        first = int(start) if weak else dtype.type(start)
        one = 1 if weak else dtype.type(1)

        def step(carry: Any, _: Any) -> Any:
            i, value = carry
            return (add(i, one), body_fun(i, value)), None

        step.__name__ = name_of(body_fun)
        count = max(int(stop) - int(start), 0)
        (_, result), _ = scan(
            step, (first, init_val), None, count, unroll=unroll or 1, checkpoint=checkpoint
        )
        return result
    if checkpoint is not None:
        raise StaticArgumentError(
            "fori_loop: checkpoint needs bounds that are known while tracing",
            where=user_source() or None,
        )
    first, last = coerce(*bounds)

    def body(carry: Any) -> Any:
        i, value = carry
        return add(i, literal(1, i)), body_fun(i, value)

    body.__name__ = name_of(body_fun)
    return while_loop(lambda carry: lt(carry[0], last), body, (first, init_val))[1]


def _bound(value: Any, name: str) -> Any:
    value = array_like(value, "fori_loop")
    aval = aval_of(value)
    if aval.shape or not is_integer(aval.dtype):
        raise DtypeError(
            f"fori_loop: {name} must be an integer scalar",
            operands=[f"{name}: {aval}"],
            where=user_source() or None,
        )
    return value[()] if isinstance(value, np.ndarray) else value


# --- branches -----------------------------------------------------------------------------------


def cond(
    pred: Any,
    true_fun: Function,
    false_fun: Function,
    *operands: Any,
    operand: Any = _MISSING,
    linear: Any = None,
) -> Any:
    """`true_fun(*operands)` where `pred` holds, else `false_fun(*operands)`.

    Both are traced and must give the same structure and types; one of them runs. Under `vmap`
    with a `pred` that differs between examples both run and each example takes its own result.

    Args:
      pred: a scalar; a number counts as true when it is not zero.
      operand: a single operand, JAX's older form.
      linear: accepted for compatibility, without effect.

    >>> cond(True, np.sin, np.cos, 0.0)
    0.0
    """
    if operand is not _MISSING:
        operands = (*operands, operand)
    pred = array_like(pred, "cond")
    aval = aval_of(pred)
    if aval.shape:
        raise ShapeError(
            "cond: the predicate must be a scalar",
            operands=[f"pred: {aval}"],
            where=user_source() or None,
            hint="use np.where to choose element by element, or np.any / np.all to reduce",
        )
    for fun in (true_fun, false_fun):
        if not callable(fun):
            raise TypeError(f"cond takes functions, got {type(fun).__name__}")
    known = known_value(pred)
    if known is None and aval.dtype != np.dtype(bool):
        pred = ne(pred, literal(0, pred))
    index = convert(pred, np.dtype(np.int32)) if known is None else int(bool(known))
    return _branch(index, (false_fun, true_fun), operands, "cond")


def switch(
    index: Any, branches: Sequence[Function], *operands: Any, operand: Any = _MISSING
) -> Any:
    """`branches[index](*operands)`; an index out of range means the first or the last branch.

    All branches are traced and must give the same structure and types; one of them runs.

    >>> switch(1, [np.sin, np.cos], 0.0)
    1.0
    """
    if operand is not _MISSING:
        operands = (*operands, operand)
    functions = tuple(branches)
    if not functions or not all(map(callable, functions)):
        raise TypeError("switch takes a sequence of at least one function")
    index = array_like(index, "switch")
    aval = aval_of(index)
    if aval.shape or not is_integer(aval.dtype):
        raise DtypeError(
            "switch: the index must be an integer scalar",
            operands=[f"index: {aval}"],
            where=user_source() or None,
        )
    known = known_value(index)
    if known is None:
        last = len(functions) - 1
        index = convert(clamped(index, last), np.dtype(np.int32))
    else:
        index = min(max(int(known), 0), len(functions) - 1)
    return _branch(index, functions, operands, "switch")


def clamped(index: Any, last: int) -> Any:
    """`index` moved into 0 ... last, before a narrower type could wrap it around."""
    top = literal(min(last, np.iinfo(aval_of(index).dtype).max), index)
    return minimum(maximum(index, literal(0, index)), top)


def _branch(index: Any, functions: Sequence[Function], operands: Any, op: str) -> Any:
    leaves = tree_leaves(operands)
    check_leaves(leaves, f"operands of {op}")
    treedef = tree_structure(operands)
    avals = [aval_of(leaf) for leaf in leaves]
    found = [staged(fun, treedef, avals) for fun in functions]
    found = _agreeing(found, functions, op)
    tree = found[0].tree
    if isinstance(index, int):
        taken = found[index]
        outs = eval_graph(taken.graph, [*taken.consts, *leaves])
        return tree_unflatten(tree, finished(outs, leaves))
    consts = [c for f in found for c in f.consts]
    graphs = []
    start = 0
    for f in found:
        own = range(start, start + len(f.consts))
        graphs.append(with_leading_inputs(f.graph, [aval_of(c) for c in consts], own))
        start += len(f.consts)
    outs = bind(cond_p, index, *consts, *leaves, branches=tuple(graphs))
    return tree_unflatten(tree, outs)


def _agreeing(found: list[Staged], functions: Sequence[Function], op: str) -> list[Staged]:
    """The branches with results of common types; weak results take the type of the others."""
    first = found[0]
    for other, fun in zip(found[1:], functions[1:], strict=True):
        if other.tree != first.tree:
            raise PytreeError(
                f"{op}: branches must return the same structure: {name_of(functions[0])} returns "
                f"{first.tree}, {name_of(fun)} returns {other.tree}",
                where=user_source() or None,
            )
    paths = [keystr(p) for p, _ in tree_flatten_with_path(
        tree_unflatten(first.tree, range(first.tree.num_leaves))
    )[0]]
    dtypes = []
    for path, avals in zip(paths, zip(*(f.graph.out_avals for f in found), strict=True), strict=True):
        strong = {a.dtype for a in avals if not a.weak}
        shapes = {a.shape for a in avals}
        weak = [a.dtype for a in avals if a.weak]
        if len(shapes) > 1 or len(strong) > 1:
            kind = ShapeError if len(shapes) > 1 else DtypeError
            raise _disagreement(kind, path, avals, functions, op)
        dtype = promote(strong, weak)
        if strong and dtype not in strong:
            raise _disagreement(DtypeError, path, avals, functions, op)
        dtypes.append(dtype)
    return [f.returning(dtypes) for f in found]


def _disagreement(
    kind: type[StaxError], path: str, avals: Sequence[Aval], functions: Sequence[Function], op: str
) -> StaxError:
    return kind(
        f"{op}: branches must return the same types; result{path} differs",
        operands=[f"{name_of(f)}: {a}" for f, a in zip(functions, avals, strict=True)],
        where=user_source() or None,
        hint="convert with .astype, or broadcast, in the branches",
    )


# --- types of carries ---------------------------------------------------------------------------


def _check_structure(old: Any, new: Any, op: str, name: str) -> None:
    have, got = tree_structure(old), tree_structure(new)
    if have != got:
        raise PytreeError(
            f"{op}: the carry must keep its structure: it starts as {have}, {name} returns {got}",
            where=user_source() or None,
        )


def _with_fixed_carry(
    stage_body: Callable[[list[Aval]], Staged], leaves: list[Any], init: Any, op: str, name: str
) -> tuple[Staged, list[Any]]:
    """The body for carries whose types it keeps, and the initial values in those types.

    Weak initial values take the type that the body gives them; then it is traced again.
    """
    avals = [aval_of(v) for v in leaves]
    paths = [keystr(p) for p, _ in tree_flatten_with_path(init)[0]]
    for _ in range(2 * len(avals) + 1):
        body = stage_body(avals)
        new = [
            _carried(a, out, path, op, name)
            for a, out, path in zip(avals, body.graph.out_avals, paths, strict=False)
        ]
        if new == avals:
            break
        avals = new
    dtypes = [*(a.dtype for a in avals), *(a.dtype for a in body.graph.out_avals[len(avals) :])]
    values = [
        v if aval_of(v).dtype == a.dtype else converted(v, a.dtype)
        for v, a in zip(leaves, avals, strict=True)
    ]
    return body.returning(dtypes), values


def converted(value: Any, dtype: Any) -> Any:
    """A weak value in another type."""
    return dtype.type(value) if isinstance(value, int | float | complex) else convert(value, dtype)


def _carried(have: Aval, out: Aval, path: str, op: str, name: str) -> Aval:
    """The type that a carry should start with, given what one step makes of it."""
    kind: type[StaxError] = DtypeError
    if have.shape != out.shape:
        kind = ShapeError
    elif have.dtype == out.dtype:
        return out if have.weak else have
    elif have.weak:
        strong = [] if out.weak else [out.dtype]
        weak = [have.dtype, out.dtype] if out.weak else [have.dtype]
        if promote(strong, weak) == out.dtype:
            return out
    elif out.weak and promote([have.dtype], [out.dtype]) == have.dtype:
        return have
    raise kind(
        f"{op}: the carry must keep its types; carry{path} does not",
        operands=[f"before {name}: {have}", f"after: {out}"],
        where=user_source() or None,
        hint="start with the type the body returns, or convert in the body with .astype",
    )
