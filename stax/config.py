"""The options of a process, read once from environment variables.

Input: the environment. Output: one immutable `Options`. Every field names its variables and says
what it does, so that the table in docs/configuration.md is made from here. What belongs to a
single call (`backend`, `memory_budget`, `strict`) is an argument of `jit` and only defaults here.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from stax.errors import LOCATE, ConfigurationError, DegradedWarning

__all__ = [
    "Options",
    "available_cpus",
    "from_environment",
    "options",
    "parse_bytes",
    "read",
    "update",
]

BACKENDS = ("c", "numpy", "triton")
PRECISIONS = ("highest", "tf32")
DEBUG_FLAGS = ("check", "graph", "loops", "schedule", "source", "keep")
MOST_THREADS = 1024  # more than any machine has; the system refuses to start so many at will
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "KI": 2**10, "MI": 2**20, "GI": 2**30}


def parse_bytes(text: str) -> int:
    """Return a number of bytes written like `4096`, `"64KiB"`, `"512MiB"` or `"2GB"`.

    >>> parse_bytes("512MiB")
    536870912
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([KMG]I?)?B?\s*", text, re.IGNORECASE)
    if match is None:
        raise ConfigurationError(f"{text!r} is not a size; write 4096, 64KiB, 512MiB or 2GiB")
    whole, _, part = match[1].partition(".")
    scale = int("1" + "0" * len(part))
    return int(whole + part) * _UNITS[(match[2] or "").upper()] // scale


def available_cpus() -> int:
    """Return the number of CPUs this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _threads(text: str) -> int:
    first = text.split(",")[0].strip()  # OMP_NUM_THREADS may list one count per nesting level
    if not (first.isdecimal() and len(first) < 9 and 1 <= int(first) <= MOST_THREADS):
        raise ConfigurationError(
            f"{text!r} is not a number of threads; write one from 1 to {MOST_THREADS}"
        )
    return int(first)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value < float("inf"):
        raise ConfigurationError(f"{text!r} is not a number of seconds; write 0 or more")
    return value


def _flag(text: str) -> bool:
    value = text.strip().lower()
    if value in ("1", "true", "yes", "on"):
        return True
    if value in ("0", "false", "no", "off"):
        return False
    raise ConfigurationError(f"{text!r} is not a switch; write 1 or 0")


def _one_of(*choices: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        value = text.strip()
        if value not in choices:
            raise ConfigurationError(f"{text!r} is not one of {', '.join(choices)}")
        return value

    return read


def _debug(text: str) -> frozenset[str]:
    flags = frozenset(flag.strip() for flag in text.split(",") if flag.strip())
    unknown = sorted(flags - set(DEBUG_FLAGS))
    if unknown:
        raise ConfigurationError(f"unknown {unknown}; write any of {', '.join(DEBUG_FLAGS)}")
    return flags


def _option(
    *variables: str, read: Callable[[str], Any], doc: str, default: Any = None, shown: str = ""
) -> Any:
    metadata = {"variables": variables, "read": read, "doc": doc, "shown": shown}
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of a process; see docs/configuration.md."""

    backend: str | None = _option(
        "STAX_BACKEND",
        read=_one_of(*BACKENDS),
        doc="Backend of `jit` where the call names none: `c`, `numpy` or `triton`.",
        shown="`c`, or `numpy` without a compiler",
    )
    cc: str | None = _option(
        "STAX_CC",
        "CC",
        read=str,
        doc="C compiler: a name on PATH, a full path, or `none`.",
        shown="first of `cc`, `gcc`, `clang`",
    )
    num_threads: int = _option(
        "STAX_NUM_THREADS",
        "OMP_NUM_THREADS",
        read=_threads,
        doc="Threads a kernel may use.",
        default=0,
        shown="the CPUs this process may run on",
    )
    cache_dir: str | None = _option(
        "STAX_CACHE_DIR",
        read=str,
        doc="Directory of the kernel cache; made with mode 0700.",
        shown="`$XDG_CACHE_HOME/stax`, else `~/.cache/stax`",
    )
    cache_bytes: int = _option(
        "STAX_CACHE_BYTES",
        read=parse_bytes,
        doc="Size beyond which the entries used longest ago are removed from the cache.",
        default=2**30,
        shown="`1GiB`",
    )
    strict: bool = _option(
        "STAX_STRICT",
        read=_flag,
        doc="Default of `jit`'s `strict`: nothing may run outside compiled code.",
        default=False,
        shown="`0`",
    )
    plan_seconds: float = _option(
        "STAX_PLAN_SECONDS",
        read=_seconds,
        doc="Time that an integer program may take to improve the plans for a `memory_budget` "
        "(needs scipy); the plans then depend on the speed of the machine.",
        default=0.0,
        shown="`0`: none",
    )
    matmul_precision: str = _option(
        "STAX_MATMUL_PRECISION",
        read=_one_of(*PRECISIONS),
        doc="Default of `jit`'s `matmul_precision`: how a device multiplies float32 matrices.",
        default="highest",
        shown="`highest`",
    )
    array_methods: bool = _option(
        "STAX_ARRAY_METHODS",
        read=_flag,
        doc="Give NumPy arrays `x.at[...]`, `x.block_until_ready()`, `x.devices()` and "
        "`x.sharding`; let traced values index them and go to their methods.",
        default=True,
        shown="`1`",
    )
    debug: frozenset[str] = _option(
        "STAX_DEBUG",
        read=_debug,
        doc="Comma-separated: `check` verifies the IR between passes; `graph`, `loops`, "
        "`schedule`, `source` print a stage of every program to stderr; `keep` keeps the C text of "
        "every library beside it in the cache.",
        default=frozenset(),
        shown="none",
    )


