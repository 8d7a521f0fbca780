"""Sparse arrays, under the names of `jax.experimental.sparse`; the account is in `bcoo`."""

from stax.experimental.sparse import bcoo, derivatives, makers
from stax.experimental.sparse.bcoo import *  # noqa: F403 - its __all__ is the list of names
from stax.experimental.sparse.derivatives import *  # noqa: F403 - its __all__ is the list of names
from stax.experimental.sparse.makers import *  # noqa: F403 - its __all__ is the list of names

__all__ = [*bcoo.__all__, *derivatives.__all__, *makers.__all__]
