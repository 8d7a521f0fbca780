"""Arguments and results of transformed functions: pytrees to flat lists and back.

Input: the user's function and arguments.  Output: a flat function of the chosen leaves, their
types, readable names, and errors that name the argument before any work is done.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from stax.core.aval import Aval, Remote, aval_of
from stax.core.functionalize import mark_arguments
from stax.core.source import user_source
from stax.core.trace import EVAL, STATE, Tracer, fresh
from stax.dtypes import float0, is_complex, is_inexact, is_supported, untraceable_hint
from stax.errors import (
    DtypeError,
    NonDifferentiableError,
    PytreeError,
    ShapeError,
    StaticArgumentError,
)
from stax.primitives.casts import convert
from stax.pytree import (
    PyTreeDef,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_structure,
    tree_unflatten,
)


def is_array(value: Any) -> bool:
    """True for what a transformation can trace: arrays, NumPy and Python scalars, tracers."""
    return isinstance(
        value, Tracer | np.ndarray | bool | int | float | complex | np.generic | Remote
    )


def name_of(function: Callable[..., Any]) -> str:
    """The function's name, for graphs and messages."""
    name = getattr(function, "__name__", None)
    if name is None:
        inner = getattr(function, "func", None)
        name = name_of(inner) if inner is not None else type(function).__name__
    return name if isinstance(name, str) else "f"


def check_callable(f: Any, what: str) -> None:
    """Raise StaticArgumentError unless `f` is a function: its result may have been passed."""
    if not callable(f):
        raise StaticArgumentError(
            f"{what} takes a function, got {type(f).__name__}",
            where=user_source() or None,
            hint="pass the function itself, not its result",
        )


def check_takes(f: Any, form: str, what: str) -> None:
    """Raise StaticArgumentError unless `f` is a function that can be called as `form` says.

    `form` holds the names of the positional arguments: "i, carry".  A wrapper is asked what it
    takes itself, not what the function inside takes, to which it may add arguments of its own.
    """
    check_callable(f, what)
    names = form.split(", ") if form else []
    try:
        signature = inspect.signature(f, follow_wrapped=False)
    except (TypeError, ValueError):
        return  # a function of C that does not say what it takes
    try:
        signature.bind(*names)
    except TypeError:
        raise StaticArgumentError(
            f"{what} calls {name_of(f)}({form}), which takes {signature}",
            where=user_source() or None,
            hint=f"let it take {len(names)} positional arguments, which may be containers, and "
            "close over other values",
        ) from None


def check_leaves(
    leaves: Iterable[Any],
    what: str,
    hint: str = "close over it, or mark it static in jit with static_argnums",
) -> None:
    """Raise DtypeError unless every leaf is an array or scalar of a supported dtype."""
    for leaf in leaves:
        if isinstance(leaf, Tracer):
            continue
        if not is_array(leaf):
            raise DtypeError(
                f"{what} must be arrays or numbers, found {type(leaf).__name__} {str(leaf)[:60]!r}",
                where=user_source() or None,
                hint=hint,
            )
        if isinstance(leaf, np.ndarray | np.generic | Remote) and not is_supported(
            leaf.dtype.newbyteorder("=")
        ):
            raise DtypeError(
                f"{what} of dtype {leaf.dtype} cannot be traced",
                where=user_source() or None,
                hint=untraceable_hint(leaf.dtype),
            )


def check_argnums(argnums: Any, what: str) -> Sequence[Any]:
    """`argnums` as a sequence.

    Raises:
      StaticArgumentError: a position that is no integer, such as the argument itself.
    """
    wanted: Sequence[Any] = argnums if isinstance(argnums, tuple | list) else (argnums,)
    for k in wanted:
        try:
            operator.index(k)
        except TypeError:
            raise StaticArgumentError(
                f"{what}: argnums must be integers, got {type(k).__name__} {str(k)[:60]!r}",
                where=user_source() or None,
                hint=f"{what}(f) makes a function; call that with the arguments: {what}(f)(x)",
            ) from None
    return wanted


