"""Calls over the domain of the array-API functions: every dtype, kind of shape and special value.

Input: the dtypes of `calls.py`.  Output: `domain(name)`, the calls of one function on 0-d, empty
and broadcasting shapes, with the smallest and largest integers, signed zeros, subnormals,
infinities and NaN among the elements, every axis, and every pair of dtypes the standard promotes.
The numbers are drawn from a seed, `STAX_DOMAIN_SEED`; NumPy says what each result has to be.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.array_api.calls import ALL, COMPLEX, DTYPES, FLOATS, INTEGERS, NUMERIC, REAL, Call

SEED = int(os.environ.get("STAX_DOMAIN_SEED", "0"))
Generator = np.random.Generator
Shape = tuple[int, ...]

SHAPES: tuple[Shape, ...] = ((), (0,), (1,), (7,), (3, 4), (0, 3), (2, 1, 3))
PAIRS: tuple[tuple[Shape, Shape], ...] = (
    ((), ()),
    ((9,), (9,)),
    ((3, 1), (4,)),
    ((0,), (1,)),
    ((2, 1, 3), (5, 1)),
    ((4,), ()),
)

UNARY = (
    "abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag "
    "isfinite isinf isnan log log10 log1p log2 logical_not negative positive real reciprocal round "
    "sign signbit sin sinh sqrt square tan tanh trunc"
).split()
BINARY = (
    "add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign "
    "divide equal floor_divide greater greater_equal hypot less less_equal logaddexp logical_and "
    "logical_or logical_xor maximum minimum multiply nextafter not_equal pow remainder subtract"
).split()


def values(rng: Generator, dtype: str, shape: Shape, *, special: bool = True) -> Any:
    """An array of ordinary numbers and, more often, the extremes of the dtype."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return np.asarray(rng.random(shape) < 0.5)
    if kind == "c":
        part = np.empty(0, dtype).real.dtype.name
        both = [values(rng, part, shape, special=special) for _ in range(2)]
        made = np.empty(shape, dtype)
        made.real, made.imag = both
        return made
    if kind == "f":
        info = np.finfo(dtype)
        ends = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, np.inf, -np.inf, np.nan, np.pi]
        ends += [info.max, info.min, info.tiny, info.smallest_subnormal, info.eps]  # type: ignore[list-item]
        ordinary = rng.normal(size=shape) * 3
    else:
        limits = np.iinfo(dtype)
        ends = [limits.min, limits.max, 0, 1, 2]
        ordinary = rng.integers(max(limits.min, -9), 9, shape)
    if not special:
        return np.asarray(ordinary).astype(dtype)
    extremes = np.array(ends, dtype)[rng.integers(0, len(ends), shape)]
    return np.where(rng.random(shape) < 0.4, np.asarray(ordinary).astype(dtype), extremes)


def promoting(dtypes: tuple[str, ...]) -> list[tuple[str, str]]:
    """The pairs of dtypes that the standard promotes: of one kind, uint64 not with signed ones."""
    kinds = {"b": "b", "i": "i", "u": "i", "f": "f", "c": "c"}
    found = []
    for a in dtypes:
        for b in dtypes:
            if kinds[np.dtype(a).kind] != kinds[np.dtype(b).kind]:
                continue
            if "uint64" in (a, b) and {np.dtype(a).kind, np.dtype(b).kind} == {"i", "u"}:
                continue
            found.append((a, b))
    return found


def unary(name: str, rng: Generator) -> Iterator[Call]:
    for dtype in DTYPES[name]:
        for shape in (*SHAPES, (23,), (64,)):
            x = values(rng, dtype, shape)
            if name == "reciprocal" and dtype in INTEGERS:  # 1 / 0 has no defined integer
                x = np.where(x == 0, x.dtype.type(1), x)
            yield Call(name, (x,), {}, f"-{dtype}-{shape}")


