"""`stax.scipy.special`: values against SciPy, derivatives to order two, jit, batching, edges."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import special as reference

import stax
from stax.errors import DtypeError, NonDifferentiableError
from stax.scipy import special
from stax.testing import check_grads

POSITIVE = np.array([0.05, 0.3, 0.55, 0.9, 1.0, 1.5, 2.0, 3.7, 10.0, 45.0])
ANY = np.array([-30.3, -3.2, -1.1, -0.2, 0.3, 1.0, 4.0, 20.0])
UNIT = np.array([1e-8, 0.1, 0.3, 0.45, 0.50001, 0.7, 0.9, 1 - 1e-9])
SMOOTH = np.array([0.31, 0.62, 0.93])

ONE: dict[str, Any] = {
    "dawsn": ANY, "digamma": POSITIVE, "entr": POSITIVE, "erf": ANY, "erfc": ANY, "erfcinv": UNIT,
    "erfcx": np.r_[POSITIVE, 1e4, -3.0], "erfinv": UNIT, "exp1": POSITIVE, "expi": POSITIVE,
    "expit": ANY, "gamma": POSITIVE, "gammaln": ANY, "gammasgn": ANY, "i0": ANY, "i0e": ANY,
    "i1": ANY, "i1e": ANY, "j0": ANY, "j1": ANY, "k0": POSITIVE, "k0e": POSITIVE, "k1": POSITIVE,
    "k1e": POSITIVE, "log_expit": ANY, "log_ndtr": np.r_[ANY, -1e3], "loggamma": POSITIVE,
    "logit": UNIT, "ndtr": ANY, "ndtri": UNIT, "psi": POSITIVE, "rgamma": np.r_[ANY, -2.0],
    "spence": POSITIVE, "y0": POSITIVE, "y1": POSITIVE,
}  # fmt: skip

A = np.array([0.5, 1.0, 3.0, 20.0])
B = np.array([0.2, 2.0, 3.1, 25.0])
P = np.array([0.1, 0.5, 0.7, 0.9])
SEVERAL: dict[str, tuple[Any, ...]] = {
    "beta": (A, B), "betainc": (A, B, P), "betaln": (A, B), "binom": (A + 2.5, B),
    "boxcox": (B, A - 0.5), "boxcox1p": (B, A - 1), "gammainc": (A, B), "gammaincc": (A, B),
    "hyp0f1": (A, B), "hyp1f1": (A, B, P), "hyp2f1": (A, B, A + B, P), "iv": (A, B),
    "ive": (A, B), "jn": (np.arange(4.0), B), "jv": (A, B), "kl_div": (A, B), "kv": (A, B),
    "kve": (A, B), "owens_t": (A, B / 10), "poch": (A, B), "rel_entr": (A, B),
    "xlog1py": (A, B), "xlogy": (A, B), "yn": (np.arange(4.0), B), "yv": (A, B),
    "zeta": (A + 1.1, A),
}  # fmt: skip
# Operands in which there is a derivative, where not in all.
DIFFERENTIABLE: dict[str, tuple[int, ...]] = {
    "hyp0f1": (1,), "hyp1f1": (2,), "hyp2f1": (3,), "iv": (1,), "ive": (1,), "jn": (1,),
    "jv": (1,), "kv": (1,), "kve": (1,), "yn": (1,), "yv": (1,), "zeta": (1,),
}  # fmt: skip


def close(got: Any, want: Any, rtol: float = 1e-13) -> None:
    np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-300)


@pytest.mark.parametrize("name", ONE)
def test_functions_of_one_number(name: str) -> None:
    function, x = getattr(special, name), ONE[name]
    want = getattr(reference, name)(x)
    close(function(x), want)
    close(stax.jit(function)(x), want, 1e-11)
    close(stax.vmap(function)(x), want)
    single = function(x.astype(np.float32))
    assert single.dtype == np.float32
    assert type(np.asarray(function(1)).item()) is float
    if name != "gammasgn":
        check_grads(function, (SMOOTH,), order=2)


@pytest.mark.parametrize("name", SEVERAL)
def test_functions_of_several_numbers(name: str) -> None:
    function, args = getattr(special, name), SEVERAL[name]
    want = getattr(reference, name)(*args)
    close(function(*args), want)
    close(stax.jit(function)(*args), want, 1e-11)
    close(stax.vmap(function)(*args), want)
    outer = function(args[0][:, None], *(a[None] for a in args[1:]))
    assert outer.shape == (4, 4)
    for k in DIFFERENTIABLE.get(name, range(len(args))):

        def along(v: Any, k: int = k) -> Any:
            return function(*(v if j == k else a for j, a in enumerate(args)))

        check_grads(along, (args[k],), order=2, rtol=3e-4)


def test_a_missing_derivative_is_an_error() -> None:
    for f in (special.zeta, special.jv):
        with pytest.raises(NonDifferentiableError, match="operand"):
            stax.grad(f)(2.5, 1.5)


@pytest.mark.parametrize(
    ("name", "x", "slope"),
    [
        ("gammaln", 1.0, -np.euler_gamma),
        ("digamma", 1.0, math.pi**2 / 6),
        ("logit", 0.5, 4.0),
        ("spence", 1.0, -1.0),
        ("i1", 0.0, 0.5),
        ("j1", 0.0, 0.5),
        ("rgamma", 0.0, 1.0),
        ("rgamma", -3.0, -6.0),
        ("erfcx", 1e6, -1e-12 / math.sqrt(math.pi)),
        ("dawsn", 1e6, -0.5e-12),
        ("log_ndtr", -1e8, 1e8),
        ("log_ndtr", 40.0, 0.0),
        ("entr", 0.0, math.inf),
        ("erf", 0.0, 2 / math.sqrt(math.pi)),
    ],
)
def test_derivatives_at_special_points(name: str, x: float, slope: float) -> None:
    close(stax.grad(getattr(special, name))(x), slope, 1e-10)


def test_zero_times_a_logarithm() -> None:
    assert special.xlogy(0.0, 0.0) == 0
    assert special.xlog1py(0.0, -1.0) == 0
    assert np.isnan(special.xlogy(0.0, math.nan))
    close(stax.grad(special.xlogy)(0.0, 2.0), math.log(2))
    assert stax.grad(special.xlogy, 1)(0.0, 0.0) == 0
    jitted = stax.jit(special.xlogy)(np.array([0.0, 0.0, 2.0]), np.array([0.0, math.nan, 3.0]))
    close(jitted, [0, math.nan, 2 * math.log(3)])


def test_edges_of_the_domains() -> None:
    p, q = np.array([0.0, 1.0, -1.0, 0.0, math.nan]), np.array([1.0, 0.0, 1.0, 0.0, 1.0])
    close(special.rel_entr(p, q), reference.rel_entr(p, q))
    close(special.kl_div(p, q), reference.kl_div(p, q))
    close(special.entr(p), reference.entr(p))
    close(special.logit(np.array([0.0, 1.0, -1.0, 2.0])), [-math.inf, math.inf, math.nan, math.nan])
    assert np.isnan(special.loggamma(-0.5))
    # The slope of the rest of a sum does not suffer from a branch outside the domain.
    slope = stax.grad(lambda v: special.rel_entr(v, np.array([1.0, 2.0])).sum())
    close(slope(np.array([0.5, 3.0])), np.log([0.5, 1.5]) + 1, 1e-14)


def test_orders_and_other_integers() -> None:
    x = POSITIVE
    for n in (0, 1, 3):
        close(special.polygamma(n, x), reference.polygamma(n, x), 1e-12)
        close(special.expn(n, x), reference.expn(n, x), 1e-12)
        check_grads(lambda v, n=n: special.expn(n, v), (SMOOTH,), order=2)
        check_grads(lambda v, n=n: special.polygamma(n, v), (SMOOTH,), order=2)
    orders = np.array([0, 1, 2, 5])
    close(special.polygamma(orders, 2.5), reference.polygamma(orders, 2.5), 1e-12)
    close(special.multigammaln(x + 2, 3), [reference.multigammaln(v, 3) for v in x + 2], 1e-12)
    close(special.bessel_jn(B, v=3), np.stack([reference.jv(k, B) for k in range(4)]), 1e-12)
    n = np.arange(-1, 12)
    close(special.factorial(n), reference.factorial(n))
    tops, picks = np.array([5, 10, 3, 7]), np.array([2, 3, 4, 0])
    close(special.comb(tops, picks), reference.comb(tops, picks))
    close(special.comb(5, 2, repetition=True), reference.comb(5, 2, repetition=True))
    close(special.bernoulli(12), reference.bernoulli(12))


def test_pairs() -> None:
    for name in ("sici", "fresnel"):
        for got, want in zip(
            getattr(special, name)(ANY), getattr(reference, name)(ANY), strict=True
        ):
            close(got, want)
        check_grads(getattr(special, name), (SMOOTH,), order=2)


def test_softmax_over_all_axes() -> None:
    x = ANY.reshape(2, 4)
    for name in ("softmax", "log_softmax", "logsumexp"):
        for axis in (None, 0, 1):
            close(getattr(special, name)(x, axis=axis), getattr(reference, name)(x, axis=axis))


def test_faddeeva() -> None:
    z = np.array([1 + 2j, -0.3 + 0.1j])
    close(special.wofz(z), reference.wofz(z))
    assert special.wofz(0.5).dtype == np.complex128
    np.testing.assert_array_equal(stax.jit(special.wofz, strict=True)(z), special.wofz(z))
    slope = stax.grad(special.wofz, holomorphic=True)(0.3 + 0.2j)
    step = 1e-6
    want = (reference.wofz(0.3 + 0.2j + step) - reference.wofz(0.3 + 0.2j - step)) / (2 * step)
    np.testing.assert_allclose(slope, want, rtol=1e-8)


def test_harmonics() -> None:
    """Against closed forms: Y of degree 0 to 2, and the associated functions of SciPy's phase."""
    theta, phi = 0.4, 1.1
    c, s = math.cos(theta), math.sin(theta)
    turn = np.exp(1j * phi)
    wanted = {
        (0, 0): 0.5 / math.sqrt(math.pi),
        (1, 0): math.sqrt(0.75 / math.pi) * c,
        (1, 1): -math.sqrt(0.375 / math.pi) * s * turn,
        (1, -1): math.sqrt(0.375 / math.pi) * s / turn,
        (2, 1): -math.sqrt(7.5 / math.pi) / 2 * s * c * turn,
        (2, 2): math.sqrt(7.5 / math.pi) / 4 * s * s * turn**2,
    }
    n, m = np.array(list(wanted)).T
    close(special.sph_harm_y(n, m, theta, phi), list(wanted.values()), 1e-13)
    z = np.array([0.3, -0.7])
    values, slopes = special.lpmn(2, 2, z)
    root = np.sqrt(1 - z * z)
    close(values[1, 2], -3 * z * root)
    close(values[2, 2], 3 * (1 - z * z))
    close(slopes[0, 2], 3 * z, 1e-12)
    close(slopes[2, 2], -6 * z, 1e-12)
    check_grads(lambda v: special.lpmn_values(2, 3, v, True), (z,), order=2)


