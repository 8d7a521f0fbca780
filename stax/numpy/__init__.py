"""`stax.numpy`: NumPy's functions on arrays and on traced values, under NumPy's names."""

from __future__ import annotations

import numpy as _np

from stax.numpy import array_methods as array_methods
from stax.numpy import fft as fft
from stax.numpy import linalg as linalg
from stax.numpy import methods as methods
from stax.numpy import operators as operators
from stax.numpy import reductions as _reductions
from stax.numpy import ufunc_methods as ufunc_methods
from stax.numpy.at import at as at
from stax.numpy.constants import *  # noqa: F403 - its __all__ is the list of names
from stax.numpy.creation import *  # noqa: F403 - its __all__ is the list of names
from stax.numpy.einsum import *  # noqa: F403 - its __all__ is the list of names
from stax.numpy.elementwise import *  # noqa: F403 - its __all__ is the list of names
from stax.numpy.grids import *  # noqa: F403 - its __all__ is the list of names
from stax.numpy.manipulation import *  # noqa: F403 - its __all__ is the list of names
from stax.numpy.mapping import *  # noqa: F403 - its __all__ is the list of names
from stax.numpy.polynomials import *  # noqa: F403 - its __all__ is the list of names
from stax.numpy.products import *  # noqa: F403 - its __all__ is the list of names
from stax.numpy.quantiles import *  # noqa: F403 - its __all__ is the list of names
from stax.numpy.queries import *  # noqa: F403 - its __all__ is the list of names
from stax.numpy.rearranging import *  # noqa: F403 - its __all__ is the list of names
from stax.numpy.reductions import *  # noqa: F403 - its __all__ is the list of names
from stax.numpy.selection import *  # noqa: F403 - its __all__ is the list of names
from stax.numpy.sets import *  # noqa: F403 - its __all__ is the list of names
from stax.numpy.signals import *  # noqa: F403 - its __all__ is the list of names
from stax.numpy.sized import *  # noqa: F403 - its __all__ is the list of names, after the others
from stax.numpy.sorting import *  # noqa: F403 - its __all__ is the list of names
from stax.numpy.statistics import *  # noqa: F403 - its __all__ is the list of names
from stax.numpy.ufuncs import *  # noqa: F403 - its __all__ is the list of names
from stax.numpy.untraced import *  # noqa: F403 - its __all__ is the list of names
from stax.numpy.windows import *  # noqa: F403 - its __all__ is the list of names

all = _reductions.all_
any = _reductions.any_
__array_namespace_info__ = _np.__array_namespace_info__
__array_api_version__ = "2024.12"
