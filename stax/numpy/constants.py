"""Constants and dtypes of the NumPy namespace, so that `stax.numpy` can stand in for `numpy`."""

from __future__ import annotations

import numpy as np
from numpy import (
    bool_,
    complex64,
    complex128,
    complexfloating,
    dtype,
    e,
    euler_gamma,
    finfo,
    float16,
    float32,
    float64,
    floating,
    iinfo,
    inexact,
    inf,
    int8,
    int16,
    int32,
    int64,
    integer,
    nan,
    newaxis,
    number,
    pi,
    signedinteger,
    uint8,
    uint16,
    uint32,
    uint64,
    unsignedinteger,
)

from stax.dtypes import bfloat16 as _bfloat16
from stax.dtypes import float8_e4m3fn as _float8
from stax.typing import Array as ndarray

bfloat16 = _bfloat16.type
float8_e4m3fn = _float8.type
bool = np.bool_
uint = np.uint
int_ = np.int_

__all__ = [
    "bfloat16",
    "bool",
    "bool_",
    "complex64",
    "complex128",
    "complexfloating",
    "dtype",
    "e",
    "euler_gamma",
    "finfo",
    "float8_e4m3fn",
    "float16",
    "float32",
    "float64",
    "floating",
    "iinfo",
    "inexact",
    "inf",
    "int8",
    "int16",
    "int32",
    "int64",
    "int_",
    "integer",
    "nan",
    "ndarray",
    "newaxis",
    "number",
    "pi",
    "signedinteger",
    "uint",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "unsignedinteger",
]
