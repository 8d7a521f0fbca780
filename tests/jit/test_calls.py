"""What a call of a compiled function does not do: run Python, go the slow way, compile again."""

from __future__ import annotations

import sys
from collections import namedtuple
from types import SimpleNamespace

import numpy as np
import pytest

import stax
from benchmarks import calls
from stax.backends.c.dispatch import compiled_dispatcher_fault
from stax.programs.options import counters

BENCHMARKED = [case for case in calls.CASES if not case.startswith("(")]
Numbers = namedtuple("Numbers", "a k")
X = np.linspace(0.5, 2.0, 8)


def python_functions_entered(function, *args, **kwargs):
    """The names of the Python functions that run within a call of a function in C."""
    entered = []

    def note(frame, event, argument):
        if event == "call":
            entered.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function(*args, **kwargs)
    finally:
        sys.setprofile(before)
    return entered


@pytest.mark.skipif(bool(compiled_dispatcher_fault()), reason="calls are dispatched in Python")
@pytest.mark.parametrize("case", BENCHMARKED)
def test_a_call_runs_no_python_and_compiles_nothing(case):
    make, args, kwargs = calls.CASES[case]
    wanted = make(SimpleNamespace(jit=lambda f, **options: f))(*args, **kwargs)
    function = make(SimpleNamespace(jit=stax.jit))
    function(*args, **kwargs)
    assert function.misses == 1
    compiled, lowered = counters.compiled, counters.lowered
    assert python_functions_entered(function, *args, **kwargs) == []
    for _ in range(20):
        result = function(*args, **kwargs)
    assert (counters.compiled, counters.lowered) == (compiled, lowered)
    assert (function.misses, function.entry_count) == (1, 1)
    got, leaves = stax.tree.leaves(result), stax.tree.leaves(wanted)
    assert stax.tree.structure(result) == stax.tree.structure(wanted)
    assert [(a.dtype, a.tolist()) for a in got] == [(a.dtype, a.tolist()) for a in leaves]


def test_what_goes_the_slow_way_is_seen():
    function = stax.jit(lambda x: x * 2)
    function(X)
    assert python_functions_entered(function, X.astype(">f8"))[0] == "call"
    assert function.misses == 2


@pytest.mark.skipif(bool(compiled_dispatcher_fault()), reason="calls are dispatched in Python")
@pytest.mark.parametrize(
    "other",
    [X[::2], X[::-2], X.reshape(4, 2)[:, 1], np.broadcast_to(X[0], 4)],
    ids=["strided", "reversed", "a column", "broadcast"],
)
def test_arrays_that_lie_otherwise_run_no_python(other):
    function = stax.jit(lambda x, d: (np.sin(x) * d["k"], x))
    dense = other.copy()
    wanted = function(dense, {"k": dense})
    assert python_functions_entered(function, other, {"k": other}) == []
    for given in [(other, {"k": other}), (dense, {"k": other})]:
        product, same = function(*given)
        np.testing.assert_array_equal(product, wanted[0])
        np.testing.assert_array_equal(same, dense)
    assert function.misses == 1


FLOATS = [0.5, 0.0, -0.0, 1e-320, -1e300, float("inf"), float("nan"), 3.0]
INTS = [3, 0, -1, 1, 2**31, 2**62, -(2**63), 2**63 - 1]
BOOLS = [True, False, True]
COMPLEX = [1j, 0j, complex(-0.0, 2), complex("nan")]
KINDS = {
    "float": FLOATS,
    "int": INTS,
    "bool": BOOLS,
    "complex": COMPLEX,
    "NumPy's float": [np.float64(x) for x in FLOATS],
    "NumPy's single": [np.float32(x) for x in (0.5, 0.0, np.inf)],
    "NumPy's int": [np.int64(k) for k in INTS],
    "NumPy's bool": [np.bool_(b) for b in BOOLS],
}
PLACES = {
    "an argument": lambda v: ((X, v), {}),
    "a keyword": lambda v: ((X,), {"v": v}),
    "a dict": lambda v: ((X, {"b": v, "a": X}), {}),
    "a list in a dict": lambda v: ((X, {"k": [v, (v,)]}), {}),
    "a named tuple": lambda v: ((X, Numbers(v, X)), {}),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_changing_numbers_compile_nothing(kind, place):
    traced = []

    def f(x, v):
        traced.append(1)
        return [x * leaf for leaf in stax.tree.leaves(v)]

    function = stax.jit(f)
    compiled = None
    for value in KINDS[kind]:
        args, kwargs = PLACES[place](value)
        got = function(*args, **kwargs)
        compiled = counters.compiled if compiled is None else compiled
        for one, leaf in zip(got, stax.tree.leaves(args[1:] or kwargs), strict=True):
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(one, X * leaf)
    assert counters.compiled == compiled
    assert (len(traced), function.misses) == (1, 1)


@pytest.mark.parametrize(
    "transformed",
    [
        pytest.param(lambda f: stax.jit(stax.grad(f)), id="jit of grad"),
        pytest.param(lambda f: stax.jit(stax.vmap(f, in_axes=(0, None))), id="jit of vmap"),
        pytest.param(lambda f: stax.grad(stax.jit(f)), id="grad of jit"),
        pytest.param(lambda f: stax.vmap(stax.jit(f), in_axes=(0, None)), id="vmap of jit"),
        pytest.param(lambda f: stax.value_and_grad(stax.jit(f), 1), id="grad by the number"),
    ],
)
def test_changing_numbers_compile_nothing_in_transformations(transformed):
    function = transformed(lambda x, s: np.sum(np.sin(x * s)))
    x = X.reshape(4, 2)
    function(x, 0.5)
    compiled = counters.compiled
    for s in (0.25, -3.0, 0.0):
        function(x, s)
    assert counters.compiled == compiled


def test_a_number_of_another_type_is_another_program():
    function = stax.jit(lambda x, v: x * v)
    for k, value in enumerate((2.0, 2, True, 2j, np.float32(2))):
        np.testing.assert_array_equal(function(X, value), X * value)
        assert function.entry_count == k + 1
    for value in (3.0, 4, False, 1j, np.float32(5)):
        np.testing.assert_array_equal(function(X, value), X * value)
    assert function.misses == 5
