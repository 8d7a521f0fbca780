"""Names for the authors of derivative rules; the account of them is in `stax.transforms.custom`."""

from typing import Any

from stax.absent import missing as _missing
from stax.transforms.custom import (
    CustomVJPPrimal,
    SymbolicZero,
    closure_convert,
    custom_gradient,
    custom_jvp,
    custom_vjp,
    custom_vjp_primal_tree_values,
    zero_from_primal,
)

__all__ = [
    "CustomVJPPrimal",
    "SymbolicZero",
    "closure_convert",
    "custom_gradient",
    "custom_jvp",
    "custom_vjp",
    "custom_vjp_primal_tree_values",
    "zero_from_primal",
]


def __getattr__(name: str) -> Any:
    raise _missing(__name__, name)
