"""A call for every function of the array-API standard 2024.12, and for every optional argument.

Input: signatures.json, the parameters of each function as the standard lists them (name; "/" for
positional only, "*" for keyword only; whether it has a default).  Output: `Call`s with arguments
that fit: every function with its required arguments, for every dtype it takes, and once more for
each optional one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

SIGNATURES: dict[str, list[list[Any]]] = json.loads(
    (Path(__file__).parent / "signatures.json").read_text()
)

FLOATS = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
REAL = (*INTEGERS, *FLOATS)
NUMERIC = (*REAL, *COMPLEX)
ALL = ("bool", *NUMERIC)

DTYPES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        "abs add cumulative_prod cumulative_sum divide multiply negative positive pow prod "
        "reciprocal square subtract sum mean sign round conj".split(),
        NUMERIC,
    ),
    **dict.fromkeys(
        "acos acosh asin asinh atan atanh cos cosh exp expm1 log log10 log1p "
        "log2 sin sinh sqrt tan "
        "tanh".split(),
        (*FLOATS, *COMPLEX),
    ),
    **dict.fromkeys(
        "ceil clip floor floor_divide greater greater_equal less less_equal "
        "max maximum min minimum "
        "remainder sort trunc argmax argmin argsort searchsorted".split(),
        REAL,
    ),
    **dict.fromkeys("atan2 copysign hypot logaddexp nextafter signbit std var".split(), FLOATS),
    **dict.fromkeys("bitwise_left_shift bitwise_right_shift".split(), INTEGERS),
    **dict.fromkeys(
        "bitwise_and bitwise_or bitwise_xor bitwise_invert".split(), ("bool", *INTEGERS)
    ),
    **dict.fromkeys("logical_and logical_or logical_xor logical_not".split(), ("bool",)),
    **dict.fromkeys("imag real".split(), COMPLEX),
    **dict.fromkeys(
        "all any astype broadcast_to concat count_nonzero equal expand_dims flip isfinite isinf "
        "isnan matrix_transpose moveaxis nonzero not_equal ones_like "
        "permute_dims repeat reshape roll "
        "squeeze stack take take_along_axis tile tril triu unique_all unique_counts unique_inverse "
        "unique_values unstack where zeros_like empty_like full_like asarray broadcast_arrays diff "
        "meshgrid".split(),
        ALL,
    ),
    **dict.fromkeys("matmul tensordot vecdot linalg.cross linalg.outer".split(), NUMERIC),
}  # fmt: skip
# What `diff` and `full_like` cannot take.
DTYPES["diff"] = NUMERIC
DTYPES["full_like"] = NUMERIC

# Optional arguments, where the value is not the same for all functions.
OPTIONS: dict[str, dict[str, Any]] = {
    "linalg.matrix_norm": {"ord": "nuc"},
    "linalg.vector_norm": {"ord": 1, "axis": 0},
    "linalg.cholesky": {"upper": True},
    "linalg.eigh": {},
    "linalg.qr": {"mode": "complete"},
    "linalg.trace": {"offset": 1, "dtype": "complex128"},
    "linalg.pinv": {"rtol": 0.5},
    "linalg.matrix_rank": {"rtol": 0.5},
    "fft.fftn": {"s": (4, 2), "axes": (0, 1)},
    "fft.ifftn": {"s": (4, 2), "axes": (0, 1)},
    "fft.rfftn": {"s": (4, 2), "axes": (0, 1)},
    "fft.irfftn": {"s": (4, 2), "axes": (0, 1)},
    "fft.fftshift": {"axes": 0},
    "fft.ifftshift": {"axes": 0},
    "tensordot": {"axes": 1},
    "linalg.tensordot": {"axes": 1},
    "squeeze": {"axis": 0},
    "stack": {"axis": 1},
    "concat": {"axis": 1},
    "unstack": {"axis": 1},
    "searchsorted": {"side": "right", "sorter": np.arange(3)},
    "meshgrid": {"indexing": "ij"},
    "astype": {"copy": False},
    "clip": {"min": 1, "max": 2},
    "arange": {"stop": 7, "step": 2},
    "reshape": {"copy": True},
    "diff": {"n": 2},
    "isdtype": {},
}
# `s` of the n-dimensional transforms comes with `axes`.
JOINTLY = {(f"fft.{n}", "s") for n in ("fftn", "ifftn", "rfftn", "irfftn")}
COMMON: dict[str, Any] = {
    "axis": 0, "keepdims": True, "correction": 1.0, "descending": True, "stable": False, "k": 1,
    "copy": True, "device": "cpu", "endpoint": False, "include_initial": True, "M": 3, "n_cols": 4,
    "full_matrices": False, "norm": "ortho", "n": 5, "d": 0.5, "offset": 1, "mode": "reduced",
}  # fmt: skip


@dataclass(frozen=True)
class Call:
    """One call: a function's name, arrays that may be traced, and everything else."""

    name: str
    args: tuple[Any, ...]
    options: dict[str, Any] = field(default_factory=dict)
    label: str = ""

    def __str__(self) -> str:
        return f"{self.name}{self.label}"


def matrix(dtype: Any) -> Any:
    """A 2 x 3 array with repeated elements and, where there are, signs."""
    kind = np.dtype(dtype).kind
    values = np.array([[3, 1, 2], [1, 0, 5]])
    if kind == "b":
        return values > 1
    if kind in "fc":
        values = values / 8 + 0.125
    return values.astype(dtype) if kind != "c" else (values * (1 - 0.5j)).astype(dtype)


