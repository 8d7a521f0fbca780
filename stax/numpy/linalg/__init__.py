"""`stax.numpy.linalg`: NumPy's linear algebra on arrays and traced values, stacks included."""

from __future__ import annotations

from numpy.linalg import LinAlgError as LinAlgError

from stax.numpy.linalg.decompositions import *  # noqa: F403 - its __all__ is the list of names
from stax.numpy.linalg.norms import *  # noqa: F403 - its __all__ is the list of names
from stax.numpy.linalg.products import *  # noqa: F403 - its __all__ is the list of names
from stax.numpy.linalg.systems import *  # noqa: F403 - its __all__ is the list of names
