"""`stax.lax`, loops: `scan`, `while_loop` and `fori_loop`, under JAX's names.

Input: Python functions over pytrees and their arguments.  Output: their results, from one
equation that carries the functions as graphs, so a loop costs the same to trace whatever its
length and compiles to a loop.  Types are checked here: what a loop carries keeps its structure,
shapes and dtypes.  Python scalars among the initial carries are weak: they take the dtype that
the body gives them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.source import user_source
from stax.core.trace import EVAL, STATE, bind
from stax.dtypes import is_integer, promote
from stax.errors import (
    ConcretizationError,
    DtypeError,
    PytreeError,
    ShapeError,
    StaticArgumentError,
    StaxError,
)
from stax.lax.bounded import bounded_loop, checked_bound
from stax.lax.concrete_loops import (
    ConcreteCarry,
    concrete_scan,
    runs_concretely,
)
from stax.lax.staged import Staged, staged
from stax.numpy.promotion import array_like, coerce
from stax.primitives.casts import convert
from stax.primitives.elementwise import add, lt
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
from stax.transforms.arguments import check_leaves, check_takes, finished, name_of
from stax.transforms.chains import Binomial
from stax.transforms.checkpoint import checkpoint as checkpointed
from stax.transforms.control_chain import chained_scan_p
from stax.transforms.control_scan import scan_p
from stax.transforms.control_while import while_p
from stax.transforms.dual import known_value

__all__ = ["fori_loop", "scan", "while_loop"]

Function = Callable[..., Any]


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
      unroll: how many steps JAX writes out: a positive integer or a bool. It has no effect: the
        steps are a C loop, and the C compiler decides.
      checkpoint: None keeps what the backward pass needs of every step; "all" keeps the carries
        and computes each step again; "sqrt" keeps the carries at about sqrt(length) steps;
        `stax.Binomial(slots=s)` keeps at most s carries, by a binomial schedule.

    Raises:
      PytreeError, ShapeError, DtypeError: the carry changes its structure or types, or xs and
        length do not agree.

    >>> scan(lambda total, x: (total + x, total), 0.0, np.arange(4.0))
    (6.0, array([0., 0., 1., 3.]))
    """
    check_takes(f, "carry, x", "scan")
    _check_unroll("scan", unroll)
    xs_leaves = tree_leaves(xs)
    check_leaves(xs_leaves, "xs of scan")
    steps = _scan_length(xs, length)
    return _scan(f, _Carried("scan", name_of(f), init), xs, steps, reverse, unroll, checkpoint)


def _check_unroll(op: str, unroll: Any) -> None:
    if not isinstance(unroll, bool) and not (
        isinstance(unroll, int | np.integer) and int(unroll) >= 1
    ):
        raise StaticArgumentError(
            f"{op}: unroll={unroll!r} is not a bool or a positive integer",
            where=user_source() or None,
        )


def _scan(
    f: Function,
    carried: _Carried,
    xs: Any,
    steps: int,
    reverse: bool,
    unroll: int | bool,
    checkpoint: Any,
) -> tuple[Any, Any]:
    """`scan` under the name of the loop that it makes."""
    init, op = carried.init, carried.op
    xs_leaves, xs_tree = tree_flatten(xs)
    if checkpoint is None and STATE.loops is not None:
        checkpoint = STATE.loops(steps)
    if checkpoint == "sqrt":
        return _scan_in_chunks(f, carried, xs, steps, reverse)
    loop, extra = scan_p, {}
    if checkpoint == "all":
        f = checkpointed(f)
    elif isinstance(checkpoint, Binomial):
        loop, extra = chained_scan_p, {"slots": checkpoint.slots}
    elif checkpoint is not None:
        raise StaticArgumentError(
            f"{op}: checkpoint={checkpoint!r} is not None, 'all', 'sqrt' or stax.Binomial(slots=s)",
            where=user_source() or None,
        )
    leaves, carry_tree = tree_flatten(init)
    check_leaves(leaves, f"the initial carry of {op}")
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
        carried.check_structure(new)
        y_tree.append(tree_structure(y))
        return new, y

    flat.__name__ = name_of(f)
    treedef = tree_structure((init, xs))

    def concretely() -> tuple[Any, Any]:
        state = ConcreteCarry(leaves, carry_tree, carried.settle)
        found, ys = concrete_scan(flat, state, xs_leaves, xs_tree, steps, bool(reverse))
        return tree_unflatten(carry_tree, finished(found, leaves)), ys

    try:
        body, values = carried.fixed(lambda avals: staged(flat, treedef, [*avals, *slices]), leaves)
    except ConcretizationError:
        # The body needs numbers; outside jit and vmap they are known.
        if steps and runs_concretely():
            return concretely()
        raise
    outs = bind(
        loop,
        *body.consts,
        *values,
        *xs_leaves,
        body=body.graph,
        consts=len(body.consts),
        carry=len(values),
        length=steps,
        reverse=bool(reverse),
        unroll=int(unroll),
        **extra,
    )
    results = finished(outs, [*leaves, *xs_leaves])
    count = len(values)
    return tree_unflatten(carry_tree, results[:count]), tree_unflatten(y_tree[-1], results[count:])


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


