"""Names that JAX keeps in `jax.experimental`: checkify, io_callback, ode, jet, enable_x64, ..."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from stax.absent import missing as _missing
from stax.experimental import checkify, jet, mesh_utils, ode, pjit, shard_map, sparse
from stax.transforms.callbacks import io_callback

__all__ = [
    "checkify",
    "disable_x64",
    "enable_x64",
    "io_callback",
    "jet",
    "mesh_utils",
    "ode",
    "pjit",
    "shard_map",
    "sparse",
]


@contextmanager
def enable_x64(new_val: bool = True) -> Iterator[None]:
    """A block with 64-bit dtypes, which are always there: it changes nothing."""
    yield


@contextmanager
def disable_x64() -> Iterator[None]:
    """A block without 64-bit dtypes in JAX; here dtypes are NumPy's, and it changes nothing."""
    yield


def __getattr__(name: str) -> Any:
    raise _missing(__name__, name)
