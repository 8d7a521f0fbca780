"""`jit(memory_budget=...)`: kept on the real schedule, monotone, predicted, with equal results."""

from __future__ import annotations

import gc
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import stax
from stax.compile import lowered_graph, memory_curve_of, plan_search, simplified
from stax.errors import ConfigurationError, MemoryBudgetError
from stax.programs.options import CompileOptions
from stax.transforms.budget import budget_bytes
from stax.transforms.partition import equation_cost
from tests.budget.models import MODELS, chain, transformer

OPTIONS = CompileOptions.of()


def curve_of(gradient, args):
    return memory_curve_of(gradient.trace(*args).graph, OPTIONS)


def search_of(gradient, args):
    return plan_search(gradient.trace(*args).graph, OPTIONS, "cpu", {})


@pytest.mark.parametrize("name", MODELS)
def test_every_budget_is_kept_and_gives_equal_results(name):
    f, args = MODELS[name]()
    gradient = stax.jit(stax.value_and_grad(f))
    graph = gradient.trace(*args).graph
    search = plan_search(graph, OPTIONS, "cpu", {})
    want = stax.tree.leaves(gradient(*args))
    peaks, work = [], []
    with pytest.raises(MemoryBudgetError) as caught:
        search.within(1, "f")
    low, high = caught.value.least, search.everything
    for k in range(20):
        budget = low + (high - low) * k // 19
        point, _ = search.within(budget, "f")
        peaks.append(point.peak_bytes)
        if point != search.usual:
            work.append(point.recompute_flops)
        assert point.peak_bytes <= budget
        if k in (0, 9):
            lowered = lowered_graph(graph, replace(OPTIONS, memory_budget=budget))
            assert lowered.peak_bytes == point.peak_bytes
            compiled = lowered.compile()
            assert compiled.memory_analysis()["peak_bytes"] == point.peak_bytes
            found = compiled(*stax.tree.leaves(args))
            for a, b in zip(found, want, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert all(a <= b for a, b in pairwise(peaks))
    assert all(a >= b for a, b in pairwise(work))


def test_a_budget_gives_one_program_whatever_was_asked_before():
    """The one that computes least again among all that fit, where all of them are measured."""
    ws, x = np.ones((2, 32, 32)) / 9, np.ones((16, 32))
    layer = lambda w, x: np.sin(x @ w)

    def f(ws, x):
        v, w = ws
        x = x[::-1] + x[np.arange(16) % 8] * 0.5
        x = stax.checkpoint(lambda v, x: layer(v, layer(v, x)), memory_budget=0.5)(v, x)
        x = stax.lax.fori_loop(0, 4, lambda i, x: layer(w, x), x)
        return (abs(x) ** 2).sum()

    def search():
        return search_of(stax.jit(stax.value_and_grad(f)), (list(ws), x))

    first = search()
    points = [first._point(c) for c in first.candidates]
    budgets = sorted({p.peak_bytes for p in points if p.peak_bytes < first.usual.peak_bytes})
    assert len(budgets) > 2
    other = search()
    for budget in budgets:
        fitting = [p.recompute_flops for p in points if p.peak_bytes <= budget]
        for asked in (first, other, search()):
            assert asked.within(budget, "f")[0].recompute_flops == min(fitting)


def test_half_of_everything_costs_little_on_a_transformer():
    f, args = transformer()
    gradient = stax.jit(stax.value_and_grad(f))
    point, _ = search_of(gradient, args).within(0.5, "f")
    graph = simplified(gradient.trace(*args).graph, OPTIONS, {})
    assert point.recompute_flops <= 0.12 * sum(map(equation_cost, graph.eqns))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_predicted_and_measured_peaks_agree():
    def resident():
        gc.collect()
        status = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) * 1024

    f, args = chain(depth=8, rows=16384, width=128)
    warm, small = chain(depth=1, rows=256, width=128)
    stax.jit(stax.grad(warm))(*small)
    for budget in (None, 0.6):
        compiled = stax.jit(stax.value_and_grad(f), memory_budget=budget).lower(*args).compile()
        predicted = compiled.memory_analysis()["peak_bytes"]
        before = resident()
        outs = compiled(*args)  # the arena stays for the next call
        grown = resident() - before
        assert abs(grown - predicted) <= 0.02 * predicted + 2**20
        del outs, compiled


