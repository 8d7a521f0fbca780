"""Derivatives of everything by everything: loops, branches, linear algebra, trees, complex, aux."""

import stax as jax
import stax.numpy as jnp
import numpy as np
from stax import (
    grad,
    jit,
    vmap,
    jvp,
    vjp,
    jacfwd,
    jacrev,
    hessian,
    lax,
    linearize,
    value_and_grad,
    random,
)
from functools import partial

results = {}
x3 = jnp.array([0.3, -0.7, 1.1])
M = jnp.array([[2.0, 0.5, 0.1], [0.4, 3.0, 0.2], [0.3, 0.1, 4.0]])
S = M @ M.T
f_scan = lambda x: lax.scan(
    lambda c, a: (jnp.sin(c * a) + x.sum(), c * x), 0.5, jnp.arange(1.0, 4.0)
)[1].sum()
results["hscan"] = [
    hessian(f_scan)(x3),
    jit(hessian(f_scan))(x3),
    jacrev(jacrev(f_scan))(x3),
    jacfwd(grad(f_scan))(x3),
]
f_cond = lambda x: lax.cond(x[0] > 0, lambda y: jnp.prod(y) ** 2, lambda y: jnp.sum(y), x)
results["hcond"] = [
    hessian(f_cond)(x3),
    hessian(f_cond)(-x3),
    vmap(hessian(f_cond))(jnp.stack([x3, -x3])),
]
f_fori = lambda x, n: lax.fori_loop(0, n, lambda i, y: y * jnp.cos(y) + i * 0.1, x)
results["jfori"] = [
    jvp(lambda x: f_fori(x, 4), (x3,), (jnp.ones(3),)),
    jit(lambda n: jvp(lambda x: f_fori(x, n), (x3,), (jnp.ones(3),)))(4),
    grad(lambda x: f_fori(x, 4).sum())(x3),
]
f_while = lambda x: lax.while_loop(
    lambda c: c["n"] < 3, lambda c: {"n": c["n"] + 1, "v": c["v"] ** 2 + x}, {"n": 0, "v": x}
)["v"]
results["jwhile"] = [jacfwd(f_while)(0.3), jacfwd(jacfwd(f_while))(0.3), vmap(jacfwd(f_while))(x3)]
f_sw = lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, lambda y: y**3], x)
results["sw"] = [
    vmap(grad(f_sw, 1), (0, 0))(jnp.arange(3), x3),
    jit(vmap(grad(f_sw, 1), (0, None)))(jnp.arange(3), 0.4),
    grad(grad(f_sw, 1), 1)(2, 0.5),
]
f_assoc = lambda x: (
    (lax.associative_scan(lambda a, b: a * b + 0.1 * jnp.sin(a), x) * jnp.arange(3)).sum()
    if False
    else jnp.sum(lax.associative_scan(jnp.multiply, x) ** 2)
)
results["assoc"] = [grad(f_assoc)(x3), hessian(f_assoc)(x3)]
la = {
    "inv": lambda A: jnp.linalg.inv(A).sum(),
    "det": jnp.linalg.det,
    "slog": lambda A: jnp.linalg.slogdet(A)[1],
    "chol": lambda A: jnp.linalg.cholesky(A @ A.T).sum(),
    "eigh": lambda A: (jnp.linalg.eigh(A + A.T)[0] ** 2 * jnp.arange(3)).sum(),
    "svd": lambda A: (jnp.linalg.svd(A, compute_uv=False) * jnp.arange(3)).sum(),
    "qr": lambda A: jnp.abs(jnp.linalg.qr(A)[1]).sum(),
    "solve": lambda A: jnp.linalg.solve(A, x3).sum(),
    "expm": lambda A: jax.scipy.linalg.expm(A * 0.1).sum(),
    "norm": jnp.linalg.norm,
    "nuc": lambda A: jnp.linalg.norm(A, "nuc"),
    "pinv": lambda A: jnp.linalg.pinv(A).sum(),
    "mp": lambda A: jnp.linalg.matrix_power(A, 3).sum(),
    "lstsq": lambda A: jnp.linalg.lstsq(A, x3)[0].sum(),
    "tri": lambda A: jax.scipy.linalg.solve_triangular(A, x3, lower=True).sum(),
    "lu": lambda A: jnp.abs(jax.scipy.linalg.lu(A)[2]).sum(),
    "multi": lambda A: jnp.linalg.multi_dot([A, A.T, A]).sum(),
    "eig": lambda A: jnp.real(jnp.linalg.eigvals(A)).max(),
}
for k, f in la.items():
    results["la_" + k] = [f(M), grad(f)(M)]
