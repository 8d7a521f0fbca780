"""Sparse arrays, under the names of `jax.experimental.sparse`; the account is in `bcoo`."""

from typing import Any

from stax.absent import missing as _missing
from stax.experimental.sparse import bcoo, derivatives, makers
from stax.experimental.sparse.bcoo import *  # noqa: F403 - its __all__ is the list of names
from stax.experimental.sparse.derivatives import *  # noqa: F403 - its __all__ is the list of names
from stax.experimental.sparse.makers import *  # noqa: F403 - its __all__ is the list of names

__all__ = [*bcoo.__all__, *derivatives.__all__, *makers.__all__]


def __getattr__(name: str) -> Any:
    raise _missing(__name__, name)
