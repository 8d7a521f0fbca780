"""S5.1: the operator-level graph of a small program holds exactly its operations, all typed."""

from __future__ import annotations

from typing import Any

import numpy as np

import stax


def relu(x: Any) -> Any:
    return stax.numpy.maximum(x, 0)


def program(x: Any, y: Any) -> Any:
    return (relu(x + y) * 2).sum(-1)


def test_s5_1_operations_types_and_attributes() -> None:
    x = np.ones((64, 128), np.float32)
    graph = stax.make_ir(program)(x, x)
    assert [e.op for e in graph.eqns] in (
        ["add", "relu", "mul", "sum"],
        ["add", "maximum", "mul", "sum"],
    )
    for eqn in graph.eqns[:-1]:
        (out,) = eqn.outputs
        assert (out.shape, out.dtype) == ((64, 128), np.float32)
    total = graph.eqns[-1]
    assert total.params["axes"] == (1,)
    assert total.params["dtype"] == np.float32
    (result,) = graph.outputs
    assert (result.shape, result.dtype) == ((64,), np.float32)
    assert [v.name for v in graph.inputs] == ["x", "y"]
    for eqn in graph.eqns:
        assert "test_s5_1_operator_graph.py:" in eqn.source
        assert eqn.phase == "forward"


def test_s5_1_the_text_says_all_of_it() -> None:
    text = str(stax.make_ir(program)(np.ones((64, 128), np.float32), np.float32(1)))
    assert "x: f32[64,128]" in text
    assert "y: f32[]" in text
    assert "axes=(1,)" in text
    assert "f32[64]" in text