def normalized_argnums(argnums: Any, count: int, what: str) -> tuple[int, ...]:
    """`argnums` as a tuple of positions below `count`.

    Raises:
      StaticArgumentError: a position that is no integer, not there, or named twice.
    """
    found = []
    for k in check_argnums(argnums, what):
        position = operator.index(k)
        if not -count <= position < count:
            raise StaticArgumentError(
                f"{what}: argnums={argnums!r}, but the function was called with {count} "
                "positional arguments",
                where=user_source() or None,
                hint="pass the argument by position: keyword arguments are not differentiated",
            )
        found.append(position % count)
    if len(set(found)) != len(found):
        raise StaticArgumentError(f"{what}: argnums={argnums!r} names an argument twice")
    return tuple(found)


def static_arguments(
    what: str, fun: Callable[..., Any], argnums: Any, argnames: Any = ()
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Positions and names of static arguments, each completed from the other.

    Raises:
      StaticArgumentError: no positions or names, or not those of an argument of `fun`.
    """
    nums = _all_of(argnums, int, f"{what}: static_argnums={argnums!r} must be whole numbers")
    names = _all_of(argnames, str, f"{what}: static_argnames={argnames!r} must be text")
    if not nums and not names:
        return (), ()
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        return nums, names
    positional = [
        p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    resolved = []
    for n in nums:
        k = n + len(positional) if n < 0 else n
        if not 0 <= k < len(positional) and not variadic:
            raise StaticArgumentError(
                f"{what}: static_argnums={n} is out of range: {name_of(fun)} takes "
                f"{len(positional)} positional arguments"
            )
        resolved.append(k)
    known = {p.name for p in parameters}
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        for name in names:
            if name not in known:
                raise StaticArgumentError(
                    f"{what}: static_argnames={name!r} is not a parameter of "
                    f"{name_of(fun)}: it has {sorted(known)}"
                )
    all_nums = {*resolved, *(positional.index(n) for n in names if n in positional)}
    all_names = {*names, *(positional[k] for k in all_nums if k < len(positional))}
    return tuple(sorted(all_nums)), tuple(sorted(all_names))


def _all_of(value: Any, kind: type, message: str) -> tuple[Any, ...]:
    kinds = (int, np.integer) if kind is int else (kind,)
    found = tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else (value,)
    if all(isinstance(v, kinds) and not isinstance(v, bool) for v in found):
        return tuple(map(kind, found))
    raise StaticArgumentError(message)


class FlatFunction:
    """`f` as a function of the flat leaves of some of its positional arguments.

    Call it with leaves; it returns the flat results.  After a call `out_tree` is the structure
    of the result and `aux` the auxiliary output, when `has_aux`.
    """

    __slots__ = ("f", "args", "kwargs", "argnums", "treedefs", "has_aux", "out_tree", "aux")

    def __init__(
        self,
        f: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        argnums: Sequence[int],
        has_aux: bool = False,
    ) -> None:
        self.f = f
        self.args = list(args)
        self.kwargs = kwargs
        self.argnums = tuple(argnums)
        self.treedefs: list[PyTreeDef] = [tree_structure(args[k]) for k in argnums]
        self.has_aux = has_aux
        self.out_tree: PyTreeDef | None = None
        self.aux: Any = None

    def __call__(self, *leaves: Any) -> list[Any]:
        mark_arguments(leaves)
        args = list(self.args)
        start = 0
        for k, treedef in zip(self.argnums, self.treedefs, strict=True):
            args[k] = tree_unflatten(treedef, leaves[start : start + treedef.num_leaves])
            start += treedef.num_leaves
        result = self.f(*args, **self.kwargs)
        if self.has_aux:
            if not isinstance(result, tuple) or len(result) != 2:
                raise PytreeError(
                    f"{name_of(self.f)} must return (output, aux) with has_aux=True, "
                    f"it returned {type(result).__name__}"
                )
            result, self.aux = result
        flat, self.out_tree = tree_flatten(result)
        check_leaves(flat, f"results of {name_of(self.f)}")
        return flat

    def unflatten(self, leaves: Sequence[Any]) -> Any:
        """The result of the last call with these leaves."""
        assert self.out_tree is not None
        return tree_unflatten(self.out_tree, leaves)


def leaf_names(f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> list[str]:
    """A readable name for every leaf of the arguments: `x`, `params_w`, `params_0`."""
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    positional = [
        p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "arg")
    names: list[str] = []
    for k, arg in enumerate(args):
        stem = positional[k] if k < len(positional) else f"{rest}_{k - len(positional)}"
        names.extend(_paths(stem, arg))
    for key in sorted(kwargs):
        names.extend(_paths(key, kwargs[key]))
    return names


def _paths(stem: str, tree: Any) -> list[str]:
    found, _ = tree_flatten_with_path(tree)
    return [
        _identifier(
            stem + keystr(path, simple=True, separator="_")
            if not path
            else f"{stem}_{keystr(path, simple=True, separator='_')}"
        )
        for path, _ in found
    ]


def _identifier(text: str) -> str:
    return "".join(c if c.isalnum() or c == "_" else "_" for c in text)


def check_differentiable(
    leaves: Sequence[Any], names: Sequence[str], what: str, holomorphic: bool, allow_int: bool
) -> None:
    """Raise unless every leaf can be differentiated with respect to."""
    for leaf, name in zip(leaves, names, strict=True):
        aval = aval_of(leaf)
        if holomorphic:
            if not is_complex(aval.dtype):
                raise DtypeError(
                    f"{what} with holomorphic=True requires complex inputs, {name} is {aval.dtype}",
                    operands=[f"{name}: {aval}"],
                    where=user_source() or None,
                )
        elif is_complex(aval.dtype) and what == "jacfwd":
            # Reverse mode has a meaning here: a real result's gradient in a complex argument.
            raise DtypeError(
                f"{what} requires real inputs, {name} is {aval.dtype}",
                operands=[f"{name}: {aval}"],
                where=user_source() or None,
                hint="pass holomorphic=True for a holomorphic function, or use stax.jacrev",
            )
        elif not is_inexact(aval.dtype) and not allow_int:
            kind = "integer" if aval.dtype.kind in "iu" else "boolean"
            raise NonDifferentiableError(
                f"{what} requires floating-point inputs, {name} is of {kind} dtype {aval.dtype}",
                operands=[f"{name}: {aval}"],
                where=user_source() or None,
                hint="convert it (x.astype(float)), choose other argnums, or pass allow_int=True",
            )


def check_scalar_output(outs: Sequence[Any], treedef: PyTreeDef, f: Any, holomorphic: bool) -> Aval:
    """The type of a loss; raises unless it is one real scalar (complex when holomorphic)."""
    where = user_source() or None
    if len(outs) != 1 or treedef.num_leaves != 1 or len(treedef.spec) != 1:
        raise PytreeError(
            f"the gradient needs a function that returns one scalar; {name_of(f)} returned "
            f"{treedef!r}",
            where=where,
            hint="return (loss, aux) with has_aux=True, or use stax.jacrev / stax.vjp",
        )
    aval = aval_of(outs[0])
    if aval.shape != ():
        raise ShapeError(
            f"the gradient is defined for scalar-output functions; {name_of(f)} returned an "
            f"array of shape {aval.shape}",
            operands=[str(aval)],
            where=where,
            hint="reduce it (.sum(), .mean()), or use stax.jacrev / stax.vjp",
        )
    if holomorphic != is_complex(aval.dtype) or not is_inexact(aval.dtype):
        wanted = "complex" if holomorphic else "real floating-point"
        raise DtypeError(
            f"the gradient needs a {wanted} output; {name_of(f)} returned {aval.dtype}",
            operands=[str(aval)],
            where=where,
            hint="take the real part or the absolute value, or pass holomorphic=True"
            if is_complex(aval.dtype)
            else "convert the result with .astype(float)",
        )
    return aval


def matched_tangents(
    values: Any, like: Sequence[Any], treedef: PyTreeDef, names: Sequence[str], what: str
) -> list[Any]:
    """The flat (co)tangents in `values`, checked against the types of the leaves `like`.

    Raises:
      PytreeError, ShapeError, DtypeError: the structure, a shape or a dtype differs.
    """
    leaves, found = tree_flatten(values)
    if found != treedef:
        raise PytreeError(
            f"{what}s must have the structure {treedef!r}, got {found!r}",
            where=user_source() or None,
        )
    checked = []
    for leaf, primal, name in zip(leaves, like, names, strict=True):
        want = aval_of(primal).tangent()
        check_leaves([leaf] if getattr(leaf, "dtype", None) != float0 else [], f"{what}s")
        have = aval_of(leaf)
        if want.dtype == float0 and have.dtype != float0:
            raise DtypeError(
                f"the {what} of {name}, of dtype {aval_of(primal).dtype}, must have dtype float0",
                operands=[str(have)],
                where=user_source() or None,
                hint="np.zeros(shape, stax.dtypes.float0)",
            )
        if have.shape != want.shape:
            raise ShapeError(
                f"the {what} of {name} has shape {have.shape}, expected {want.shape}",
                operands=[str(have)],
                where=user_source() or None,
            )
        if have.dtype != want.dtype:
            if not have.weak or not np.can_cast(have.dtype, want.dtype, "same_kind"):
                raise DtypeError(
                    f"the {what} of {name} has dtype {have.dtype}, expected {want.dtype}",
                    operands=[str(have)],
                    where=user_source() or None,
                )
            leaf = convert(leaf, want.dtype)
        checked.append(leaf)
    return checked


def result_names(count: int) -> list[str]:
    """Names for results in messages."""
    return ["the result"] if count == 1 else [f"result {k}" for k in range(count)]


def unshared(values: Iterable[Any], arguments: Iterable[Any]) -> list[Any]:
    """Results of a user's function: arrays that are arguments or views of others are copied.

    Traced, they are values of their own; called with plain arrays, they must not differ in what
    the caller's later writes to them reach.
    """
    given = {id(v) for v in arguments}
    return [
        v.copy() if isinstance(v, np.ndarray) and (v.base is not None or id(v) in given) else v
        for v in values
    ]


def finished(values: Sequence[Any], borrowed: Iterable[Any] = ()) -> list[Any]:
    """Results as handed to the caller: NumPy values that share no memory with anything else.

    Inside another transformation they are traced: one that is an argument, or another result, gets
    a handle of its own, so that what the caller writes into either does not show in the other.
    """
    taken = {id(v) for v in borrowed}
    if STATE.trace is not EVAL:
        own = []
        for value in values:
            own.append(fresh(value) if id(value) in taken else value)
            taken.add(id(value))
        return own
    out = []
    for value in values:
        if isinstance(value, np.ndarray):
            if value.base is not None or not value.flags.writeable or id(value) in taken:
                value = np.array(value, copy=True, order="C")
            taken.add(id(value))
        elif not isinstance(value, Tracer | np.generic | Remote):
            value = np.asarray(value)[()]
        out.append(value)
    return out


def beside(places: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """The values, each where its place lies: zeros that nothing was computed for are NumPy's."""
    return [
        p.put_beside(v)
        if isinstance(p, Remote) and isinstance(v, np.ndarray | np.generic) and v.dtype != float0
        else v
        for p, v in zip(places, values, strict=True)
    ]
