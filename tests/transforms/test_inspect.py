"""make_ir, eval_shape and the controls over tracing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stax
from stax import errors
from stax.core.graph import check_graph


def f(params: Any, x: Any, *rest: Any, scale: Any = 1.0) -> Any:
    return {"y": params["w"] * x + params["b"][0] * scale, "n": x.shape[0] + len(rest)}


def test_make_ir_names_inputs_after_arguments() -> None:
    graph = stax.make_ir(f)({"w": np.ones(3), "b": (1.0,)}, np.ones(3), 2.0, scale=3)
    assert [v.name for v in graph.inputs] == ["params_b_0", "params_w", "x", "rest_0", "scale"]
    assert [str(a) for a in graph.in_avals] == ["f64~[]", "f64[3]", "f64[3]", "f64~[]", "i64~[]"]
    assert graph.name == "f"
    check_graph(graph)
    for eqn in graph.eqns:
        assert "test_inspect.py:" in eqn.source
        assert eqn.phase == "forward"
    backward = stax.make_ir(stax.grad(lambda x: np.sum(np.sin(x))))(np.ones(3))
    assert {e.phase for e in backward.eqns if e.op == "cos"} == {"backward"}
    assert stax.make_jaxpr is stax.make_ir


def test_make_ir_takes_types_only_and_computes_nothing() -> None:
    huge = stax.ShapeDtypeStruct((10**6, 10**6), np.float32)
    graph = stax.make_ir(lambda x: np.exp(x).sum(0))(huge)
    assert graph.outputs[0].shape == (10**6,)
    assert graph.outputs[0].dtype == np.float32


def test_eval_shape() -> None:
    x = stax.ShapeDtypeStruct((3, 4), "float32")
    out = stax.eval_shape(lambda a: {"s": a.sum(0), "t": a @ a.T, "i": a > 0}, x)
    assert out == {
        "s": stax.ShapeDtypeStruct((4,), np.float32),
        "t": stax.ShapeDtypeStruct((3, 3), np.float32),
        "i": stax.ShapeDtypeStruct((3, 4), np.bool_),
    }
    assert (x.ndim, x.size) == (2, 12)
    assert stax.eval_shape(stax.grad(lambda a: a.sum()), x) == x
    assert hash(x) == hash(stax.ShapeDtypeStruct((3, 4), np.float32))
    with pytest.raises(errors.ShapeError, match=r"(?s)\(3, 4\).*test_inspect\.py|test_inspect"):
        stax.eval_shape(lambda a: a + np.ones(5), x)


def test_constants_are_copies() -> None:
    w = np.ones(3)
    graph = stax.make_ir(lambda x: x * w)(np.ones(3))
    w[:] = 7.0
    ((_, value),) = graph.constants
    np.testing.assert_array_equal(value, np.ones(3))


def test_compile_time_evaluation() -> None:
    def g(x: Any) -> Any:
        with stax.ensure_compile_time_eval():
            n = int(stax.numpy.sum(stax.numpy.ones(3)))
        return x * n

    graph = stax.make_ir(g)(2.0)
    assert [e.op for e in graph.eqns] == ["mul"]
    assert stax.grad(g)(2.0) == 3.0

    def wrong(x: Any) -> Any:
        with stax.ensure_compile_time_eval():
            return np.sin(x)

    with pytest.raises(errors.TracerLeakError):
        stax.make_ir(wrong)(2.0)


def test_named_call() -> None:
    g = stax.named_call(lambda x: x * 2, name="double")
    assert g(3) == 6
    assert stax.make_ir(g)(3.0).name == "double"


def test_results_that_are_no_arrays() -> None:
    with pytest.raises(errors.DtypeError, match="results of"):
        stax.make_ir(lambda x: "text")(1.0)
    with pytest.raises(errors.DtypeError, match="object"):
        stax.make_ir(lambda x: x)(np.array([None]))
