"""Sorting, LAPACK and SciPy's functions inside compiled programs: calls, not steps of Python.

`strict=True` refuses everything that would run outside compiled code, so what it compiles here is
compiled.  Values are NumPy's and SciPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

import stax
import stax.lax as lax
import stax.numpy as snp
import stax.scipy.linalg as la
import stax.scipy.special as special

RNG = np.random.default_rng(3)
SORTED = "u1 u2 u4 u8 i1 i2 i4 i8 f2 f4 f8 ?".split()
# One line, many short ones, an axis with a stride, lines long enough to be distributed, nothing.
SHAPES = [((7,), 0), ((1700,), 0), ((40, 3), 0), ((3, 40, 2), 1), ((2, 1600), 1), ((0, 3), 1)]


def elements(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Elements with many ties, the extremes of their type, NaN, infinities and both zeros."""
    if dtype.kind == "b":
        return RNG.random(shape) < 0.5
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        x = RNG.integers(0, 50, shape).astype(dtype)
        odd = [info.min, info.max, info.max - 1]
    else:
        x = np.round(RNG.standard_normal(shape) * 3, 1).astype(dtype)
        odd = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0]
    for value in odd:
        x[RNG.random(shape) < 0.05] = value
    return x


def same_bits(have: Any, want: Any) -> None:
    assert have.dtype == want.dtype
    np.testing.assert_array_equal(have, want)
    if want.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(have), np.signbit(want))


@pytest.mark.parametrize("dtype", SORTED)
def test_sorting_is_stable_and_puts_nan_last(dtype: str) -> None:
    arrays = [elements(shape, np.dtype(dtype)) for shape, _ in SHAPES]
    axes = [axis for _, axis in SHAPES]

    @lambda f: stax.jit(f, strict=True)
    def run(arrays: list[Any]) -> Any:
        pairs = list(zip(arrays, axes, strict=True))
        return [snp.sort(x, axis=k) for x, k in pairs], [snp.argsort(x, axis=k) for x, k in pairs]

    values, places = run(arrays)
    for x, axis, value, place in zip(arrays, axes, values, places, strict=True):
        same_bits(value, np.sort(x, axis=axis, kind="stable"))
        np.testing.assert_array_equal(place, np.argsort(x, axis=axis, kind="stable"))


def test_sorting_bfloat16_and_long_eight_byte_keys_without_odd_values() -> None:
    bfloat16 = stax.dtypes.bfloat16
    x = np.array([3, -1, np.nan, -0.0, 0.0, np.inf, -np.inf, 2.5], bfloat16)
    long = [RNG.standard_normal(5000), RNG.integers(-(2**62), 2**62, 5000), np.arange(5000, 0, -1)]
    f = stax.jit(lambda *v: [snp.sort(a) for a in v], strict=True)
    for have, a in zip(f(x, *long), (x, *long), strict=True):
        a = a.astype("f4") if a is x else a
        np.testing.assert_array_equal(have.astype(a.dtype), np.sort(a, kind="stable"))


@pytest.mark.parametrize("dtype", SORTED)
def test_values_alone_are_sorted_along_every_axis(dtype: str) -> None:
    kind = np.dtype(dtype)
    arrays = [(RNG.integers(1, 200, shape) % 97 + 1).astype(kind) for shape, _ in SHAPES]
    arrays += [np.round(RNG.standard_normal((900, 3)) * 40).astype(kind) + kind.type(1)]
    axes = [*(axis for _, axis in SHAPES), 0]
    found = stax.jit(
        lambda xs: [snp.sort(x, axis=k) for x, k in zip(xs, axes, strict=True)], strict=True
    )(arrays)
    for x, axis, have in zip(arrays, axes, found, strict=True):
        same_bits(have, np.sort(x, axis=axis, kind="stable"))