def binary(name: str, rng: Generator) -> Iterator[Call]:
    for a, b in promoting(DTYPES[name]):
        for left, right in PAIRS if a == b else PAIRS[1:3]:
            y = values(rng, b, right)
            if "shift" in name:  # by less than the width: what else does is not defined
                y = np.asarray(rng.integers(0, 8, right)).astype(b)
            if name == "pow" and np.dtype(b).kind == "i":  # NumPy refuses negative ones
                y = np.asarray(rng.integers(0, 9, right)).astype(b)
            yield Call(name, (values(rng, a, left), y), {}, f"-{a}-{left}-{b}-{right}")
        if a == b:  # Python scalars, which take the array's dtype
            scalar: Any = {"b": True, "f": 1.5, "c": 1.5 - 2j}.get(np.dtype(a).kind, 3)
            x = values(rng, a, (11,))
            if name == "pow" and np.dtype(a).kind == "i":
                x = np.maximum(x, 0)
            yield Call(name, (x, scalar), {}, f"-{a}-python-right")
            yield Call(
                name, (scalar, np.abs(x) % 7 if "shift" in name else x), {}, f"-{a}-python-left"
            )


def axes_of(shape: Shape) -> list[Any]:
    found: list[Any] = [None, *range(-len(shape), len(shape))]
    if len(shape) > 1:
        found += [tuple(range(len(shape))), (0, -1)]
    return found


def reduction(name: str, rng: Generator) -> Iterator[Call]:
    one_axis = name in ("argmax", "argmin")
    for dtype in DTYPES.get(name, FLOATS):
        for shape in SHAPES:
            for axis in axes_of(shape):
                if one_axis and isinstance(axis, tuple):
                    continue
                picked = range(len(shape)) if axis is None else np.atleast_1d(np.array(axis, int))
                reduced = [shape[k] for k in picked]
                if name in ("max", "min", "argmax", "argmin") and 0 in reduced:
                    continue
                x = values(rng, dtype, shape, special=name not in ("mean", "prod", "std", "var"))
                options = {"axis": axis, "keepdims": bool(rng.integers(2))}
                yield Call(name, (x,), options, f"-{dtype}-{shape}-{options}")
            if name in ("sum", "prod") and dtype in REAL:
                x = values(rng, dtype, shape, special=False)
                yield Call(
                    name, (x,), {"dtype": np.dtype("float64")}, f"-{dtype}-{shape}-to-float64"
                )


def scans(name: str, rng: Generator) -> Iterator[Call]:
    for dtype in DTYPES[name]:
        for shape in ((0,), (1,), (7,), (3, 4), (0, 3)):
            for axis in range(-len(shape), len(shape)):
                for initial in (False, True):
                    options = {"axis": axis, "include_initial": initial}
                    yield Call(
                        name, (values(rng, dtype, shape),), options, f"-{dtype}-{shape}-{options}"
                    )


def ordering(name: str, rng: Generator) -> Iterator[Call]:
    for dtype in REAL:
        for shape in SHAPES[1:]:
            for axis in range(-len(shape), len(shape)):
                options = {"axis": axis, "stable": True}
                yield Call(name, (values(rng, dtype, shape),), options, f"-{dtype}-{shape}-{axis}")


def searching(name: str, rng: Generator) -> Iterator[Call]:
    if name == "searchsorted":
        for dtype in REAL:
            for size in (0, 1, 9):
                for side in ("left", "right"):
                    x = np.sort(values(rng, dtype, (size,)))
                    yield Call(
                        name,
                        (x, values(rng, dtype, (2, 5))),
                        {"side": side},
                        f"-{dtype}-{size}-{side}",
                    )
                    order = rng.permutation(size)
                    yield Call(
                        name,
                        (x[np.argsort(order)] if size else x, values(rng, dtype, (4,))),
                        {"side": side, "sorter": order},
                        f"-{dtype}-{size}-{side}-sorter",
                    )
    elif name == "count_nonzero":
        for dtype in ALL:
            for shape in SHAPES:
                for axis in axes_of(shape):
                    yield Call(
                        name,
                        (values(rng, dtype, shape),),
                        {"axis": axis, "keepdims": True},
                        f"-{dtype}-{shape}-{axis}",
                    )
    else:
        for a, b in promoting(ALL):
            for c, left, right in (((3, 1), (4,), (3, 4)), ((), (2,), (2,)), ((0,), (), (1,))):
                yield Call(
                    name,
                    (values(rng, "bool", c), values(rng, a, left), values(rng, b, right)),
                    {},
                    f"-{a}-{b}-{c}",
                )
            yield Call(
                name,
                (values(rng, "bool", (3,)), values(rng, a, (3,)), values(rng, a, ())[()]),
                {},
                f"-{a}-scalar",
            )


