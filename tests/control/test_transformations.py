"""Loops and branches under every transformation agree with the same program in plain Python."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import stax
from stax import lax

STEPS = 4


def python_scan(
    f: Callable[..., Any], init: Any, xs: Any, length: int | None = None, reverse: bool = False
) -> Any:
    """`lax.scan`, unrolled."""
    leaves = stax.tree.leaves(xs)
    count = leaves[0].shape[0] if leaves else length
    ys: list[Any] = [None] * count
    for t in reversed(range(count)) if reverse else range(count):
        init, ys[t] = f(init, stax.tree.map(lambda x, t=t: x[t], xs))
    return init, stax.tree.map(lambda *parts: np.stack(parts), *ys)


def python_cond(pred: Any, yes: Any, no: Any, *operands: Any) -> Any:
    """`lax.cond` as a choice between both results."""
    return stax.tree.map(lambda a, b: np.where(pred, a, b), yes(*operands), no(*operands))


def python_fori(lower: int, upper: int, body: Any, value: Any) -> Any:
    """`lax.fori_loop`, unrolled."""
    for i in range(lower, upper):
        value = body(i, value)
    return value


class Native:
    """The operations under test."""

    scan = staticmethod(lax.scan)
    cond = staticmethod(lax.cond)
    fori = staticmethod(lax.fori_loop)


class Plain:
    """Their plain equivalents."""

    scan = staticmethod(python_scan)
    cond = staticmethod(python_cond)
    fori = staticmethod(python_fori)


def recurrent(ops: Any, w: Any, x: Any) -> Any:
    """A recurrent cell with a matrix product, a gate and a captured weight."""

    def cell(h: Any, v: Any) -> Any:
        h = np.tanh(v @ w + h @ (w * w) + 0.1)
        return h, h * v

    h, ys = ops.scan(cell, np.zeros(3), x)
    return np.sum(np.sin(ys)) + np.sum(h * h)


def reversed_pair(ops: Any, w: Any, x: Any) -> Any:
    """Two carries of which one does not depend on the weights, run backwards."""

    def step(carry: Any, v: Any) -> Any:
        a, k = carry
        a = a * np.sum(w * v) + np.cos(k)
        return (a, k + 1.0), {"y": a * k}

    (a, k), ys = ops.scan(step, (1.0, 0.5), x, reverse=True)
    return a + k + np.sum(ys["y"] ** 2)


def shadowed(ops: Any, w: Any, x: Any) -> Any:
    """Unused results, a carry handed through, a result that is a slice of the input."""

    def step(carry: Any, v: Any) -> Any:
        a, same = carry
        return (np.sin(a) * same + v[0], same), (v, a)

    (a, same), (_, seen) = ops.scan(step, (np.sum(w), np.sum(np.sin(w))), x)
    return a * same + np.sum(seen)


def branching(ops: Any, w: Any, x: Any) -> Any:
    """A branch on a traced value inside a loop; the branches keep different residuals."""

    def step(total: Any, v: Any) -> Any:
        s = np.sum(v)
        picked = ops.cond(
            s > 0, lambda a, b: np.sin(a @ b), lambda a, b: np.exp(-(b[0] ** 2)) * a[1], v, w
        )
        return total + picked, None

    return ops.scan(step, 0.0, x)[0]


def nested(ops: Any, w: Any, x: Any) -> Any:
    """A counted loop inside a scan, with the counter in the arithmetic and as an index."""

    def step(h: Any, v: Any) -> Any:
        def inner(i: Any, c: Any) -> Any:
            return c * np.cos(w[i] + i) + v[0]

        h = ops.fori(0, 3, inner, h)
        return h, np.sum(h)

    h, ys = ops.scan(step, np.ones(2), x)
    return np.sum(h) + np.sum(ys)


PROGRAMS = {f.__name__: f for f in (recurrent, reversed_pair, shadowed, branching, nested)}
WEIGHTS = {"recurrent": (3, 3)}


def arguments(name: str, seed: int = 0) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    w = random.standard_normal(WEIGHTS.get(name, (3,)))
    return w, random.standard_normal((STEPS, 3))


def close(got: Any, want: Any) -> None:
    got_leaves, got_tree = stax.tree.flatten(got)
    want_leaves, want_tree = stax.tree.flatten(want)
    assert got_tree == want_tree
    for a, b in zip(got_leaves, want_leaves, strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


strict_jit = functools.partial(stax.jit, strict=True)
both = functools.partial(stax.grad, argnums=(0, 1))

TRANSFORMATIONS: dict[str, Callable[[Any], Any]] = {
    "value": lambda f: f,
    "jit": strict_jit,
    "grad": both,
    "jit_grad": lambda f: strict_jit(both(f)),
    "grad_jit": lambda f: both(strict_jit(f)),
    "jvp": lambda f: lambda w, x: stax.jvp(f, (w, x), (np.cos(w), np.sin(x))),
    "jit_jvp": lambda f: strict_jit(lambda w, x: stax.jvp(f, (w, x), (np.cos(w), np.sin(x)))),
    "hvp": lambda f: lambda w, x: stax.hvp(f, (w, x), (np.cos(w), np.sin(x))),
    "jit_hvp": lambda f: strict_jit(lambda w, x: stax.hvp(f, (w, x), (np.cos(w), np.sin(x)))),
    "hvp_jit": lambda f: lambda w, x: stax.hvp(strict_jit(f), (w, x), (np.cos(w), np.sin(x))),
    "reverse_over_reverse": lambda f: stax.grad(
        lambda w, x: np.sum(np.sin(stax.grad(f, argnums=1)(w, x)))
    ),
    "checkpoint": lambda f: both(stax.checkpoint(f)),
    "jit_checkpoint": lambda f: strict_jit(both(stax.checkpoint(f))),
}


@pytest.mark.parametrize("how", TRANSFORMATIONS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_agrees_with_plain_python(name: str, how: str) -> None:
    program, transform = PROGRAMS[name], TRANSFORMATIONS[how]
    args = arguments(name)
    want = TRANSFORMATIONS[how.replace("jit_", "").replace("_jit", "").replace("jit", "value")](
        functools.partial(program, Plain)
    )(*args)
    close(transform(functools.partial(program, Native))(*args), want)


BATCHED: dict[str, Callable[[Any], Any]] = {
    "vmap": lambda f: f,
    "vmap_grad": both,
    "vmap_jvp": TRANSFORMATIONS["jvp"],
}


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 1)])
@pytest.mark.parametrize("how", BATCHED)
@pytest.mark.parametrize("name", PROGRAMS)
def test_batches_agree_with_single_examples(name: str, how: str, axes: Any, jitted: bool) -> None:
    pairs = [arguments(name, seed) for seed in range(3)]
    args = [
        pairs[0][k] if axis is None else np.stack([p[k] for p in pairs], axis)
        for k, axis in enumerate(axes)
    ]
    one = BATCHED[how](functools.partial(PROGRAMS[name], Plain))
    results = [
        one(*(pairs[0][k] if a is None else p[k] for k, a in enumerate(axes))) for p in pairs
    ]
    want = stax.tree.map(lambda *parts: np.stack(parts), *results)
    f = stax.vmap(BATCHED[how](functools.partial(PROGRAMS[name], Native)), in_axes=axes)
    close((strict_jit(f) if jitted else f)(*args), want)


@pytest.mark.parametrize("name", PROGRAMS)
def test_batch_of_gradients_inside_the_gradient_of_a_batch(name: str) -> None:
    w, x = arguments(name)
    ws = np.stack([w, 0.5 * w])

    def total(ops: Any, ws: Any) -> Any:
        return np.sum(np.cos(stax.vmap(functools.partial(PROGRAMS[name], ops), (0, None))(ws, x)))

    want = stax.grad(functools.partial(total, Plain))(ws)
    close(stax.grad(functools.partial(total, Native))(ws), want)
    close(strict_jit(stax.grad(functools.partial(total, Native)))(ws), want)