def _scan_in_chunks(
    f: Function, carried: _Carried, xs: Any, steps: int, reverse: bool
) -> tuple[Any, Any]:
    """`scan` that keeps the carry at every k-th step, k about the square root of the length."""
    inner = max(math.isqrt(steps), 1)
    outer = steps // inner
    rest = steps - inner * outer
    first, last = (rest, steps) if reverse else (0, steps - rest)

    def chunk(carry: Any, part: Any) -> Any:
        return _scan(f, replace(carried, init=carry), part, inner, reverse, 1, None)

    cut = tree_map(lambda x: x[first:last].reshape((outer, inner, *x.shape[1:])), xs)
    carry, ys = _scan(checkpointed(chunk), carried, cut, outer, reverse, 1, None)
    ys = tree_map(lambda y: y.reshape((outer * inner, *y.shape[2:])), ys)
    if not rest:
        return carry, ys
    tail = tree_map(lambda x: x[:first] if reverse else x[last:], xs)
    carry, more = _scan(f, replace(carried, init=carry), tail, rest, reverse, 1, None)
    pair = (more, ys) if reverse else (ys, more)
    return carry, tree_map(lambda a, b: concatenate([a, b], 0), *pair)


def while_loop(
    cond_fun: Function,
    body_fun: Function,
    init_val: Any,
    *,
    max_steps: int | None = None,
    slots: int | None = None,
) -> Any:
    """The carry after `body_fun` was applied as long as `cond_fun(carry)` holds.

    Without a bound it runs backwards in no derivative; `jvp` and `jacfwd` work.  See `fori_loop`
    and `scan`.

    Args:
      max_steps: the loop ends after so many steps, whatever the condition says.  Such a loop can
        be differentiated in reverse mode, too: the backward pass keeps some carries, computes the
        steps between them again, and takes time for the steps that were made.  Memory, however,
        is set aside for the bound: with `max_steps=10**9` for 63,000 carries, however few steps
        are made.  Give the least bound that is sure, or `slots`.
      slots: how many carries are kept at once, about `2 * sqrt(max_steps)` by default.  With fewer
        slots the steps are computed more often, each at most once more for each time that the
        root of `max_steps` is taken; as few as `3 * log3(max_steps)` are possible.

    Raises:
      StaticArgumentError: `max_steps` or `slots` are not positive whole numbers, or the slots too
        few.
      PytreeError, ShapeError, DtypeError: the carry changes its structure or types, or the
        condition is not a boolean scalar.

    >>> while_loop(lambda v: v < 100, lambda v: v * 2, 3)
    192
    >>> while_loop(lambda v: v < 100, lambda v: v * 2, 3, max_steps=4)
    48
    """
    check_takes(cond_fun, "carry", "while_loop")
    check_takes(body_fun, "carry", "while_loop")
    if slots is not None and max_steps is None:
        raise StaticArgumentError(
            "while_loop: slots need max_steps, the bound of the loop", where=user_source() or None
        )
    shape = None if max_steps is None else checked_bound(max_steps, slots)
    carried = _Carried("while_loop", name_of(body_fun), init_val)
    return _while(cond_fun, body_fun, carried, max_steps, shape)


