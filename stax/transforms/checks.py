"""Checks of values inside functions, and the transformation that turns them into results.

Input: a function that checks values (`check`), or whose operations may divide by zero, make NaNs or
index outside an array.  Output: the same function with an `Error` beside its result: a code (0, or
which check was the first to fail) and the values that its message shows.  Loops and branches carry
them along, so no check leaves the compiled program.  A check in a function that is not transformed
raises when it fails: at once, or when the compiled program runs.
"""

from __future__ import annotations

import functools
import math
import string
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.graph import Eqn, Graph, Var, subgraphs
from stax.core.primitive import NONLINEAR, ZERO_DERIVATIVE, Primitive, Recompute
from stax.core.source import user_source
from stax.core.staging import eval_graph, frees_after, stage
from stax.core.trace import EVAL, STATE, Tracer, bind
from stax.dtypes import is_inexact
from stax.errors import CheckFailedError, DtypeError, PytreeError
from stax.primitives.casts import convert
from stax.primitives.elementwise import (
    add,
    eq,
    ge,
    isnan,
    logical_and,
    logical_not,
    logical_or,
    lt,
    select,
)
from stax.primitives.families import literal
from stax.primitives.indexing import gather, gather_p, scatter_p
from stax.primitives.reductions import argmax, reduce_any
from stax.primitives.shapes import concatenate
from stax.primitives.views import move_axis, reshape
from stax.pytree import register_pytree_node, tree_flatten, tree_unflatten
from stax.transforms.arguments import check_leaves, name_of
from stax.transforms.callbacks import check_format, lowered_effect
from stax.transforms.control_graphs import parts
from stax.transforms.control_scan import repeated
from stax.transforms.inspect import stage_function
from stax.transforms.simplify import has_effect

__all__ = ["Error", "check_arrays", "check_error", "check_p", "checked_function", "no_error"]

USER, NAN, INDEX, DIVISION = "user", "nan", "index", "division"
INT32, INT64 = np.dtype(np.int32), np.dtype(np.int64)
FLAG = Aval((), np.dtype(np.bool_))
CODE = Aval((), INT32)
PLACE = Aval((2,), INT64)  # an index outside, and its axis
Flat = Sequence[Any]


class Site:
    """One check of a program: what it is about, the types of what its message shows, the message.

    Sites with one `key` are one check, met in several copies of a graph.
    """

    __slots__ = ("kind", "avals", "text", "source", "key")

    def __init__(
        self,
        kind: str,
        avals: Sequence[Aval],
        text: Callable[[Flat], str],
        source: str,
        key: Any = None,
    ) -> None:
        self.kind = kind
        self.avals = tuple(avals)
        self.text = text
        self.source = source
        self.key = self if key is None else key


class Error:
    """What a checked function found: nothing, or the first check that failed.

    It is a pytree of arrays, so it goes through `jit`, `vmap` and loops; under `vmap` there is one
    for each example.  Its methods want values that are known.
    """

    __slots__ = ("code", "payload", "sites")

    def __init__(self, code: Any, payload: Flat, sites: tuple[Site, ...]) -> None:
        self.code = code
        self.payload = tuple(payload)
        self.sites = sites

    def get(self) -> str | None:
        """The message of the check that failed; None when none did.

        With a batch of errors there is a line for each that failed, with its position.
        """
        if isinstance(self.code, Tracer):
            self.code.item()  # raises, and names the way out
        code = np.asarray(self.code)
        if not code.ndim:
            return self._message(())
        failed = [tuple(int(k) for k in at) for at in np.argwhere(code)]
        lines = [f"at mapped index {', '.join(map(str, at))}: {self._message(at)}" for at in failed]
        return "\n".join(lines) if lines else None

    def _site(self, at: tuple[int, ...]) -> tuple[Site, list[Any]] | None:
        """The check that failed for the example `at`, and what its message shows."""
        code = int(np.asarray(self.code)[at])
        if code == 0:
            return None
        start = sum(len(s.avals) for s in self.sites[: code - 1])
        site = self.sites[code - 1]
        return site, [np.asarray(v)[at] for v in self.payload[start : start + len(site.avals)]]

    def _message(self, at: tuple[int, ...]) -> str | None:
        found = self._site(at)
        return None if found is None else found[0].text(found[1])

    def get_exception(self) -> CheckFailedError | None:
        """The exception that `throw` raises; None when no check failed."""
        message = self.get()
        if message is None:
            return None
        first = next(tuple(at) for at in np.argwhere(np.asarray(self.code)))
        found = self._site(first)
        return CheckFailedError(message, where=found[0].source if found else None)

    def throw(self) -> None:
        """Raise CheckFailedError when a check failed."""
        error = self.get_exception()
        if error is not None:
            raise error

    def __repr__(self) -> str:
        known = not isinstance(self.code, Tracer) and isinstance(self.code, np.ndarray | np.generic)
        return f"Error({self.get()!r})" if known else f"Error({self.code!r})"