def manipulation(name: str, rng: Generator) -> Iterator[Call]:
    for dtype in ALL:
        for shape in SHAPES:
            x, n = values(rng, dtype, shape), len(shape)
            ways: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
            if name == "flip":
                ways = [((x,), {"axis": a}) for a in axes_of(shape)]
            elif name == "roll":
                ways = [((x, s), {"axis": a}) for a in (None, *range(-n, n)) for s in (-9, 0, 2)]
                if n > 1:
                    ways.append(((x, (1, -2)), {"axis": (0, 1)}))
            elif name == "reshape":
                targets = [(-1,)] if x.size else [(0,), (2, 0)]
                targets += [shape[::-1], (*shape, 1), (1, x.size)]
                ways = [((x, t), {}) for t in targets]
            elif name == "expand_dims":
                ways = [((x,), {"axis": a}) for a in range(-n - 1, n + 1)]
            elif name == "squeeze":
                ways = [((x,), {"axis": k}) for k, s in enumerate(shape) if s == 1]
                ways += [((x[None],), {"axis": (0,)}), ((x[None],), {"axis": -n - 1})]
            elif name == "permute_dims":
                ways = [((x, tuple(int(k) for k in rng.permutation(n))), {}) for _ in range(2)]
            elif name == "moveaxis" and n:
                ways = [((x, -1, 0), {}), ((x, tuple(range(n)), tuple(range(n))[::-1]), {})]
            elif name == "repeat":
                ways = [((x, r), {"axis": a}) for a in (None, *range(-n, n)) for r in (0, 1, 3)]
                ways += [((x, tuple(range(s))), {"axis": k}) for k, s in enumerate(shape)]
            elif name == "tile":
                ways = [((x, r), {}) for r in ((), (2,), (0, 2), (2, 1, 1, 3))]
            elif name == "broadcast_to":
                ways = [((x, (*lead, *shape)), {}) for lead in ((), (2,), (0,), (3, 1))]
            elif name == "unstack" and n:
                ways = [((x,), {"axis": a}) for a in range(-n, n)]
            elif name in ("concat", "stack") and n:
                partners = [b for a, b in promoting(ALL) if a == dtype]
                other = values(rng, str(rng.choice(partners)), shape)
                axes = range(-n, n) if name == "concat" else range(-n - 1, n + 1)
                ways = [(([x, other, x],), {"axis": a}) for a in axes]
                if name == "concat":
                    ways.append((([x, other],), {"axis": None}))
            elif name in ("tril", "triu") and n > 1:
                ways = [((x,), {"k": k}) for k in (-9, -1, 0, 2, 9)]
            elif name == "matrix_transpose" and n > 1:
                ways = [((x,), {})]
            elif name == "take" and n and 0 not in shape:
                ways = [
                    ((x, rng.integers(-shape[a], shape[a], k)), {"axis": a})
                    for a in range(-n, n)
                    for k in (0, 5)
                ]
            elif name == "take_along_axis" and n and 0 not in shape:
                for a in range(-n, n):
                    size = list(shape)
                    size[a] = 4
                    ways.append(((x, rng.integers(-shape[a], shape[a], size)), {"axis": a}))
            elif name == "astype":
                plain = values(rng, dtype, shape, special=False)
                plain = np.abs(plain).astype(dtype)
                ways = [
                    ((plain, np.dtype(t)), {"copy": c})
                    for t in ALL
                    if not (dtype in COMPLEX and t not in COMPLEX)
                    for c in (True, False)
                ]
            elif name == "diff" and n and dtype in NUMERIC:
                ways = [((x,), {"axis": a, "n": k}) for a in range(-n, n) for k in (0, 1, 3)]
            elif name == "broadcast_arrays":
                ways = [((x, values(rng, "int8", (2, *(1 for _ in shape)))), {})]
            elif name == "clip" and dtype in REAL:
                low, high = np.sort(values(rng, dtype, (2,), special=False))
                ways = [
                    ((x, low, high), {}),
                    ((x,), {"min": low}),
                    ((x,), {"max": high}),
                    ((x, None, None), {}),
                ]
            for args, options in ways:
                kept = [a for a in args if not isinstance(a, np.ndarray | list)]
                yield Call(name, args, options, f"-{dtype}-{shape}-{kept}-{options}")


