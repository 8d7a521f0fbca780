"""Sparse arrays made of nothing: empty ones, diagonals, random ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stax import random
from stax.experimental.sparse.bcoo import BCOO, made
from stax.experimental.sparse.coordinates import places

__all__ = ["empty", "eye", "random_bcoo"]


def empty(shape: Sequence[int], dtype: Any = None, index_dtype: Any = np.int32, **_: Any) -> BCOO:
    """A sparse array of zeros."""
    data = np.zeros(0, np.float64 if dtype is None else dtype)
    return made(data, np.zeros((0, len(shape)), index_dtype), tuple(shape), True, True)


def eye(
    N: int, M: int | None = None, k: int = 0, dtype: Any = None, index_dtype: Any = np.int32
) -> BCOO:
    """Ones on a diagonal."""
    wide = N if M is None else M
    rows = np.arange(max(0, -k), min(N, wide - k), dtype=index_dtype)
    data = np.ones(len(rows), np.float64 if dtype is None else dtype)
    return made(data, np.stack([rows, rows + k], 1).astype(index_dtype), (N, wide), True, True)


def random_bcoo(
    key: Any,
    shape: Sequence[int],
    *,
    dtype: Any = np.float64,
    indices_dtype: Any = np.int32,
    nse: float = 0.2,
    generator: Callable[..., Any] = random.uniform,
    **_: Any,
) -> BCOO:
    """Random values at different random places: `nse` of them, or that part of all."""
    total = math.prod(shape)
    count = math.ceil(nse * total) if 0 < nse < 1 else int(nse)
    first, second = random.split(key)
    flat = random.choice(first, total, (count,), replace=False)
    indices = places(flat, tuple(shape), indices_dtype)
    return made(generator(second, (count,), dtype=dtype), indices, tuple(shape), False, True)
