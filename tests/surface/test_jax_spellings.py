"""What scripts for JAX write beside the functions themselves: switches, keywords, attributes."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import stax
import stax.numpy as snp
from stax import ad_checkpoint, config, lax, profiler, switches, test_util
from stax.errors import ShapeError

X = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize("name", [n for n in switches.__all__ if n != "checking_leaks"])
def test_switches_are_blocks(name: str) -> None:
    before = config.read(f"jax_{name}")
    value = config.ALLOWED.get(f"jax_{name}", (("value",), ""))[0][0]
    with getattr(stax, name)(value):
        assert config.read(f"jax_{name}") == value
    assert config.read(f"jax_{name}") == before
    with stax.checking_leaks():
        assert config.read("jax_check_tracer_leaks") is True


def test_debug_infs_names_the_operation() -> None:
    f = stax.jit(lambda x: 1.0 / x)
    with stax.debug_infs():
        assert f(2.0) == 0.5
        with pytest.raises(FloatingPointError, match="div"):
            f(0.0)
    with np.errstate(divide="ignore"):
        assert f(0.0) == np.inf


def test_clear_caches_makes_functions_trace_again() -> None:
    traces = []
    f = stax.jit(lambda x: traces.append(1) or x + 1)
    f(1.0), f(2.0)
    stax.clear_caches()
    assert f(3.0) == 4.0
    assert len(traces) == 2


def test_products_take_a_precision_and_a_dtype() -> None:
    half = np.full((2, 2), 300.0, np.float16)
    products: list[Any] = [
        lambda **k: snp.matmul(half, half, **k),
        lambda **k: snp.dot(half, half, **k),
        lambda **k: snp.einsum("ij,jk->ik", half, half, **k),
        lambda **k: snp.tensordot(half, half, 1, **k),
        lambda **k: snp.linalg.matmul(half, half, **k),
    ]
    for product in products:
        found = product(precision="highest", preferred_element_type=np.float32)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, 180000.0)
        with np.errstate(over="ignore"):
            assert product(precision=lax.Precision.HIGHEST).dtype == np.float16
        jitted = stax.jit(lambda p=product: p(preferred_element_type=np.float32))()
        np.testing.assert_array_equal(jitted, found)
    with pytest.raises(TypeError):
        snp.matmul(half, half, precise=True)


def test_limits_of_every_floating_dtype() -> None:
    assert snp.finfo(snp.bfloat16).eps == ml_dtypes.finfo(snp.bfloat16).eps
    assert snp.finfo(np.float32).eps == np.finfo(np.float32).eps
    assert snp.finfo(X).max == np.finfo(np.float64).max
    assert snp.issubdtype(stax.random.key(0).dtype, stax.dtypes.prng_key)
    assert not snp.issubdtype(stax.random.PRNGKey(0).dtype, stax.dtypes.prng_key)


def test_bits_are_read_as_narrower_and_wider_dtypes() -> None:
    words = np.array([[1, 2**31 + 7], [300, 65535]], np.uint32)
    for f in (lax.bitcast_convert_type, stax.jit(lax.bitcast_convert_type, static_argnums=1)):
        narrow = f(words, np.uint8)
        np.testing.assert_array_equal(narrow, words.view(np.uint8).reshape(2, 2, 4))
        np.testing.assert_array_equal(f(narrow, np.uint32), words)
        np.testing.assert_array_equal(f(X, np.int32).shape, (2, 3, 2))
        np.testing.assert_array_equal(f(f(X, np.int32), np.float64), X)
    with pytest.raises(ShapeError, match="must hold the 4 parts"):
        lax.bitcast_convert_type(np.zeros((2, 3), np.uint8), np.float32)


def test_reductions_of_bits() -> None:
    bits = np.array([[12, 10, 6], [7, 5, 4]], np.int32)
    for name, ufunc in (("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)):
        f = getattr(lax, f"reduce_{name}")
        for axes in ((0,), (1,), (0, 1)):
            np.testing.assert_array_equal(f(bits, axes), ufunc.reduce(bits, axis=axes))
            np.testing.assert_array_equal(stax.jit(f, static_argnums=1)(bits, axes), f(bits, axes))
        flags = bits > 6
        np.testing.assert_array_equal(
            f(flags, (1,)), getattr(np, f"logical_{name}").reduce(flags, axis=1)
        )


def test_ragged_products() -> None:
    rng = np.random.default_rng(0)
    rows, matrices = rng.standard_normal((6, 3)), rng.standard_normal((3, 3, 2))
    want = np.concatenate([rows[:2] @ matrices[0], rows[2:5] @ matrices[2], np.zeros((1, 2))])
    np.testing.assert_allclose(lax.ragged_dot(rows, matrices, np.array([2, 0, 3])), want)
    test_util.check_grads(
        lambda r, m: lax.ragged_dot(r, m, np.array([2, 0, 3])), (rows, matrices), 1
    )
    with pytest.raises(ShapeError):
        lax.ragged_dot(rows, matrices[:, :2], np.array([2, 0, 3]))


def test_a_graph_has_the_attributes_of_a_jaxpr() -> None:
    jaxpr = stax.make_jaxpr(lambda x: snp.sin(x) @ np.ones(3))(X)
    assert [str(v) for v in jaxpr.jaxpr.invars] == [str(v) for v in jaxpr.inputs]
    assert jaxpr.jaxpr.eqns[0].primitive.name == "sin"
    assert jaxpr.jaxpr.eqns[0].outvars[0].aval.shape == (2, 3)
    assert len(jaxpr.consts) == len(jaxpr.constvars) == 1
    assert stax.jit(snp.sin).trace(X).jaxpr.outvars[0].aval.shape == (2, 3)


def test_saved_residuals_are_printed() -> None:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        ad_checkpoint.print_saved_residuals(lambda x, w: snp.sin(snp.exp(x @ w)).sum(), X, X.T)
    lines = out.getvalue().splitlines()
    assert lines[:2] == ["f64[2,3] from the argument x", "f64[3,2] from the argument w"]
    assert lines[2].startswith("f64[2,2] output of dot_general from ")
    assert "test_jax_spellings.py" in lines[2]


def test_profiler_annotations_run_what_they_stand_around() -> None:
    @profiler.annotate_function
    def f(x: float) -> float:
        return x + 1

    with profiler.trace("unused"), profiler.TraceAnnotation("block"):
        assert f(1) == 2
    with profiler.StepTraceAnnotation("train", step_num=3):
        assert f(2) == 3


def test_keys_of_paths_print_as_in_jax() -> None:
    leaves = stax.tree_util.tree_leaves_with_path({"a": (1,)})
    assert str(leaves[0][0]) == "(DictKey(key='a'), SequenceKey(idx=0))"
    rows = [{"a": 1}, {"a": 2}]
    structure = stax.tree.structure
    turned = stax.tree.transpose(
        outer_treedef=structure([0, 0]), inner_treedef=structure({"a": 0}),
        pytree_to_transpose=rows,
    )  # fmt: skip
    assert turned == {"a": [1, 2]}


def test_pmap_is_a_compiled_vmap() -> None:
    f = stax.pmap(lambda x, y: x * y + lax.psum(x, "i"), axis_name="i", in_axes=(0, None))
    np.testing.assert_allclose(f(X, 2.0), 2 * X + X.sum(0))

    def g(x: Any, how: str, n: int) -> Any:
        return x * n if how == "times" else x

    static = stax.pmap(g, static_broadcasted_argnums=(1, 2))
    np.testing.assert_allclose(static(X, "times", 3), 3 * X)
    np.testing.assert_allclose(static(X, "leave", 3), X)
    total = stax.pmap(stax.grad(lambda w, x: (w * x).sum()), in_axes=(None, 0))(2.0, X)
    np.testing.assert_allclose(total, X.sum(1))
