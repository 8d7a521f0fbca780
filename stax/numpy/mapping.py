"""Functions over slices: apply_along_axis, apply_over_axes, vectorize.

Input: a Python function and arrays.  Output: the function mapped over the remaining axes.  On
traced values the mapping is `vmap`, so the function runs once, on a batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.trace import EVAL, STATE
from stax.errors import ShapeError
from stax.numpy.manipulation import expand_dims
from stax.numpy.registration import axis_index, holds_tracer, implements, operand, strong
from stax.primitives.views import broadcast, move_axis, reshape
from stax.transforms.vmap import vmap

__all__ = ["apply_along_axis", "apply_over_axes", "vectorize"]

Array = Any


@implements(np.apply_along_axis)
def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any
) -> Array:
    """`func1d` of every vector along `axis`; as `numpy.apply_along_axis`."""
    x = operand(arr, "apply_along_axis")
    k = axis_index(axis, len(x.shape), "apply_along_axis")
    rows = move_axis(x, k, len(x.shape) - 1)
    lead = rows.shape[:-1]
    count = int(np.prod(lead, dtype=np.int64))
    out = vmap(lambda v: func1d(v, *args, **kwargs))(reshape(rows, (count, rows.shape[-1])))
    shape = aval_of(out).shape[1:]
    out = reshape(out, (*lead, *shape))
    # The axes of the results stand where the vectors' axis stood.
    n = len(lead)
    for j in range(len(shape)):
        out = move_axis(out, n + j, k + j)
    return out


@implements(np.apply_over_axes)
def apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> Array:
    """`func(a, axis)` applied over several axes in turn; as `numpy.apply_over_axes`."""
    value = operand(a, "apply_over_axes")
    n = len(value.shape)
    for axis in axes if isinstance(axes, list | tuple | np.ndarray) else (axes,):
        k = axis_index(axis, n, "apply_over_axes")
        out = func(value, k)
        value = out if len(aval_of(out).shape) == n else expand_dims(out, k)
    return value


class vectorize:
    """A function of scalars (or, by `signature`, of small arrays) that broadcasts over arrays."""

    def __init__(
        self,
        pyfunc: Callable[..., Any],
        otypes: Any = None,
        doc: str | None = None,
        excluded: Any = None,
        cache: bool = False,
        signature: str | None = None,
    ) -> None:
        self.pyfunc = pyfunc
        self.excluded = set() if excluded is None else set(excluded)
        self.signature = signature
        self.__doc__ = pyfunc.__doc__ if doc is None else doc
        self.__name__ = getattr(pyfunc, "__name__", "vectorized")
        self._plain = np.vectorize(
            pyfunc, otypes=otypes, doc=doc, excluded=excluded, cache=cache, signature=signature
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if STATE.trace is EVAL and not holds_tracer((*args, *kwargs.values())):
            return self._plain(*args, **kwargs)
        mapped = [k for k in range(len(args)) if k not in self.excluded]
        values = [strong(operand(args[k], self.__name__)) for k in mapped]
        cores = self._core_ranks(len(values))
        leads = [v.shape[: len(v.shape) - c] for v, c in zip(values, cores, strict=True)]
        shape = np.broadcast_shapes(*leads)
        count = int(np.prod(shape, dtype=np.int64))
        flat = []
        for v, c in zip(values, cores, strict=True):
            core = v.shape[len(v.shape) - c :]
            flat.append(reshape(broadcast(v, (*shape, *core)), (count, *core)))

        def call(*chosen: Any) -> Any:
            full = list(args)
            for k, value in zip(mapped, chosen, strict=True):
                full[k] = value
            return self.pyfunc(*full, **kwargs)

        out = vmap(call)(*flat) if shape else call(*values)
        if not shape:
            return out
        several = isinstance(out, tuple)
        outs = [reshape(o, (*shape, *aval_of(o).shape[1:])) for o in (out if several else (out,))]
        return tuple(outs) if several else outs[0]

    def _core_ranks(self, count: int) -> list[int]:
        if self.signature is None:
            return [0] * count
        inputs = self.signature.replace(" ", "").split("->")[0]
        cores = inputs.strip("()").split("),(")
        if len(cores) != count:
            raise ShapeError(
                f"signature {self.signature!r} does not describe {count} arguments", op="vectorize"
            )
        return [len([n for n in core.split(",") if n]) for core in cores]
