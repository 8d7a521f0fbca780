"""Functions with rules of their own that close over values of an enclosing vmap."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import stax
from stax import custom_jvp, custom_vjp

XS = np.arange(3.0)


@partial(custom_jvp, nondiff_argnums=(0,))
def applied(f: Callable[[Any], Any], x: Any) -> Any:
    return f(x)


@applied.defjvp
def _(f: Callable[[Any], Any], primals: Any, tangents: Any) -> Any:
    return applied(f, *primals), 2.0 * tangents[0] * f(*primals)


@partial(custom_vjp, nondiff_argnums=(0,))
def applied_back(f: Callable[[Any], Any], x: Any) -> Any:
    return f(x)


applied_back.defvjp(lambda f, x: (f(x), x), lambda f, x, ct: (2.0 * ct * f(x),))


@pytest.mark.parametrize("call", [applied, applied_back])
def test_the_function_may_close_over_mapped_values(call: Any) -> None:
    def value(a: Any, x: Any = 3.0) -> Any:
        return call(lambda v: v * a, x)

    np.testing.assert_allclose(stax.vmap(value)(XS), 3 * XS)
    np.testing.assert_allclose(stax.jit(stax.vmap(value))(XS), 3 * XS)
    slope = stax.vmap(lambda a: stax.grad(lambda x: value(a, x))(3.0))
    np.testing.assert_allclose(slope(XS), 6 * XS)
    np.testing.assert_allclose(stax.jit(slope)(XS), 6 * XS)
    twice = stax.vmap(lambda a: stax.vmap(lambda b: value(a * b))(XS))
    np.testing.assert_allclose(twice(XS), 3 * np.outer(XS, XS))


def test_forward_mode_closes_over_mapped_values() -> None:
    def pushed(a: Any) -> Any:
        return stax.jvp(lambda x: applied(lambda v: v * a, x), (3.0,), (1.0,))

    np.testing.assert_allclose(stax.vmap(pushed)(XS), [3 * XS, 6 * XS])


def test_a_value_that_leaves_its_vmap_is_still_refused() -> None:
    kept: list[Any] = []

    @custom_jvp
    def f(x: Any) -> Any:
        return x * kept[0]

    f.defjvp(lambda p, t: (p[0], t[0]))
    stax.vmap(lambda x: kept.append(x) or x)(XS)  # type: ignore[func-returns-value]
    with pytest.raises(stax.errors.TracerLeakError):
        stax.vmap(f)(XS)


def test_arguments_that_are_not_mapped_may_be_anything() -> None:
    def f(x: Any, mode: str, n: int, shape: Any) -> Any:
        assert mode == "twice"
        return x * n + np.ones(shape).sum()

    mapped = stax.vmap(f, in_axes=(0, None, None, None))
    np.testing.assert_allclose(mapped(XS, "twice", 2, (2, 2)), 2 * XS + 4)
    with pytest.raises(stax.errors.DtypeError, match="mapped arguments"):
        stax.vmap(f)(XS, "twice", XS, XS)


def test_callbacks_take_arguments_that_are_no_arrays() -> None:
    seen: list[Any] = []

    def keep(value: Any, label: str, scale: Any = None) -> None:
        seen.append((float(value), label, scale))

    def f(x: Any) -> Any:
        stax.debug.callback(keep, x, "here", scale=None)
        return x

    stax.jit(f)(2.0)
    stax.vmap(f)(XS[:2])
    assert seen == [(2.0, "here", None), (0.0, "here", None), (1.0, "here", None)]
