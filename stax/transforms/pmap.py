"""`pmap` on one device: the batched, compiled function.

Input: a function and what of its arguments is mapped.  Output: `jit` of `vmap` of it; collectives
refer to the axis by name.  Where JAX spreads the axis over devices, one computes it here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from stax.transforms.arguments import check_callable
from stax.transforms.jit import jit
from stax.transforms.vmap import vmap

__all__ = ["pmap"]


def pmap(
    fun: Callable[..., Any],
    axis_name: Any = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Sequence[int] = (),
    devices: Any = None,
    backend: Any = None,
    axis_size: int | None = None,
    donate_argnums: int | Sequence[int] = (),
) -> Callable[..., Any]:
    """`fun` mapped over an axis of its arguments, compiled; the same as `jit(vmap(fun))`.

    Args:
      axis_name, in_axes, out_axes, axis_size: as for `vmap`; the axis may have any extent.
      static_broadcasted_argnums: positions of arguments that `fun` gets as they are.
      devices, backend, donate_argnums: accepted for compatibility, without effect.

    >>> pmap(lambda x: x / stax.lax.psum(x, "i"), axis_name="i")(np.array([1.0, 3.0]))
    array([0.25, 0.75])
    """
    check_callable(fun, "pmap")
    given = static_broadcasted_argnums
    static = (given,) if isinstance(given, int) else tuple(given)

    @functools.wraps(fun)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        fixed = {k % len(args) for k in static}
        axes = in_axes if isinstance(in_axes, tuple | list) else (in_axes,) * len(args)
        axes = tuple(None if k in fixed else axis for k, axis in enumerate(axes))
        return vmap(fun, axes, out_axes, axis_name, axis_size)(*args, **kwargs)

    return jit(mapped, static_argnums=static)  # type: ignore[no-any-return]  # a dispatcher
