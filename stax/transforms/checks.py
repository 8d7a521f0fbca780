"""Checks of values inside functions, and what they found.

Input: a Boolean, a message, and values that the message shows.  Output: an effect that raises when
the Boolean is false, at once or when the compiled program runs.  In a function that `checked`
transforms it is a `Site` of an `Error` instead: a code (0, or which check was the first to fail)
and the values that its message shows.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.primitive import NONLINEAR, ZERO_DERIVATIVE, Primitive, Recompute
from stax.core.source import user_source
from stax.core.trace import Tracer, bind
from stax.errors import CheckFailedError, DtypeError, PytreeError
from stax.primitives.elementwise import eq
from stax.primitives.families import literal
from stax.primitives.views import move_axis
from stax.pytree import register_pytree_node, tree_flatten, tree_unflatten
from stax.transforms.arguments import check_leaves
from stax.transforms.callbacks import check_format, lowered_effect
from stax.transforms.control_scan import repeated

__all__ = ["USER", "Error", "Flat", "Site", "check_arrays", "check_error", "check_p", "no_error"]

USER = "user"  # the kind of the checks that users write
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
