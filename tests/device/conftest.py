"""A device that is not there: each test starts with a fresh fake driver."""

from __future__ import annotations

import importlib.util
import itertools
import shutil

import pytest

from stax import on_device
from stax.backends.triton import device
from tests.device import fake

# Compiling needs triton, which exists for Linux alone.
_COMPILING = ["test_launches.py", "test_cublas.py"]
collect_ignore = [] if importlib.util.find_spec("triton") else _COMPILING
_count = itertools.count()


@pytest.fixture(scope="session")
def fake_library(tmp_path_factory):
    if fake.compiler() is None:
        pytest.fail("the tests of the driver layer need a C compiler")
    return fake.build(tmp_path_factory.mktemp("fake"))


@pytest.fixture
def cuda(fake_library, tmp_path, monkeypatch):
    """The fake's controls; the library is a copy of its own, so that its state is fresh."""
    own = tmp_path / f"libfakecuda{next(_count)}.so"
    shutil.copy(fake_library, own)
    monkeypatch.setenv("STAX_CUDA_DRIVER", str(own))
    monkeypatch.setenv("STAX_CUBLAS", "off")  # a real one has nothing to do with a fake device
    kept = dict(device._machines)
    device._machines.clear()
    on_device._program.cache_clear()  # the programs of another machine
    on_device._operation.cache_clear()
    yield fake.controls(own)
    device._machines.clear()
    device._machines.update(kept)
