"""`stax.lax`: functions close to the primitives, and structured control flow, under JAX's names."""

from __future__ import annotations

from typing import Any as _Any

from stax.absent import missing as _missing
from stax.core.primitive import REGISTRY as _REGISTRY
from stax.lax import linalg as linalg
from stax.lax.bits import *  # noqa: F403 - its __all__ is the list of names
from stax.lax.branches import *  # noqa: F403 - its __all__ is the list of names
from stax.lax.contractions import *  # noqa: F403 - its __all__ is the list of names
from stax.lax.control_flow import *  # noqa: F403 - its __all__ is the list of names
from stax.lax.convolution import *  # noqa: F403 - its __all__ is the list of names
from stax.lax.elementwise import *  # noqa: F403 - its __all__ is the list of names
from stax.lax.fft import *  # noqa: F403 - its __all__ is the list of names
from stax.lax.generators import *  # noqa: F403 - its __all__ is the list of names
from stax.lax.implicit import *  # noqa: F403 - its __all__ is the list of names
from stax.lax.platforms import *  # noqa: F403 - its __all__ is the list of names
from stax.lax.reductions import *  # noqa: F403 - its __all__ is the list of names
from stax.lax.sequences import *  # noqa: F403 - its __all__ is the list of names
from stax.lax.shapes import *  # noqa: F403 - its __all__ is the list of names
from stax.lax.slicing import *  # noqa: F403 - its __all__ is the list of names
from stax.lax.special import *  # noqa: F403 - its __all__ is the list of names
from stax.lax.windows import *  # noqa: F403 - its __all__ is the list of names
from stax.transforms.collectives import *  # noqa: F403 - its __all__ is the list of names
from stax.transforms.sharding import with_sharding_constraint as with_sharding_constraint

# Operations that have other names than JAX's.
_ROWS = {"logistic": "sigmoid", "reduce_sum": "sum", "convert_element_type": "convert"}


def __getattr__(name: str) -> _Any:
    """`exp_p` and its kin: the operations themselves, which interpreters of a jaxpr look up."""
    own = name.removesuffix("_p")
    row = _REGISTRY.get(_ROWS.get(own, own)) if name.endswith("_p") else None
    if row is None:
        raise _missing(__name__, name)
    return row
