"""`odeint` where JAX has it."""

from stax.scipy.integrate import odeint

__all__ = ["odeint"]
