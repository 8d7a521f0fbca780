"""Composable function transformations for plain NumPy programs, with a compiler behind them.

`grad`, `jvp`, `vjp`, `vmap` and `jit` take a function of arrays and return one; they nest in any
order.  Inside them NumPy's own functions work on traced values; `stax.numpy` is the same surface
spelled out.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stax.api import *  # noqa: F403 - its __all__ is the list of names
    from stax.export import CallableModule

    export: CallableModule

__version__ = "0.1.0.dev0"

_ON_DEMAND = frozenset(
    {
        "ad_checkpoint",
        "custom_batching",
        "custom_derivatives",
        "dlpack",
        "example_libraries",
        "experimental",
        "export",
        "extend",
        "flatten_util",
        "image",
        "nn",
        "ops",
        "profiler",
        "random",
        "scipy",
        "test_util",
        "testing",
        "tree_util",
    }
)


def __getattr__(name: str) -> Any:
    """Import a subpackage, or all public names together, when one is first named.

    `import stax` alone costs nothing, wherever it stands.
    """
    if name in _ON_DEMAND:
        return _import_module(f"stax.{name}")
    if name == "DeviceArray":
        return _import_module("stax.backends.triton.array").DeviceArray
    if name.startswith("__") and name != "__all__":
        raise AttributeError(f"module 'stax' has no attribute {name!r}")
    api = _import_module("stax.api")
    names = globals()
    names["__all__"] = [*api.__all__, "export", "nn", "random", "scipy"]
    names.update((public, getattr(api, public)) for public in api.__all__)
    if name not in names:
        raise _import_module("stax.absent").missing("stax", name)
    return names[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__"), *_ON_DEMAND})