no_error = Error(np.int32(0), (), ())

register_pytree_node(
    Error,
    lambda e: ((e.code, *e.payload), e.sites),
    lambda sites, leaves: Error(leaves[0], leaves[1:], sites),
)


# ---------------------------------------------------------------------------- the check itself


def _text_of(site: Site, values: Flat) -> str:
    """The message of a check that stands alone; the first failing example of a batch."""
    holds, shown = np.asarray(values[0]), values[1:]
    at = np.unravel_index(int(np.argmin(holds)), holds.shape) if holds.ndim else ()
    return site.text([np.asarray(v)[at] for v in shown])


def _run(*args: Any, site: Site, debug: bool) -> tuple[Any, ...]:
    if not debug and not np.all(args[0]):
        raise CheckFailedError(_text_of(site, args), where=site.source or None)
    return ()


def _lower(ctx: Any, *nodes: Any, site: Site, debug: bool) -> Any:
    if debug:
        return ()

    def act(*values: Any) -> Flat:
        return _run(*values, site=site, debug=False)

    return lowered_effect(ctx, nodes, act, "check")


def _batch(args: Any, dims: Any, /, **params: Any) -> Any:
    size = next(aval_of(v).shape[d] for v, d in zip(args, dims, strict=True) if d is not None)
    front = [
        repeated(v, size) if d is None else move_axis(v, d, 0)
        for v, d in zip(args, dims, strict=True)
    ]
    return bind(check_p, *front, **params), []


check_p = Primitive(
    "check",
    family="effect",
    abstract_eval=lambda *avals, **params: (),
    impl=_run,
    jvp=ZERO_DERIVATIVE,
    transpose=NONLINEAR,
    batch=_batch,
    lower=_lower,
    cost=lambda in_avals, out_avals, params: 0,
    recompute=Recompute.EXPENSIVE,
    multi=True,
)


def check_arrays(
    holds: Any, message: str, args: tuple[Any, ...], kwargs: dict[str, Any], debug: bool
) -> None:
    """Check that the scalar `holds` is true; `message` is formatted with the arguments.

    Raises:
      DtypeError: `holds` is no Boolean scalar.
      CheckFailedError: it is false, in a function that is neither checked nor compiled.
    """
    if not isinstance(holds, bool | np.bool_ | np.ndarray | Tracer):
        raise DtypeError(
            f"check takes a Boolean scalar, not {type(holds).__name__} {holds!r:.40}", op="check"
        )
    aval = aval_of(holds)
    if aval.shape or aval.dtype.kind != "b":
        raise DtypeError(
            f"check takes a Boolean scalar, not {aval}",
            op="check",
            operands=[str(aval)],
            hint="write check(np.all(...), ...)",
        )
    if not isinstance(message, str):
        raise DtypeError("the message of a check is a string", op="check")
    check_format(message, args, kwargs, "check", string.Formatter())
    leaves, tree = tree_flatten((args, kwargs))
    check_leaves(leaves, "what the message of a check shows")

    def text(values: Flat) -> str:
        inner, named = tree_unflatten(tree, list(values))
        return f"{message.format(*inner, **named)} (`check` failed)"

    site = Site(USER, [aval_of(v).strong() for v in leaves], text, user_source())
    bind(check_p, holds, *leaves, site=site, debug=debug)


