"""Python called from inside a program: pure_callback, debug.print, debug.callback, io_callback.

Input: a Python function of NumPy arrays and traced arguments.  Output: its results, or only its
effect, when the program runs.  A pure callback may be left out when nobody reads its results; the
others are neither merged nor removed, and those of one program run in the order they were written.
Compiled code enters Python for each of them, one call after the other.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stax.core.aval import Aval
from stax.core.graph import Eqn
from stax.core.primitive import FALLBACK, NONLINEAR, ZERO_DERIVATIVE, Primitive, Recompute
from stax.core.source import user_source
from stax.core.trace import bind
from stax.errors import NonDifferentiableError, PytreeError, ShapeError, StaticArgumentError
from stax.primitives.views import move_axis
from stax.pytree import tree_flatten, tree_unflatten
from stax.transforms.arguments import check_leaves, is_array, name_of
from stax.transforms.inspect import abstract_leaf

__all__ = ["debug_callback", "debug_print", "io_callback", "pure_callback"]

Flat = Sequence[Any]
VMAP_METHODS = (None, "sequential", "sequential_unrolled", "expand_dims", "broadcast_all",
                "legacy_vectorized")  # fmt: skip


def _owned(values: Flat) -> list[Any]:
    """Copies for the user's function, which may keep or change what it is given."""
    return [np.array(v) for v in values]


def _checked(results: Flat, avals: Sequence[Aval], name: str) -> list[Any]:
    """The results as arrays of the promised types."""
    if len(results) != len(avals):
        raise PytreeError(
            f"the callback {name} returned {len(results)} arrays, its result_shape_dtypes "
            f"has {len(avals)}"
        )
    arrays = []
    for value, aval in zip(results, avals, strict=True):
        array = np.asarray(value)
        if array.shape != aval.shape or not np.can_cast(array.dtype, aval.dtype, "same_kind"):
            raise ShapeError(
                f"the callback {name} returned {array.dtype}{list(array.shape)} where its "
                f"result_shape_dtypes promises {aval.dtype}{list(aval.shape)}",
                hint="return an array of that shape and dtype, or correct result_shape_dtypes",
            )
        arrays.append(array.astype(aval.dtype, copy=False))
    return arrays


def _run(*args: Any, fun: Any, avals: Sequence[Aval], name: str, method: Any) -> tuple[Any, ...]:
    return tuple(_checked(fun(*_owned(args)), avals, name))


def _front(args: Flat, dims: Sequence[int | None]) -> list[Any]:
    return [v if d is None else move_axis(v, d, 0) for v, d in zip(args, dims, strict=True)]


def _mapped(fun: Callable[..., Flat], marks: Sequence[bool], count: int) -> Callable[..., Flat]:
    """`fun` called for each example of the marked arguments in turn; results stacked."""

    def each(*args: Any) -> list[Any]:
        size = next(len(a) for a, m in zip(args, marks, strict=True) if m)
        rows = [
            fun(*(a[k] if m else np.array(a) for a, m in zip(args, marks, strict=True)))
            for k in range(size)
        ]
        return [np.stack([np.asarray(r[j]) for r in rows]) for j in range(count)]

    return each


def _at_once(
    fun: Callable[..., Flat], marks: Sequence[bool], size: int, method: str
) -> Callable[..., Flat]:
    """`fun` called once for the batch; `method` says what the other arguments look like."""

    def all_at_once(*args: Any) -> Flat:
        wide = []
        for value, mark in zip(args, marks, strict=True):
            if not mark and method == "expand_dims":
                value = value[None]
            elif not mark and method == "broadcast_all":
                value = np.broadcast_to(value, (size, *value.shape)).copy()
            wide.append(value)
        return fun(*wide)

    return all_at_once


def _size_of(args: Flat, dims: Sequence[int | None]) -> int:
    return next(int(a.shape[d]) for a, d in zip(args, dims, strict=True) if d is not None)


def _batched(args: Flat, dims: Sequence[int | None], params: dict[str, Any]) -> dict[str, Any]:
    """The parameters of the callback for a whole batch, whose axis is in front."""
    fun, method, avals = params["fun"], params["method"], params["avals"]
    marks = [d is not None for d in dims]
    size = _size_of(args, dims)
    if method is None:
        raise StaticArgumentError(
            f"the callback {params['name']} under vmap: nothing says how it takes a batch",
            op="pure_callback",
            where=user_source() or None,
            hint="pass vmap_method='sequential' (one call per example), 'expand_dims' or "
            "'broadcast_all' (one call for all)",
        )
    if method in ("sequential", "sequential_unrolled"):
        wide = _mapped(fun, marks, len(avals))
    else:
        wide = _at_once(fun, marks, size, method)
    wide_avals = tuple(a.update(shape=(size, *a.shape)) for a in avals)
    return {**params, "fun": wide, "avals": wide_avals}