def well_conditioned(rng: Generator, dtype: str, batch: Shape, n: int) -> Any:
    x = values(rng, dtype, (*batch, n, n), special=False)
    return (x @ np.conj(np.swapaxes(x, -1, -2)) + 9 * np.eye(n)).astype(dtype)


def _plain(rng: Generator, dtype: str, *shape: int) -> Any:
    return values(rng, dtype, shape, special=False)


def linear_algebra(name: str, rng: Generator) -> Iterator[Call]:
    short = name.removeprefix("linalg.")
    exact = short in "matmul tensordot vecdot outer cross trace diagonal matrix_transpose".split()
    for dtype in NUMERIC if exact else (*FLOATS, *COMPLEX):
        plain = functools.partial(_plain, rng, dtype)
        for batch in ((), (2,), (0,), (2, 3)):
            ways: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
            if short in ("cholesky", "det", "inv", "slogdet", "eigvalsh"):
                ways = [((well_conditioned(rng, dtype, batch, n),), {}) for n in (1, 3)]
                if short == "cholesky":
                    ways += [((well_conditioned(rng, dtype, batch, 3),), {"upper": True})]
            elif short == "solve":
                a = well_conditioned(rng, dtype, batch, 3)
                ways = [((a, plain(*batch, 3, k)), {}) for k in (0, 1, 4)] + [((a, plain(3)), {})]
            elif short == "matmul":
                ways = [
                    ((plain(*batch, m, k), plain(*batch, k, n)), {})
                    for m, k, n in ((2, 3, 4), (1, 0, 2), (0, 2, 1))
                ]
                ways += [
                    ((plain(*batch, 2, 3), plain(3)), {}),
                    ((plain(3), plain(*batch, 3, 2)), {}),
                ]
            elif short == "tensordot":
                ways = [
                    ((plain(2, 3, 4), plain(4, 3, 2)), {"axes": a})
                    for a in (0, 1, ((1, 2), (1, 0)))
                ]
            elif short == "vecdot":
                ways = [
                    ((plain(*batch, 4), plain(*batch, 4)), {}),
                    ((plain(*batch, 0), plain(1, 0)), {}),
                ]
            elif short == "outer":
                ways = [((plain(m), plain(n)), {}) for m, n in ((2, 3), (0, 2), (1, 1))]
            elif short == "cross":
                ways = [((plain(*batch, 3), plain(*batch, 3)), {})]
            elif short == "trace":
                ways = [
                    ((plain(*batch, m, n),), {"offset": o})
                    for m, n in ((3, 4), (1, 2), (0, 2))
                    for o in (-1, 0, 2)
                ]
            elif short == "diagonal":
                ways = [
                    ((plain(*batch, m, n),), {"offset": o})
                    for m, n in ((3, 4), (1, 2), (0, 2))
                    for o in (-5, -1, 0, 2)
                ]
            elif short == "matrix_transpose":
                ways = [((plain(*batch, 2, 3),), {})]
            elif short == "matrix_power":
                ways = [
                    ((well_conditioned(rng, dtype, batch, 2), k), {}) for k in (-2, -1, 0, 1, 5)
                ]
            elif short == "matrix_norm":
                ways = [
                    ((plain(*batch, 3, 4),), {"ord": o, "keepdims": k})
                    for o in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)
                    for k in (False, True)
                ]
            elif short == "vector_norm":
                ways = [
                    ((plain(*batch, 3, 4),), {"ord": o, "axis": a})
                    for o in (0, 1, 2, 3, 0.5, -1, np.inf, -np.inf)
                    for a in (None, -1, (-2, -1))
                    if not (batch == (0,) and np.isinf(o))
                ]
            elif short == "matrix_rank" or short in ("pinv", "svdvals"):
                ways = [((plain(*batch, 3, 4),), {})]
            for args, options in ways:
                shapes = [a.shape if isinstance(a, np.ndarray) else a for a in args]
                yield Call(name, args, options, f"-{dtype}-{shapes}-{options}")


