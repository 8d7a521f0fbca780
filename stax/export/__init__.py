"""Ahead-of-time compilation: `stax.export(f)(*args)`, `stax.export.load(path)`.

The package can be called: `stax.export(f)` is `stax.export.export(f)`.
"""

from __future__ import annotations

import sys
from types import ModuleType

from stax.export.exported import Exported, deserialize, export, load

__all__ = ["Exported", "deserialize", "export", "load"]


class CallableModule(ModuleType):
    """The package as a function, with its names as attributes."""

    Exported = Exported
    deserialize = staticmethod(deserialize)
    export = staticmethod(export)
    load = staticmethod(load)
    __call__ = staticmethod(export)


sys.modules[__name__].__class__ = CallableModule
