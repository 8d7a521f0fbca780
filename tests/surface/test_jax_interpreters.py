"""What interpreters of a jaxpr use, and names of JAX that are refused with the way out."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import stax
import stax.numpy as snp
from stax import lax
from stax.absent import INSTEAD
from stax.errors import ShapeError
from stax.extend import core
from stax.testing import check_grads


@pytest.mark.parametrize("path", INSTEAD)
def test_a_name_that_is_absent_says_what_to_write(path: str) -> None:
    *parents, name = path.split(".")
    module = importlib.import_module(".".join(["stax", *parents]))
    assert not hasattr(module, name)
    with pytest.raises(AttributeError) as caught:
        getattr(module, name)
    assert INSTEAD[path] in str(caught.value)
    assert f"has no attribute {name!r}" in str(caught.value)


def test_another_name_has_no_hint() -> None:
    for module in (stax, lax, stax.core, core, stax.experimental, stax.custom_derivatives):
        with pytest.raises(AttributeError, match=r"has no attribute 'nothing_p'$"):
            module.nothing_p  # noqa: B018


def test_operations_are_found_by_jaxs_names() -> None:
    graph = stax.make_jaxpr(lambda x: lax.logistic(snp.exp(x)).sum())(np.ones(3))
    assert [e.primitive for e in graph.eqns] == [lax.exp_p, lax.logistic_p, lax.reduce_sum_p]
    assert not lax.exp_p.multiple_results
    assert lax.exp_p.bind(0.0) == 1.0
    np.testing.assert_array_equal(stax.jit(lambda x: lax.exp_p.bind(x))(np.zeros(2)), [1, 1])


def test_a_graph_is_evaluated_with_other_constants() -> None:
    graph = stax.make_jaxpr(lambda x: x * np.arange(1.0, 3))(np.ones(2))
    assert graph.literals[0] is graph.consts[0]
    for consts, want in ((graph.consts, [3, 6]), ([np.full(2, 5.0)], [15, 15])):
        (found,) = stax.core.eval_jaxpr(graph.jaxpr, consts, np.full(2, 3.0))
        np.testing.assert_array_equal(found, want)
    (slope,) = (stax.grad(lambda x: core.jaxpr_as_fun(graph)(x)[0].sum())(np.ones(2)),)
    np.testing.assert_array_equal(slope, [1, 2])
    with pytest.raises(ValueError, match="zip"):
        stax.core.eval_jaxpr(graph, [], np.ones(2))


def test_layers_with_a_kernel_at_every_place() -> None:
    rng = np.random.default_rng(0)
    x, k = rng.standard_normal((2, 3, 5)), rng.standard_normal((4, 6, 4))
    f = lambda x, k: lax.conv_general_dilated_local(x, k, (1,), "VALID", (2,))
    want = np.stack(
        [np.einsum("nif,oif->no", x[:, :, p : p + 2], k[:, :, p].reshape(4, 3, 2))
         for p in range(4)], -1,
    )  # fmt: skip
    np.testing.assert_allclose(stax.jit(f)(x, k), want)
    check_grads(f, (x, k), order=2)
    with pytest.raises(ShapeError, match="6 features and the places"):
        f(x, k[:, :5])


def test_small_functions_of_matrices() -> None:
    rng = np.random.default_rng(1)
    a, taus = rng.standard_normal((2, 5, 3)), rng.standard_normal((2, 3))

    def explicit(a: Any, taus: Any) -> Any:
        q = np.eye(5)
        for i, tau in enumerate(taus):
            v = np.where(np.arange(5) > i, a[:, i], np.arange(5) == i)
            q = q @ (np.eye(5) - tau * np.outer(v, v))
        return q[:, :3]

    f = stax.jit(lax.linalg.householder_product)
    np.testing.assert_allclose(f(a, taus), [explicit(x, t) for x, t in zip(a, taus, strict=True)])
    np.testing.assert_allclose(f(a[0], taus[0, :1]), explicit(a[0], taus[0, :1]))
    check_grads(lax.linalg.householder_product, (a[0], taus[0]), order=2)
    s = np.swapaxes(a, 1, 2) @ a
    r = np.swapaxes(np.linalg.cholesky(s), 1, 2)
    updated = stax.jit(lax.linalg.cholesky_update)(r, taus)
    want = s + taus[:, :, None] * taus[:, None]
    np.testing.assert_allclose(np.swapaxes(updated, 1, 2) @ updated, want, atol=1e-12)
    np.testing.assert_allclose(updated, np.triu(updated))
    found = lax.linalg.symmetric_product(a, np.stack([np.eye(5)] * 2), alpha=2.0, beta=-1.0)
    np.testing.assert_allclose(found, 2 * a @ np.swapaxes(a, 1, 2) - np.eye(5))
    for bad in (lambda: f(a[:, :2], taus), lambda: f(a, np.ones((2, 4)))):
        with pytest.raises(ShapeError, match="taus"):
            bad()
    with pytest.raises(ShapeError, match="3 elements"):
        lax.linalg.cholesky_update(r, taus[:, :2])
