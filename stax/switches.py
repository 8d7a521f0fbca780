"""JAX's switches as blocks: `with jax.log_compiles(): ...`, for scripts that use them.

Input: a value.  Output: a context in which `config.read` gives it.  `debug_nans`, `debug_infs` and
`disable_jit` (`stax.transforms.compile_time`) change what happens; these choose among ways of
computing that are one here (products in full precision, NumPy's promotion, keys of one kind), or
report what `stax.explain` shows, and change nothing else.  A value that promises other results or
errors (`numpy_dtype_promotion("strict")`) is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from stax import config

__all__ = [
    "check_tracer_leaks",
    "checking_leaks",
    "debug_key_reuse",
    "default_device",
    "default_matmul_precision",
    "default_prng_impl",
    "enable_checks",
    "enable_custom_prng",
    "enable_x64",
    "explain_cache_misses",
    "legacy_prng_key",
    "log_compiles",
    "numpy_dtype_promotion",
    "numpy_rank_promotion",
    "softmax_custom_jvp",
    "threefry_partitionable",
    "transfer_guard",
    "transfer_guard_device_to_device",
    "transfer_guard_device_to_host",
    "transfer_guard_host_to_device",
]

Switch = Callable[..., AbstractContextManager[None]]


def _switch(name: str, about: str) -> Switch:
    @contextmanager
    def block(new_val: Any = True) -> Iterator[None]:
        before = config.read(name)
        config.update(name, new_val)
        try:
            yield
        finally:
            config.update(name, before)

    block.__name__ = block.__qualname__ = name.removeprefix("jax_")
    block.__doc__ = f"A block with JAX's switch `{name}`, which {about}."
    return block


check_tracer_leaks = _switch(
    "jax_check_tracer_leaks", "asks for errors about leaked tracers: they are always raised"
)
debug_key_reuse = _switch("jax_debug_key_reuse", "looks for keys used twice: True is refused")
default_device = _switch("jax_default_device", "says where arrays live: it is only remembered")
default_matmul_precision = _switch(
    "jax_default_matmul_precision", "allows coarse products: they are always in full precision"
)
default_prng_impl = _switch(
    "jax_default_prng_impl", "names the kind of keys: another than Threefry's is refused"
)
enable_checks = _switch("jax_enable_checks", "turns on self-checks: STAX_DEBUG=check does here")
enable_custom_prng = _switch("jax_enable_custom_prng", "allows kinds of keys: there is one")
enable_x64 = _switch("jax_enable_x64", "turns on 64-bit dtypes: they are always there")
explain_cache_misses = _switch("jax_explain_cache_misses", "logs why functions are traced again")
legacy_prng_key = _switch("jax_legacy_prng_key", "says what raw keys do: they are always allowed")
log_compiles = _switch("jax_log_compiles", "logs compilations: stax.explain shows them")
numpy_dtype_promotion = _switch(
    "jax_numpy_dtype_promotion", 'refuses promotion: only "standard" is there'
)
numpy_rank_promotion = _switch(
    "jax_numpy_rank_promotion", 'refuses broadcasting: only "allow" is there'
)
softmax_custom_jvp = _switch("jax_softmax_custom_jvp", "chooses the derivative of softmax")
threefry_partitionable = _switch(
    "jax_threefry_partitionable", "chooses the layout of random counters: the partitionable one"
)
transfer_guard = _switch("jax_transfer_guard", "watches copies between devices")
transfer_guard_device_to_device = _switch(
    "jax_transfer_guard_device_to_device", "watches copies between devices"
)
transfer_guard_device_to_host = _switch(
    "jax_transfer_guard_device_to_host", "watches copies between devices"
)
transfer_guard_host_to_device = _switch(
    "jax_transfer_guard_host_to_device", "watches copies between devices"
)


def checking_leaks() -> AbstractContextManager[None]:
    """A block that asks for errors about leaked tracers: they are always raised."""
    return check_tracer_leaks(True)