def check_error(error: Error) -> None:
    """Check that `error` is none: pass on what an inner checked function found."""
    sites = error.sites

    def text(values: Flat) -> str:
        return Error(values[0], values[1:], sites).get() or ""

    leaves = [error.code, *error.payload]
    site = Site(USER, [aval_of(v).strong() for v in leaves], text, user_source())
    failed = eq(error.code, literal(0, error.code))
    if aval_of(failed).shape:
        raise PytreeError(
            "check_error takes one error, not a batch of them",
            hint="look at a batch with error.get() outside",
        )
    bind(check_p, failed, *leaves, site=site, debug=False)


# --------------------------------------------------------------------------- what is looked for

# Operations that compute numbers; NaNs that are only moved or chosen are not their fault.
_FAMILIES = frozenset("binary unary reduction scan contraction fft special linalg window".split())
_CARRIERS = frozenset(
    "neg conj convert bitcast real imag complex stop_gradient relu sign abs copysign nextafter "
    "maximum minimum fmax fmin max min gcd lcm window_max window_min window_position floor ceil "
    "trunc rint".split()
)
_DIVISORS = frozenset({"div", "floordiv", "mod", "fmod", "guarded_div"})
_INDEXED = frozenset({"gather", "scatter", "dynamic_slice", "dynamic_update_slice"})
_CALLS = frozenset({"jit", "checkpoint", "bounded_while"})  # state and arguments in, and out
_RULES = frozenset({"custom_jvp", "custom_vjp", "linear_solve"})


def _name(prim: Primitive) -> str:
    return prim.name.removeprefix("guarded_")


def _sites_of(eqn: Eqn, kinds: frozenset[str]) -> list[Site]:
    """The checks of one equation, in the order in which they are made."""
    prim, found = eqn.prim, []
    if prim is check_p:
        return [eqn.params["site"]] if USER in kinds else []
    if DIVISION in kinds and prim.name in _DIVISORS:
        zero = lambda _: "division by zero"
        found.append(Site(DIVISION, (), zero, eqn.source, (DIVISION, eqn.source)))
    if INDEX in kinds and prim.name in _INDEXED and eqn.params.get("mode") != "wrap":
        shape = eqn.inputs[0].shape

        def outside(values: Flat) -> str:
            index, axis = (int(v) for v in values[0])
            return (
                f"out-of-bounds indexing for array of shape {shape}: index {index} is out of "
                f"bounds for axis {axis} with size {shape[axis]}."
            )

        found.append(Site(INDEX, (PLACE,), outside, eqn.source, (INDEX, shape, eqn.source)))
    computes = prim.family in _FAMILIES and prim.name not in _CARRIERS
    if NAN in kinds and computes and any(is_inexact(v.dtype) for v in eqn.outputs):
        name = _name(prim)
        said = lambda _: f"nan generated by primitive: {name}."
        found.append(Site(NAN, (), said, eqn.source, (NAN, name, eqn.source)))
    return found


def _collected(graph: Graph, kinds: frozenset[str]) -> dict[Any, Site]:
    """All checks of a graph and the graphs inside it, by their keys."""
    found: dict[Any, Site] = {}
    pending, seen = [graph], {id(graph)}
    while pending:
        for eqn in pending.pop().eqns:
            for site in _sites_of(eqn, kinds):
                found.setdefault(site.key, site)
            for inner in subgraphs(eqn):
                if id(inner) not in seen:
                    seen.add(id(inner))
                    pending.append(inner)
    return found


# ----------------------------------------------------------------------------- the transformation