def test_complex_numbers_are_refused_where_they_are_not_served() -> None:
    with pytest.raises(DtypeError, match="real"):
        special.gammaln(1 + 2j)
    with pytest.raises(TypeError, match="arguments"):
        special.betainc(1.0, 2.0)


def test_compositions_run_in_compiled_loops() -> None:
    def f(x: Any) -> Any:
        return special.logit(special.expit(x)) + special.xlogy(x, x) + special.entr(x)

    assert not stax.jit(f).lower(SMOOTH).fallbacks


def test_names_of_lax() -> None:
    lax = stax.lax
    close(lax.bessel_i0e(ANY), reference.i0e(ANY))
    close(lax.bessel_i1e(ANY), reference.i1e(ANY))
    close(lax.igamma(A, B), reference.gammainc(A, B))
    close(lax.igammac(A, B), reference.gammaincc(A, B))
    close(lax.betainc(A, B, P), reference.betainc(A, B, P))
    close(lax.zeta(A + 1.1, A), reference.zeta(A + 1.1, A))
    step = 1e-5 * A
    moved = [reference.gammaincinv(A + d, reference.gammainc(A, B)) for d in (step, -step)]
    close(lax.random_gamma_grad(A, B), (moved[0] - moved[1]) / (2 * step), 1e-6)