def _callback_batch(args: Any, dims: Any, /, **params: Any) -> Any:
    wide = _batched(args, dims, params)
    outs = bind(pure_callback_p, *_front(args, dims), **wide)
    return outs, [0] * len(outs)


def _callback_jvp(primals: Any, outs: Any, tangents: Any, **params: Any) -> Any:
    raise NonDifferentiableError(
        f"the callback {params['name']} has no derivative: stax does not see into it",
        op="pure_callback",
        where=user_source() or None,
        hint="give the function around it a rule with stax.custom_jvp or stax.custom_vjp",
    )


def _types(*avals: Aval, **params: Any) -> tuple[Aval, ...]:
    return tuple(params["avals"])


pure_callback_p = Primitive(
    "pure_callback",
    family="callback",
    abstract_eval=_types,
    impl=_run,
    jvp=_callback_jvp,
    transpose=NONLINEAR,
    batch=_callback_batch,
    lower=FALLBACK,
    cost=lambda in_avals, out_avals, params: 0,
    recompute=Recompute.EXPENSIVE,
    multi=True,
)


# ------------------------------------------------------------------------- callbacks that act


def _act(*args: Any, **params: Any) -> tuple[Any, ...]:
    """Run the callback; an effect without results has a token, so that it takes a place."""
    return (*_run(*args, **params), np.int8(0))


def _token_types(*avals: Aval, **params: Any) -> tuple[Aval, ...]:
    return (*params["avals"], Aval((), np.dtype(np.int8)))


def _effect_batch(args: Any, dims: Any, /, **params: Any) -> Any:
    marks = [d is not None for d in dims]
    avals, size = params["avals"], _size_of(args, dims)
    wide = {
        **params,
        "fun": _mapped(params["fun"], marks, len(avals)),
        "avals": tuple(a.update(shape=(size, *a.shape)) for a in avals),
    }
    outs = bind(effect_p, *_front(args, dims), **wide)
    return outs, [0] * len(outs)


def _effect_lower(ctx: Any, *nodes: Any, **params: Any) -> Any:
    """A call that also writes a token: every call has a result in memory."""
    eqn = ctx.eqn
    token = Eqn(token_p, eqn.inputs, eqn.outputs, params, eqn.phase, eqn.source, eqn.region)
    results = [(a.shape, a.dtype) for a in _token_types(**params)]
    return ctx.external(nodes, token, results, "calls Python")[:-1]


def lowered_effect(ctx: Any, nodes: Any, fun: Callable[..., Flat], name: str) -> Any:
    """The call of a function without results, whose errors are the program's."""
    return _effect_lower(ctx, *nodes, fun=fun, avals=(), name=name, method=None)


def _effect_row(name: str, impl: Any, types: Any, lower: Any) -> Primitive:
    return Primitive(
        name,
        family="effect",
        abstract_eval=types,
        impl=impl,
        jvp=ZERO_DERIVATIVE,
        transpose=NONLINEAR,
        batch=_effect_batch,
        lower=lower,
        cost=lambda in_avals, out_avals, params: 0,
        recompute=Recompute.EXPENSIVE,
        multi=True,
    )


effect_p = _effect_row("callback", _run, _types, _effect_lower)
token_p = _effect_row("callback_with_token", _act, _token_types, FALLBACK)


# -------------------------------------------------------------------------------- the surface


def _flat_callback(
    callback: Callable[..., Any], args: Flat, kwargs: dict[str, Any], structure: Any
) -> tuple[list[Any], Callable[..., Flat]]:
    """The flat arguments, and `callback` as a function of them with a flat result."""
    given, tree = tree_flatten((args, kwargs))
    # What is no array (a name, a file) goes to the callback as it is.
    at = [k for k, v in enumerate(given) if is_array(v)]
    leaves = [given[k] for k in at]
    check_leaves(leaves, f"arguments of the callback {name_of(callback)}")

    others = [None if is_array(v) else v for v in given]

    def flat(*values: Any) -> Flat:
        whole = list(others)
        for k, value in zip(at, values, strict=True):
            whole[k] = value
        inner_args, inner_kwargs = tree_unflatten(tree, whole)
        result = callback(*inner_args, **inner_kwargs)
        if structure is None:
            return ()
        found, result_tree = tree_flatten(result)
        if result_tree != structure:
            raise PytreeError(
                f"the callback {name_of(callback)} returned {result_tree!r}, its "
                f"result_shape_dtypes is {structure!r}"
            )
        # The callback may fill the same array at every call.
        return [np.array(v) if isinstance(v, np.ndarray) else v for v in found]

    return leaves, flat


