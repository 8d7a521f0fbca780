"""Back ends: each turns scheduled loop IR into something that runs."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def on_demand(module: str) -> Any:
    """A module of a back end that most programs never need, imported at its first use."""
    return import_module(f"stax.backends.{module}")
