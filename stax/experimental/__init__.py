"""Names that JAX keeps in `jax.experimental`: io_callback, enable_x64, disable_x64, ode, jet."""

from collections.abc import Iterator
from contextlib import contextmanager

from stax.experimental import jet, ode
from stax.transforms.callbacks import io_callback

__all__ = ["disable_x64", "enable_x64", "io_callback", "jet", "ode"]


@contextmanager
def enable_x64(new_val: bool = True) -> Iterator[None]:
    """A block with 64-bit dtypes, which are always there: it changes nothing."""
    yield


@contextmanager
def disable_x64() -> Iterator[None]:
    """A block without 64-bit dtypes in JAX; here dtypes are NumPy's, and it changes nothing."""
    yield
