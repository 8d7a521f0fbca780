"""Small libraries that scripts for JAX use: `optimizers` and `stax` (layers of networks)."""

from stax.example_libraries import optimizers, stax

__all__ = ["optimizers", "stax"]
