"""All cases: importing this module registers them."""

from tests.cases import (
    compiled,
    gradients,
    indexing,
    kernels,
    misuse,
    robustness,
    transformations,
    variants,
)
from tests.cases.frame import CASES

GROUPS = (gradients, kernels, indexing, compiled, transformations, misuse, robustness, variants)

__all__ = ["CASES", "GROUPS"]
