"""Collected only in a process of its own: Triton reads TRITON_INTERPRET when it is imported."""

from __future__ import annotations

import os

import pytest

collect_ignore_glob = [] if os.environ.get("TRITON_INTERPRET") == "1" else ["test_*.py"]

if os.environ.get("TRITON_INTERPRET") == "1":
    from stax import on_device
    from stax.backends.triton import device
    from tests.triton_interpreter.machine import InterpretedMachine

    @pytest.fixture(autouse=True)
    def machine():
        """Programs of the Triton back end run in the interpreter; nothing may be left behind."""
        made = InterpretedMachine()
        device.install(made)
        on_device._program.cache_clear()  # the programs of another machine
        on_device._operation.cache_clear()
        yield made
        device.install(None)
