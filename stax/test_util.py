"""Checks of derivatives under the name of JAX's module; see `stax.testing`."""

from stax.testing import check_grads, check_jvp, check_vjp

__all__ = ["check_grads", "check_jvp", "check_vjp"]
