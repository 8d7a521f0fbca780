"""S6.6 and S6.7: which values are written to memory, and one description under many readings."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import stax
from stax.loops.handlers import Counter, Formatter, Recorder
from stax.loops.realize import THRESHOLDS
from tests.compile.levels import run_loops


def stored(f, *args, device="cpu"):
    """The reasons for which values other than the results are stored."""
    lowered = stax.jit(f).lower(*args, device=device)
    outputs = set(lowered.lowered.outputs)
    inner = [b for b in lowered.buffers if b.kind == "pointwise" and b.name not in outputs]
    return [b.reason for b in inner]


X = np.linspace(0.1, 1, 6).reshape(2, 3)


def twice(g):
    """A function in which `g(x)` has two readers, neither of which can be merged with it."""

    def f(*args):
        h = g(*args)
        return h[::-1] + 1, h * h[:, ::-1]

    return f


def negations(n):
    def g(x):
        for _ in range(n):
            x = -x
        return x

    return g


def test_s6_6_values_with_one_reader_are_inlined():
    assert stored(lambda x: np.exp(np.tanh(np.log(x))) * 2, X) == []


def test_s6_6_a_transcendental_decides_on_the_cpu_alone():
    (reason,) = stored(twice(np.tanh), X)
    assert "costs tanh" in reason
    assert stored(twice(np.tanh), X, device="cuda:sm_90") == []
    assert stored(twice(np.negative), X) == []


def test_s6_6_many_readers_of_nearly_too_many_operations_decide():
    def read_by(k):
        def f(x):
            h = negations(45)(x)
            return [h[::-1] + j for j in range(k)]

        return f

    assert stored(read_by(5), X) == []
    (reason,) = stored(read_by(6), X)
    assert reason == "6 readers (more than 5) and 45 operations"


@pytest.mark.parametrize(("device", "limit"), [("cpu", 50), ("cuda:sm_90", 30)])
def test_s6_6_the_number_of_operations_decides(device, limit):
    assert stored(twice(negations(limit)), X, device=device) == []
    (reason,) = stored(twice(negations(limit + 1)), X, device=device)
    assert f"{limit + 1} operations (limit {limit})" in reason


def test_s6_6_the_number_of_buffers_decides():
    def total(*args):
        return sum(args[1:], args[0])

    # Two readers: reading n buffers once more costs n, writing and reading the value 3.
    assert stored(twice(total), *[X] * 3) == []
    (reason,) = stored(twice(total), *[X] * 4)
    assert "reads 4 buffers (limit 3)" in reason


@pytest.mark.parametrize(("device", "limit"), [("cpu", 12), ("cuda:sm_90", 8)])
def test_s6_6_the_number_of_reads_decides(device, limit):
    x = np.arange(40.0).reshape(20, 2)

    def windows(n):
        return lambda x: sum((x[k : k + 2] for k in range(1, n)), x[:2])

    assert stored(twice(windows(limit)), x, device=device) == []
    (reason,) = stored(twice(windows(limit + 1)), x, device=device)
    assert f"{limit + 1} reads (limit {limit})" in reason


def test_s6_6_thresholds_are_data_in_one_table_and_differ_by_device():
    cpu, gpu = (dataclasses.asdict(THRESHOLDS[d]) for d in ("cpu", "cuda"))
    differing = {k for k in cpu if cpu[k] != gpu[k]}
    assert {"store_transcendental", "operations", "many_readers", "reads"} <= differing


def test_s6_6_outputs_and_inputs_of_external_calls_are_stored_early():
    def f(x):
        h = x + 1  # cheap, two readers: would be inlined
        return np.sort(h), h * 2

    lowered = stax.jit(f).lower(X)
    h = next(b for b in lowered.buffers if b.kind == "pointwise")
    assert h.reason == "a reader needs it in memory"
    readers = [b for b in lowered.buffers if h.name in b.input_names]
    assert len(readers) == 2  # the one placed before the call does not recompute it either

    def g(x):
        h = x + 1
        return h, h * 2

    a, b = stax.jit(g).lower(X).buffers[1:]
    assert b.input_names == (a.name,)


# ---------------------------------------------------------------------------------- S6.7


def test_s6_7_one_description_many_interpretations():
    def f(x, y):
        return (np.exp(x.T) * y).sum(1)

    x, y = np.linspace(0, 1, 48).reshape(16, 3), np.linspace(1, 2, 48).reshape(3, 16)
    compiled = stax.jit(f)
    lowered = compiled.lower(x, y)
    (buffer,) = [b for b in lowered.buffers if b.kind == "reduction"]

    recorder, counter, formatter = Recorder(), Counter(), Formatter()
    for handler in (recorder, counter, formatter):
        buffer.body.replay(handler)
    assert [str(a) for a in recorder.reads] == ["x[i0 + 3*r0]", "y[16*i0 + r0]"]
    assert [str(a) for a in recorder.writes] == [f"{buffer.name}[i0]"]
    assert (counter.operations, counter.reads) == (2, 2)
    assert counter.transcendental == {"exp"}
    assert formatter.lines == [
        "tmp0 = ops.load('x', i0 + 3*r0)",
        "tmp1 = ops.exp(tmp0)",
        "tmp2 = ops.load('y', 16*i0 + r0)",
        "tmp3 = ops.mul(tmp1, tmp2)",
        "tmp4 = ops.reduction('sum', tmp3)",
        f"ops.store('{buffer.name}', i0, tmp4)",
    ]
    source = lowered.as_text("source")
    assert "stax_exp_f64(" in source
    assert "+=" in source[source.index("static int32_t kernel0") :]
    (evaluated,) = run_loops(lowered.lowered, [x, y])
    np.testing.assert_allclose(evaluated, f(x, y), rtol=1e-15)
    np.testing.assert_allclose(compiled(x, y), f(x, y), rtol=1e-14)