def from_environment(environ: Mapping[str, str]) -> Options:
    """Return the options an environment asks for; empty variables count as absent.

    A variable that is not ours alone (`OMP_NUM_THREADS`) may hold what other programs make sense
    of: a value that says nothing here is left out, with a warning.

    Raises:
      ConfigurationError: a value of a `STAX_` variable outside its documented set; names it.
    """
    values: dict[str, Any] = {}
    for field in dataclasses.fields(Options):
        for variable in field.metadata["variables"]:
            text = environ.get(variable, "")
            if not text:
                continue
            try:
                values[field.name] = field.metadata["read"](text)
            except ConfigurationError as error:
                reason = str(error).partition("\n")[0]
                if variable.startswith("STAX_"):
                    raise ConfigurationError(f"environment variable {variable}: {reason}") from None
                message = f"stax: the environment variable {variable} is left out: {reason}"
                _warn(message)
                continue
            break
    if not values.get("num_threads"):
        values["num_threads"] = available_cpus()
    return Options(**values)


def _warn(message: str) -> None:
    """Warn with `DegradedWarning` at the user's line, where that is known."""
    place, _, line = (LOCATE[0]() if LOCATE else "").rpartition(":")
    if place:
        warnings.warn_explicit(message, DegradedWarning, place, int(line))
    else:
        warnings.warn(message, DegradedWarning, stacklevel=3)


@functools.cache
def options() -> Options:
    """Return the options of this process; the environment is read at the first call only."""
    return from_environment(os.environ)


# ---------------------------------------------------- JAX's switches, for scripts that set them

# Switches with a meaning here; the module that gives it is called with each new value.
SWITCH_HOOKS: dict[str, Callable[[bool], Any]] = {}
_switches: dict[str, Any] = {
    "jax_enable_x64": True,
    "jax_debug_nans": False,
    "jax_debug_infs": False,
    "jax_disable_jit": False,
    "jax_platforms": "cpu",
    "jax_platform_name": "cpu",
}
# Of switches whose other values would change results or raise errors: the values that may be set,
# and what to do instead of setting another.
ALLOWED: dict[str, tuple[tuple[Any, ...], str]] = {
    "jax_numpy_dtype_promotion": (
        ("standard",),
        "dtypes follow NumPy's promotion; compare them with stax.eval_shape or make_ir(f)(...)",
    ),
    "jax_numpy_rank_promotion": (
        ("allow",),
        "arrays broadcast as in NumPy; check x.ndim where that would be a mistake",
    ),
    "jax_default_prng_impl": (("threefry2x32",), "keys are Threefry's, the default of JAX"),
    "jax_debug_key_reuse": ((False,), "keys that are used twice are not looked for"),
}


def update(name: str, value: Any) -> None:
    """Set one of JAX's switches, `jax_...`; scripts written for JAX may do so.

    `jax_debug_nans`, `jax_debug_infs` and `jax_disable_jit` do what they say.  The others choose
    among ways of computing that are one here (64-bit dtypes are always there), and are only
    remembered.

    Raises:
      ConfigurationError: the name is not one of JAX's, or the value asks for other results or for
        errors that there are not (`jax_numpy_dtype_promotion="strict"`).
    """
    if not name.startswith("jax_"):
        raise ConfigurationError(
            f"config.update: {name!r} is not a switch of JAX; stax's own options are environment "
            "variables (docs/configuration.md) and arguments of jit"
        )
    allowed, instead = ALLOWED.get(name, ((value,), ""))
    if value is not None and value not in allowed:
        raise ConfigurationError(
            f"config.update: {name}={value!r} has no effect here, so it is refused; {instead}"
        )
    _switches[name] = value
    hook = SWITCH_HOOKS.get(name)
    if hook is not None:
        hook(bool(value))


def read(name: str) -> Any:
    """The value of one of JAX's switches, None when it was never set."""
    return _switches.get(name)


def __getattr__(name: str) -> Any:
    if name.startswith("jax_"):
        return _switches.get(name)
    raise AttributeError(f"module 'stax.config' has no attribute {name!r}")