# Second derivatives in shape parameters, against differences of 40 digits.


@pytest.mark.parametrize(
    ("a", "x"), [(0.3, 0.1), (2.0, 1.5), (5.5, 9.0), (20.0, 24.0), (2.0, 11.0)]
)
def test_incomplete_gamma_bends_in_its_shape(a: float, x: float) -> None:
    with mpmath.workdps(40):
        whole = lambda s, t: mpmath.gammainc(s, 0, t, regularized=True)
        bend = float(mpmath.diff(lambda s: whole(s, mpmath.mpf(x)), mpmath.mpf(a), 2))
        mixed = float(mpmath.diff(whole, (mpmath.mpf(a), mpmath.mpf(x)), (1, 1)))
    for run in (
        stax.hessian(special.gammainc, (0, 1)),
        stax.jit(stax.hessian(special.gammainc, (0, 1))),
    ):
        found = run(a, x)
        np.testing.assert_allclose([found[0][0], found[0][1]], [bend, mixed], rtol=1e-9)
    np.testing.assert_allclose(stax.hessian(special.gammaincc)(a, x), -bend, rtol=1e-9)


@pytest.mark.parametrize(
    ("a", "b", "x"), [(0.2, 0.3, 0.6), (2.5, 3.0, 0.3), (10.0, 1.0, 0.97), (1.0, 12.0, 0.01)]
)
def test_incomplete_beta_bends_in_its_shapes(a: float, b: float, x: float) -> None:
    with mpmath.workdps(40):
        whole = lambda s, t, v: mpmath.betainc(s, t, 0, v, regularized=True)
        at = [mpmath.mpf(v) for v in (a, b, x)]
        orders = [(2, 0, 0), (1, 1, 0), (1, 0, 1), (0, 2, 0), (0, 1, 1)]
        want = [float(mpmath.diff(whole, at, order)) for order in orders]
    for run in (stax.hessian, lambda f, k: stax.jit(stax.hessian(f, k))):
        h = run(special.betainc, (0, 1, 2))(a, b, x)
        found = [h[0][0], h[0][1], h[0][2], h[1][1], h[1][2]]
        np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-12)


def test_incomplete_integrals_at_the_ends_and_in_batches() -> None:
    a = np.array([0.4, 2.0, 6.0])
    check_grads(special.gammainc, (a, np.array([0.5, 1.0, 9.0])), order=2)
    check_grads(special.betainc, (a, a[::-1].copy(), np.array([0.2, 0.6, 0.4])), order=2)
    bend = stax.vmap(stax.hessian(special.betainc), (0, None, None))
    np.testing.assert_array_equal(bend(a, 2.0, 0.0), np.zeros(3))
    np.testing.assert_array_equal(bend(a, 2.0, 1.0), np.zeros(3))
    with pytest.raises(NonDifferentiableError, match="gamma_bend has no derivative"):
        stax.grad(stax.hessian(special.gammainc))(2.0, 1.0)
