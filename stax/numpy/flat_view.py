"""`x.flat` of a traced value: its elements in row-major order, whatever its memory order.

Reading gives copies and writing writes through to `x`, as NumPy's flat iterator does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from stax.core.functionalize import assign
from stax.core.trace import Tracer, fresh
from stax.numpy.indexing import getitem, setitem
from stax.primitives.views import reshape


class FlatView:
    """The elements of a traced value in row-major order."""

    __slots__ = ("base",)

    def __init__(self, base: Tracer) -> None:
        self.base = base

    def copy(self) -> Any:
        """The elements as a vector of their own."""
        return fresh(reshape(self.base, (self.base.size,)))

    def __len__(self) -> int:
        return self.base.size

    def __getitem__(self, index: Any) -> Any:
        return fresh(getitem(self.copy(), index))

    def __setitem__(self, index: Any, value: Any) -> None:
        vector = self.copy()
        setitem(vector, index, value)
        assign(self.base, reshape(vector, self.base.shape))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.copy())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.copy(), dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return getattr(ufunc, method)(*(_vector(v) for v in inputs), **kwargs)

    def __array_function__(
        self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any
    ) -> Any:
        return func(*(_vector(v) for v in args), **kwargs)


def _vector(value: Any) -> Any:
    return value.copy() if isinstance(value, FlatView) else value
