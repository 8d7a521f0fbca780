"""Checking derivatives against finite differences.

Input: a function, arguments, and an order.  Output: nothing, or an AssertionError that says which
mode and order disagrees.  Forward mode is compared along a random direction, reverse mode through
the pairing of a random direction with a random cotangent, recursively for higher orders.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stax.core.aval import aval_of
from stax.dtypes import float0, is_complex, is_inexact, real_part_dtype
from stax.pytree import tree_flatten, tree_map, tree_unflatten
from stax.transforms.grad import jvp, vjp

__all__ = ["check_grads", "check_jvp", "check_vjp", "numerical_jvp", "random_like"]


def default_step(dtype: Any) -> float:
    """A finite-difference step for values of order one; the difference is of fourth order."""
    size = real_part_dtype(np.dtype(dtype)).itemsize
    return 1e-3 if size >= 8 else 1e-2 if size == 4 else 5e-2


def default_tolerance(dtype: Any) -> float:
    """The relative tolerance that goes with `default_step`."""
    size = real_part_dtype(np.dtype(dtype)).itemsize
    return 1e-6 if size >= 8 else 2e-3 if size == 4 else 5e-2


def random_like(tree: Any, seed: int = 0) -> Any:
    """Standard normal numbers with the structure and types of `tree`; float0 zeros for integers."""
    rng = np.random.default_rng(seed)

    def draw(leaf: Any) -> Any:
        aval = aval_of(leaf)
        if not is_inexact(aval.dtype):
            return np.zeros(aval.shape, float0)
        value: Any = rng.standard_normal(aval.shape)
        if is_complex(aval.dtype):
            value = value + 1j * rng.standard_normal(aval.shape)
        return np.asarray(value, aval.dtype)[()]

    return tree_map(draw, tree)


def numerical_jvp(
    f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], eps: float | None = None
) -> Any:
    """The derivative of `f` along `tangents`, by central differences of fourth order."""
    leaves, treedef = tree_flatten(tuple(primals))
    directions = tree_flatten(tuple(tangents))[0]
    h = eps or max((default_step(aval_of(p).dtype) for p in _inexact(leaves)), default=1e-3)
    scale = max([1.0, *(float(np.max(np.abs(t), initial=0.0)) for t in _inexact(directions))])
    h /= scale

    def at(step: float) -> list[Any]:
        moved = [
            _moved(p, t, step) if is_inexact(aval_of(p).dtype) else p
            for p, t in zip(leaves, directions, strict=True)
        ]
        outs, tree = tree_flatten(f(*tree_unflatten(treedef, moved)))
        trees.append(tree)
        return [np.asarray(v, _wide(v)) for v in outs]

    trees: list[Any] = []
    near = [a - b for a, b in zip(at(h), at(-h), strict=True)]
    far = [a - b for a, b in zip(at(2 * h), at(-2 * h), strict=True)]
    found = [(8 * n - w) / (12 * h) for n, w in zip(near, far, strict=True)]
    return tree_unflatten(trees[-1], found)


def _wide(value: Any) -> Any:
    return np.complex128 if np.asarray(value).dtype.kind == "c" else np.float64


def _moved(primal: Any, tangent: Any, step: float) -> Any:
    dtype = aval_of(primal).dtype
    moved = np.asarray(primal, _wide(primal)) + step * np.asarray(tangent, _wide(tangent))
    return moved.astype(dtype)[()]


def _inexact(leaves: Sequence[Any]) -> list[Any]:
    return [v for v in leaves if is_inexact(aval_of(v).dtype)]


def _close(what: str, got: Any, want: Any, atol: float, rtol: float) -> None:
    gots, _ = tree_flatten(got)
    wants, _ = tree_flatten(want)
    for k, (g, w) in enumerate(zip(gots, wants, strict=True)):
        if aval_of(g).dtype == float0:
            continue
        np.testing.assert_allclose(
            np.asarray(g, _wide(g)),
            np.asarray(w, _wide(w)),
            rtol=rtol,
            atol=atol * max(1.0, float(np.max(np.abs(w), initial=0.0))),
            err_msg=f"{what}: result {k} disagrees with finite differences",
        )


def _tolerances(tree: Any, atol: float | None, rtol: float | None) -> tuple[float, float]:
    leaves = _inexact(tree_flatten(tree)[0])
    tolerance = max((default_tolerance(aval_of(v).dtype) for v in leaves), default=1e-6)
    return (tolerance if atol is None else atol), (tolerance if rtol is None else rtol)


def check_jvp(
    f: Callable[..., Any],
    args: Sequence[Any],
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
    seed: int = 0,
    what: str = "jvp",
) -> None:
    """Raise AssertionError unless forward mode agrees with `f` and its finite differences."""
    args = tuple(args)
    tangents = random_like(args, seed)
    out, tangent = jvp(f, args, tangents)
    expected = f(*args)
    atol, rtol = _tolerances((args, expected), atol, rtol)
    _close(f"{what} (value)", out, expected, atol, rtol)
    _close(what, tangent, numerical_jvp(f, args, tangents, eps), atol, rtol)


def check_vjp(
    f: Callable[..., Any],
    args: Sequence[Any],
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
    seed: int = 0,
    what: str = "vjp",
) -> None:
    """Raise AssertionError unless reverse mode agrees with `f` and its finite differences."""
    args = tuple(args)
    tangents = random_like(args, seed)
    out, pull = vjp(f, *args)
    expected = f(*args)
    atol, rtol = _tolerances((args, expected), atol, rtol)
    _close(f"{what} (value)", out, expected, atol, rtol)
    cotangents = random_like(out, seed + 1)
    pulled = pull(cotangents)
    numerical = numerical_jvp(f, args, tangents, eps)
    size = 1.0 + sum(
        float(np.sum(np.abs(np.multiply(c, t, dtype=_wide(c)))))
        for c, t in zip(tree_flatten(cotangents)[0], tree_flatten(numerical)[0], strict=True)
        if aval_of(c).dtype != float0
    )
    got, want = _pairing(pulled, tangents), _pairing(cotangents, numerical)
    if not abs(got - want) <= atol * size + rtol * abs(want):
        raise AssertionError(
            f"{what}: <pull(ct), t> = {got!r}, but <ct, J t> = {want!r} by finite differences"
        )


def _pairing(a: Any, b: Any) -> float:
    total = 0.0
    for x, y in zip(tree_flatten(a)[0], tree_flatten(b)[0], strict=True):
        if aval_of(x).dtype != float0:
            total += float(
                np.real(np.sum(np.multiply(x, y, dtype=np.result_type(_wide(x), _wide(y)))))
            )
    return total


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int,
    modes: Sequence[str] = ("fwd", "rev"),
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
) -> None:
    """Raise AssertionError unless the derivatives of `f` up to `order` agree with differences.

    Args:
      modes: "fwd" for jvp, "rev" for vjp; higher orders nest every combination.
      atol, rtol, eps: tolerances and step; by default chosen by dtype.

    >>> check_grads(lambda x: x**3, (2.0,), order=2)
    """
    unknown = set(modes) - {"fwd", "rev"}
    if unknown or not modes:
        raise ValueError(f"modes must be among 'fwd' and 'rev', got {tuple(modes)!r}")
    pending: list[tuple[Callable[..., Any], int, str]] = [(f, 1, "")]
    args = tuple(args)
    while pending:
        g, level, path = pending.pop()
        for mode in modes:
            label = f"{path}{mode} (order {level})"
            check = check_jvp if mode == "fwd" else check_vjp
            check(g, args, atol, rtol, eps, seed=level, what=label)
            if level < order:
                derive = _pushed if mode == "fwd" else _pulled
                pending.append((derive(g, args, level), level + 1, f"{path}{mode} of "))


def _pushed(g: Callable[..., Any], args: Sequence[Any], seed: int) -> Callable[..., Any]:
    tangents = random_like(args, seed)
    return lambda *a: jvp(g, a, tangents)[1]


def _pulled(g: Callable[..., Any], args: Sequence[Any], seed: int) -> Callable[..., Any]:
    cotangents = random_like(g(*args), seed)

    def pulled(*a: Any) -> Any:
        found = vjp(g, *a)[1](cotangents)
        return [v for v in tree_flatten(found)[0] if aval_of(v).dtype != float0]

    return pulled
