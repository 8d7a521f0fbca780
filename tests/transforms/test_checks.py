"""Checks as results: inside every loop and transformation, in C, and raised where nothing asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import stax
import stax.numpy as snp
from stax import lax
from stax.errors import CheckFailedError, DtypeError, StaxError
from stax.experimental import checkify
from stax.experimental.checkify import check


def small(x: Any) -> Any:
    check(x < 2, "{} is not small", x)
    return x * x


def total(xs: Any) -> Any:
    return lax.scan(lambda c, x: (c + small(x), c), 0.0, xs)[0]


def doubled(x: Any) -> Any:
    return lax.while_loop(lambda v: v < 10, lambda v: 2 * small(v) + 1, x)


PROGRAMS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "plain": (small, 3.0),
    "scan": (total, np.arange(4.0)),
    "while": (doubled, 1.5),
    "bounded": (
        lambda x: lax.while_loop(lambda v: v < 9, lambda v: small(v) + 3, x, max_steps=3),
        1.0,
    ),
    "cond": (lambda x: lax.cond(x > 0, small, lambda v: v, x), 3.0),
    "switch": (lambda x: lax.switch(1, [lambda v: v, small], x), 3.0),
    "map": (lambda xs: lax.map(small, xs), np.array([1.0, 5.0])),
    "vmap": (stax.vmap(small), np.array([1.0, 5.0, 7.0])),
    "vmap of scan": (stax.vmap(total), np.array([[1.0, 1.0], [0.0, 5.0]])),
    "checkpoint": (stax.checkpoint(small), 3.0),
    "inner jit": (lambda x: stax.jit(small)(x) + 1, 3.0),
    "grad": (stax.grad(small), 3.0),
    "grad of scan": (stax.grad(total), np.arange(4.0)),
    "kept few": (
        lambda xs: stax.grad(
            lambda xs: lax.scan(
                lambda c, x: (c + small(x), None), 0.0, xs, checkpoint=stax.Binomial(2)
            )[0]
        )(xs),
        np.arange(4.0),
    ),
    "jvp": (lambda x: stax.jvp(small, (x,), (1.0,))[1], 3.0),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_first_failure_is_a_result(name: str) -> None:
    f, x = PROGRAMS[name]
    x = np.asarray(x)
    checked = checkify.checkify(f)
    plain = stax.jit(checkify.checkify(f, errors=checkify.nan_checks), strict=True)(x)[1]
    for run in (checked, stax.jit(checked, strict=True)):
        error, out = run(x)
        message = error.get()
        assert message is not None
        assert message.endswith("is not small (`check` failed)")
        assert not message.startswith(("1.0", "0.0", "1.5"))
        np.testing.assert_allclose(out, plain)
        with pytest.raises(CheckFailedError, match="is not small"):
            error.throw()
        error, _ = run(np.zeros_like(x) - 20)
        assert error.get() is None
        error.throw()


def test_where_the_check_stands_is_told() -> None:
    error, _ = checkify.checkify(small)(np.array(3.0))
    with pytest.raises(CheckFailedError, match=r"test_checks\.py:\d+"):
        error.throw()


def test_derivatives_go_through() -> None:
    value = lambda x: checkify.checkify(small)(x)[1]
    assert stax.grad(value)(1.5) == 3.0
    assert stax.jit(stax.grad(stax.grad(value)))(1.5) == 2.0
    (out, error), slope = stax.value_and_grad(
        lambda x: checkify.checkify(small)(x)[::-1], has_aux=True
    )(3.0)
    assert (out, slope) == (9.0, 6.0)
    assert error.get() == "3.0 is not small (`check` failed)"


def test_a_batch_has_an_error_for_each_example() -> None:
    errors, _ = stax.jit(stax.vmap(checkify.checkify(small)))(np.array([1.0, 5.0, 0.0, 7.0]))
    assert errors.get() == (
        "at mapped index 1: 5.0 is not small (`check` failed)\n"
        "at mapped index 3: 7.0 is not small (`check` failed)"
    )
    # Inside, the first example that fails is told, as a loop over the examples would.
    error, _ = checkify.checkify(stax.vmap(stax.vmap(small)))(np.array([[1.0, 5.0], [7.0, 0.0]]))
    assert error.get() == "5.0 is not small (`check` failed)"
    empty, _ = checkify.checkify(stax.vmap(small))(np.zeros(0))
    assert empty.get() is None


def test_errors_are_pytrees() -> None:
    def body(carry: Any, x: Any) -> Any:
        return carry, checkify.checkify(small)(x)

    _, (errors, _) = stax.jit(lambda xs: lax.scan(body, 0, xs))(np.array([1.0, 3.0]))
    assert errors.get() == "at mapped index 1: 3.0 is not small (`check` failed)"
    with pytest.raises(StaxError, match="not known while tracing"):
        stax.jit(lambda x: checkify.checkify(small)(x)[0].get())(1.0)


def test_without_checkify_a_check_raises() -> None:
    with pytest.raises(CheckFailedError, match=r"3\.0 is not small[\s\S]*test_checks\.py"):
        small(np.array(3.0))
    assert stax.jit(small)(1.0) == 1.0
    for run in (stax.jit(small), stax.jit(stax.grad(small)), stax.grad(small)):
        with pytest.raises(CheckFailedError, match=r"3\.0 is not small"):
            run(3.0)
    with pytest.raises(CheckFailedError, match=r"5\.0 is not small"):
        stax.jit(stax.vmap(small))(np.array([1.0, 5.0]))
    quiet = stax.jit(lambda x: checkify.debug_check(x > 0, "never"), strict=True)
    assert quiet(-1.0) is None


def test_what_is_not_looked_for_is_left_alone() -> None:
    f = lambda x: small(x) + np.log(x - 10) / 0.0
    with np.errstate(all="ignore"):
        assert checkify.checkify(f, errors=checkify.index_checks)(np.array(5.0))[0].get() is None
    with pytest.raises(IndexError):  # an index outside raises, as without checks
        checkify.checkify(lambda x, i: x[i])(np.arange(3.0), np.array(5))


INDEXED: dict[str, tuple[Callable[[Any, Any], Any], str | None]] = {
    "gather": (lambda x, i: x[i], "index 5 is out of bounds for axis 0 with size 3"),
    "negative": (lambda x, i: x[-i], "index -5 is out of bounds for axis 0 with size 3"),
    "clipped": (lambda x, i: snp.take(x, i, 0, mode="clip"), "index 5 is out of bounds"),
    "wrapped": (lambda x, i: snp.take(x, i, 0, mode="wrap"), None),
    "filled": (lambda x, i: x.at[i].get(mode="fill"), "index 5 is out of bounds"),
    "second axis": (lambda x, i: x[i - 4, i - 1], "index 4 is out of bounds for axis 1"),
    "scatter": (lambda x, i: x.at[i].add(1.0), "index 5 is out of bounds for axis 0"),
    "window": (lambda x, i: lax.dynamic_slice(x, (0, i), (3, 2)), "index 5 is out of bounds"),
    "update": (
        lambda x, i: lax.dynamic_update_slice(x, np.ones((1, 1)), (i - 5, i)),
        "index 5 is out of bounds for axis 1",
    ),
    "batched": (lambda x, i: stax.vmap(lambda r: r[i])(x), "index 5 is out of bounds"),
    "in a loop": (
        lambda x, i: lax.fori_loop(0, i, lambda k, s: s + x[k, 0], 0.0),
        "index 3 is out of bounds",
    ),
    "gradient": (stax.grad(lambda x, i: x[i].sum()), "index 5 is out of bounds"),
}  # fmt: skip


@pytest.mark.parametrize("name", INDEXED)
def test_indices_outside_are_found(name: str) -> None:
    f, message = INDEXED[name]
    checked = checkify.checkify(f, errors=checkify.index_checks)
    x = np.arange(12.0).reshape(3, 4)
    for run in (checked, stax.jit(checked, strict=True)):
        found = run(x, np.array(5))[0].get()
        assert (found is None) == (message is None)
        assert message is None or message in found
        assert (
            name in ("window", "update")
            or run(x, np.array(2 if name != "second axis" else 4))[0].get() is None
        )


def test_the_first_nan_or_zero_divisor_names_its_operation() -> None:
    def f(x: Any) -> Any:
        return snp.sum(snp.sqrt(x) / (x - 1.0))

    checked = stax.jit(checkify.checkify(f, errors=checkify.float_checks), strict=True)
    assert checked(np.array([4.0, 9.0]))[0].get() is None
    assert checked(np.array([-4.0, 1.0]))[0].get() == "nan generated by primitive: sqrt."
    assert checked(np.array([4.0, 1.0]))[0].get() == "division by zero"
    whole = checkify.checkify(lambda a, b: a // b + a % b, errors=checkify.div_checks)
    assert whole(np.array(7), np.array(2))[0].get() is None
    assert whole(np.array(7), np.array(0))[0].get() == "division by zero"


def test_functions_with_rules_keep_them() -> None:
    @stax.custom_jvp
    def root(x: Any) -> Any:
        check(x >= 0, "no root of {}", x)
        return snp.sqrt(x)

    root.defjvp(lambda p, t: (snp.sqrt(p[0]), 100.0 * t[0]))
    error, slope = stax.jit(checkify.checkify(stax.grad(root)))(4.0)
    assert slope == 100.0
    error, _value = stax.jit(checkify.checkify(root))(-4.0)
    assert error.get() == "no root of -4.0 (`check` failed)"
    assert stax.grad(lambda x: checkify.checkify(root)(x)[1])(4.0) == 100.0


def test_what_is_no_check_is_refused() -> None:
    for wrong in (np.array([True]), np.array(1), 1, "yes"):
        with pytest.raises(DtypeError, match="check takes a Boolean scalar"):
            check(wrong, "never")
    with pytest.raises(DtypeError, match="string"):
        check(True, 3)  # type: ignore[arg-type]


def test_prints_are_made_once() -> None:
    seen: list[float] = []

    @stax.custom_jvp
    def f(x: Any) -> Any:
        stax.debug.callback(lambda v: seen.append(float(v)), x)
        return small(x)

    f.defjvp(lambda p, t: (f(p[0]), t[0]))
    stax.jit(checkify.checkify(f))(1.0)
    assert seen == [1.0]


def test_a_linear_solve_with_checks_in_it() -> None:
    matrix = np.array([[3.0, 1.0], [1.0, 2.0]])

    def solve(b: Any) -> Any:
        def matvec(v: Any) -> Any:
            check(np.all(v < 100), "far")
            return matrix @ v

        return lax.custom_linear_solve(
            matvec, b, lambda mv, b: mv(b) * 0 + np.linalg.solve(matrix, b)
        )

    error, x = stax.jit(checkify.checkify(solve))(np.array([1.0, 2.0]))
    assert error.get() is None
    np.testing.assert_allclose(x, np.linalg.solve(matrix, [1.0, 2.0]))
    error, _ = stax.jit(checkify.checkify(solve))(np.array([1.0, 200.0]))
    assert error.get() == "far (`check` failed)"
