"""The report of the compiler's decisions, and the curve of memory against recomputation."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

import stax
from stax.errors import ConfigurationError
from tests.budget.models import chain


def test_the_report_names_every_decision():
    f, args = chain(depth=3, rows=64, width=32)
    report = stax.explain(stax.grad(f))(*args)
    text = str(report)
    assert text == str(stax.explain(stax.grad(f))(*args))
    for part in ("saved: on the minimum cut", "recomputed", "matmul", "an output of the program"):
        assert part in text
    assert f"peak {report.predicted_peak_bytes:,} bytes" in text
    assert "models.py:" in text
    kernels = [line for line in text.splitlines() if line.strip().startswith("kernel")]
    assert len(kernels) == report.costs["kernels"]


def test_measured_figures_and_the_page(tmp_path):
    f, args = chain(depth=2, rows=64, width=32)
    report = stax.explain(stax.jit(stax.grad(f)))(*args)
    assert report.measured.seconds > 0
    assert report.expected_seconds > 0
    path = tmp_path / "report.html"
    report.save_html(path)
    page = path.read_text()
    for part in ("<svg", "materialised", "measured"):
        assert part in page
    assert max(report.live_bytes()) <= report.predicted_peak_bytes


def test_types_are_enough():
    report = stax.explain(np.sin)(stax.ShapeDtypeStruct((3,), np.float64))
    assert report.measured is None
    assert "1 kernels and 0 calls" in str(report)


def test_a_budgeted_program_reports_its_own_plan():
    f, args = chain(depth=6, rows=64, width=32)
    inner = stax.jit(f)  # an inlined call
    plain = stax.explain(stax.grad(inner))(*args).lowered.partition
    curve = stax.memory_curve(stax.grad(inner))(*args)
    budget = curve.least
    report = stax.explain(stax.jit(stax.grad(inner), memory_budget=budget))(*args)
    assert report.predicted_peak_bytes == budget
    partition = report.lowered.partition
    assert len(partition.saved) < len(plain.saved)
    assert partition.recompute_flops == curve.points[-1].recompute_flops


def test_the_curve_prints():
    f, args = chain(depth=6, rows=64, width=32)
    curve = stax.memory_curve(stax.grad(f))(*args)
    lines = str(curve).splitlines()
    assert lines[0].split() == ["peak", "bytes", "of", "everything", "recomputed", "operations"]
    assert len(lines) == 1 + len(curve.points)
    peaks = [p.peak_bytes for p in curve.points]
    assert peaks == sorted(peaks, reverse=True)


class Axes:
    """Stands for matplotlib's, which the tests do not need: notes what is drawn and saved."""

    def __init__(self):
        self.calls = []
        self.figure = self

    def subplots(self):
        return self

    def __getattr__(self, name):
        if name not in ("plot", "fill_between", "set_xlabel", "set_ylabel", "set_ylim", "savefig"):
            raise AttributeError(name)
        return lambda *args, **kwargs: self.calls.append((name, args))


def test_pictures_are_drawn_shown_or_saved(monkeypatch, tmp_path):
    f, args = chain(depth=2, rows=64, width=32)
    pictures = [
        (stax.explain(stax.grad(f))(*args), "fill_between"),
        (stax.memory_curve(stax.grad(f))(*args), "plot"),
    ]
    shown = types.SimpleNamespace(figure=lambda: shown_axes)
    shown_axes = Axes()
    modules = {
        "matplotlib": types.SimpleNamespace(pyplot=shown),
        "matplotlib.figure": types.SimpleNamespace(Figure=Axes),
    }
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    for picture, drawing in pictures:
        axes = Axes()
        assert picture.plot(axes) is axes
        assert drawing in [name for name, _ in axes.calls]
        assert picture.plot() is shown_axes
        saved = picture.plot(tmp_path / "picture.png")
        assert saved.calls[0][0] == drawing
        assert saved.calls[-1] == ("savefig", (tmp_path / "picture.png",))
        assert picture.plot("picture.svg").calls[-1] == ("savefig", ("picture.svg",))
        with pytest.raises(ConfigurationError, match="path of a file, got int"):
            picture.plot(3)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for picture, _ in pictures:
        with pytest.raises(ConfigurationError, match="install matplotlib"):
            picture.plot()
