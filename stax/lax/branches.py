"""`stax.lax`, branches: `cond` and `switch`.

Input: a predicate or an index, and one function for each branch.  Output: the result of the
branch that is taken.  All branches are traced and must agree on structure and types; results that
stand for Python scalars take the type of the others.  Where the index is known, only the branch
taken runs.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.source import user_source
from stax.core.staging import eval_graph
from stax.core.trace import Tracer, bind
from stax.dtypes import is_integer, promote
from stax.errors import (
    ConcretizationError,
    DtypeError,
    PytreeError,
    ShapeError,
    StaticArgumentError,
    StaxError,
)
from stax.lax.concrete_loops import in_dtype, runs_concretely
from stax.lax.staged import Function, Staged, staged
from stax.numpy.promotion import array_like
from stax.primitives.casts import convert
from stax.primitives.elementwise import maximum, minimum, ne
from stax.primitives.families import literal
from stax.pytree import (
    PyTreeDef,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
    tree_structure,
    tree_unflatten,
)
from stax.transforms.arguments import check_leaves, check_takes, finished, name_of
from stax.transforms.control_cond import cond_p
from stax.transforms.control_graphs import with_leading_inputs
from stax.transforms.dual import known_value

__all__ = ["cond", "switch"]

_MISSING: Any = object()


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
            raise StaticArgumentError(
                f"cond takes functions for its branches, got {type(fun).__name__}",
                where=user_source() or None,
                hint="stax.numpy.where chooses between values",
            )
        check_takes(fun, _form(operands), "cond")
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
        raise StaticArgumentError(
            f"switch takes a sequence of at least one function, not {branches!r:.60}",
            op="switch",
            where=user_source() or None,
        )
    for fun in functions:
        check_takes(fun, _form(operands), "switch")
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


def _form(operands: Sequence[Any]) -> str:
    """What a branch is called with, for a message."""
    return ", ".join(f"operand{k}" for k in range(len(operands)))


def clamped(index: Any, last: int) -> Any:
    """`index` moved into 0 ... last, before a narrower type could wrap it around."""
    top = literal(min(last, np.iinfo(aval_of(index).dtype).max), index)
    return minimum(maximum(index, literal(0, index)), top)


def _branch(index: Any, functions: Sequence[Function], operands: Any, op: str) -> Any:
    leaves = tree_leaves(operands)
    check_leaves(leaves, f"operands of {op}")
    treedef = tree_structure(operands)
    avals = [aval_of(leaf) for leaf in leaves]
    if isinstance(index, int) and runs_concretely():
        return _taken(functions[index], functions, operands, op)
    found = [staged(fun, treedef, avals) for fun in functions]
    found = _agreeing(found, functions, op)
    tree = found[0].tree
    if isinstance(index, int):
        taken = found[index]
        known = eval_graph(taken.graph, [*taken.consts, *leaves])
        return tree_unflatten(tree, finished(known, [*taken.consts, *leaves]))
    consts = [c for f in found for c in f.consts]
    graphs = []
    start = 0
    for f in found:
        own = range(start, start + len(f.consts))
        graphs.append(with_leading_inputs(f.graph, [aval_of(c) for c in consts], own))
        start += len(f.consts)
    outs = bind(cond_p, index, *consts, *leaves, branches=tuple(graphs))
    return tree_unflatten(tree, finished(outs, [*consts, *leaves]))


# Types that the branches of a call have agreed on before, by what decides them.
_agreed: dict[Any, tuple[PyTreeDef, list[Aval]] | None] = {}
_AGREED_LIMIT = 4096
_UNKNOWN: Any = object()


def _taken(taken: Function, functions: Sequence[Function], operands: Any, op: str) -> Any:
    """The result of the branch that is taken, in the types that all branches agree on.

    Branches are compared when they are first met; one that cannot be traced is not compared.
    """
    leaves, treedef = tree_flatten(operands)
    outs, tree = tree_flatten(taken(*operands))
    check_leaves(outs, f"results of {name_of(taken)}")
    have = [aval_of(v) for v in outs]
    decides = tuple(_decides_types(f) for f in functions)
    avals = tuple(aval_of(leaf) for leaf in leaves)
    key = (decides, treedef, avals, tree, tuple(have), functions.index(taken))
    wanted = _agreed.get(key, _UNKNOWN)
    if wanted is _UNKNOWN:
        if len(_agreed) >= _AGREED_LIMIT:
            _agreed.clear()
        try:
            found = _agreeing([staged(f, treedef, avals) for f in functions], functions, op)
            wanted = found[0].tree, list(found[0].graph.out_avals)
        except ConcretizationError:
            wanted = None
        _agreed[key] = wanted
    if wanted is not None:
        outs = [
            v if aval_of(v).dtype == a.dtype else in_dtype(v, a.dtype)
            for v, a in zip(outs, wanted[1], strict=True)
        ]
    return tree_unflatten(tree, finished(outs, leaves))


def _decides_types(f: Any) -> Any:
    """What decides the types of a branch's results: its code, and the types of what it refers to.

    Branches made by one line differ in what they close over.
    """
    owner = getattr(f, "__self__", None)
    f = getattr(f, "__func__", f)
    code = getattr(f, "__code__", None)
    if code is None:
        return _type_of(f)
    variables = getattr(f, "__globals__", {})
    used = [owner, *(variables[name] for name in code.co_names if name in variables)]
    for cell in getattr(f, "__closure__", None) or ():
        try:
            used.append(cell.cell_contents)
        except ValueError:  # not yet assigned
            used.append(None)
    used.extend(getattr(f, "__defaults__", None) or ())
    used.extend((getattr(f, "__kwdefaults__", None) or {}).values())
    return code, *map(_type_of, used)


def _type_of(value: Any) -> Any:
    """The type of an array or a number, the code of a function; of others, the object, not kept."""
    if isinstance(value, np.ndarray | np.generic | bool | int | float | complex | Tracer):
        return type(value), getattr(value, "shape", ()), getattr(value, "dtype", None)
    if isinstance(value, tuple):
        return type(value), *map(_type_of, value)
    code = getattr(value, "__code__", None)
    if code is not None:
        return code
    try:
        hash(value)
    except TypeError:
        return type(value)
    try:
        return weakref.ref(value)
    except TypeError:  # strings and the like
        return value


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
    paths = [
        keystr(p)
        for p, _ in tree_flatten_with_path(
            tree_unflatten(first.tree, range(first.tree.num_leaves))
        )[0]
    ]
    dtypes = []
    for path, avals in zip(
        paths, zip(*(f.graph.out_avals for f in found), strict=True), strict=True
    ):
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
