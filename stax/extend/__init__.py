"""`stax.extend`, under the name of `jax.extend`: the classes of the intermediate representation."""

from stax.extend import core as core
