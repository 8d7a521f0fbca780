"""The methods and properties of traced values: `x.sum(-1)`, `x.T`, `x.reshape(2, -1)`, ...

Input: nothing; importing this module fills METHODS of `core.trace`.  Output:
each method is the function of the same name with the tracer as its first argument.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.functionalize import assign, record_view
from stax.core.source import user_source
from stax.core.trace import METHODS, Tracer, fresh
from stax.errors import DtypeError, ShapeError
from stax.numpy import (
    creation,
    manipulation,
    products,
    rearranging,
    reductions,
    selection,
    sorting,
    statistics,
)
from stax.numpy.flat_view import FlatView
from stax.numpy.indexing import fitted
from stax.numpy.promotion import asarray_dtype, stored
from stax.numpy.registration import check_device
from stax.primitives.casts import bitcast

Array = Any

_FUNCTIONS = {
    **{
        name: getattr(reductions, name)
        for name in "sum prod max min argmax argmin ptp cumsum cumprod".split()
    },
    "all": reductions.all_,
    "any": reductions.any_,
    **{name: getattr(statistics, name) for name in "mean var std".split()},
    **{name: getattr(selection, name) for name in "choose clip nonzero put take".split()},
    **{name: getattr(sorting, name) for name in "argpartition argsort searchsorted".split()},
    "repeat": rearranging.repeat,
    **{name: getattr(manipulation, name) for name in "diagonal ravel squeeze swapaxes".split()},
    "dot": products.dot,
    "trace": products.trace,
}
METHODS.update(_FUNCTIONS)


def _shape_argument(values: tuple[Any, ...]) -> Any:
    return values[0] if len(values) == 1 else values


def reshape(self: Tracer, *shape: Any, order: str = "C", copy: Any = None) -> Array:
    """`x.reshape(2, -1)` or `x.reshape((2, -1))`."""
    return manipulation.reshape(self, _shape_argument(shape), order)


def transpose(self: Tracer, *axes: Any) -> Array:
    """`x.transpose()`, `x.transpose(1, 0)` or `x.transpose((1, 0))`."""
    return manipulation.transpose(self, _shape_argument(axes) if axes else None)


def astype(
    self: Tracer,
    dtype: Any,
    order: str = "K",
    casting: Any = "unsafe",
    subok: bool = True,
    copy: bool = True,
) -> Array:
    """`x.astype(dtype)`."""
    kind = asarray_dtype(dtype)
    if not np.can_cast(self.dtype, kind, casting):
        raise DtypeError(
            f"cannot cast {self.dtype} to {kind} with casting={casting!r}",
            op="astype",
            operands=[str(self.aval)],
            where=user_source() or None,
        )
    return creation.astype(self, kind, copy=copy)


def flatten(self: Tracer, order: str = "C") -> Array:
    """A copy as a vector."""
    return fresh(manipulation.reshape(self, -1, manipulation.element_order(order, self, "flatten")))


def fill(self: Tracer, value: Any) -> None:
    """Write one value everywhere, in place."""
    assign(self, fitted(stored(value, self.dtype, "fill"), self.shape, self.dtype))


def sort(self: Tracer, axis: int = -1, kind: Any = None, order: Any = None, **kwargs: Any) -> None:
    """Sort in place."""
    assign(self, sorting.sort(self, axis, kind, order, **kwargs))


def partition(self: Tracer, kth: Any, axis: int = -1, kind: Any = None, order: Any = None) -> None:
    """Partition in place."""
    assign(self, sorting.partition(self, kth, axis, kind, order))


def compress(self: Tracer, condition: Any, axis: Any = None, out: Any = None) -> Array:
    """The slices along an axis for which a known condition holds."""
    return selection.compress(condition, self, axis, out)


def view(self: Tracer, dtype: Any = None, type: Any = None) -> Array:
    """The same value as a view, or its bits read as another dtype of the same width."""
    if dtype is None:
        return record_view(self, self, lambda v: v, lambda base, new: new, lambda a: a)
    kind, old = asarray_dtype(dtype), self.dtype
    named = np.dtype(dtype) if isinstance(dtype, str) and dtype[:1] in "<>=" else dtype
    if isinstance(named, np.dtype) and not named.isnative:
        raise DtypeError(
            f"the bits of a traced value cannot be read as {named}, in another byte order",
            op="view",
            operands=[str(self.aval)],
            where=user_source() or None,
            hint="read the array's bytes before it is traced",
        )
    return record_view(
        bitcast(self, kind),
        self,
        lambda v: bitcast(v, kind),
        lambda base, new: bitcast(new, old),
        lambda a: a,
    )


def transposed(self: Tracer) -> Array:
    """All axes reversed."""
    return manipulation.transpose(self)


def copy(self: Tracer, order: str = "C") -> Array:
    """A copy, which writes to the original do not reach."""
    return fresh(self)


def block_until_ready(self: Tracer) -> Array:
    """The value itself: there is nothing to wait for."""
    return self


def to_device(self: Tracer, device: Any, /, *, stream: Any = None) -> Tracer:
    """The value itself: arrays live on the CPU."""
    check_device(device, "to_device")
    return self


METHODS.update(
    {
        "reshape": reshape,
        "transpose": transpose,
        "astype": astype,
        "flatten": flatten,
        "fill": fill,
        "sort": sort,
        "partition": partition,
        "compress": compress,
        "view": view,
        "T": transposed,
        "mT": manipulation.matrix_transpose,
        "flat": FlatView,
        "copy": copy,
        "block_until_ready": block_until_ready,
        "device": lambda self: "cpu",
        "to_device": to_device,
        "__array_namespace__": lambda self, api_version=None: sys.modules["stax.numpy"],
    }
)


# --------------------------------------------------------------------------- in-place operators


def _in_place(symbol: str) -> Any:
    def operator(self: Tracer, other: Any) -> Any:
        value = METHODS[f"__{symbol}__"](self, other)
        if value is NotImplemented:
            return value
        if not self.shape:
            # A scalar is not written to, in NumPy either: the name is bound to the result.
            return value
        have = aval_of(value)
        if have.shape != self.shape:
            raise ShapeError(
                f"non-broadcastable output operand with shape {self.shape} doesn't match the "
                f"broadcast shape {have.shape}",
                op=f"i{symbol}",
                where=user_source() or None,
            )
        if have.dtype != self.dtype and not np.can_cast(have.dtype, self.dtype, "same_kind"):
            raise DtypeError(
                f"cannot write a result of {have.dtype} in place into {self.dtype}",
                op=f"i{symbol}",
                operands=[str(self.aval)],
                where=user_source() or None,
                hint="write x = x + y instead of x += y",
            )
        assign(self, fitted(value, self.shape, self.dtype))
        return self

    return operator


def _matmul(self: Tracer, other: Any) -> Any:
    # A class that says so takes the product itself, as with NumPy's arrays.
    own = getattr(other, "__array_ufunc__", self) is None
    above = getattr(other, "__array_priority__", 0) > self.__array_priority__
    return NotImplemented if own or above else products.matmul(self, other)


METHODS["__matmul__"] = _matmul
METHODS["__rmatmul__"] = lambda self, other: products.matmul(other, self)
for _symbol in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split():
    METHODS[f"__i{_symbol}__"] = _in_place(_symbol)
