"""Elementwise rows: derivatives to order 2, batching, and points without a derivative."""

from __future__ import annotations

import math

import numpy as np
import pytest

import stax.lax as lax
import stax.numpy as snp
from stax.core.aval import aval_of
from stax.core.graph import check_graph
from stax.core.staging import eval_graph, stage
from stax.primitives import elementwise as el
from stax.transforms.grad import grad, jvp, vjp
from stax.transforms.vmap import vmap
from tests.op_samples import SAMPLES, SMOOTH, Sample


def arguments(sample: Sample, dtype: str) -> tuple:
    return sample.make(np.random.default_rng(7), np.dtype(dtype))


CASES = [pytest.param(s, d, id=f"{s.name}-{d}") for s in SAMPLES for d in s.dtypes]
SMOOTH_CASES = [pytest.param(s, d, id=f"{s.name}-{d}") for s in SMOOTH for d in s.dtypes]


@pytest.mark.parametrize(("sample", "dtype"), CASES)
def test_staged_value_is_the_eager_value(sample, dtype):
    args = arguments(sample, dtype)
    want = np.asarray(sample.fn(*args))
    graph = stage(lambda *v: [sample.fn(*v)], [aval_of(a) for a in args])
    check_graph(graph)
    (got,) = eval_graph(graph, args)
    assert graph.outputs[0].aval.dtype == want.dtype
    assert np.asarray(got).dtype == want.dtype
    if want.dtype.kind in "fc":
        np.testing.assert_allclose(got, want, rtol=1e-12 if want.dtype.itemsize > 4 else 2e-6)
    else:
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("sample", "dtype"), CASES)
def test_batched_over_every_axis_of_every_argument(sample, dtype):
    args = arguments(sample, dtype)
    for k, arg in enumerate(args):
        for axis in range(np.ndim(arg) + 1):
            batched = np.stack([arg, arg[::-1] if np.ndim(arg) else arg, arg], axis=axis)
            axes = [None] * len(args)
            axes[k] = axis
            given = [*args[:k], batched, *args[k + 1 :]]
            got = vmap(sample.fn, in_axes=tuple(axes))(*given)
            want = np.stack(
                [
                    np.asarray(sample.fn(*args[:k], np.take(batched, i, axis), *args[k + 1 :]))
                    for i in range(3)
                ]
            )
            np.testing.assert_allclose(got, want, rtol=2e-6)
    both = [np.stack([a, a]) for a in args]
    got = vmap(sample.fn)(*both)
    np.testing.assert_allclose(got, np.stack([sample.fn(*args)] * 2), rtol=2e-6)


def active(sample: Sample, args: tuple):
    """The function of the differentiable arguments alone, in a real, scalar-free form."""

    def fun(*chosen):
        full = list(args)
        for position, value in zip(sample.diff, chosen, strict=True):
            full[position] = value
        return sample.fn(*full)

    return fun, tuple(args[k] for k in sample.diff)


def real_inner(a, b) -> float:
    return float(np.sum(np.real(np.asarray(a) * np.asarray(b))).astype(np.float64))


def check_derivatives(fun, args, order: int, tol: float, rng: np.random.Generator) -> None:
    """Forward mode against central differences and reverse against forward, recursively."""
    directions = tuple(
        np.asarray(
            rng.standard_normal(a.shape)
            + (1j * rng.standard_normal(a.shape) if a.dtype.kind == "c" else 0)
        ).astype(a.dtype)
        for a in args
    )
    double = np.asarray(args[0]).dtype.itemsize > 4
    step = 1e-5 if double else 1e-2
    out, tangent = jvp(fun, args, directions)
    up = fun(*(a + a.dtype.type(step) * d for a, d in zip(args, directions, strict=True)))
    down = fun(*(a - a.dtype.type(step) * d for a, d in zip(args, directions, strict=True)))
    slope = (np.asarray(up) - np.asarray(down)) / (2 * step)
    assert np.asarray(tangent).dtype == np.asarray(out).dtype
    np.testing.assert_allclose(tangent, slope, rtol=tol, atol=tol)
    out, pull = vjp(fun, *args)
    cotangent = np.asarray(
        rng.standard_normal(np.shape(out))
        + (1j * rng.standard_normal(np.shape(out)) if np.iscomplexobj(out) else 0)
    ).astype(np.asarray(out).dtype)
    pulled = pull(cotangent)
    left = real_inner(cotangent, tangent)
    right = sum(real_inner(p, d) for p, d in zip(pulled, directions, strict=True))
    assert math.isclose(
        left, right, rel_tol=1e-8 if double else 2e-4, abs_tol=1e-8 if double else 2e-4
    )
    for p, a in zip(pulled, args, strict=True):
        assert p.dtype == a.dtype
        assert p.shape == a.shape
    if order > 1:
        check_derivatives(lambda *v: jvp(fun, v, directions)[1], args, order - 1, tol * 5, rng)
        check_derivatives(lambda *v: vjp(fun, *v)[1](cotangent)[0], args, order - 1, tol * 5, rng)


@pytest.mark.parametrize(("sample", "dtype"), SMOOTH_CASES)
def test_derivatives_to_order_two(sample, dtype):
    fun, args = active(sample, arguments(sample, dtype))
    tol = (2e-6 if np.dtype(dtype).itemsize > 4 else 2e-2) * sample.tol
    check_derivatives(fun, args, sample.order, tol, np.random.default_rng(1))


@pytest.mark.parametrize("sample", [s for s in SAMPLES if not s.diff and "f8" in s.dtypes], ids=str)
def test_flat_operations_have_zero_derivative(sample):
    args = arguments(sample, "f8")
    _, tangent = jvp(sample.fn, args, tuple(np.ones_like(a) for a in args))
    if np.asarray(tangent).dtype.kind == "f":
        np.testing.assert_array_equal(tangent, 0)


