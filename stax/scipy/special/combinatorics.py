"""Factorials, combinations and Bernoulli numbers.

Input: integers or reals.  Output: floating values; a combination of traced numbers is the gamma
function's continuation.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from stax.errors import ShapeError
from stax.numpy.inexact import floating
from stax.primitives import elementwise as el
from stax.primitives.families import literal
from stax.primitives.special_gamma import binom, gamma
from stax.primitives.transcendental import one


def factorial(n: Any, exact: bool = False) -> Any:
    """gamma(n + 1), and 0 for negative `n`."""
    _refuse_exact("factorial", exact)
    (n,) = floating("factorial", n)
    below = el.lt(n, literal(0, n))
    safe = el.select(below, literal(0, n), n)
    return el.select(below, literal(0, n), gamma(el.add(safe, one(n))))


def comb(N: Any, k: Any, exact: bool = False, repetition: bool = False) -> Any:
    """The number of ways to choose `k` of `N` things, in how many ways with repetition."""
    _refuse_exact("comb", exact)
    N, k = floating("comb", N, k)
    if repetition:
        N = el.sub(el.add(N, k), one(N))
    zero = literal(0, N)
    valid = el.logical_and(el.le(k, N), el.logical_and(el.ge(N, zero), el.ge(k, zero)))
    ways = binom(el.select(valid, N, one(N)), el.select(valid, k, zero))
    return el.select(valid, ways, zero)


def _refuse_exact(op: str, exact: bool) -> None:
    if exact:
        raise ShapeError(
            "exact integers have no fixed width", op=op, hint="use math.comb or math.factorial"
        )


def bernoulli(n: int) -> Any:
    """The Bernoulli numbers B0 to Bn."""
    n = int(n)
    if n < 0:
        raise ShapeError(f"n is not negative, got {n}", op="bernoulli")
    return np.asarray(import_module("scipy.special").bernoulli(max(n, 1)))[: n + 1]


__all__ = ["bernoulli", "comb", "factorial"]