def transforms(name: str, rng: Generator) -> Iterator[Call]:
    short = name.removeprefix("fft.")
    real_in = short in ("rfft", "rfftn", "ihfft")
    if short in ("fftshift", "ifftshift"):
        for dtype in (*FLOATS, *COMPLEX):
            for shape in ((4,), (5, 4)):
                for axes in (None, 0, -1, tuple(range(len(shape)))):
                    yield Call(
                        name,
                        (values(rng, dtype, shape),),
                        {"axes": axes},
                        f"-{dtype}-{shape}-{axes}",
                    )
        return
    for dtype in FLOATS if real_in else COMPLEX:
        for shape in ((1,), (8,), (3, 4), (2, 5, 3)):
            x = values(rng, dtype, shape, special=False)
            for norm in ("backward", "ortho", "forward"):
                if short.endswith("n"):
                    axes = tuple(range(len(shape)))
                    ways: list[dict[str, Any]] = [{}, {"axes": axes[::-1]}, {"axes": (-1,)}]
                    ways += [{"s": tuple(s + 1 for s in shape), "axes": axes}]
                else:
                    ways = [
                        {"axis": a, "n": n}
                        for a in range(-len(shape), len(shape))
                        for n in (None, 2, 6)
                    ]
                for options in ways:
                    if short in ("irfft", "irfftn", "hfft") and options.get("n", 0) is None:
                        if shape[options["axis"]] == 1:
                            continue
                    if (
                        short == "irfftn"
                        and shape[options.get("axes", (-1,))[-1]] == 1
                        and "s" not in options
                    ):
                        continue
                    yield Call(
                        name, (x,), {**options, "norm": norm}, f"-{dtype}-{shape}-{options}-{norm}"
                    )


MAKERS: dict[str, Callable[[str, Generator], Iterator[Call]]] = {
    **dict.fromkeys(UNARY, unary),
    **dict.fromkeys(BINARY, binary),
    **dict.fromkeys("all any argmax argmin max mean min prod std sum var".split(), reduction),
    **dict.fromkeys(["cumulative_prod", "cumulative_sum"], scans),
    **dict.fromkeys(["argsort", "sort"], ordering),
    **dict.fromkeys(["count_nonzero", "searchsorted", "where"], searching),
    **dict.fromkeys(
        "astype broadcast_arrays broadcast_to clip concat diff expand_dims flip matrix_transpose "
        "moveaxis permute_dims repeat reshape roll squeeze stack take take_along_axis tile tril "
        "triu unstack".split(),
        manipulation,
    ),
    **dict.fromkeys(
        "matmul tensordot vecdot linalg.cholesky linalg.cross linalg.det linalg.diagonal "
        "linalg.eigvalsh linalg.inv linalg.matrix_norm linalg.matrix_power linalg.matrix_rank "
        "linalg.outer linalg.pinv linalg.slogdet linalg.solve linalg.svdvals linalg.trace "
        "linalg.vector_norm".split(),
        linear_algebra,
    ),
    **{
        f"fft.{n}": transforms
        for n in "fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftshift ifftshift".split()
    },
}


def domain(name: str) -> list[Call]:
    """The calls of one function."""
    seed = SEED + sum(map(ord, name))
    return list(MAKERS[name](name, np.random.default_rng(seed)))
