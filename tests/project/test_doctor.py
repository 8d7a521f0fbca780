"""`python -m stax doctor`: with and without a compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import stax
from stax.__main__ import main, report

ROOT = Path(stax.__file__).resolve().parents[1]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stax", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_names_what_is_there() -> None:
    findings = dict(report())
    assert findings["stax"].startswith(stax.__version__)
    assert not findings["compiler"].startswith("none")
    assert findings["compiled code"].startswith("works")
    assert findings["kernel cache"]
    assert findings["GPU"]


def test_it_says_why_nothing_compiles(tmp_path) -> None:
    done = run("doctor", STAX_CC="/nonexistent", STAX_CACHE_DIR=str(tmp_path))
    assert done.returncode == 1
    assert "none: no C compiler was found (looked for STAX_CC=/nonexistent)" in done.stdout
    assert done.stderr == ""


def test_other_words_print_the_usage(capsys) -> None:
    assert main([]) == main(["docter"]) == 2
    assert "python -m stax doctor" in capsys.readouterr().err
