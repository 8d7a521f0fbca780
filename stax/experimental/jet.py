"""Higher derivatives along a curve, by forward mode nested once for each order.

Input: a function, a point, and the derivatives of a curve through it.  Output: the value and the
derivatives of the function along that curve.  The curve is written as its Taylor polynomial in one
variable, which is differentiated at zero; so every operation with a jvp rule works, and each order
doubles the work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import factorial
from typing import Any

from stax import numpy as jnp
from stax.pytree import tree_map
from stax.transforms.grad import jvp

__all__ = ["jet"]


def jet(
    fun: Callable[..., Any], primals: Sequence[Any], series: Sequence[Sequence[Any]], **_: Any
) -> tuple[Any, list[Any]]:
    """The value of `fun` at `primals`, and its derivatives along a curve through them.

    `series` has, for every argument, the first, second, ... derivative of the curve, each with the
    structure, shapes and floating dtypes of the argument.  Returned are `fun(*primals)` and a list
    of as many derivatives of it as an argument has.  Raises `ValueError` where the numbers of
    arguments or of derivatives do not agree.

    >>> y, (first, second) = jet(lambda x: x**3, (2.0,), ((1.0, 0.0),))
    >>> float(y), float(first), float(second)
    (8.0, 12.0, 12.0)

    The definition is that of Bettencourt, Johnson and Duvenaud, "Taylor-Mode Automatic
    Differentiation for Higher-Order Derivatives in JAX" (2019).
    """
    orders = {len(terms) for terms in series}
    if len(primals) != len(series) or len(orders) != 1:
        raise ValueError(
            f"jet takes one series for each argument, all of one length: here are {len(primals)} "
            f"arguments and series of lengths {[len(terms) for terms in series]}"
        )

    def along(t: Any) -> tuple[Any, ...]:
        def place(x: Any, *terms: Any) -> Any:
            x = jnp.asarray(x)
            step, total = t.astype(x.dtype), jnp.zeros_like(x)
            for k in range(len(terms), 0, -1):
                total = (total + jnp.asarray(terms[k - 1], x.dtype) / factorial(k)) * step
            return x + total

        curve = [tree_map(place, x, *terms) for x, terms in zip(primals, series, strict=True)]
        return (fun(*curve),)

    def one_more(lower: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], tuple[Any, ...]]:
        def higher(t: Any) -> tuple[Any, ...]:
            values, slopes = jvp(lower, (t,), (jnp.ones_like(t),))
            return (*values, slopes[-1])

        return higher

    derived: Callable[[Any], tuple[Any, ...]] = along
    for _order in range(orders.pop()):
        derived = one_more(derived)
    value, *derivatives = derived(jnp.zeros(()))
    return value, derivatives
