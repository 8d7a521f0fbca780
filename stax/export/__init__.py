"""Ahead-of-time compilation: `stax.export(f)(*args)`, `stax.export.load(path)`.

The public name `stax.export` is a function with the other names of this package as attributes, so
that `stax.export(f)`, `stax.export.export(f)` and `from stax.export import load` all say what they
seem to.
"""

from __future__ import annotations

import functools

from stax.export.exported import Exported, deserialize, export, load

__all__ = ["Exported", "deserialize", "export", "load"]


class _Export:
    """`export`, with what reads its files beside it."""

    Exported = Exported
    export = staticmethod(export)
    load = staticmethod(load)
    deserialize = staticmethod(deserialize)
    __call__ = staticmethod(export)


exporting = functools.update_wrapper(_Export(), export)