for k in ("inv", "det", "slog", "solve", "norm", "eigh", "chol"):
    results["lah_" + k] = jit(lambda A: jvp(grad(la[k]), (A,), (jnp.eye(3),))[1])(M)
results["vla"] = vmap(grad(lambda A: jnp.linalg.slogdet(A)[1]))(jnp.stack([M, S]))
out, pull, aux = vjp(
    lambda d: ({"y": d["a"] * d["b"]}, jnp.sum(d["a"])), {"a": x3, "b": 2.0}, has_aux=True
)
results["vjpaux"] = [out, pull({"y": jnp.ones(3)}), aux]
results["vg"] = value_and_grad(
    lambda w, b, x: (jnp.sum((w * x + b) ** 2), {"p": w * x}), argnums=(0, 1), has_aux=True
)(x3, 0.5, x3 + 1)
results["jr"] = jacrev(lambda d: {"o": d["w"] @ d["v"], "p": d["v"] ** 2})({"w": M, "v": x3})
results["jf"] = jacfwd(lambda a, b: (a * b, jnp.outer(a, b)), argnums=(0, 1))(x3, x3 + 1)
results["hes"] = hessian(lambda d: jnp.sum(jnp.tanh(d["w"] * d["b"])))({"w": x3, "b": 0.3})
results["lin"] = (lambda yl: [yl[0], yl[1](jnp.ones(3)), jit(yl[1])(x3), vmap(yl[1])(jnp.eye(3))])(
    linearize(lambda x: jnp.sin(x) @ M, x3)
)
results["nest"] = grad(lambda x: grad(lambda y: jnp.sin(x * y) * y)(2.0 * x))(0.7)
results["pert"] = grad(lambda x: x * grad(lambda y: x + y)(1.0))(1.0)
results["vgv"] = vmap(grad(lambda w, x: jnp.sum(vmap(lambda r: jnp.tanh(r @ w))(x))), (0, None))(
    jnp.stack([x3, x3 * 2]), M
)
results["mix"] = jacfwd(jacrev(lambda a, b: jnp.sum(a**2 * b), argnums=0), argnums=1)(x3, x3 + 2)
z = jnp.array([1 + 2j, 0.5 - 1j])
results["cx"] = [
    grad(lambda z: jnp.sum(jnp.abs(z) ** 2))(z),
    grad(lambda z: jnp.real(jnp.sum(z**3)))(z),
    jvp(lambda z: jnp.exp(z) * jnp.conj(z), (z,), (z * 1j,)),
    vjp(lambda x: x * (1 + 2j), 3.0)[1](1 + 1j),
    jacrev(lambda z: z**2, holomorphic=True)(z),
    jacfwd(jnp.sin, holomorphic=True)(z),
    hessian(lambda z: jnp.sum(z**3), holomorphic=True)(z),
    grad(lambda x: jnp.abs(jnp.fft.fft(x))[1])(x3),
    grad(lambda z: jnp.imag(jnp.sum(jnp.conj(z) * z * z)))(z),
    grad(lambda z: jnp.angle(z).sum())(z),
    grad(lambda t: jnp.real(jnp.exp(1j * t * 2)))(0.4),
    grad(lambda z: jnp.linalg.norm(z))(z),
    vjp(jnp.real, z)[1](jnp.ones(2)),
    jvp(lambda z: jnp.sqrt(z), (z,), (jnp.ones(2) + 0j,)),
]
results["idx"] = [
    grad(lambda x: x[jnp.array([0, 0, 2])].sum() * x[1])(x3),
    grad(lambda x: (x.at[1].set(5.0) * x).sum())(x3),
    grad(lambda v: x3.at[jnp.array([0, 2])].add(v).prod())(jnp.ones(2)),
    jacrev(lambda x: x.at[0].mul(x[1]))(x3),
    grad(lambda x: lax.dynamic_slice(x, (1,), (2,)).prod())(x3),
    grad(lambda x: lax.dynamic_update_slice(jnp.ones(3), x[:2], (1,)).prod())(x3),
    jacfwd(lambda x: jnp.take(x, jnp.array([2, 0])))(x3),
    grad(lambda x: jnp.sum(jnp.where(x > 0, x**2, -x)))(x3),
    jacrev(lambda x: jnp.sort(x))(x3),
    grad(lambda x: jnp.sum(jnp.cumsum(x) * jnp.cumprod(x)))(x3),
    grad(lambda x: jax.ops.segment_sum(x, jnp.array([0, 1, 0]), 2).prod())(x3),
    grad(lambda x: jnp.max(x) * jnp.min(x))(x3),
    jacrev(lambda x: jnp.roll(jnp.flip(x), 1))(x3),
    grad(lambda x: jnp.percentile(x, 30.0))(x3),
    grad(lambda x: jnp.var(x) / jnp.mean(x**2))(x3),
    grad(lambda x: jnp.interp(0.4, x**2, x3))(jnp.array([0.1, 0.5, 1.0])),
    grad(lambda x: jnp.convolve(x, x).prod())(x3),
    jacfwd(lambda x: jnp.pad(x, 1, mode="reflect"))(x3),
    grad(lambda x: lax.top_k(x, 2)[0].prod())(x3),
    grad(lambda x: jnp.linalg.norm(jnp.outer(x, x)))(x3),
    grad(lambda x: jnp.einsum("i,j,ij->", x, x, M))(x3),
    grad(lambda x: jnp.kron(x, x).sum())(x3),
    grad(lambda x: jnp.tensordot(M, x, 1).prod())(x3),
    grad(lambda x: jnp.trapezoid(x**2, dx=0.1))(x3),
    grad(lambda x: jnp.nansum(jnp.array([jnp.nan, 1.0, 2.0]) * x))(x3),
]
results["odd"] = [
    grad(lambda x: jnp.logaddexp(x, 0.0))(-800.0),
    grad(jnp.arctan2, (0, 1))(1.0, -2.0),
    grad(lambda x: x ** jnp.array(2))(3.0),
    grad(lambda x: 2.0**x)(3.0),
    grad(lambda x: jnp.power(x, 3))(-2.0),
    grad(jnp.expm1)(1e-9),
    grad(jnp.cbrt)(8.0),
    grad(jnp.log1p)(1e-12),
    grad(jax.nn.gelu)(0.5),
    grad(lambda x: x.astype(jnp.float32).sum())(x3),
    grad(lambda x: jnp.exp(x) / (1 + jnp.exp(x)))(2.0),
]
results["none"] = grad(lambda p: p[0] * 2.0 if p[1] is None else 0.0)((3.0, None))[0]
results["emp"] = grad(lambda x: jnp.sum(x) + 1.0)(jnp.zeros((0,)))
results["int"] = [
    vjp(lambda x, i: x * i, 2.0, 3)[1](1.0)[0],
    jvp(lambda x, i: x * i, (2.0, 3), (1.0, np.zeros((), jax.dtypes.float0))),
]
results["ckpt"] = [
    hessian(jax.checkpoint(lambda x: jnp.sum(jnp.sin(x) ** 3)))(x3),
    vmap(grad(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))))(x3),
]
results["jitv"] = jit(vmap(jit(grad(jit(lambda x: jnp.sin(x) ** 2)))))(x3)
results["loop"] = [float(grad(lambda x: x**k)(2.0)) for k in range(4)]
results["lt"] = jax.linear_transpose(lambda x, y: M @ x + 2 * y, x3, x3)(jnp.ones(3))
results["fp"] = grad(
    lambda a: lax.custom_root(
        lambda x: x - 0.5 * (x + a / x),
        1.0,
        lambda f, x: lax.fori_loop(0, 20, lambda i, x: x - f(x), x),
        lambda g, y: y / g(1.0),
    )
)(2.0)