def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """The results of a Python function of NumPy arrays, called when the program runs.

    Args:
      callback: a function without effects; it may be called more than once, or not at all.
      result_shape_dtypes: a tree of ShapeDtypeStruct (or arrays) like its results.
      vmap_method: "sequential" (one call per example), "expand_dims" or "broadcast_all" (one call
        for the batch: unbatched arguments get a leading axis of 1, or of the batch's size).

    >>> double = lambda x: pure_callback(lambda v: v * 2, x, x)
    >>> float(stax.jit(double)(3.0))
    6.0
    """
    if vmap_method not in VMAP_METHODS:
        raise ValueError(f"vmap_method={vmap_method!r} is not one of {VMAP_METHODS}")
    shapes, tree = tree_flatten(result_shape_dtypes)
    avals = tuple(abstract_leaf(s).strong() for s in shapes)
    leaves, flat = _flat_callback(callback, args, kwargs, tree)
    params = {"fun": flat, "avals": avals, "name": name_of(callback), "method": vmap_method}
    return tree_unflatten(tree, bind(pure_callback_p, *leaves, **params))


def io_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """The results of a Python function that acts on the world; called exactly once per run.

    Calls of one program keep their order, `ordered` or not; under vmap there is one call per
    example.
    """
    shapes, tree = tree_flatten(result_shape_dtypes)
    avals = tuple(abstract_leaf(s).strong() for s in shapes)
    leaves, flat = _flat_callback(callback, args, kwargs, tree)
    params = {"fun": flat, "avals": avals, "name": name_of(callback), "method": "sequential"}
    return tree_unflatten(tree, bind(effect_p, *leaves, **params))


def debug_callback(
    callback: Callable[..., Any],
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> None:
    """Call a Python function on the values of its arguments when the program runs.

    Under `vmap` it is called once per example; derivatives pass it by.

    >>> seen = []
    >>> _ = stax.jit(lambda x: debug_callback(seen.append, x))(2.0)
    >>> seen
    [array(2.)]
    """
    leaves, flat = _flat_callback(callback, args, kwargs, None)
    bind(effect_p, *leaves, fun=flat, avals=(), name=name_of(callback), method="sequential")


class _Formatter(string.Formatter):
    """Formats like `str.format`, and refuses arguments that the format does not use."""

    def check_unused_args(self, used_args: Any, args: Sequence[Any], kwargs: Any) -> None:
        unused = [k for k in (*range(len(args)), *kwargs) if k not in used_args]
        if unused:
            raise ValueError(f"it does not use the arguments {unused}")


_FORMATTER = _Formatter()


def debug_print(
    fmt: str,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    _use_logging: bool = False,
    **kwargs: Any,
) -> None:
    """Print values when the program runs: `debug_print("x = {x}", x=x)`.

    Args:
      fmt: a format as for `str.format`; it is not an f-string, whose values would not be known.

    >>> stax.jit(lambda x: debug_print("got {}", x + 1))(1.0)
    got 2.0
    """
    if not skip_format_check:
        check_format(fmt, args, kwargs, "debug.print", _FORMATTER)

    def show(*values: Any, **named: Any) -> None:
        print(_FORMATTER.vformat(fmt, values, named))

    debug_callback(show, *args, **kwargs)


def check_format(
    fmt: str, args: Sequence[Any], kwargs: Any, op: str, formatter: string.Formatter
) -> None:
    """Refuse a format that does not fit its arguments, before a program runs with it.

    Raises:
      StaticArgumentError: it names arguments that are not there, or is no format at all.
    """
    try:
        formatter.vformat(fmt, tuple(_Blank() for _ in args), {k: _Blank() for k in kwargs})
    except (LookupError, ValueError) as error:
        named = "".join(f", {name}=" for name in kwargs)
        raise StaticArgumentError(
            f"the format {fmt!r:.60} does not fit {len(args)} arguments{named}: {error}",
            op=op,
            where=user_source() or None,
            hint="write '{}' for each argument, or '{name}' and name it; '{{' for a brace",
        ) from None


class _Blank:
    """Stands for an argument while a format is checked: any attribute, item or spec will do."""

    def __getattr__(self, name: str) -> _Blank:
        return self

    def __getitem__(self, key: Any) -> _Blank:
        return self

    def __format__(self, spec: str) -> str:
        return ""
