"""Callbacks: called when the program runs, in order, once, under every transformation."""

from __future__ import annotations

import numpy as np
import pytest

import stax
import stax.numpy as snp
from stax import debug, lax
from stax.errors import (
    NonDifferentiableError,
    PytreeError,
    ShapeError,
    StaticArgumentError,
    StrictModeError,
)
from stax.experimental import io_callback


def sine(x, method="sequential"):
    return stax.pure_callback(np.sin, x, x, vmap_method=method)


@pytest.fixture
def seen():
    return []


X = np.arange(3.0)


@pytest.mark.parametrize("wrap", [lambda f: f, stax.jit], ids=["eager", "jit"])
def test_a_pure_callback_gives_its_values(wrap):
    np.testing.assert_array_equal(wrap(sine)(X), np.sin(X))
    pair = wrap(lambda x: stax.pure_callback(lambda a: {"s": a.sum(), "n": a > 1}, RESULT, x))(X)
    assert pair["s"] == 3.0
    assert pair["n"].tolist() == [False, False, True]


RESULT = {
    "s": stax.ShapeDtypeStruct((), np.float64),
    "n": stax.ShapeDtypeStruct((3,), np.bool_),
}


@pytest.mark.parametrize("wrap", [lambda f: f, stax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize(
    ("method", "shapes"),
    [
        ("sequential", [((), ()), ((), ()), ((), ())]),
        ("expand_dims", [((3,), (1,))]),
        ("broadcast_all", [((3,), (3,))]),
    ],
)
def test_a_batch_is_given_as_the_method_says(wrap, method, shapes, seen):
    def add(a, b):
        seen.append((a.shape, b.shape))
        return a + b

    f = lambda x, y: stax.pure_callback(add, x, x, y, vmap_method=method)
    np.testing.assert_array_equal(wrap(stax.vmap(f, (0, None)))(X, 10.0), X + 10)
    assert seen == shapes


def test_a_pure_callback_nobody_reads_is_left_out(seen):
    def loud(x):
        seen.append(x)
        return x

    stax.jit(lambda x: (stax.pure_callback(loud, x, x), x)[1])(X)
    assert not seen


def test_a_custom_rule_gives_a_pure_callback_a_derivative():
    @stax.custom_jvp
    def f(x):
        return sine(x)

    f.defjvp(lambda p, t: (f(p[0]), snp.cos(p[0]) * t[0]))
    for g in (stax.grad(f), stax.jit(stax.grad(f))):
        np.testing.assert_allclose(g(0.5), np.cos(0.5), rtol=1e-15)


@pytest.mark.parametrize("wrap", [lambda f: f, stax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("change", ["plain", "grad", "vmap", "checkpoint"])
def test_prints_are_made_once_and_in_order(wrap, change, capsys):
    def f(x):
        debug.print("first {}", x.sum())
        y = snp.sin(x) * 2
        debug.print("second {y:.1f}", y=y.sum())
        return y.sum()

    functions = {
        "plain": (f, X),
        "grad": (stax.grad(f), X),
        "vmap": (stax.vmap(f), np.stack([X, X])),
        "checkpoint": (stax.grad(stax.checkpoint(f)), X),
    }
    g, argument = functions[change]
    wrap(g)(argument)
    times = 2 if change == "vmap" else 1
    assert capsys.readouterr().out == "first 3.0\n" * times + "second 3.5\n" * times


def test_loops_and_branches_keep_their_prints(capsys):
    @stax.jit
    def f(x):
        lax.scan(lambda c, v: (debug.print("scan {}", v), (c, None))[1], None, x)
        lax.fori_loop(0, 2, lambda i, c: (debug.print("loop {}", i), c)[1], 0.0)
        lax.cond(x[1] > 0, lambda: debug.print("yes"), lambda: debug.print("no"))
        debug.print("end")
        return x

    f(X[:2])
    assert capsys.readouterr().out.split("\n") == [
        "scan 0.0", "scan 1.0", "loop 0", "loop 1", "yes", "end", "",
    ]  # fmt: skip


def test_a_callback_may_keep_and_change_what_it_is_given(seen):
    def keep(a):
        seen.append(a)
        a += 1

    x = X.copy()
    for f in (lambda x: debug.callback(keep, x), stax.jit(lambda x: debug.callback(keep, x * 1))):
        f(x)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(seen, [X + 1, X + 1])


def test_an_io_callback_runs_on_every_call_and_gives_values(seen):
    def count(x):
        seen.append(float(x))
        return np.float64(len(seen))

    f = stax.jit(
        lambda x: io_callback(count, stax.ShapeDtypeStruct((), np.float64), x, ordered=True)
    )
    assert [float(f(2.0)) for _ in range(3)] == [1.0, 2.0, 3.0]
    stax.jit(lambda x: (io_callback(count, stax.ShapeDtypeStruct((), np.float64), x), x)[1])(5.0)
    assert seen[-1] == 5.0


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: stax.vmap(lambda x: stax.pure_callback(np.sin, x, x))(X), StaticArgumentError,
         "vmap_method"),
        (lambda: stax.grad(lambda x: sine(x).sum())(X), NonDifferentiableError, "custom_jvp"),
        (lambda: stax.jit(lambda x: stax.pure_callback(lambda v: v[:1], x, x))(X), ShapeError,
         r"float64\[1\].*float64\[3\]"),
        (lambda: stax.pure_callback(lambda v: (v, v), X, X), PytreeError, "result_shape_dtypes"),
        (lambda: stax.jit(sine, strict=True)(X), StrictModeError, "pure_callback"),
        (lambda: debug.print("{}", 1, 2), ValueError, "does not use"),
        (lambda: stax.pure_callback(np.sin, X, X, vmap_method="all"), ValueError, "all"),
        (lambda: stax.jit(lambda x: stax.pure_callback(lambda v: {}["key"], x, x))(X), KeyError,
         "key"),
    ],
)  # fmt: skip
def test_misuse_is_named(call, error, text):
    with pytest.raises(error, match=text):
        call()