# ------------------------------------------------------------------ points without derivative


@pytest.mark.parametrize(
    ("fun", "x", "want"),
    [
        (snp.abs, 0.0, 0.0),
        (el.relu, 0.0, 0.0),
        (lambda v: snp.maximum(v, 0.0), 0.0, 0.5),
        (lambda v: snp.minimum(v, v), 3.0, 1.0),
        (lambda v: lax.clamp(0.0, v, 1.0), 0.0, 1.0),
        (lambda v: lax.clamp(0.0, v, 1.0), 1.0, 1.0),
        (lambda v: lax.clamp(0.0, v, 1.0), 1.5, 0.0),
        (lambda v: snp.hypot(v, 0.0), 0.0, 0.0),
        (lambda v: v**0, 0.0, 0.0),
        (lambda v: v**1, 0.0, 1.0),
        (lambda v: v**2, 0.0, 0.0),
        (lambda v: v**2.0, 0.0, 0.0),
        (lambda v: snp.power(v, np.float64(2.5)), 0.0, 0.0),
        (snp.sqrt, 0.0, np.inf),
        (lambda v: snp.logaddexp(v, -np.inf), -np.inf, 0.5),
        (lambda v: snp.logaddexp(v, np.inf), 1.0, 0.0),
        (snp.sign, 0.0, 0.0),
        (snp.floor, 0.5, 0.0),
    ],
)
def test_conventions(fun, x, want):
    assert grad(fun)(x) == want
    assert jvp(fun, (x,), (1.0,))[1] == want


@pytest.mark.parametrize(
    ("fun", "x"),
    [
        (snp.sqrt, 0.0),
        (snp.sqrt, -1.0),
        (snp.log, 0.0),
        (snp.reciprocal, 0.0),
        (lambda v: 1.0 / v, 0.0),
        (lambda v: v / v, 0.0),
        (lambda v: v / snp.square(v), 0.0),
        (lambda v: v**-2, 0.0),
        (lambda v: v**0.3, 0.0),
        (snp.exp, 1000.0),
        (snp.arcsin, 1.0),
        (snp.arccosh, 1.0),
        (lambda v: snp.arctan2(v, v), 0.0),
        (lambda v: snp.remainder(1.0, v), 0.0),
    ],
)
def test_a_branch_not_taken_does_not_poison(fun, x):
    picked = lambda v: lax.select(np.array([False, True]), fun(v), 3.0 * v)
    _, pull = vjp(picked, np.array([x, 2.0]))
    (got,) = pull(np.ones(2))
    assert got[0] == 3.0


def test_powers_of_zero_to_second_order():
    for n, want in enumerate([(1, 0, 0), (0, 1, 0), (0, 0, 2), (0, 0, 0), (0, 0, 0)]):
        f = lambda z, n=n: z**n
        assert (f(0.0), grad(f)(0.0), grad(grad(f))(0.0)) == want
    base, exponent = np.array([0.0, 2.0]), np.array([2.0, 3.0])
    _, pull = vjp(snp.power, base, exponent)
    to_base, to_exponent = pull(np.ones(2))
    np.testing.assert_allclose(to_base, [0, 12])
    np.testing.assert_allclose(to_exponent, [0, 8 * math.log(2)])


def test_tails_of_saturating_functions():
    sig = lambda x: 1 / (1 + math.exp(-x))
    np.testing.assert_allclose(grad(lax.logistic)(37.43), sig(37.43) * sig(-37.43), rtol=1e-12)
    np.testing.assert_allclose(grad(snp.tanh)(18.0), 1 / math.cosh(18) ** 2, rtol=1e-12)
    for x in (-800.0, 800.0, np.inf, -np.inf):
        for f in (lax.logistic, snp.tanh):
            assert grad(f)(x) == 0
            assert grad(grad(f))(x) == 0 or math.isinf(x)


def test_logaddexp_of_infinities():
    inf = np.inf
    a = np.array([-inf, -1.0, inf, -inf, 700.0, -inf, 3.0, 0.0])
    b = np.array([-inf, -1.0, inf, 5.0, 700.0, inf, -inf, 0.0])
    out, pull = vjp(snp.logaddexp, a, b)
    np.testing.assert_array_equal(out, np.logaddexp(a, b))
    to_a, to_b = pull(np.ones(8))
    np.testing.assert_allclose(to_a + to_b, 1.0)
    np.testing.assert_allclose(to_a, [0.5, 0.5, 0.5, 0, 0.5, 0, 1, 0.5])


def test_nan_wins():
    nan = np.nan
    graph = stage(
        lambda x, y: [snp.maximum(x, y), snp.minimum(x, y), el.relu(x), lax.clamp(-1.0, x, 1.0)],
        [aval_of(np.ones(3))] * 2,
    )
    x, y = np.array([nan, 1.0, 2.0]), np.array([0.0, nan, 5.0])
    high, low, relu, clamped = eval_graph(graph, [x, y])
    np.testing.assert_array_equal(high, [nan, nan, 5])
    np.testing.assert_array_equal(low, [nan, nan, 2])
    np.testing.assert_array_equal(relu, [nan, 1, 2])
    np.testing.assert_array_equal(clamped, [nan, 1, 1])


def test_integers_wrap_without_warnings():
    m = np.iinfo(np.int32).max
    graph = stage(
        lambda x: [x + 1, snp.abs(-x - 1), (x + 1) > x],
        [aval_of(np.array([m], np.int32))],
    )
    total, size, larger = eval_graph(graph, [np.array([m], np.int32)])
    assert total == -m - 1
    assert size == -m - 1
    assert not larger