@pytest.mark.parametrize("n", [5, 90, 3000])
def test_several_keys_and_operands_of_several_widths(n: int) -> None:
    a, b = RNG.integers(0, 4, n).astype("i1"), np.round(RNG.standard_normal(n), 1)
    c, d = RNG.standard_normal(n).astype("f4"), np.arange(n, dtype="u2")
    found = stax.jit(lambda *v: lax.sort(v, num_keys=2), strict=True)(a, b, c, d)
    order = np.lexsort((b, a))
    for have, want in zip(found, (a, b, c, d), strict=True):
        np.testing.assert_array_equal(have, want[order])


@pytest.mark.parametrize("dtype", SORTED[:-1])
def test_searchsorted_orders_like_sort(dtype: str) -> None:
    a = np.sort(elements((300,), np.dtype(dtype)))
    v = elements((20, 20), np.dtype(dtype))
    f = lambda a, v: [snp.searchsorted(a, v, side=s) for s in ("left", "right")]
    for have, want in zip(stax.jit(f, strict=True)(a, v), f(a, v), strict=True):
        np.testing.assert_array_equal(have, want)


def test_what_stands_on_sorting_is_compiled() -> None:
    x = RNG.standard_normal((4, 30))
    x[0, 3] = np.nan
    f = lambda v: (
        snp.median(v, axis=1),
        snp.nanmedian(v, axis=1),
        snp.quantile(v, np.array([0.1, 0.7]), axis=0),
        lax.top_k(v[1:], 3),
        snp.partition(v, 4, axis=1)[:, 4],
        snp.digitize(v[1], np.array([-1.0, 0.0, 1.0])),
        snp.interp(v[1], np.arange(3.0), np.arange(3.0) ** 2),
        snp.histogram(v[1], bins=5)[0],
    )
    found, want = stax.jit(f, strict=True)(x), f(x)
    for a, b in zip(stax.tree.leaves(found), stax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


# ------------------------------------------------------------------------------------ LAPACK


def definite(*shape: int) -> Any:
    return positive(RNG.standard_normal(shape))


def positive(a: Any) -> Any:
    return a @ np.conj(np.swapaxes(a, -1, -2)) + a.shape[-1] * np.eye(a.shape[-1])


def triangular(a: Any, b: Any) -> Any:
    """Every form of a triangular system."""
    out = []
    for number in range(32 if a.dtype.kind == "c" else 16):
        left, lower, transposed, unit, conjugated = (bool(number >> k & 1) for k in range(5))
        right = b if left else snp.swapaxes(b, -1, -2)
        out.append(
            lax.linalg.triangular_solve(
                a,
                right,
                left_side=left,
                lower=lower,
                transpose_a=transposed,
                conjugate_a=conjugated,
                unit_diagonal=unit,
            )
        )
    return out


def per_stack(f: Callable[[Any], Any], a: Any) -> Any:
    """A function of one matrix on a stack."""
    for _ in a.shape[:-2]:
        f = stax.vmap(f)
    return f(a)


def diagonals(a: Any, lower: int, upper: int) -> Any:
    """Rows of numbers, that of the main diagonal large."""
    n = a.shape[-1]
    rows = [snp.roll(a[..., 0, :], k, -1) / (4 * n) for k in range(lower + upper + 1)]
    rows[upper] = rows[upper] + 2
    return snp.stack(rows, -2)


MATRIX: dict[str, Callable[..., Any]] = {
    "cholesky": lambda a, s, b, w: snp.linalg.cholesky(s),
    "solve": lambda a, s, b, w: snp.linalg.solve(a, b),
    "inv": lambda a, s, b, w: snp.linalg.inv(a),
    "det": lambda a, s, b, w: snp.linalg.det(a),
    "slogdet": lambda a, s, b, w: tuple(snp.linalg.slogdet(a)),
    "lu": lambda a, s, b, w: [lax.linalg.lu(m) for m in (a, w, snp.swapaxes(w, -1, -2))],
    "triangular": lambda a, s, b, w: triangular(s, b),
    "qr": lambda a, s, b, w: [
        tuple(snp.linalg.qr(m, mode=mode))
        for m in (a, w, snp.swapaxes(w, -1, -2))
        for mode in ("reduced", "complete")
    ],
    "eigh": lambda a, s, b, w: [tuple(snp.linalg.eigh(s)), tuple(snp.linalg.eigh(a, "U"))],
    "eigvalsh": lambda a, s, b, w: snp.linalg.eigvalsh(a),
    "svd": lambda a, s, b, w: [
        tuple(snp.linalg.svd(m, full_matrices=full))
        for m in (a, w, snp.swapaxes(w, -1, -2))
        for full in (False, True)
    ],
    "svdvals": lambda a, s, b, w: snp.linalg.svdvals(w),
    "pinv": lambda a, s, b, w: [
        snp.linalg.pinv(m, rcond=r) for m in (w, snp.swapaxes(w, -1, -2)) for r in (None, 0.3)
    ],
    # Without tracing the dtype of what is real follows NumPy's, which looks at the values.
    "eig": lambda a, s, b, w: [[v + 0j for v in snp.linalg.eig(m)] for m in (a, s)],
    "eigvals": lambda a, s, b, w: snp.linalg.eigvals(a) + 0j,
    "schur": lambda a, s, b, w: [la.schur(a), la.schur(a, output="complex")],
    "hessenberg": lambda a, s, b, w: per_stack(lambda m: la.hessenberg(m, calc_q=True), a),
    "sqrtm": lambda a, s, b, w: la.sqrtm(s),
    "solve_sylvester": lambda a, s, b, w: la.solve_sylvester(s, s[..., ::-1, ::-1] + 0, a),
    "solve_banded": lambda a, s, b, w: [
        la.solve_banded((low, high), diagonals(s, low, high), x)
        for low, high in ((0, 0), (1, 1), (1, 0), (0, 2), (2, 1), (3, 3))
        for x in (b, s)
    ],
    "gradient of sqrtm": lambda a, s, b, w: stax.grad(lambda m: la.sqrtm(m).real.sum())(s),
    "gradient of solve_sylvester": lambda a, s, b, w: stax.grad(
        lambda x, y, z: la.solve_sylvester(x, y, z).real.sum(), (0, 1, 2)
    )(s, s, a),
    "gradient of solve_banded": lambda a, s, b, w: stax.grad(
        lambda m, x: la.solve_banded((2, 1), m, x).real.sum(), (0, 1)
    )(diagonals(s, 2, 1), b),
    "gradient of det": lambda a, s, b, w: stax.grad(lambda m: snp.linalg.det(m).real.sum())(a),
    "gradient of pinv": lambda a, s, b, w: stax.grad(lambda m: snp.linalg.pinv(m).real.sum())(w),
    "gradient of eigvals": lambda a, s, b, w: stax.grad(
        lambda m: snp.abs(snp.linalg.eigvals(m)).sum()
    )(a),
}


@pytest.mark.parametrize("name", MATRIX)
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_matrix_routines_are_calls_and_give_what_numpy_gives(name: str, dtype: str) -> None:
    f = MATRIX[name]
    for stack, n in (((), 1), ((), 19), ((2, 3), 4)):
        a, s = RNG.standard_normal((*stack, n, n)), definite(*stack, n, n)
        b, w = RNG.standard_normal((*stack, n, 2)), RNG.standard_normal((*stack, n, n + 3))
        if dtype[0] == "c":
            a, b, w = (x + 1j * RNG.standard_normal(x.shape) for x in (a, b, w))
            s = positive(a)
        arguments = [x.astype(dtype) for x in (a, s, b, w)]
        found = stax.jit(f, strict=True)(*arguments)
        for x, y in zip(stax.tree.leaves(found), stax.tree.leaves(f(*arguments)), strict=True):
            assert (x.dtype, x.shape) == (np.asarray(y).dtype, np.shape(y))
            # Up to rounding, of a triangular system's growing solution too, and in its signs.
            scale = np.abs(y).max(initial=1.0)
            np.testing.assert_allclose(
                x, y, atol=scale * (1e-4 if dtype in ("f4", "c8") else 1e-11)
            )


def test_factorisations_inside_loops_batches_and_derivatives() -> None:
    def loss(s: Any, b: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            factor = snp.linalg.cholesky(carry)
            x = lax.linalg.triangular_solve(factor, row[:, None], left_side=True, lower=True)
            return carry + x @ x.T, snp.sort(x[:, 0])

        last, xs = lax.scan(step, s, b)
        return snp.log(snp.linalg.det(last)) + (xs * xs).sum()

    s, b = definite(5, 3, 3), RNG.standard_normal((5, 4, 3))
    f = stax.vmap(stax.grad(loss, (0, 1)))
    for have, want in zip(stax.jit(f)(s, b), f(s, b), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-10)
    np.testing.assert_allclose(stax.jit(loss, strict=True)(s[0], b[0]), loss(s[0], b[0]))
    assert not stax.jit(loss).lower(s[0], b[0]).fallbacks


def test_a_stack_is_the_same_whatever_its_order_and_layout() -> None:
    a = definite(6, 5, 5)
    f = stax.jit(lambda m: snp.linalg.cholesky(m[::-1].transpose(1, 2, 0).transpose(2, 0, 1)))
    np.testing.assert_allclose(f(a), np.linalg.cholesky(a)[::-1], rtol=1e-12)


INFINITE = "(?i:infs or NaNs)"
REFUSED: dict[str, tuple[Callable[[Any], Any], Any, str]] = {
    "cholesky": (snp.linalg.cholesky, -np.eye(3), "not positive definite"),
    "inv": (snp.linalg.inv, np.zeros((2, 2)), "Singular matrix"),
    "solve": (lambda a: snp.linalg.solve(a, np.ones(2)), np.zeros((2, 2)), "Singular matrix"),
    "svd": (lambda a: tuple(snp.linalg.svd(a)), np.full((3, 3), np.nan), "did not converge"),
    "eig": (lambda a: tuple(snp.linalg.eig(a)), np.full((3, 3), np.nan), "infs or NaNs"),
    "eigvalsh": (snp.linalg.eigvalsh, np.full((3, 3), np.nan), "did not converge"),
    "schur": (la.schur, np.full((3, 3), np.nan), INFINITE),
    "hessenberg": (lambda a: la.hessenberg(a, calc_q=True), np.full((3, 3), np.nan), INFINITE),
    "solve_sylvester": (lambda a: la.solve_sylvester(a, a, a), np.full((2, 2), np.inf), INFINITE),
    "solve_banded": (lambda a: la.solve_banded((1, 1), a, a), np.zeros((3, 3)), "(?i:singular)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_matrices_that_lapack_refuses_raise_numpys_error_with_the_line(name: str) -> None:
    f, a, message = REFUSED[name]
    # NumPy raises its LinAlgError, SciPy for infinities the ValueError that it is a case of.
    with pytest.raises(ValueError, match=message):
        f(a)
    with pytest.raises(np.linalg.LinAlgError, match=rf"(?s:{message}.*{name}.*test_routines)"):
        stax.jit(f, strict=True)(a)
    with pytest.raises(np.linalg.LinAlgError, match=message):
        stax.jit(lambda m: lax.scan(lambda c, _: (c, f(c)), m, None, length=2), strict=True)(a)
    stack = np.stack([np.eye(a.shape[0]), a])
    with pytest.raises(np.linalg.LinAlgError, match=message):
        stax.jit(stax.vmap(f), strict=True)(stack)
    with pytest.raises(np.linalg.LinAlgError, match=message):
        stax.jit(f, strict=True)(a.astype(complex))


def test_singular_matrices_without_an_error_follow_numpy() -> None:
    a = np.array([[1.0, 2.0], [2.0, 4.0]])
    f = lambda m: (snp.linalg.det(m), *snp.linalg.slogdet(m), lax.linalg.lu(m))
    with np.errstate(all="ignore"):
        for have, want in zip(
            stax.tree.leaves(stax.jit(f, strict=True)(a)), stax.tree.leaves(f(a)), strict=True
        ):
            np.testing.assert_array_equal(have, want)
    half = lambda m, b: lax.linalg.triangular_solve(m, b, left_side=True, lower=True)
    with np.errstate(all="ignore"):
        args = np.zeros((2, 2)), np.array([[1.0], [0.0]])
        np.testing.assert_array_equal(stax.jit(half, strict=True)(*args), half(*args))


@pytest.mark.filterwarnings("ignore:Matrix is singular")
def test_square_roots_that_do_not_exist() -> None:
    for f in (la.sqrtm, stax.jit(la.sqrtm, strict=True)):
        with pytest.raises(np.linalg.LinAlgError, match="no real square root"):
            f(np.diag([-1.0, 1.0]))
        np.testing.assert_allclose(f(np.diag([-1.0, 1.0]) + 0j), np.diag([1j, 1]), atol=1e-12)
        for bad in (np.nan, np.inf):
            assert np.isnan(f(np.array([[bad, 1.0], [1.0, 2.0]]))).all()
            assert np.isnan(f(np.array([[bad, 1.0], [1.0, 2.0]]) + 0j)).all()
        np.testing.assert_array_equal(f(np.zeros((2, 2))), np.zeros((2, 2)))


def test_banded_systems_carry_nan_and_have_one_row() -> None:
    for low, high in ((0, 2), (1, 1), (2, 0)):
        f = lambda m, x, w=(low, high): la.solve_banded(w, m, x)
        for g in (f, stax.jit(f, strict=True)):
            assert np.isnan(g(np.full((3, 4), np.nan), np.ones(4))).any()
            bands = np.zeros((3, 1))
            bands[high] = 4
            np.testing.assert_array_equal(g(bands, np.ones(1)), [0.25])


# ------------------------------------------------------------------------------------- SciPy

X, Y = np.linspace(0.1, 5, 24).reshape(4, 6), np.linspace(0.2, 0.9, 6)
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "gamma": (X,), "beta": (X, Y), "gammainc": (X, Y), "gammaincc": (X, Y), "i0e": (X,),
    "betainc": (X, X, Y), "j0": (X,), "k1": (X,), "jv": (2.5, X), "iv": (0.5, X),
    "zeta": (X + 1, Y), "hyp2f1": (0.5, 1.5, 2.0, Y), "ndtri": (Y,), "exp1": (X,), "dawsn": (X,),
    "log_ndtr": (-X,), "erfcx": (X,), "spence": (X,), "binom": (X, Y), "owens_t": (X, Y),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_functions_of_scipy_are_calls_of_its_loops(name: str, dtype: str) -> None:
    arguments = [np.asarray(a, dtype) for a in FUNCTIONS[name]]
    f = getattr(special, name)
    want = getattr(scipy.special, name)(*arguments)
    same_bits(stax.jit(f, strict=True)(*arguments), want)
    same_bits(stax.jit(lambda *a: f(*a).T, strict=True)(*arguments), want.T)


def test_orders_that_are_fixed_and_functions_of_two_results_are_calls_too() -> None:
    def f(x: Any) -> Any:
        orders = [special.polygamma(n, x) for n in (1, 2, 5)]
        hessian = stax.grad(stax.grad(lambda v: special.gammaln(v)))(x[0, 0])
        return orders, special.expn(3, x), special.sici(x), special.fresnel(x), hessian

    for x in (X, X.astype("f4")):
        found, want = stax.jit(f, strict=True)(x), f(x)
        for a, b in zip(stax.tree.leaves(found), stax.tree.leaves(want), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=1e-13 if x is X else 2e-7)


def test_half_types_of_scipys_functions_are_computed_in_float32() -> None:
    x = X.astype(np.float16)
    want = scipy.special.gamma(x.astype("f4")).astype(np.float16)
    same_bits(stax.jit(special.gamma, strict=True)(x), want)


def test_a_function_of_scipy_in_a_loop() -> None:
    f = lambda x: lax.fori_loop(0, 50, lambda k, v: special.k0(v) + 0.1, x)
    np.testing.assert_allclose(stax.jit(f, strict=True)(0.7), f(0.7), rtol=1e-14)
