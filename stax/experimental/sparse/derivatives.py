"""Derivatives with respect to sparse arrays: of the values, at their places."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from stax.experimental.sparse.bcoo import BCOO
from stax.transforms.grad import value_and_grad as both_of

__all__ = ["grad", "value_and_grad"]


def value_and_grad(
    fun: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """As `stax.value_and_grad`; the gradient of a sparse argument has the same places."""
    many = not isinstance(argnums, int)
    numbers = tuple(argnums) if many else (argnums,)

    @functools.wraps(fun)
    def public(*args: Any, **named: Any) -> Any:
        chosen = [args[k] for k in numbers]
        values = [v.data if isinstance(v, BCOO) else v for v in chosen]

        def inner(*values: Any) -> Any:
            given = list(args)
            for k, old, new in zip(numbers, chosen, values, strict=True):
                given[k] = old.with_data(new) if isinstance(old, BCOO) else new
            return fun(*given, **named)

        count = tuple(range(len(values)))
        out, slopes = both_of(inner, count, has_aux, **kwargs)(*values)
        pairs = zip(chosen, slopes, strict=True)
        found = tuple(v.with_data(g) if isinstance(v, BCOO) else g for v, g in pairs)
        return out, found if many else found[0]

    return public


def grad(
    fun: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """As `stax.grad`; the gradient of a sparse argument has the same places."""
    both = value_and_grad(fun, argnums, has_aux, **kwargs)

    @functools.wraps(fun)
    def public(*args: Any, **named: Any) -> Any:
        out, slope = both(*args, **named)
        return (slope, out[1]) if has_aux else slope

    return public
