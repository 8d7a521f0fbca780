"""`stax.numpy`: NumPy's functions on arrays and on traced values, under NumPy's names."""

from __future__ import annotations

from stax.numpy import operators as operators
from stax.numpy.constants import *  # noqa: F403 - its __all__ is the list of names
from stax.numpy.elementwise import *  # noqa: F403 - its __all__ is the list of names
from stax.numpy.ufuncs import *  # noqa: F403 - its __all__ is the list of names
