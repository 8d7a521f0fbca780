"""Arrays of other libraries, sharing their memory, under the name of `jax.dlpack`."""

from stax.placement import from_dlpack as from_dlpack

__all__ = ["from_dlpack"]
