"""Options: read from the environment, refused with the variable's name, documented in one table."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stax.config import Options, available_cpus, from_environment, parse_bytes
from stax.errors import ConfigurationError, DegradedWarning

ROOT = Path(__file__).resolve().parents[2]


def table() -> str:
    rows = ["| field | variables | default | meaning |", "|---|---|---|---|"]
    for field in dataclasses.fields(Options):
        data = field.metadata
        names = ", then ".join(f"`{name}`" for name in data["variables"])
        rows.append(f"| `{field.name}` | {names} | {data['shown']} | {data['doc']} |")
    return "\n".join(rows)


def test_the_documented_table_is_the_code() -> None:
    assert table() in (ROOT / "docs" / "configuration.md").read_text()


def test_an_empty_environment_gives_the_defaults() -> None:
    options = from_environment({"STAX_CC": "", "PATH": "/bin"})
    assert options == Options(num_threads=available_cpus())
    assert options.cache_bytes == 2**30


def test_every_variable_is_read() -> None:
    options = from_environment(
        {
            "STAX_BACKEND": "numpy",
            "STAX_CC": "clang",
            "CC": "gcc",
            "OMP_NUM_THREADS": "3,1",
            "STAX_CACHE_DIR": "/somewhere",
            "STAX_CACHE_BYTES": "64MiB",
            "STAX_STRICT": "1",
            "STAX_DEBUG": "check, source",
        }
    )
    assert options == Options(
        backend="numpy",
        cc="clang",
        num_threads=3,
        cache_dir="/somewhere",
        cache_bytes=64 * 2**20,
        strict=True,
        debug=frozenset({"check", "source"}),
    )


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("STAX_BACKEND", "fortran"),
        ("STAX_NUM_THREADS", "0"),
        ("STAX_NUM_THREADS", "many"),
        ("STAX_NUM_THREADS", "-2"),
        ("STAX_NUM_THREADS", "²"),
        ("STAX_NUM_THREADS", "1000000"),
        ("STAX_CACHE_BYTES", "huge"),
        ("STAX_STRICT", "perhaps"),
        ("STAX_DEBUG", "check,everything"),
    ],
)
def test_a_bad_value_names_its_variable(variable: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=variable):
        from_environment({variable: value})


@pytest.mark.parametrize(
    ("text", "size"),
    [("4096", 4096), ("64KiB", 65536), ("2GB", 2 * 10**9), ("1.5 MiB", 1572864), ("8b", 8)],
)
def test_parse_bytes(text: str, size: int) -> None:
    assert parse_bytes(text) == size


def test_sizes_of_any_length_are_numbers() -> None:
    assert parse_bytes("9" * 400) == int("9" * 400)
    assert parse_bytes("9" * 400 + ".5k") == int("9" * 400 + "500")


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5", "²", ",2", "1000000"])
def test_what_other_programs_may_mean_by_a_variable_is_left_out(text: str) -> None:
    """OMP_NUM_THREADS belongs to OpenMP, whose runtime says so itself and goes on."""
    with pytest.warns(DegradedWarning, match="OMP_NUM_THREADS is left out"):
        options = from_environment({"OMP_NUM_THREADS": text})
    assert options.num_threads == available_cpus()
    assert from_environment({"OMP_NUM_THREADS": text, "STAX_NUM_THREADS": "3"}).num_threads == 3


def in_a_process(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "always", "-c", "import numpy as np, stax\n" + code],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


CALL = "print(stax.jit(lambda x: np.sin(x) + 1)(np.zeros(2)))"
PLACE = "from stax.backends.c.cache import default_cache\nprint(default_cache().limit)"


def test_a_program_goes_on_with_a_bad_environment() -> None:
    done = in_a_process(CALL, OMP_NUM_THREADS="0", CC="no compiler", XDG_CACHE_HOME="relative")
    assert done.stdout == "[1. 1.]\n"
    assert done.stderr.count("OMP_NUM_THREADS is left out") == 1
    done = in_a_process(PLACE, STAX_CACHE_DIR="~nobody_of_that_name/cache")
    assert done.stdout == f"{2**30}\n"
    assert done.stderr.count("DegradedWarning") == 1
    assert "STAX_CACHE_DIR" in done.stderr


def test_the_size_of_the_cache_is_the_one_asked_for(tmp_path: Path) -> None:
    environment = {"STAX_CACHE_DIR": str(tmp_path), "STAX_CACHE_BYTES": "3MB"}
    assert in_a_process(PLACE, **environment).stdout == "3000000\n"


def test_debug_prints_stages_and_keeps_sources(tmp_path: Path) -> None:
    flags = "graph,loops,schedule,source,keep,check"
    done = in_a_process(CALL, STAX_DEBUG=flags, STAX_CACHE_DIR=str(tmp_path))
    assert done.stdout == "[1. 1.]\n"
    for stage, text in {
        "graph": "sin(x)",
        "loops": "ops.sin",
        "schedule": "kernel0: rows",
        "source": "int32_t stax_run",
    }.items():
        part = done.stderr.split(f"-- {stage} of ")[1]
        assert text in part.split("\n-- ")[0]
    kept = [path.read_text() for path in tmp_path.rglob("*.c")]
    assert any("stax_run" in text for text in kept)
