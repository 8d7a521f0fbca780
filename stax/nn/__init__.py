"""Functions of neural networks: activations, normalisation, attention, initial values."""

from stax.nn import initializers as initializers
from stax.nn.activations import *  # noqa: F403 - its __all__ is the list of names
from stax.nn.attention import *  # noqa: F403 - its __all__ is the list of names
from stax.nn.normalisation import (
    log1mexp,
    log_softmax,
    logmeanexp,
    logsumexp,
    softmax,
    standardize,
)

__all__ = [
    "initializers",
    "log1mexp",
    "log_softmax",
    "logmeanexp",
    "logsumexp",
    "softmax",
    "standardize",
]