def _while(
    cond_fun: Function,
    body_fun: Function,
    carried: _Carried,
    max_steps: int | None = None,
    shape: tuple[int, int] | None = None,
) -> Any:
    """`while_loop` under the name of the loop that it makes."""
    init = carried.init
    leaves, tree = tree_flatten(init)
    check_leaves(leaves, f"the initial value of {carried.op}")
    treedef = tree_structure((init,))

    def flat(value: Any) -> Any:
        new = body_fun(value)
        carried.check_structure(new)
        return new

    flat.__name__ = name_of(body_fun)
    try:
        body, values = carried.fixed(lambda avals: staged(flat, treedef, avals), leaves)
        test = staged(cond_fun, treedef, body.graph.in_avals[len(body.consts) :])
    except ConcretizationError:
        if STATE.trace is not EVAL:
            raise
        state = ConcreteCarry(leaves, tree, carried.settle)
        left = math.inf if max_steps is None else max_steps
        while left > 0 and _holds(cond_fun, state.value()):
            state.advance(flat(state.value()))
            left -= 1
        return tree_unflatten(tree, finished(state.leaves, leaves))
    _check_condition(test.graph.out_avals, cond_fun)
    if shape is not None and max_steps is not None:
        outs = bounded_loop(test, body, values, max_steps, shape, (while_loop, scan))
        return tree_unflatten(tree, finished(outs, leaves))
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


def _holds(cond_fun: Function, value: Any) -> bool:
    leaves = tree_leaves(cond_fun(value))
    check_leaves(leaves, f"results of {name_of(cond_fun)}")
    _check_condition([aval_of(v) for v in leaves], cond_fun)
    return bool(leaves[0])


def _check_condition(avals: Sequence[Aval], cond_fun: Function) -> None:
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
      unroll: as in `scan`.
      checkpoint: as in `scan`; needs known bounds.

    >>> fori_loop(0, 5, lambda i, total: total + i, 0)
    10
    """
    check_takes(body_fun, "i, carry", "fori_loop")
    _check_unroll("fori_loop", 1 if unroll is None else unroll)
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
        carried = _Carried("fori_loop", name_of(body_fun), (first, init_val), counted=True)
        (_, result), _ = _scan(step, carried, None, count, False, unroll or 1, checkpoint)
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
    carried = _Carried("fori_loop", name_of(body_fun), (first, init_val), counted=True)
    return _while(lambda carry: lt(carry[0], last), body, carried)[1]


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


# --- types of carries ---------------------------------------------------------------------------


@dataclass(frozen=True)
class _Carried:
    """What a loop carries, for checks that its body keeps it.

    `op` is the loop and `name` the function that the user wrote.  `counted` carries are pairs of
    the loop's own counter and the user's value, of which alone the messages speak.
    """

    op: str
    name: str
    init: Any
    counted: bool = False

    def check_structure(self, new: Any) -> None:
        """Refuse what one step returns if its structure is another one."""
        old = self.init
        if self.counted:
            old, new = old[1], new[1]
        have, got = tree_structure(old), tree_structure(new)
        if have != got:
            raise PytreeError(
                f"{self.op}: the carry must keep its structure: it starts as {have}, "
                f"{self.name} returns {got}",
                where=user_source() or None,
            )

    def fixed(
        self, stage_body: Callable[[list[Aval]], Staged], leaves: list[Any]
    ) -> tuple[Staged, list[Any]]:
        """The body for carries whose types it keeps, and the initial values in those types.

        Weak initial values take the type that the body gives them; then it is traced again.
        """
        avals = [aval_of(v) for v in leaves]
        for _ in range(2 * len(avals) + 1):
            body = stage_body(avals)
            new = self.settle(avals, body.graph.out_avals)
            if new == avals:
                break
            avals = new
        dtypes = [*(a.dtype for a in avals), *(a.dtype for a in body.graph.out_avals[len(avals) :])]
        values = [
            v if aval_of(v).dtype == a.dtype else converted(v, a.dtype)
            for v, a in zip(leaves, avals, strict=True)
        ]
        return body.returning(dtypes), values

    def settle(self, avals: list[Aval], outs: Sequence[Aval]) -> list[Aval]:
        """The types the carry should start with, given what one step makes of them."""
        paths = [p[self.counted :] for p, _ in tree_flatten_with_path(self.init)[0]]
        return [
            self._type(a, out, keystr(path))
            for a, out, path in zip(avals, outs, paths, strict=False)
        ]

    def _type(self, have: Aval, out: Aval, path: str) -> Aval:
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
            f"{self.op}: the carry must keep its types; carry{path} does not",
            operands=[f"before {self.name}: {have}", f"after: {out}"],
            where=user_source() or None,
            hint="start with the type the body returns, or convert in the body with .astype",
        )


def converted(value: Any, dtype: Any) -> Any:
    """A weak value in another type."""
    return dtype.type(value) if isinstance(value, int | float | complex) else convert(value, dtype)
