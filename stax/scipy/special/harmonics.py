"""Associated Legendre functions and spherical harmonics.

Input: degrees and orders known while tracing, and points.  Output: values by the three-term
recurrence in the degree, in operations that are differentiable in the points.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.core.trace import Tracer
from stax.errors import ConcretizationError, ShapeError
from stax.numpy.inexact import floating
from stax.numpy.registration import refuse_unread
from stax.primitives import elementwise as el
from stax.primitives.families import literal
from stax.primitives.shapes import concatenate, zeros
from stax.primitives.transcendental import cos, one, sin, sqrt, times
from stax.primitives.views import broadcast, reshape


def _column(m: int, n: int, z: Any, root: Any, normalised: bool) -> list[Any]:
    """Functions of order `m` and degrees m to n; `root` is sqrt(1 - z*z).

    Normalised ones carry the factor that makes spherical harmonics of them.
    """
    factor = 1.0
    for k in range(1, m + 1):
        factor *= -math.sqrt((2 * k + 1) / (2 * k)) if normalised else -(2 * k - 1)
    if normalised:
        factor *= math.sqrt(1 / (4 * math.pi))
    start = literal(factor, z) if m == 0 else times(el.integer_pow(root, y=m), factor)
    values = [broadcast(start, aval_of(z).shape)]
    for degree in range(m + 1, n + 1):
        if normalised:
            a = math.sqrt((4 * degree**2 - 1) / (degree**2 - m**2))
            b = (
                math.sqrt(
                    (2 * degree + 1)
                    * ((degree - 1) ** 2 - m**2)
                    / ((2 * degree - 3) * (degree**2 - m**2))
                )
                if degree > m + 1
                else 0.0
            )
        else:
            a, b = (2 * degree - 1) / (degree - m), (degree + m - 1) / (degree - m)
        value = times(el.mul(z, values[-1]), a)
        if degree > m + 1:
            value = el.sub(value, times(values[-2], b))
        values.append(value)
    return values


def lpmn_values(m: int, n: int, z: Any, is_normalized: bool) -> Any:
    """All associated Legendre functions of order up to `m` and degree up to `n`: (m+1, n+1, z)."""
    (z,) = floating("lpmn_values", z)
    shape = aval_of(z).shape
    if len(shape) != 1:
        raise ShapeError(f"points need one axis, got shape {shape}", op="lpmn_values")
    unit = one(z)
    root = sqrt(el.mul(el.sub(unit, z), el.add(unit, z)))
    rows = []
    for order in range(int(m) + 1):
        column = _column(order, int(n), z, root, is_normalized) if order <= n else []
        nothing = [zeros(shape, aval_of(z).dtype)] * (int(n) + 1 - len(column))
        lines = [reshape(v, (1, 1, *shape)) for v in [*nothing, *column]]
        rows.append(concatenate(lines, 1))
    return concatenate(rows, 0)


def lpmn(m: int, n: int, z: Any) -> tuple[Any, Any]:
    """The associated Legendre functions, and their derivatives in `z`."""
    (z,) = floating("lpmn", z)
    values = lpmn_values(m, n, z, False)
    shape = aval_of(values).shape
    dtype = aval_of(z).dtype
    degree = np.arange(shape[1], dtype=dtype).reshape(1, -1, 1)
    order = np.arange(shape[0], dtype=dtype).reshape(-1, 1, 1)
    before = zeros((shape[0], 1, shape[2]), dtype)
    if shape[1] > 1:
        kept = [slice(None), slice(0, shape[1] - 1)]
        before = concatenate([before, values[tuple(kept)]], 1)
    inner = el.sub(el.mul(el.mul(degree, z), values), el.mul(degree + order, before))
    slope = el.div(inner, el.mul(el.sub(z, one(z)), el.add(z, one(z))))
    return values, slope


def sph_harm_y(
    n: Any, m: Any, theta: Any, phi: Any, diff_n: Any = None, n_max: int | None = None
) -> Any:
    """The spherical harmonic of degree `n` and order `m` at polar angle theta, azimuth phi.

    `n_max` is not needed.
    """
    refuse_unread("sph_harm_y", {"diff_n": diff_n or None})
    if isinstance(n, Tracer) or isinstance(m, Tracer):
        raise ConcretizationError(
            "degree and order must be known while tracing",
            op="sph_harm_y",
            hint="mark them static, or close over them",
        )
    theta, phi = floating("sph_harm_y", theta, phi)
    n, m = np.broadcast_arrays(np.asarray(n, np.int64), np.asarray(m, np.int64))
    angles = (aval_of(theta).shape, aval_of(phi).shape)
    shape = np.broadcast_shapes(n.shape, *angles)
    z, root = cos(theta), sin(theta)
    total: Any = None
    for degree, order in sorted({(int(a), int(b)) for a, b in zip(n.flat, m.flat, strict=True)}):
        here = _harmonic(degree, order, z, root, phi)
        if total is None:
            total = here
        else:
            total = el.select((n == degree) & (m == order), here, total)
    if total is None:
        raise ShapeError("no degree was given", op="sph_harm_y")
    return broadcast(total, shape)


def _harmonic(degree: int, order: int, z: Any, root: Any, phi: Any) -> Any:
    size = abs(order)
    if size > degree:
        value: Any = literal(0, z)
    else:
        value = _column(size, degree, z, root, True)[-1]
    if order < 0 and size % 2:
        value = el.neg(value)
    angle = times(phi, order)
    return el.complex_(el.mul(value, cos(angle)), el.mul(value, sin(angle)))


__all__ = ["lpmn", "lpmn_values", "sph_harm_y"]
