"""Meshes and shardings under the names of `jax.sharding`; see `stax.transforms.sharding`."""

from stax.transforms.sharding import *  # noqa: F403 - its __all__ is the list of names
from stax.transforms.sharding import __all__ as __all__