def test_an_infeasible_budget_names_the_least():
    f, args = MODELS["mlp"]()
    with pytest.raises(MemoryBudgetError, match="at least") as caught:
        stax.jit(stax.grad(f), memory_budget="1KiB")(*args)
    least = caught.value.least
    assert least > 1024
    assert stax.jit(stax.grad(f), memory_budget=least).lower(*args).peak_bytes <= least
    with pytest.raises(MemoryBudgetError):
        stax.jit(stax.grad(f), memory_budget=least - 1)(*args)


NONSENSE = [
    "lots",
    "",
    "0.5",
    "50%",
    "-5MB",
    -1,
    0.0,
    1.5,
    True,
    float("nan"),
    float("inf"),
    1j,
    [1],
]


@pytest.mark.parametrize("budget", NONSENSE)
def test_nonsense_budgets(budget):
    f, args = MODELS["mlp"]()
    with pytest.raises(ConfigurationError, match="not a budget"):
        stax.jit(stax.grad(f), memory_budget=budget)(*args)


def test_budgets_in_words_are_bytes():
    words = {"1TiB": 1 << 40, "2 tb": 2 * 10**12, "0.5KiB": 512, "3mb": 3_000_000, "7": 7}
    assert {w: budget_bytes(w, 1) for w in words} == words


def test_a_compiled_function_saves_within_its_budget():
    f, args = chain(depth=6, rows=64, width=32)
    budget = 2 * 64 * 32 * 4
    want = stax.grad(f)(*args)
    g = stax.jit(f, memory_budget=budget)
    for a, b in zip(stax.grad(g)(*args), want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    graph = stax.make_ir(lambda *a: stax.vjp(g, *a)[1](np.float32(1)))(*args)
    forward = next(e for e in graph.eqns if e.op == "jit")
    assert sum(v.aval.nbytes for v in forward.outputs[1:]) <= budget
    half = stax.jit(f, memory_budget=0.5)
    for a, b in zip(stax.grad(half)(*args), want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    assert half(*args) == stax.jit(f)(*args)


def test_random_values_are_drawn_once_at_every_budget():
    x = np.ones((64, 32), np.float32)
    w = np.eye(32, dtype=np.float32)
    key = stax.random.key(3)

    def f(w, x):
        for k in range(4):
            keep = stax.random.bernoulli(stax.random.fold_in(key, k), 0.5, (64, 32))
            x = np.where(keep, np.tanh(x @ w), 0.0)
        return (x * x).sum()

    gradient = stax.jit(stax.grad(f))
    curve = curve_of(gradient, (w, x))
    want = gradient(w, x)
    draws = {"n": None}
    for point in curve.points:
        budgeted = stax.jit(stax.grad(f), memory_budget=point.peak_bytes)
        np.testing.assert_array_equal(budgeted(w, x), want)
        ops = [e.op for e in budgeted.lower(w, x).prepared.eqns]
        count = sum("threefry" in op or "bits" in op for op in ops)
        assert draws["n"] in (None, count)
        draws["n"] = count


def test_budgets_of_attention_are_kept():
    """Scores exist as blocks of rows unless a plan keeps them, which every plan may or may not."""
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 128, 16)), rng.standard_normal((16, 48)) / 4

    def f(w, x):
        q, k, v = np.split(x @ w, 3, -1)
        return ((stax.nn.softmax(q @ np.swapaxes(k, -1, -2)) @ v) ** 2).sum()

    want = stax.grad(f)(w, x)
    search = search_of(stax.jit(stax.grad(f)), (w, x))
    for candidate in search.candidates:
        search._point(candidate)
    for point in search._points.values():
        gradient = stax.jit(stax.grad(f), memory_budget=point.peak_bytes)
        assert gradient.lower(w, x).peak_bytes <= point.peak_bytes
    np.testing.assert_allclose(gradient(w, x), want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("layers", [1, 2, 3, 24])
@pytest.mark.parametrize("rows", [1, 6, 40])
def test_what_runs_without_a_budget_is_within_its_own_peak(layers, rows):
    a = np.random.default_rng(2).normal(size=(4, 4)) / 2
    x = np.linspace(-1, 1, 4 * rows).reshape(rows, 4)

    def f(x):
        for _ in range(layers):
            x = np.tanh(x @ a)
        return x.sum()

    g = stax.grad(f)
    plain = stax.explain(stax.jit(g))(x).predicted_peak_bytes
    peaks = [
        stax.explain(stax.jit(g, memory_budget=b))(x).predicted_peak_bytes
        for b in (plain, plain + 1, int(plain * 1.4), int(plain * 4))
    ]
    assert peaks == [plain] * 4
    stax.jit(g, memory_budget=1.0)(x)
