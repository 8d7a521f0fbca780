"""The examples: short runs, and the figures they end with."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples"


def load(name):
    """The example as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_is_listed_and_short():
    listed = (FOLDER / "README.md").read_text()
    files = sorted(FOLDER.glob("*.py"))
    assert files
    for path in files:
        assert f"| {path.name} |" in listed
        assert len(path.read_text().splitlines()) <= 150, path.name


def test_none_hides_a_module_of_the_standard_library():
    # A script's folder comes first on the path; inspect.py stands aside for its namesake.
    same = {p.stem for p in FOLDER.glob("*.py")} & sys.stdlib_module_names
    assert same <= {"inspect"}
    code = "import sys; sys.path.insert(0, sys.argv[1]); import inspect; inspect.signature(len)"
    subprocess.run([sys.executable, "-S", "-c", code, str(FOLDER)], check=True)


def test_digits_learns(capsys):
    accuracy, lowered = load("digits").main(epochs=12)
    printed = capsys.readouterr().out
    assert accuracy >= 0.97
    assert "epoch  10  loss" in printed
    for figure in ("test accuracy", "steps per second", "kernels", "saved", "recomputed"):
        assert figure in printed
    assert len(lowered.kernels) <= 20
    assert lowered.fallbacks == []
    # Activations are recomputed from what the layers' products saved.
    saved = {v.name for v in lowered.partition.saved}
    assert {"dot_general", "dot_general_1"} <= saved
    assert any(v.name.startswith("exp") for v in lowered.partition.recomputed)


def test_newton_agrees_with_scikit_learn(capsys):
    difference = load("newton_logistic").main()
    assert difference < 1e-6
    lines = capsys.readouterr().out.splitlines()
    lengths = [float(line.split()[2]) for line in lines if line.strip()[:1].isdigit()]
    assert len(lengths) < 15
    assert lengths[-1] < 1e-8


def test_inspect_prints_every_stage(capsys):
    difference = load("inspect").main()
    printed = capsys.readouterr().out
    assert difference < 1e-5
    for text in ("graph f(", "bwd ", "maximum flow 9011", "ops.erf(", "call0:", "stax_run"):
        assert text in printed


@pytest.mark.slow
def test_digits_runs_as_a_script():
    done = subprocess.run(
        [sys.executable, str(FOLDER / "digits.py"), "--epochs", "1"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "test accuracy" in done.stdout
