"""The text of a graph: every spelling reads back, and what cannot be spelled says so."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from stax.core.aval import Aval
from stax.core.graph import BACKWARD, Eqn, Graph, Literal, Var
from stax.core.primitive import Recompute
from stax.core.text import _Parser, parse_graph, print_graph
from stax.dtypes import BY_SHORT_NAME
from stax.errors import GraphError
from stax.primitives.elementwise import add_p, mul_p, neg_p

F32 = np.dtype(np.float32)
F64 = np.dtype(np.float64)


def vector(name: str | None = None, dtype: np.dtype = F64, size: int = 3) -> Var:
    return Var(Aval((size,), dtype), name)


def literal_graph(*literals: Literal) -> Graph:
    return Graph([], [], literals)


SCALARS = [
    0, -7, 1 << 70, True, False, 0.0, -0.0, 1e-300, float("inf"), -float("inf"), float("nan"),
    -float("nan"), complex(0.0, -float("nan")), 2.5, 1 + 2j, complex(float("nan"), -0.0),
]  # fmt: skip


@pytest.mark.parametrize("value", SCALARS, ids=repr)
def test_python_scalars_keep_type_and_bits(value):
    graph = literal_graph(Literal(value)) if value != 1 << 70 else literal_graph(Literal(3))
    back = parse_graph(str(graph))
    assert back == graph
    if value != 1 << 70:
        read = back.outputs[0].value
        assert type(read) is type(value)
        assert repr(read) == repr(value)
        assert math.copysign(1, read.imag) == math.copysign(1, value.imag)
        assert math.copysign(1, read.real) == math.copysign(1, value.real)
        assert back.outputs[0].aval is graph.outputs[0].aval


@pytest.mark.parametrize("name", sorted(set(BY_SHORT_NAME) - {"float0"}))
def test_scalars_and_constants_of_every_dtype(name):
    dtype = BY_SHORT_NAME[name]
    values = np.array([0, 1, 0.1, 3]).astype(dtype)
    literals = [Literal(v) for v in values]
    var = Var(Aval((4,), dtype), "c")
    graph = Graph([], [], [*literals, var], [(var, values)])
    back = parse_graph(str(graph))
    assert back == graph
    assert back.constants[0][1].tobytes() == values.tobytes()
    for k, atom in enumerate(back.outputs[:-1]):
        assert np.asarray(atom.value, dtype).tobytes() == values[k].tobytes()


@pytest.mark.parametrize("size", [0, 1, 16, 17, 1000])
def test_constants_small_and_large(size):
    values = np.random.default_rng(0).standard_normal((2, size))
    var = Var(Aval(values.shape, F64), "c")
    graph = Graph([], [], [var], [(var, values)])
    back = parse_graph(str(graph))
    assert back == graph
    assert np.array_equal(back.constants[0][1], values)


def test_huge_constant_prints_as_digest():
    values = np.arange(100_000.0)
    var = Var(Aval(values.shape, F64), "c")
    graph = Graph([], [], [var], [(var, values)])
    text = str(graph)
    assert len(text) < 200
    other = Graph([], [], [var], [(var, values + 1)])
    assert other != graph
    with pytest.raises(GraphError, match="too large"):
        parse_graph(text)
    with pytest.raises(GraphError, match="not the array"):
        parse_graph(text, {"c": values + 1})
    assert parse_graph(text, {"c": values}) == graph
    assert parse_graph(print_graph(graph, blobs=True)) == graph


PARAMS = {
    "none": None,
    "flag": True,
    "count": -3,
    "real": float("-inf"),
    "number": complex(0.0, float("nan")),
    "text": 'a "quoted" # line\n\\',
    "empty": (),
    "one": (1,),
    "nested": (((1,), (0,)), ((), ())),
    "items": [1, "x", None],
    "table": {"k": slice(1, None, -1), 2: (3,)},
    "members": frozenset({1, 2}),
    "dtype": F32,
    "half": BY_SHORT_NAME["bf16"],
    "type": Aval((2, 3), F32),
    "weak": Aval((), F64, True),
    "kind": Recompute.VIEW,
    "scalar": np.float32(0.1),
    "array": np.arange(3),
}


def with_params(params: dict[str, object]) -> Graph:
    x, y = vector("x"), vector()
    return Graph([x], [Eqn(neg_p, [x], [y], params)], [y])


def test_every_parameter_kind_prints_and_reads_back():
    sub = with_params({})
    text = str(with_params({**PARAMS, "graph": sub, "prim": add_p}))
    # Read without the check of types: whether `neg` takes parameters is its row's affair.
    back = _Parser(text, {}).graph()
    assert str(back) == text
    params = back.eqns[0].params
    assert params["nested"] == PARAMS["nested"]
    assert params["kind"] is Recompute.VIEW
    assert params["weak"] is PARAMS["weak"]
    assert params["graph"] == sub
    assert params["prim"] is add_p
    assert params["scalar"].dtype == F32


def test_phase_region_source_and_names():
    x, y, z = vector("nan"), vector("two words"), vector("return")
    graph = Graph(
        [x],
        [
            Eqn(neg_p, [x], [y], {}, source="/a/b/train.py:12"),
            Eqn(mul_p, [y, Literal(2.0)], [z], {}, BACKWARD, region=3),
        ],
        [z, y, Literal(np.float32(1.5))],
        name="<lambda>",
    )
    text = str(graph)
    assert "  # train.py:12" in text
    assert "/a/b" not in text
    assert "bwd@3 return: f64[3] = mul(" in text
    back = parse_graph(text)
    assert back == graph
    assert back.eqns[0].source == "train.py:12"
    assert (back.eqns[1].phase, back.eqns[1].region) == (BACKWARD, 3)


def test_whitespace_and_comments_have_no_meaning():
    text = """
    # a comment
    graph f(x: f64[3]) { fwd y: f64[3] = neg(x)
    # another
    return y }
    """
    graph = parse_graph(text)
    assert graph.eqns[0].source == ""
    assert parse_graph(str(graph)) == graph


BAD = {
    "graph f(x: f64[3]) { return y }": "'y' is not bound",
    "graph f(x: f64[3]) { fwd y: f64[3] = nope(x) return y }": "no operation 'nope'",
    "graph f(x: f64[3]) { fwd y: f64[4] = neg(x) return y }": "neg",
    "graph f(x: f64[3]) { fwd x: f64[3] = neg(x) return x }": "bound twice",
    "graph f(x: f99[3]) { return x }": "a dtype such as f32",
    "graph f(x: f64[3]) { return x": "expected",
    "graph f(x: f64[3]) { return x } extra": "expected the end",
    "graph f() { const c: f64[3] = [1.0] return c }": "holds 1 elements",
    "graph f(x: f64[3]) { return x; }": "unexpected character ';'",
    "graph f(x: f64[3]) { fwd y: f64[3] = neg(x) {f=<function g>} return y }": "Python object",
}


@pytest.mark.parametrize("text", BAD, ids=list(BAD.values()))
def test_bad_text_names_the_problem(text):
    with pytest.raises(GraphError, match=BAD[text].replace("(", r"\(")):
        parse_graph(text)


def test_errors_name_the_line():
    with pytest.raises(GraphError, match="line 3"):
        parse_graph("graph f(x: f64[3]) {\n\n  fwd y: f64[3] = nope(x)\n  return y }")


def test_opaque_objects_tell_graphs_apart():
    def rule() -> None:
        return None

    first = with_params({"f": rule})
    assert first == with_params({"f": rule})

    def rule() -> None:  # the same name, another function
        return None

    assert first != with_params({"f": rule})


def test_fifty_thousand_equations_print_and_parse_linearly():
    def chain(n: int) -> Graph:
        x = vector("x")
        eqns, last = [], x
        for _ in range(n):
            out = vector()
            eqns.append(Eqn(neg_p, [last], [out], {}))
            last = out
        return Graph([x], eqns, [last])

    def seconds(n: int) -> float:
        start = time.process_time()
        graph = chain(n)
        assert parse_graph(str(graph)) == graph
        return time.process_time() - start

    seconds(100)
    assert seconds(50_000) < 10.0
