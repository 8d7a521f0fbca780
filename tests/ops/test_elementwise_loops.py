"""Elementwise rows as loop bodies, run by NumPy, against their NumPy implementation."""

from __future__ import annotations

import numpy as np
import pytest

from stax.core.aval import aval_of
from stax.core.primitive import FALLBACK, Primitive
from stax.core.staging import eval_graph, stage
from stax.dtypes import bfloat16, real_part_dtype
from stax.loops.lower import lower
from stax.primitives import casts, special
from stax.primitives import elementwise as el
from stax.primitives import transcendental as tr
from tests.loops.programs import run
from tests.op_samples import SAMPLES

# Operations without compiled code: these, and bits of half types.
HALVES = {"bitcast", "nextafter"}
NOT_FOR_HALVES = {"bitcast", "complex", "ldexp", "frexp"}
FALLBACKS = {"polygamma"}


def halves_of(sample):
    """The half types to try besides the sample's own dtypes."""
    return ("f2", "bf16") if "f4" in sample.dtypes and sample.name not in NOT_FOR_HALVES else ()


CASES = [
    pytest.param(s, d, id=f"{s.name}-{d}") for s in SAMPLES for d in (*s.dtypes, *halves_of(s))
]
ODD = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 30.0, -30.0, 1e30, 1e-30, -2.0, 200.0]


def through_loops(fun, args):
    """The result of `fun` computed by the loop bodies it lowers to."""
    graph = stage(lambda *v: [fun(*v)], [aval_of(a) for a in args])
    lowered = lower(graph)
    ops = {note.op for note in lowered.fallbacks}
    if ops:
        assert ops <= FALLBACKS | (HALVES if args[0].dtype.itemsize == 2 else set())
        return None, None
    want = np.asarray(eval_graph(graph, args)[0])
    values = run(lowered.table, **dict(zip(lowered.inputs, args, strict=True)))
    return values[lowered.outputs[0]], want


@pytest.mark.parametrize(("sample", "dtype"), CASES)
def test_loop_body_computes_the_row(sample, dtype):
    rng = np.random.default_rng(3)
    args = sample.make(rng, bfloat16 if dtype == "bf16" else np.dtype(dtype))
    got, want = through_loops(sample.fn, [np.asarray(a) for a in args])
    if got is None:
        return
    assert got.dtype == want.dtype
    if want.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want)
        return
    size = real_part_dtype(want.dtype).itemsize
    tol = {1: 0, 2: 2e-2 if dtype == "bf16" else 4e-3, 4: 1e-5, 8: 1e-12}[size]
    wide = "c16" if want.dtype.kind == "c" else "f8"
    np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=tol, atol=tol)


UNARY = ["exp expm1 log log1p sqrt rsqrt cbrt sin cos tanh sech2 sigmoid asinh atan sinh cosh"]


@pytest.mark.parametrize("name", UNARY[0].split())
def test_odd_arguments_of_unary_rows(name):
    fun = getattr(tr, name)
    x = np.array(ODD)
    got, want = through_loops(fun, [x])
    np.testing.assert_allclose(got, want, rtol=1e-14)
    np.testing.assert_array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))


@pytest.mark.parametrize(
    "fun",
    [
        el.maximum, el.minimum, el.fmax, el.fmin, el.guarded_mul, el.guarded_div, el.mod, el.fmod,
        el.floordiv, tr.power, tr.hypot, tr.atan2, tr.logaddexp, el.copysign, el.eq, el.lt, el.ge,
    ],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_odd_arguments_of_binary_rows(fun):
    x = np.array(ODD)
    got, want = through_loops(fun, [x[:, None], x[None, :]])
    np.testing.assert_allclose(got, want, rtol=1e-14)


def test_odd_arguments_of_activations_and_clamp():
    x = np.array(ODD)
    for fun in (
        el.relu,
        lambda v: special.gelu(v, False),
        lambda v: special.gelu(v, True),
        lambda v: el.clamp(np.float64(-1), v, np.float64(2)),
        special.erf,
        special.erfc,
    ):
        got, want = through_loops(fun, [x])
        np.testing.assert_allclose(got, want, rtol=1e-13)


def test_population_count_of_negative_numbers():
    for dtype in ("i1", "i2", "i4", "i8", "u8"):
        x = np.array([0, 1, 7, 100]).astype(dtype)
        x = np.concatenate([x, ~x])
        got, want = through_loops(el.population_count, [x])
        np.testing.assert_array_equal(got, want)


def test_every_elementwise_row_has_compiled_code():
    kinds = {"unary", "binary", "compare", "select"}
    rows = [v for m in (casts, el, special, tr) for v in vars(m).values()]
    elementwise_rows = {v for v in rows if isinstance(v, Primitive) and v.family in kinds}
    assert len(elementwise_rows) > 60
    assert {row.name for row in elementwise_rows if row.lower is FALLBACK} <= FALLBACKS
