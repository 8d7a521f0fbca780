"""Linear algebra, sparse solvers, interpolation, spectra, transforms, odeint."""

import stax as jax
import stax.numpy as jnp
import stax.scipy as jsp
from stax.scipy.linalg import cho_solve, cho_factor, solve_triangular, expm, block_diag, toeplitz
from stax.scipy.sparse.linalg import cg, gmres, bicgstab
from stax.scipy.optimize import minimize
from stax.scipy.ndimage import map_coordinates
from stax.scipy.signal import convolve, convolve2d, correlate, fftconvolve
from stax.scipy.integrate import trapezoid
import numpy as np

results = {}
A = jnp.array([[4.0, 1, 0.5], [1, 3, 0.2], [0.5, 0.2, 2]])
b = jnp.arange(1.0, 4.0)
results["cho"] = [
    cho_solve(cho_factor(A), b),
    cho_solve((jnp.linalg.cholesky(A), True), b),
    jsp.linalg.cholesky(A),
    jsp.linalg.cholesky(A, lower=True),
]
results["tri"] = [
    solve_triangular(A, b),
    solve_triangular(A, b, lower=True),
    solve_triangular(A, b, trans=1),
    solve_triangular(A, jnp.eye(3), unit_diagonal=True),
]
results["expm"] = [
    expm(A * 0.3),
    jax.grad(lambda A: expm(A).sum())(A * 0.3),
    jsp.linalg.expm_frechet(A * 0.3, jnp.eye(3)),
]
results["bd"] = block_diag(jnp.ones((1, 2)), 2.0 * jnp.eye(2))
results["toep"] = toeplitz(b, jnp.array([1.0, 9.0]))
results["lu"] = [
    jsp.linalg.lu(A),
    jsp.linalg.lu_solve(jsp.linalg.lu_factor(A), b),
    jsp.linalg.inv(A),
    jsp.linalg.det(A),
    jsp.linalg.solve(A, b),
    jsp.linalg.solve(A, b, assume_a="pos"),
    jnp.abs(jsp.linalg.qr(A)[1]),
    jsp.linalg.svd(A, compute_uv=False),
    jsp.linalg.eigh(A, eigvals_only=True),
    jnp.real(jsp.linalg.sqrtm(A)),
    jsp.linalg.hilbert(2),
    jsp.linalg.pascal(3),
    jsp.linalg.polar(A)[1],
    jsp.linalg.eigh_tridiagonal(
        jnp.array([1.0, 2.0, 3.0]), jnp.array([0.5, 0.5]), eigvals_only=True
    ),
    jnp.abs(jsp.linalg.schur(A)[0]) if True else 0,
    jsp.linalg.dft(3) if hasattr(jsp.linalg, "dft") else 0,
    jsp.linalg.hankel(b) if hasattr(jsp.linalg, "hankel") else 0,
]
results["cg"] = [
    cg(A, b)[0],
    cg(lambda x: A @ x, b, tol=1e-10)[0],
    jax.grad(lambda b: cg(lambda x: A @ x, b, tol=1e-12)[0].sum())(b),
    cg(lambda t: {"a": A @ t["a"]}, {"a": b})[0],
    gmres(A + jnp.triu(A, 1), b, tol=1e-10)[0],
    bicgstab(A + jnp.triu(A, 1), b, tol=1e-12)[0],
    gmres(lambda x: A @ x, b, solve_method="incremental")[0],
]
results["gcg"] = jax.grad(lambda s: gmres(lambda x: s * A @ x, b, tol=1e-10)[0].sum())(2.0)


def rosen(x):
    return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


