"""Passes that preserve bits: what they remove, what they must keep, and that they are linear."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import stax
from stax.core.graph import Graph, check_graph
from stax.core.staging import eval_graph
from stax.transforms.simplify import cse, dce, fold, inline_calls, simplify


def ops(graph: Graph) -> list[str]:
    return [e.op for e in graph.eqns]


def test_cse_merges_equal_work_only() -> None:
    def f(x: Any) -> Any:
        return np.sin(x) * np.sin(x) + np.sin(-x) + x * 1.0 + x * 1.5 + x * 1.0

    graph = stax.make_ir(f)(np.ones(3))
    merged = cse(graph)
    check_graph(merged)
    assert ops(merged).count("sin") == 2
    assert ops(merged).count("mul") == 3
    x = np.arange(3.0)
    np.testing.assert_array_equal(eval_graph(merged, [x]), eval_graph(graph, [x]))


def test_cse_keeps_signed_zeros_and_dtypes_apart() -> None:
    graph = stax.make_ir(lambda x: (x * 0.0, x * -0.0, x * 0.0))(1.0)
    merged = cse(graph)
    assert ops(merged) == ["mul", "mul"]
    assert merged.outputs[0] is merged.outputs[2]
    assert merged.outputs[0] is not merged.outputs[1]


def test_dce_removes_unused_work_and_constants() -> None:
    w = np.ones(3)

    def f(x: Any) -> Any:
        np.exp(x + w)
        return x * 2.0

    graph = dce(stax.make_ir(f)(np.ones(3)))
    assert ops(graph) == ["mul"]
    assert not graph.constants
    assert len(graph.inputs) == 1


def test_dce_reaches_into_calls() -> None:
    f = stax.checkpoint(lambda x, y: (np.sin(x), np.exp(y)))
    graph = stax.make_ir(lambda x, y: f(x, y)[0])(np.float64(1.0), np.float64(2.0))
    pruned = dce(graph)
    check_graph(pruned)
    (call,) = pruned.eqns
    assert ops(call.params["graph"]) == ["sin"]
    assert len(call.inputs) == 1
    assert eval_graph(pruned, [1.0, 2.0]) == [np.sin(1.0)]


def test_fold_computes_literals_exactly() -> None:
    graph = fold(stax.make_ir(lambda x: x * (np.negative(stax.numpy.float64(2.0)) + 1.0))(1.0))
    assert ops(graph) == ["mul"]
    assert eval_graph(graph, [3.0]) == [-3.0]


def test_inlining_keeps_names_sources_and_constants() -> None:
    w = np.arange(3.0)
    inner = stax.checkpoint(lambda v: np.sin(v * w))
    f = lambda v: inner(v) + inner(stax.checkpoint(inner)(v))
    graph = stax.make_ir(f)(np.ones(3))
    flat = inline_calls(graph)
    check_graph(flat)
    assert ops(flat).count("sin") == 3
    assert "checkpoint" not in ops(flat)
    assert all("test_simplify.py" in e.source for e in flat.eqns)
    x = np.arange(3.0)
    np.testing.assert_array_equal(eval_graph(flat, [x])[0], f(x))
    np.testing.assert_array_equal(eval_graph(simplify(flat), [x])[0], f(x))


def test_passes_are_linear_and_do_not_recurse() -> None:
    def chain(n: int) -> Graph:
        def f(x: Any) -> Any:
            for _ in range(n):
                x = np.sin(x) * 0.5
            return x

        return stax.make_ir(stax.checkpoint(f))(1.0)

    def seconds(graph: Graph) -> float:
        best = np.inf
        for _ in range(3):
            start = time.perf_counter()
            simplify(inline_calls(graph.replace()))
            best = min(best, time.perf_counter() - start)
        return best

    small, large = chain(1000), chain(8000)
    assert seconds(large) < 20 * seconds(small) + 0.05
