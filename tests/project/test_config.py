"""Options: read from the environment, refused with the variable's name, documented in one table."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from stax.config import Options, available_cpus, from_environment, parse_bytes
from stax.errors import ConfigurationError

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
            "STAX_RECOMPILE": "on",
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
        recompile=True,
        strict=True,
        debug=frozenset({"check", "source"}),
    )


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("STAX_BACKEND", "fortran"),
        ("STAX_NUM_THREADS", "0"),
        ("STAX_NUM_THREADS", "many"),
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
