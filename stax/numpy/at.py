"""Functional indexed writes: `x.at[index].set(value)` on tracers, `at(x)[index]` on anything.

Input: an array, an index as NumPy takes it and the values.  Output: a changed copy.  `mode` says
what an index outside the array means, by JAX's names; by default it is an error, as in NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.source import user_source
from stax.core.trace import EVAL, METHODS, STATE, Tracer, fresh
from stax.errors import MutationError, ShapeError
from stax.numpy.indexing import (
    ArrayIndex,
    BasicIndex,
    MaskIndex,
    parse_index,
    put_at,
    written,
)
from stax.numpy.promotion import array_like, as_dtype
from stax.primitives import elementwise as el
from stax.primitives.shapes import scalar_zero
from stax.primitives.views import broadcast

MODES = {
    None: "error",
    "error": "error",
    "fill": "fill",
    "drop": "fill",
    "clip": "clip_signed",
    "wrap": "wrap",
    "promise_in_bounds": "promise_signed",
}
# Exponents that stay numbers of Python, which powers of these kinds of dtype are simplified by.
EXPONENTS: dict[type, str] = {int: "iufc", float: "fc", complex: "c"}


class IndexUpdateHelper:
    """`x.at`: index it to name elements, then `set`, `add`, ... give a changed copy.

    Indices are NumPy's, and may be traced. Every method takes `mode`, which says what becomes of
    an index outside the array: an error by default, or "drop", "fill", "clip", "wrap",
    "promise_in_bounds". `docs/arrays.md` has the account.

    >>> np.zeros(3).at[1].add(2.0)
    array([0., 2., 0.])
    """

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array

    def __getitem__(self, index: Any) -> IndexUpdateRef:
        return IndexUpdateRef(self.array, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        raise MutationError(
            "x.at[index] = value stores nothing: x.at makes changed copies",
            op="at",
            where=user_source() or None,
            hint="write x = x.at[index].set(value)",
        )

    def __repr__(self) -> str:
        return f"at({self.array!r})"


class IndexUpdateRef:
    """Elements of an array, named for a functional write."""

    __slots__ = ("array", "index")

    def __init__(self, array: Any, index: Any) -> None:
        self.array = array
        self.index = index

    def _whole(self) -> Any:
        """The array, also where it is a number or a list."""
        known = STATE.trace is EVAL and not isinstance(self.array, Tracer)
        return np.asarray(self.array) if known else self.array

    def _parsed(self, x: Any, mode: Any, unique: bool) -> BasicIndex | ArrayIndex:
        parsed = parse_index(aval_of(x).shape, self.index, _mode(mode), unique)
        assert not isinstance(parsed, MaskIndex)  # those are for writing
        return parsed

    def _write(self, value: Any, kind: str, mode: Any, unique: bool) -> Any:
        x = self._whole()
        return _own(written(x, self.index, value, kind, _mode(mode), unique), x, value)

    def set(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
    ) -> Any:
        """A copy with the elements replaced by `values`."""
        return self._write(values, "set", mode, unique_indices)

    def add(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
    ) -> Any:
        """A copy with `values` added, once for each time an element is named."""
        return self._write(values, "add", mode, unique_indices)

    def subtract(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
    ) -> Any:
        """A copy with `values` subtracted."""
        return self._write(values, "sub", mode, unique_indices)

    def multiply(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
    ) -> Any:
        """A copy with the elements multiplied by `values`."""
        return self._write(values, "mul", mode, unique_indices)

    mul = multiply

    def divide(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
    ) -> Any:
        """A copy with the elements divided by `values`; of integers, floating-point numbers.

        >>> np.array([5, 6]).at[0].divide(2)
        array([2.5, 6. ])
        """
        x = self._whole()
        dtype = aval_of(x).dtype
        divisor = as_dtype(array_like(values, "at.divide"), dtype)
        ones = IndexUpdateRef(broadcast(np.ones((), dtype)[()], aval_of(x).shape), self.index)
        return np.true_divide(x, ones._write(divisor, "mul", mode, unique_indices))

    def power(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
    ) -> Any:
        """A copy with the elements raised to `values`, once for each time one is named.

        Exponents are converted to the array's dtype, as the values of the other methods are.
        """
        x = self._whole()
        dtype = aval_of(x).dtype
        if dtype.kind not in EXPONENTS.get(type(values), ""):
            values = as_dtype(array_like(values, "at.power"), dtype)
        parsed = self._parsed(x, mode, unique_indices)
        if isinstance(parsed, BasicIndex) or parsed.unique:
            return _applied(x, parsed, lambda old: old**values)
        ones = IndexUpdateRef(broadcast(np.ones((), dtype)[()], aval_of(x).shape), self.index)
        return as_dtype(x ** ones.multiply(values, mode=mode), dtype)

    def min(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
    ) -> Any:
        """A copy in which the elements are at most `values`."""
        return self._write(values, "min", mode, unique_indices)

    def max(
        self,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
    ) -> Any:
        """A copy in which the elements are at least `values`."""
        return self._write(values, "max", mode, unique_indices)

    def apply(
        self,
        func: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
    ) -> Any:
        """A copy with `func` applied to the elements, once for each time one is named.

        ShapeError for several traced indices without `unique_indices=True`.

        >>> np.arange(4.0).at[np.array([1, 3, 3])].apply(lambda v: 10 * v)
        array([  0.,  10.,   2., 300.])
        """
        x = self._whole()
        return _applied(x, self._parsed(x, mode, unique_indices), func)

    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        fill_value: Any = None,
    ) -> Any:
        """The elements; outside the array `mode` decides."""
        x = self._whole()
        parsed = self._parsed(x, mode, unique_indices)
        if isinstance(parsed, BasicIndex) or fill_value is None or parsed.mode != "fill":
            return _read(x, parsed)
        # Marks outside positions by reading them from an array of truths.
        truths = broadcast(np.zeros((), np.int8)[()], aval_of(x).shape)
        outside = el.ne(parsed.read(truths), scalar_zero(np.dtype(np.int8)))
        dtype = aval_of(x).dtype
        return el.select(outside, as_dtype(fill_value, dtype), parsed.read(x))


def _own(found: Any, *others: Any) -> Any:
    """A result that is not one of these arrays: where nothing is written, or everything, it is."""
    shared = any(found is other for other in others)
    return found.copy() if shared and isinstance(found, np.ndarray) else fresh(found)


def _read(x: Any, parsed: BasicIndex | ArrayIndex) -> Any:
    """A copy of the selected elements."""
    found = parsed.read(x)
    if isinstance(parsed, ArrayIndex):
        return found
    return found.copy() if isinstance(found, np.ndarray) else fresh(found)


def _applied(x: Any, parsed: BasicIndex | ArrayIndex, func: Any) -> Any:
    """A copy of `x` with `func` applied to the elements, once for each time one is named."""
    value = func(_read(x, parsed))
    found = _own(put_at(x, parsed, value), x, value)
    if isinstance(parsed, ArrayIndex):
        for places in parsed.further("at.apply"):
            found = put_at(found, places, func(places.read(found)))
    return found


def _mode(mode: Any) -> str:
    if mode not in MODES:
        raise ShapeError(
            f"mode {mode!r} is not one of fill, drop, clip, wrap, promise_in_bounds, error",
            op="at",
            where=user_source() or None,
        )
    return MODES[mode]


def at(x: Any) -> Any:
    """Functional writes on arrays and traced values alike: `at(x)[index].set(value)`.

    An array on a device is changed there.
    """
    return x.at if hasattr(x, "put_beside") else IndexUpdateHelper(x)


METHODS["at"] = at
