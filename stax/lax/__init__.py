"""`stax.lax`: functions close to the primitives, and structured control flow, under JAX's names."""

from __future__ import annotations

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
