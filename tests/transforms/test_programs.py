"""Transformations of random programs: against differences, against loops, against each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stax
from stax.core.graph import Graph, check_graph
from stax.core.staging import eval_graph
from stax.testing import check_jvp, check_vjp
from stax.transforms.simplify import inline_calls, simplify
from tests.programs import Program, random_program

DIFFERENCES = range(120)
NESTINGS = range(1000, 1030)


def close(got: Any, want: Any) -> None:
    stax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10), got, want)


def argnums(p: Program) -> tuple[int, ...]:
    return tuple(range(len(p.args)))


def stacked(p: Program, n: int = 3) -> tuple[Any, ...]:
    """A batch of arguments."""
    rng = np.random.default_rng(p.seed)
    return tuple(np.stack([a * rng.uniform(0.5, 1.0) for _ in range(n)]) for a in p.args)


def looped(f: Any, batch: tuple[Any, ...]) -> Any:
    """`f` of each example, stacked."""
    outs = [f(*(a[k] for a in batch)) for k in range(len(batch[0]))]
    return stax.tree.map(lambda *v: np.stack(v), *outs)


def interpreted(graph: Graph, args: Any) -> list[Any]:
    """The graph's results; the simplified graph must give the same bits."""
    check_graph(graph)
    flat = simplify(inline_calls(graph))
    check_graph(flat)
    plain = eval_graph(graph, args)
    for a, b in zip(eval_graph(flat, args), plain, strict=True):
        np.testing.assert_array_equal(a, b)
    return plain


@pytest.mark.parametrize("seed", DIFFERENCES)
def test_derivatives_agree_with_differences(seed: int) -> None:
    p = random_program(seed, scalar=seed % 2 == 0)
    check_jvp(p.fn, p.args)
    check_vjp(p.fn, p.args)


@pytest.mark.parametrize("seed", range(2000, 2012))
def test_float32_programs_stay_float32(seed: int) -> None:
    p = random_program(seed, dtype=np.float32)
    value, grads = stax.value_and_grad(p.fn, argnums(p))(*p.args)
    assert value.dtype == np.float32
    wide = [np.asarray(a, np.float64)[()] for a in p.args]
    for g, want in zip(grads, stax.grad(p.fn, argnums(p))(*wide), strict=True):
        assert g.dtype == np.float32
        np.testing.assert_allclose(g, want, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("seed", NESTINGS)
def test_nested_transformations_agree(seed: int) -> None:
    p = random_program(seed, smooth=seed % 3 > 0, size=8)
    f, nums = p.fn, argnums(p)
    g = stax.grad(f, nums)
    ckpt = stax.checkpoint(f)
    batch = stacked(p)
    want, want_batch = g(*p.args), looped(g, batch)

    close(interpreted(stax.make_ir(f)(*p.args), p.args)[0], f(*p.args))
    close(interpreted(stax.make_ir(g)(*p.args), p.args), list(want))
    close(interpreted(stax.make_ir(stax.grad(ckpt, nums))(*p.args), p.args), list(want))
    close(stax.grad(ckpt, nums)(*p.args), want)
    close(stax.jacfwd(f, nums)(*p.args), want)
    close(stax.jacrev(f, nums)(*p.args), want)
    close(stax.vmap(f)(*batch), looped(f, batch))
    close(stax.vmap(g)(*batch), want_batch)
    close(stax.vmap(stax.grad(ckpt, nums))(*batch), want_batch)
    close(stax.grad(lambda *a: stax.vmap(f)(*a).sum(), nums)(*batch), want_batch)


@pytest.mark.parametrize("seed", NESTINGS)
def test_second_derivatives_agree(seed: int) -> None:
    p = random_program(seed, size=7)
    f, nums = p.fn, argnums(p)
    g = stax.grad(f, nums)
    rng = np.random.default_rng(seed)
    v = tuple(np.asarray(rng.uniform(-1, 1, np.shape(a)))[()] for a in p.args)
    want = stax.hvp(f, p.args, v)

    def directional(*a: Any) -> Any:
        return sum(np.sum(x * y) for x, y in zip(g(*a), v, strict=True))

    close(stax.grad(directional, nums)(*p.args), want)
    close(stax.grad(lambda *a: stax.jvp(f, a, v)[1], nums)(*p.args), want)
    close(stax.hvp(stax.checkpoint(f), p.args, v), want)
    close(stax.linearize(g, *p.args)[1](*v), want)
    batch = stacked(p, 2)
    hv = lambda *a: stax.hvp(f, a, v)
    close(stax.vmap(hv)(*batch), looped(hv, batch))
