"""NumPy's functions that are the same here: printing, files, error states, iteration over indices.

Input and output are NumPy's.  A file or a text needs numbers, so a traced value is refused there
unless it is known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import (
    array2string,
    array_repr,
    array_str,
    base_repr,
    binary_repr,
    common_type,
    errstate,
    format_float_positional,
    format_float_scientific,
    fromfile,
    genfromtxt,
    get_printoptions,
    geterr,
    iterable,
    loadtxt,
    may_share_memory,
    min_scalar_type,
    ndenumerate,
    ndindex,
    printoptions,
    savetxt,
    savez_compressed,
    set_printoptions,
    seterr,
    shares_memory,
    typename,
    ufunc,
)

from stax.core.trace import Tracer
from stax.numpy.creation import asarray
from stax.numpy.mapping import vectorize

asfortranarray = asarray
require = asarray

__all__ = [
    "array2string",
    "array_repr",
    "array_str",
    "asfortranarray",
    "base_repr",
    "binary_repr",
    "common_type",
    "errstate",
    "format_float_positional",
    "format_float_scientific",
    "fromfile",
    "frompyfunc",
    "genfromtxt",
    "get_printoptions",
    "geterr",
    "isfortran",
    "iterable",
    "loadtxt",
    "may_share_memory",
    "min_scalar_type",
    "ndenumerate",
    "ndindex",
    "printoptions",
    "require",
    "savetxt",
    "savez_compressed",
    "set_printoptions",
    "seterr",
    "shares_memory",
    "typename",
    "ufunc",
]


def frompyfunc(
    func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None
) -> Callable[..., Any]:
    """A function of scalars that broadcasts over arrays; as `numpy.frompyfunc`, typed."""
    return vectorize(func)


def isfortran(a: Any) -> bool:
    """Whether an array is column-major and not row-major; a traced value never is."""
    return False if isinstance(a, Tracer) else np.isfortran(a)