class _Checker:
    """Runs graphs with their checks; `State` is the code, then the payloads of all sites."""

    def __init__(self, graph: Graph, kinds: frozenset[str]) -> None:
        found = _collected(graph, kinds)
        self.kinds = kinds
        self.sites = tuple(found.values())
        self.number = {key: k for k, key in enumerate(found)}
        self.starts = [1]
        for site in self.sites:
            self.starts.append(self.starts[-1] + len(site.avals))
        self.avals = [CODE, *(a for s in self.sites for a in s.avals)]
        self.checked: dict[int, Graph] = {}
        self.keep: list[Graph] = []

    def start(self) -> list[Any]:
        """The state before anything ran."""
        return [np.zeros(a.shape, a.dtype)[()] for a in self.avals]

    def failed(self, state: list[Any], site: Site, bad: Any, payload: Flat) -> list[Any]:
        """The state after a check: what failed first stays."""
        k = self.number[site.key]
        first = logical_and(eq(state[0], np.int32(0)), bad)
        state = list(state)
        state[0] = select(first, np.int32(k + 1), state[0])
        for at, value in zip(range(self.starts[k], self.starts[k + 1]), payload, strict=True):
            state[at] = select(first, value, state[at])
        return state

    def graph(self, graph: Graph) -> Graph:
        """(state, inputs) -> (state, outputs)."""
        found = self.checked.get(id(graph))
        if found is None:
            n = len(self.avals)

            def fun(*values: Any) -> list[Any]:
                state, outs = self.run(graph, list(values[:n]), values[n:])
                return [*state, *outs]

            found = stage(fun, [*self.avals, *graph.in_avals], name=graph.name)
            self.checked[id(graph)] = found
            self.keep.append(graph)
        return found

    def looks_into(self, graph: Graph) -> bool:
        """True when something in `graph` is checked."""
        key = ("checks", self.kinds)
        found: bool | None = graph.cache.get(key)
        if found is None:
            found = graph.cache[key] = bool(_collected(graph, self.kinds))
        return found

    def run(self, graph: Graph, state: list[Any], args: Flat) -> tuple[list[Any], list[Any]]:
        """The state after `graph`, and its results, under the current trace."""
        env: dict[Var, Any] = dict(zip(graph.inputs, args, strict=True))
        env.update(graph.constants)
        frees = frees_after(graph)
        before, staged = STATE.source, STATE.trace is not EVAL
        try:
            for eqn, gone in zip(graph.eqns, frees, strict=True):
                if staged:
                    STATE.source = eqn.source or before
                values = [env[a] if isinstance(a, Var) else a.value for a in eqn.inputs]
                state, outs = self.step(eqn, state, values)
                env.update(zip(eqn.outputs, outs, strict=True))
                for var in gone:
                    env.pop(var, None)
        finally:
            STATE.source = before
        return state, [env[a] if isinstance(a, Var) else a.value for a in graph.outputs]

    def step(self, eqn: Eqn, state: list[Any], values: list[Any]) -> tuple[list[Any], Flat]:
        """One equation."""
        prim, params = eqn.prim, eqn.params
        if prim is check_p:
            return self.user_check(eqn, state, values), ()
        inner = subgraphs(eqn)
        if inner:
            if not any(self.looks_into(g) for g in inner):
                return state, bind(prim, *values, **params)
            return self.call(eqn, state, values)
        sites = _sites_of(eqn, self.kinds)
        for site in sites:
            if site.kind == DIVISION:
                zero = _any(eq(values[1], literal(0, values[1])))
                state = self.failed(state, site, zero, ())
            elif site.kind == INDEX:
                bad, place = _outside(eqn, values)
                state = self.failed(state, site, bad, (place,))
        outs = _harmless(eqn, values) if any(s.kind == INDEX for s in sites) else None
        if outs is None:
            outs = bind(prim, *values, **params)
        for site in sites:
            if site.kind == NAN:
                nans = [_any(isnan(v)) for v in outs if is_inexact(aval_of(v).dtype)]
                state = self.failed(state, site, functools.reduce(logical_or, nans), ())
        return state, outs

    def user_check(self, eqn: Eqn, state: list[Any], values: list[Any]) -> list[Any]:
        if USER not in self.kinds:
            return state
        holds, *shown = values
        lead = len(aval_of(holds).shape)
        bad = logical_not(holds)
        if lead:  # one check for each example of a batch: the first that fails
            count = math.prod(aval_of(holds).shape)
            if count == 0:
                return state
            at = argmax(convert(reshape(bad, (count,)), np.dtype(np.int8)), 0)
            shown = [
                gather(reshape(v, (count, *aval_of(v).shape[lead:])), [at], [0], "promise")
                for v in shown
            ]
            bad = _any(bad)
        return self.failed(state, eqn.params["site"], bad, shown)

    def call(self, eqn: Eqn, state: list[Any], values: list[Any]) -> tuple[list[Any], Flat]:
        """An equation that carries graphs with checks in them."""
        prim, params, n = eqn.prim, eqn.params, len(state)
        if prim.name in _CALLS:
            changed = {k: self.graph(v) if isinstance(v, Graph) else v for k, v in params.items()}
            found = bind(prim, *state, *values, **changed)
        elif prim.name == "cond":
            branches = tuple(self.graph(b) for b in params["branches"])
            found = bind(prim, values[0], *state, *values[1:], branches=branches)
        elif prim.name in ("scan", "chained_scan"):
            consts, rest = parts(values, params["consts"])
            body = self.graph(params["body"])
            own, known, other = parts(body.inputs, n, len(consts))
            body = body.replace(inputs=[*known, *own, *other])
            changed = {**params, "body": body, "carry": params["carry"] + n}
            found = bind(prim, *consts, *state, *rest, **changed)
        elif prim.name == "while":
            return self.loop(eqn, state, values)
        elif prim.name in _RULES:
            # The rule stays with the call; the checks run beside it, for the state alone.
            outs = bind(prim, *values, **_without_effects(params))
            return self.run(params["graph"], state, values)[0], outs
        else:  # the reversal of a chain, whose steps have been checked on the way forward
            return state, bind(prim, *values, **_without_effects(params))
        return list(found[:n]), found[n:]

    def loop(self, eqn: Eqn, state: list[Any], values: list[Any]) -> tuple[list[Any], Flat]:
        """A while loop; where its condition has checks, it is computed with the carry."""
        params, n = eqn.params, len(state)
        nc, nb = params["cond_consts"], params["body_consts"]
        of_cond, of_body, carry = parts(values, nc, nb)
        body = self.graph(params["body"])
        own, known, other = parts(body.inputs, n, nb)
        cond = params["cond"]
        if not self.looks_into(cond):
            fixed, rest = parts(cond.inputs, nc)
            seen = [Var(a) for a in self.avals]
            found = bind(
                eqn.prim,
                *(*of_cond, *of_body, *state, *carry),
                cond=cond.replace(inputs=[*fixed, *seen, *rest]),
                body=body.replace(inputs=[*known, *own, *other]),
                cond_consts=nc,
                body_consts=nb,
            )
            return list(found[:n]), found[n:]
        going = self.graph(cond)

        def turn(*inner: Any) -> list[Any]:
            test, step, had, now, _ = parts(inner, nc, nb, n, len(carry))
            outs = eval_graph(body, [*had, *step, *now])
            told = eval_graph(going, [*outs[:n], *test, *outs[n:]])
            return [*told[:n], *outs[n:], told[n]]

        flags = [*self.avals, *params["body"].in_avals[nb:], FLAG]
        avals = [*cond.in_avals[:nc], *params["body"].in_avals[:nb], *flags]
        last = stage(lambda *inner: [inner[-1]], flags, name=cond.name)
        begun = eval_graph(going, [*state, *of_cond, *carry])
        found = bind(
            eqn.prim,
            *(*of_cond, *of_body, *begun[:n], *carry, begun[n]),
            cond=last,
            body=stage(turn, avals, name=params["body"].name),
            cond_consts=0,
            body_consts=nc + nb,
        )
        return list(found[:n]), found[n:-1]


