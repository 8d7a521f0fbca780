"""Nestings of transformations with `jit`, each beside the same thing without it.

Input: a scalar function and its arguments.  Output: named pairs of thunks that must agree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import stax
from stax import checkpoint, grad, hessian, hvp, jit, jvp, vmap

Pair = tuple[Callable[[], Any], Callable[[], Any]]


def nestings(f: Callable[..., Any], args: tuple[Any, ...], seed: int = 0) -> dict[str, Pair]:
    """For each nesting of `jit` with other transformations: compiled, and plain."""
    rng = np.random.default_rng(seed)
    numbers = tuple(range(len(args)))
    tangents = tuple(np.asarray(rng.standard_normal(np.shape(a))) for a in args)
    batch = tuple(np.stack([np.asarray(a), 0.5 * np.asarray(a), -np.asarray(a)]) for a in args)

    def gradient(g: Callable[..., Any]) -> Callable[..., Any]:
        return grad(g, argnums=numbers)

    return {
        "jit(f)": (lambda: jit(f)(*args), lambda: f(*args)),
        "jit(grad(f))": (lambda: jit(gradient(f))(*args), lambda: gradient(f)(*args)),
        "jit(vmap(f))": (lambda: jit(vmap(f))(*batch), lambda: _each(f, batch)),
        "vmap(jit(f))": (lambda: vmap(jit(f))(*batch), lambda: _each(f, batch)),
        "grad(jit(f))": (lambda: gradient(jit(f))(*args), lambda: gradient(f)(*args)),
        "jit(hessian(f))": (lambda: jit(hessian(f))(*args), lambda: hessian(f)(*args)),
        "hessian(jit(f))": (lambda: hessian(jit(f))(*args), lambda: hessian(f)(*args)),
        "hvp(jit(f))": (lambda: hvp(jit(f), args, tangents), lambda: hvp(f, args, tangents)),
        "jit(vmap(grad(f)))": (
            lambda: jit(vmap(gradient(f)))(*batch),
            lambda: _each(gradient(f), batch),
        ),
        "jvp(grad(jit(checkpoint(f))))": (
            lambda: jvp(gradient(jit(checkpoint(f))), args, tangents),
            lambda: jvp(gradient(f), args, tangents),
        ),
    }


def _each(f: Callable[..., Any], batch: tuple[Any, ...]) -> Any:
    """`f` on each member of the batch in turn, by a Python loop."""
    results = [f(*(b[k] for b in batch)) for k in range(len(batch[0]))]
    return stax.tree.map(lambda *parts: np.stack([np.asarray(p) for p in parts]), *results)


def assert_agree(pair: Pair) -> None:
    """Same structure, shapes and dtypes, and values within 1e-10 of the magnitude."""
    found, tree = stax.tree.flatten(pair[0]())
    wanted, expected = stax.tree.flatten(pair[1]())
    assert tree == expected
    for a, b in zip(found, wanted, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        scale = 1 + np.abs(b).max(initial=0)
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10 * scale)