def square(dtype: Any) -> Any:
    """A positive definite matrix."""
    return np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]]).astype(dtype)


def required(name: str, dtype: Any) -> tuple[Any, ...]:
    """Positional arguments for the parameters without a default."""
    x = matrix(dtype)
    special: dict[str, tuple[Any, ...]] = {
        "arange": (5,),
        "eye": (3,),
        "full": ((2, 3), 7),
        "full_like": (x, 1),
        "linspace": (0.0, 1.0, 5),
        "ones": ((2, 3),),
        "zeros": ((2, 3),),
        "empty": ((2, 3),),
        "meshgrid": (x[0], x[1]),
        "broadcast_arrays": (x, x[:1]),
        "broadcast_to": (x, (4, 2, 3)),
        "can_cast": ("int8", "int16"),
        "isdtype": (np.dtype(dtype), "numeric"),
        "result_type": (np.dtype(dtype), np.dtype(dtype)),
        "finfo": (np.float32,),
        "iinfo": (np.int16,),
        "astype": (x, np.float64 if np.dtype(dtype).kind != "c" else np.complex128),
        "concat": ([x, x],),
        "stack": ([x, x],),
        "expand_dims": (x, 1),
        "squeeze": (x[None], 0),
        "flip": (x,),
        "moveaxis": (x, 0, 1),
        "permute_dims": (x, (1, 0)),
        "repeat": (x, 2),
        "reshape": (x, (3, 2)),
        "roll": (x, 1),
        "tile": (x, (2, 1)),
        "take": (x, np.array([1, 0, 1])),
        "take_along_axis": (x, np.array([[0, 1, 0], [1, 1, 0]])),
        "where": (x > 1 if np.dtype(dtype).kind not in "bc" else x != 0, x, x[:1]),
        "matmul": (x, x.T),
        "tensordot": (np.stack([x, x]), np.stack([x, x], 2)),
        "linalg.tensordot": (np.stack([x, x]), np.stack([x, x], 2)),
        "broadcast_shapes": ((2, 1), (3,)),
        "cumulative_sum": (x[0],),
        "cumulative_prod": (x[0],),
        "reciprocal": (x + 1,),
        "linalg.matmul": (x, x.T),
        "searchsorted": (np.sort(x[0]), x[1]),
        "pow": (x, np.full((3,), 2, dtype)),
        "linalg.matrix_power": (square(dtype), 3),
        "linalg.solve": (square(dtype), x.T),
        "linalg.cross": (x, x[::-1]),
        "linalg.outer": (x[0], x[1]),
        "linalg.vecdot": (x, x),
        "linalg.diagonal": (x,),
        "nextafter": (x, x[:1] + 1) if np.dtype(dtype).kind == "f" else (x, x),
        "fft.fftfreq": (6,),
        "fft.rfftfreq": (6,),
        "fft.irfft": (x.astype(np.result_type(dtype, np.complex64)),),
        "fft.irfftn": (x.astype(np.result_type(dtype, np.complex64)),),
        "fft.hfft": (x.astype(np.result_type(dtype, np.complex64)),),
        "unstack": (x,),
    }
    if name in special:
        return special[name]
    if name.startswith("linalg.") and name.split(".")[1] in (
        "cholesky", "det", "eigh", "eigvalsh", "inv", "slogdet",
    ):  # fmt: skip
        return (square(dtype),)
    count = sum(kind == "/" and not default for _, kind, default in SIGNATURES[name])
    return (x, x[:1] + (0 if np.dtype(dtype).kind == "b" else 1))[: max(count, 1)]


def dtypes_of(name: str) -> tuple[str, ...]:
    """The dtypes a function is called with."""
    if name.startswith("fft."):
        return FLOATS if "rfft" in name or name in ("fft.ihfft", "fft.fftfreq") else COMPLEX
    return DTYPES.get(name, FLOATS)


def options_of(name: str) -> Iterator[tuple[str, Any]]:
    """Each optional argument with a value that is not its default."""
    given = len(required(name, "float64"))
    own = OPTIONS.get(name, {})
    for k, (parameter, kind, default) in enumerate(SIGNATURES[name]):
        if not default or (kind == "/" or (kind == "" and k < given)):
            continue
        if parameter == "dtype" and parameter not in own:
            real = name.startswith("fft.") or dtypes_of(name)[-1] not in COMPLEX
            yield parameter, np.dtype("float32" if real else "complex128")
        elif parameter in own:
            if (name, parameter) not in JOINTLY:
                yield parameter, own[parameter]
        elif parameter in COMMON:
            yield parameter, COMMON[parameter]


def calls() -> list[Call]:
    """All calls."""
    found = []
    for name in SIGNATURES:
        if name in ("from_dlpack", "__array_namespace_info__"):
            continue
        for dtype in dtypes_of(name):
            found.append(Call(name, required(name, dtype), {}, f"-{dtype}"))
        for parameter, value in options_of(name):
            args = required(name, dtypes_of(name)[-1])
            options = {parameter: value}
            if name in ("tensordot", "linalg.tensordot"):
                args = (args[0], matrix(dtypes_of(name)[-1]).T)
            elif name in ("linalg.cross", "linalg.vecdot", "vecdot") and parameter == "axis":
                args = (args[0].T, args[0][::-1].T)
            elif name.startswith("fft.") and parameter == "axes" and f"{name}" in OPTIONS:
                options = dict(OPTIONS[name])
            found.append(Call(name, args, options, f"-{parameter}"))
    return found