def _without_effects(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters whose graphs make no checks and no prints, at any depth."""
    return {k: _quiet(v) for k, v in params.items()}


def _quiet(value: Any) -> Any:
    if isinstance(value, tuple) and any(isinstance(v, Graph) for v in value):
        return tuple(_quiet(v) for v in value)
    if not isinstance(value, Graph):
        return value
    kept = [e for e in value.eqns if e.outputs or not has_effect(e.prim)]
    return value.replace(eqns=[e.replace(params=_without_effects(e.params)) for e in kept])


def _any(flags: Any) -> Any:
    axes = tuple(range(len(aval_of(flags).shape)))
    return reduce_any(flags, axes) if axes else flags


# ------------------------------------------------------------------------------------- indices


def _indices(eqn: Eqn, values: list[Any]) -> tuple[list[Any], list[int], list[int], bool]:
    """Index arrays, their axes, the least index too large for each, and if -1 is the last."""
    shape, name = eqn.inputs[0].shape, eqn.prim.name
    if name in ("gather", "scatter"):
        axes = list(eqn.params["axes"])
        counted = eqn.params["mode"] in ("error", "fill")
        return values[-len(axes) :], axes, [shape[a] for a in axes], counted
    first = 1 if name == "dynamic_slice" else 2
    sizes = eqn.params["sizes"] if name == "dynamic_slice" else eqn.inputs[1].shape
    ends = [n - m + 1 for n, m in zip(shape, sizes, strict=True)]
    return values[first:], list(range(len(shape))), ends, False


def _outside(eqn: Eqn, values: list[Any]) -> tuple[Any, Any]:
    """Whether an index is outside, and the first such with its axis."""
    bad: Any = np.False_
    place: Any = np.zeros(2, INT64)
    indices, axes, ends, counted = _indices(eqn, values)
    for index, axis, end in reversed(list(zip(indices, axes, ends, strict=True))):
        wide = convert(index, INT64)
        shape = aval_of(wide).shape
        size = math.prod(shape)
        if size == 0:
            continue
        low = -end if counted else 0
        out = logical_or(lt(wide, np.int64(low)), ge(wide, np.int64(end)))
        flat = reshape(wide, (size,))
        at = argmax(convert(reshape(out, (size,)), np.dtype(np.int8)), 0)
        one = reshape(gather(flat, [at], [0], "promise"), (1,))
        here = concatenate([one, np.array([axis], INT64)], 0)
        any_out = _any(out)
        place = select(any_out, here, place)
        bad = logical_or(bad, any_out)
    return bad, place


def _harmless(eqn: Eqn, values: list[Any]) -> Flat | None:
    """The results of a read or write that would raise: it is clamped, or dropped, instead."""
    if eqn.params.get("mode") != "error":
        return None
    if eqn.prim is scatter_p:
        return bind(scatter_p, *values, **{**eqn.params, "mode": "fill"})
    shape, axes = eqn.inputs[0].shape, eqn.params["axes"]
    inside = []
    for raw, axis in zip(values[1:], axes, strict=True):
        index = convert(raw, INT64)
        from_end = add(index, literal(shape[axis], index))
        inside.append(select(lt(index, literal(0, index)), from_end, index))
    return bind(gather_p, values[0], *inside, axes=axes, mode="clip")


# ------------------------------------------------------------------------------------ the surface


def checked_function(f: Callable[..., Any], kinds: frozenset[str]) -> Callable[..., Any]:
    """`f` with an `Error` before its result."""

    def checked(*args: Any, **kwargs: Any) -> tuple[Error, Any]:
        graph, out_tree = stage_function(f, args, kwargs)
        checker = _Checker(graph, kinds)
        leaves = tree_flatten((tuple(args), kwargs))[0]
        state, outs = checker.run(graph, checker.start(), leaves)
        return Error(state[0], state[1:], checker.sites), tree_unflatten(out_tree, outs)

    try:
        functools.update_wrapper(checked, f)
    except AttributeError:
        checked.__name__ = name_of(f)
    return checked