results["bfgsa"] = minimize(
    lambda x, a: jnp.sum((x - a) ** 2),
    jnp.zeros(2),
    args=(jnp.array([1.0, 2.0]),),
    method="BFGS",
    options=dict(maxiter=50),
).x
img = jnp.arange(12.0).reshape(3, 4)
results["mc"] = [
    map_coordinates(img, [jnp.array([0.5, 1.0]), jnp.array([0.5, 2.3])], order=1),
    map_coordinates(img, [jnp.array([0.5, 1.2]), jnp.array([0.5, 2.3])], order=0),
    map_coordinates(img, [jnp.array([-0.5, 5.0]), jnp.array([0.5, 2.3])], order=1, mode="nearest"),
    map_coordinates(
        img, [jnp.array([-0.5, 5.0]), jnp.array([0.5, 2.3])], order=1, mode="constant", cval=-1.0
    ),
] + [
    map_coordinates(img, [jnp.array([-1.5, 5.2]), jnp.array([0.5, 7.3])], order=1, mode=m)
    for m in ("wrap", "mirror", "reflect")
]
results["gmc"] = jax.grad(
    lambda t: map_coordinates(img, [jnp.array([0.5]) + t, jnp.array([1.5]) * t], order=1).sum()
)(0.7)
x = jnp.arange(5.0)
results["conv"] = [
    convolve(x, jnp.array([1.0, 2, 1])),
    convolve(x, jnp.array([1.0, 2, 1]), mode="same"),
    correlate(x, jnp.array([1.0, 2]), mode="valid"),
    convolve2d(img, jnp.ones((2, 2)), mode="valid"),
    convolve2d(img, jnp.ones((2, 2)), mode="same"),
    fftconvolve(x, jnp.array([1.0, 2, 1])),
    jsp.signal.correlate2d(img, jnp.ones((2, 2)), mode="full"),
]
sig = jnp.sin(jnp.arange(64.0) * 0.4) + 0.1 * jnp.arange(64.0)
results["det"] = [
    jsp.signal.detrend(sig),
    jsp.signal.detrend(sig, type="constant"),
    jsp.signal.detrend(sig, bp=(20, 40)),
]
f, t, Z = jsp.signal.stft(sig, nperseg=16)
results["stft"] = [f, t, Z]
results["istft"] = jsp.signal.istft(Z, nperseg=16)[1]
results["welch"] = jsp.signal.welch(sig, fs=2.0, nperseg=16)
results["csd"] = jsp.signal.csd(sig, sig**2, nperseg=16)
results["trap"] = [trapezoid(x**2, x), jnp.trapezoid(x, dx=0.5)]
results["dct"] = [
    jsp.fft.dct(x),
    jsp.fft.dct(x, norm="ortho"),
    jsp.fft.idct(jsp.fft.dct(x)),
    jsp.fft.dctn(img),
    jsp.fft.idctn(img, norm="ortho"),
    jsp.fft.dct(img, axis=0, n=4),
]
results["gdct"] = jax.grad(lambda x: jnp.sum(jsp.fft.dct(x) ** 2 * x))(x)
from stax.scipy.interpolate import RegularGridInterpolator

itp = RegularGridInterpolator((jnp.arange(3.0), jnp.arange(4.0)), img)
results["rgi"] = [
    itp(jnp.array([[0.5, 1.5], [1.9, 2.1]])),
    RegularGridInterpolator((jnp.arange(3.0), jnp.arange(4.0)), img, method="nearest")(
        jnp.array([[0.4, 1.6]])
    ),
    RegularGridInterpolator(
        (jnp.arange(3.0), jnp.arange(4.0)), img, bounds_error=False, fill_value=-5.0
    )(jnp.array([[0.5, 9.5]])),
]
from stax.experimental.ode import odeint

results["ode"] = [
    odeint(lambda y, t: -y, 1.0, jnp.linspace(0.0, 1.0, 5)),
    odeint(
        lambda y, t, k: {"a": -k * y["b"], "b": y["a"]},
        {"a": 1.0, "b": 0.0},
        jnp.linspace(0, 2.0, 4),
        2.0,
        rtol=1e-9,
        atol=1e-9,
    ),
]
results["gode"] = jax.grad(
    lambda k: odeint(lambda y, t, k: -k * y, 1.0, jnp.array([0.0, 1.0]), k, rtol=1e-10, atol=1e-10)[
        -1
    ]
)(0.7)
results["gvmap"] = jax.vmap(lambda b: cho_solve(cho_factor(A), b))(jnp.eye(3))
results["vq"] = jsp.cluster.vq.vq(img, img[:2])

results["ss"] = (
    jsp.linalg.solve_sylvester(A, A.T, jnp.eye(3)) if hasattr(jsp.linalg, "solve_sylvester") else 0
)
