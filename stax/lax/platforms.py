"""Functions that choose or order work for a platform, where there is one platform: the CPU.

Input: arrays and functions.  Output: what the CPU's version gives; barriers and approximations of
other platforms are the values themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stax.errors import StaticArgumentError
from stax.lax.reductions import top_k
from stax.numpy import ufuncs

__all__ = ["approx_max_k", "approx_min_k", "optimization_barrier", "platform_dependent"]

Array = Any


def platform_dependent(
    *args: Any, default: Callable[..., Any] | None = None, **per_platform: Callable[..., Any]
) -> Any:
    """`cpu(*args)`, or `default(*args)` where no function for the CPU is given.

    >>> platform_dependent(2.0, cpu=lambda x: x, tpu=lambda x: -x)
    2.0
    """
    chosen = per_platform.get("cpu", default)
    if chosen is None:
        raise StaticArgumentError(
            f"there is no function for the CPU among {sorted(per_platform)}, and no default",
            op="platform_dependent",
        )
    return chosen(*args)


def optimization_barrier(operand: Any, /) -> Any:
    """`operand`: passes here never change the values that a program computes."""
    return operand


def approx_max_k(
    operand: Array,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[Array, Array]:
    """The `k` largest elements along an axis and their positions; exact here."""
    return top_k(operand, k, axis=reduction_dimension)


def approx_min_k(
    operand: Array,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[Array, Array]:
    """The `k` smallest elements along an axis and their positions; exact here."""
    values, places = top_k(ufuncs.negative(operand), k, axis=reduction_dimension)
    return ufuncs.negative(values), places
