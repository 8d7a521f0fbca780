"""All cases: importing this module registers them."""

from tests.cases import (
    compiled,
    gradients,
    indexing,
    kernels,
    misuse,
    robustness,
    transformations,
)
from tests.cases.frame import CASES

GROUPS = (gradients, kernels, indexing, compiled, transformations, misuse, robustness)

__all__ = ["CASES", "GROUPS"]
