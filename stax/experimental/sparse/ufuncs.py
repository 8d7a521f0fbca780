"""NumPy's functions called on a sparse array: those that Python's operators stand for.

Input: what NumPy hands to `__array_ufunc__`.  Output: the operator's result; every other function
is refused, with the ways to write it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from stax.errors import DtypeError

# The operator where the sparse array comes first, and the method of the sparse array otherwise.
_BINARY: dict[Any, tuple[Callable[[Any, Any], Any], str]] = {
    np.add: (operator.add, "__radd__"),
    np.subtract: (operator.sub, "__rsub__"),
    np.multiply: (operator.mul, "__rmul__"),
    np.matmul: (operator.matmul, "__rmatmul__"),
}
_UNARY: dict[Any, Callable[[Any], Any]] = {np.negative: operator.neg, np.absolute: abs}


def applied(self: Any, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """The value of NumPy's `ufunc` on `inputs`, of which `self` is one.

    Raises:
      DtypeError: it would make a dense array of a sparse one.
    """
    result: Any = NotImplemented
    if method == "__call__" and set(kwargs) <= {"out"}:
        if ufunc in _UNARY:
            result = _UNARY[ufunc](*inputs)
        elif ufunc is np.true_divide and isinstance(inputs[0], type(self)):
            result = operator.truediv(*inputs)
        elif ufunc in _BINARY:
            forward, reflected = _BINARY[ufunc]
            first, second = inputs
            direct = isinstance(first, type(self))
            result = forward(first, second) if direct else getattr(second, reflected)(first)
    if result is NotImplemented:
        raise DtypeError(
            f"numpy.{ufunc.__name__} makes no sparse array of sparse arrays",
            op=ufunc.__name__,
            operands=[repr(i) if isinstance(i, type(self)) else type(i).__name__ for i in inputs],
            hint="apply it to the whole array, sparse.todense(), or where it keeps zeros to the "
            "values, sparse.sum_duplicates().with_data(f(sparse.data))",
        )
    if kwargs.get("out"):
        (target,) = kwargs["out"]
        target[...] = result
        return target
    return result
