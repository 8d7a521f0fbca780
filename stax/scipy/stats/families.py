"""What all distributions share: location and scale, supports, and functions derived from others.

Input: the functions of the standard distribution (location 0, scale 1).  Output: an object with
SciPy's methods.  Outside the support a density is 0, and its formula is fed a point inside, so that
neither values nor derivatives are spoiled by what is not used.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stax.nn.normalisation import log1mexp
from stax.numpy.inexact import floating
from stax.primitives import elementwise as el
from stax.primitives import transcendental as tr
from stax.primitives.families import literal

Function = Callable[..., Any]
Bound = float | Function


class _Optional:
    """A method that some distributions lack: there it is no attribute (`hasattr` says so)."""

    def __init__(self, method: Function) -> None:
        self.method = method
        self.__doc__ = method.__doc__

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        if owner is None:
            return self.method
        name = self.method.__name__
        if owner._found[name] is None:
            raise AttributeError(f"{owner.name} has no method {name}")
        return functools.partial(self.method, owner)


class Distribution:
    """A continuous distribution; methods take `x`, the shape parameters, `loc` and `scale`.

    `logpdf(x, *shapes, loc=0, scale=1)` and alike; `ppf` and `isf` take a probability.  A method
    that the distribution does not have raises AttributeError.
    """

    def __init__(
        self,
        name: str,
        shapes: str,
        logpdf: Function,
        *,
        support: tuple[Bound, Bound] = (-math.inf, math.inf),
        inside: Bound = 0.5,
        open_below: bool = False,
        cdf: Function | None = None,
        sf: Function | None = None,
        logcdf: Function | None = None,
        logsf: Function | None = None,
        ppf: Function | None = None,
        isf: Function | None = None,
        valid: Function | None = None,
    ) -> None:
        """The functions are those of the standard distribution, of (x, *shapes).

        Args:
          support: bounds, numbers or functions of the shape parameters.
          inside: a point between them.
          open_below: the lower bound itself has density 0.
          valid: whether the shape parameters are allowed; results are NaN elsewhere.
        """
        self.name = name
        self.shapes = tuple(shapes.split())
        self._names = (*self.shapes, "loc", "scale")
        self._support, self._inside, self._valid = support, inside, valid
        self._logpdf, self._open = logpdf, open_below
        self._found: dict[str, Function | None] = {
            "cdf": cdf or _complement(sf) or _exponential(logcdf),
            "sf": sf or _complement(cdf) or _exponential(logsf),
            "logcdf": logcdf or _log_of(cdf, sf, logsf),
            "logsf": logsf or _log_of(sf, cdf, logcdf),
            "ppf": ppf or _reflected(isf),
            "isf": isf or _reflected(ppf),
        }

    def __repr__(self) -> str:
        return f"stax.scipy.stats.{self.name}"

    # ------------------------------------------------------------------------------- arguments

    def _arguments(self, method: str, x: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """`x`, the shape parameters, and location and scale or None where not given."""
        x, found = _given(f"{self.name}.{method}", self.shapes, self._names, x, args, kwargs)
        shapes = [found[n] for n in self.shapes]
        return x, shapes, found.get("loc"), found.get("scale")

    def _bound(self, bound: Bound, x: Any, shapes: Sequence[Any]) -> Any:
        return bound(*shapes) if callable(bound) else literal(bound, x)

    def _checked(self, value: Any, shapes: Sequence[Any], scale: Any) -> Any:
        """NaN where a parameter is not allowed."""
        ok: Any = None if self._valid is None else self._valid(*shapes)
        if scale is not None:
            positive = el.gt(scale, literal(0, scale))
            ok = positive if ok is None else el.logical_and(ok, positive)
        return value if ok is None else el.select(ok, value, literal(math.nan, value))

    def _standard(self, method: str, x: Any, args: Any, kwargs: Any) -> Any:
        """The standardised point, made safe; masks of those below and above the support."""
        x, shapes, loc, scale = self._arguments(method, x, args, kwargs)
        y = x if loc is None else el.sub(x, loc)
        y = y if scale is None else el.div(y, scale)
        low, high = self._support
        below = above = None
        if callable(low) or low != -math.inf:
            under = el.le if self._open else el.lt
            below = under(y, self._bound(low, y, shapes))
        if callable(high) or high != math.inf:
            above = el.gt(y, self._bound(high, y, shapes))
        safe = self._bound(self._inside, y, shapes)
        for outside in (below, above):
            if outside is not None:
                y = el.select(outside, safe, y)
        return y, shapes, scale, below, above

    def _evaluate(
        self,
        method: str,
        function: Function | None,
        ends: tuple[float, float],
        x: Any,
        args: Any,
        kw: Any,
    ) -> Any:
        """`function` inside the support, the two `ends` below and above it."""
        assert function is not None
        with np.errstate(all="ignore"):
            y, shapes, scale, below, above = self._standard(method, x, args, kw)
            value = function(y, *shapes)
            if method == "logpdf" and scale is not None:
                value = el.sub(value, tr.log(scale))
            for outside, end in ((below, ends[0]), (above, ends[1])):
                if outside is not None:
                    value = el.select(outside, literal(end, value), value)
            return self._checked(value, shapes, scale)

    # --------------------------------------------------------------------------------- methods

    def logpdf(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """The logarithm of the density."""
        return self._evaluate("logpdf", self._logpdf, (-math.inf, -math.inf), x, args, kwargs)

    def pdf(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """The density."""
        return tr.exp(self.logpdf(x, *args, **kwargs))

    @_Optional
    def cdf(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """The probability of at most `x`."""
        return self._evaluate("cdf", self._found["cdf"], (0, 1), x, args, kwargs)

    @_Optional
    def sf(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """The probability of more than `x`."""
        return self._evaluate("sf", self._found["sf"], (1, 0), x, args, kwargs)

    @_Optional
    def logcdf(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """The logarithm of the probability of at most `x`."""
        function = self._found["logcdf"]
        return self._evaluate("logcdf", function, (-math.inf, 0), x, args, kwargs)

    @_Optional
    def logsf(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """The logarithm of the probability of more than `x`."""
        return self._evaluate("logsf", self._found["logsf"], (0, -math.inf), x, args, kwargs)

    @_Optional
    def ppf(self, q: Any, *args: Any, **kwargs: Any) -> Any:
        """The point that is exceeded with probability 1 - q."""
        return self._quantile("ppf", q, args, kwargs)

    @_Optional
    def isf(self, q: Any, *args: Any, **kwargs: Any) -> Any:
        """The point that is exceeded with probability `q`."""
        return self._quantile("isf", q, args, kwargs)

    def _quantile(self, method: str, q: Any, args: Any, kwargs: Any) -> Any:
        function = self._found[method]
        assert function is not None
        with np.errstate(all="ignore"):
            q, shapes, loc, scale = self._arguments(method, q, args, kwargs)
            inside = el.logical_and(el.ge(q, literal(0, q)), el.le(q, literal(1, q)))
            value = function(el.select(inside, q, literal(0.5, q)), *shapes)
            value = value if scale is None else el.mul(value, scale)
            value = value if loc is None else el.add(value, loc)
            value = el.select(inside, value, literal(math.nan, value))
            return self._checked(value, shapes, scale)


def _given(
    method: str,
    needed: Sequence[str],
    names: Sequence[str],
    x: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
) -> tuple[Any, dict[str, Any]]:
    """`x` and the parameters, by name, that are given and do not have their defaults.

    Raises:
      TypeError: too many, an unknown one, one twice, or a needed one is missing.
    """
    if len(args) > len(names):
        raise TypeError(f"{method} takes {len(names)} parameters: {names}")
    given = dict(zip(names, args, strict=False))
    for key, value in kwargs.items():
        if key not in names or key in given:
            raise TypeError(f"{method} got an unexpected argument {key!r}")
        given[key] = value
    missing = [n for n in needed if n not in given]
    if missing:
        raise TypeError(f"{method} needs {', '.join(missing)}")
    present = [n for n in names if n in given and not _is_default(n, given[n])]
    values = floating(method, x, *(given[n] for n in present))
    return values[0], dict(zip(present, values[1:], strict=True))


def _is_default(name: str, value: Any) -> bool:
    """True for a location or scale that changes nothing."""
    return type(value) in (int, float) and (name, value) in (("loc", 0), ("scale", 1))


def _complement(function: Function | None) -> Function | None:
    return None if function is None else lambda *args: 1.0 - function(*args)


def _log_of(
    own: Function | None, other: Function | None, log_other: Function | None
) -> Function | None:
    """The logarithm of a probability, from its complement where that is the small one."""
    if log_other is not None:
        return lambda *args: log1mexp(-log_other(*args))
    if own is None:
        return None if other is None else lambda *args: tr.log1p(-other(*args))
    if other is None:
        return lambda *args: tr.log(own(*args))

    def both(*args: Any) -> Any:
        mine, rest = own(*args), other(*args)
        return el.select(el.lt(mine, literal(0.5, mine)), tr.log(mine), tr.log1p(-rest))

    return both


def _exponential(function: Function | None) -> Function | None:
    return None if function is None else lambda *args: tr.exp(function(*args))


def _reflected(function: Function | None) -> Function | None:
    return None if function is None else lambda q, *shapes: function(1.0 - q, *shapes)


class Discrete:
    """A distribution of integers; methods take `k`, the shape parameters and `loc`."""

    def __init__(
        self,
        name: str,
        shapes: str,
        logpmf: Function,
        *,
        first: float = 0.0,
        last: Bound = math.inf,
        valid: Function | None = None,
        cdf: Function | None = None,
        sf: Function | None = None,
        ppf: Function | None = None,
    ) -> None:
        """The functions are of (k, *shapes); `first` and `last` bound the support."""
        self.name = name
        self.shapes = tuple(shapes.split())
        self._logpmf = logpmf
        self._found: dict[str, Function | None] = {
            "cdf": cdf or _complement(sf),
            "sf": sf or _complement(cdf),
            "logcdf": _log_of(cdf, sf, None),
            "logsf": _log_of(sf, cdf, None),
            "ppf": ppf,
        }
        self._first, self._last, self._valid = first, last, valid

    def __repr__(self) -> str:
        return f"stax.scipy.stats.{self.name}"

    def _arguments(self, method: str, k: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        names = (*self.shapes, "loc")
        k, found = _given(f"{self.name}.{method}", self.shapes, names, k, args, kwargs)
        k = el.sub(k, found["loc"]) if "loc" in found else k
        return k, [found[n] for n in self.shapes]

    def _ends(self, k: Any, shapes: Sequence[Any]) -> tuple[Any, Any, Any]:
        """Below the first, above the last, and `k` moved to the first where it is either."""
        first = literal(self._first, k)
        below = el.lt(k, first)
        safe = el.select(below, first, k)
        if not callable(self._last) and self._last == math.inf:
            return below, None, safe
        last = self._last(*shapes) if callable(self._last) else literal(self._last, k)
        above = el.gt(k, last)
        return below, above, el.select(above, first, safe)

    def _checked(self, value: Any, shapes: Sequence[Any]) -> Any:
        if self._valid is None:
            return value
        return el.select(self._valid(*shapes), value, literal(math.nan, value))

    def logpmf(self, k: Any, *args: Any, **kwargs: Any) -> Any:
        """The logarithm of the probability of `k`."""
        with np.errstate(all="ignore"):
            k, shapes = self._arguments("logpmf", k, args, kwargs)
            below, above, safe = self._ends(k, shapes)
            out = el.logical_or(below, el.ne(el.floor(k), k))
            out = out if above is None else el.logical_or(out, above)
            out = el.logical_and(out, el.eq(k, k))
            value = self._logpmf(safe, *shapes)
            value = el.select(out, literal(-math.inf, value), value)
            return self._checked(value, shapes)

    def pmf(self, k: Any, *args: Any, **kwargs: Any) -> Any:
        """The probability of `k`."""
        return tr.exp(self.logpmf(k, *args, **kwargs))

    def _cumulative(
        self, method: str, ends: tuple[float, float], k: Any, args: Any, kwargs: Any
    ) -> Any:
        function = self._found[method]
        assert function is not None
        with np.errstate(all="ignore"):
            k, shapes = self._arguments(method, k, args, kwargs)
            whole = el.floor(k)
            below, above, safe = self._ends(whole, shapes)
            value = function(safe, *shapes)
            value = el.select(below, literal(ends[0], value), value)
            if above is not None:
                value = el.select(above, literal(ends[1], value), value)
            return self._checked(value, shapes)

    @_Optional
    def cdf(self, k: Any, *args: Any, **kwargs: Any) -> Any:
        """The probability of at most `k`."""
        return self._cumulative("cdf", (0, 1), k, args, kwargs)

    @_Optional
    def sf(self, k: Any, *args: Any, **kwargs: Any) -> Any:
        """The probability of more than `k`."""
        return self._cumulative("sf", (1, 0), k, args, kwargs)

    @_Optional
    def logcdf(self, k: Any, *args: Any, **kwargs: Any) -> Any:
        """The logarithm of the probability of at most `k`."""
        return self._cumulative("logcdf", (-math.inf, 0), k, args, kwargs)

    @_Optional
    def logsf(self, k: Any, *args: Any, **kwargs: Any) -> Any:
        """The logarithm of the probability of more than `k`."""
        return self._cumulative("logsf", (0, -math.inf), k, args, kwargs)

    @_Optional
    def ppf(self, q: Any, *args: Any, **kwargs: Any) -> Any:
        """The least integer that is not exceeded with probability at least `q`."""
        function = self._found["ppf"]
        assert function is not None
        with np.errstate(all="ignore"):
            q, shapes = self._arguments("ppf", q, args, kwargs)
            inside = el.logical_and(el.ge(q, literal(0, q)), el.le(q, literal(1, q)))
            value = function(q, *shapes)
            return self._checked(el.select(inside, value, literal(math.nan, value)), shapes)
