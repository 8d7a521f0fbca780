"""What JAX's products take and NumPy's do not: `precision`, `preferred_element_type`.

Input: a function of the NumPy namespace that sums products.  Output: the same function, which takes
these too.  Every precision is the operands' full one here; a preferred dtype is that in which the
operands are multiplied and summed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from stax.core.aval import aval_of
from stax.numpy.promotion import asarray_dtype
from stax.numpy.registration import converted, operand

F = TypeVar("F", bound=Callable[..., Any])

_IGNORED = ("precision", "out_sharding")


def with_precision(function: F) -> F:
    """`function` with JAX's keywords `precision`, `preferred_element_type` and `out_sharding`."""

    @functools.wraps(function)
    def product(*args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            return function(*args)
        for name in _IGNORED:
            kwargs.pop(name, None)
        preferred = kwargs.pop("preferred_element_type", None)
        if preferred is None:
            return function(*args, **kwargs)
        dtype = asarray_dtype(preferred)
        name = function.__name__
        wide = [a if _is_text(a) else _wider(operand(a, name), dtype) for a in args]
        return converted(function(*wide, **kwargs), dtype)

    return product  # type: ignore[return-value]  # the same signature, and more


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _wider(value: Any, dtype: Any) -> Any:
    """`value` in `dtype`, unless that would lose digits before the product is formed."""
    return converted(value, dtype) if aval_of(value).dtype.itemsize < dtype.itemsize else value
