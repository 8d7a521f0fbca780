"""Jacobians and Hessians in all compositions, hvp, complex derivatives, aux, argnums."""

import stax as jax
import stax.numpy as jnp
import numpy as np
from stax import (
    grad,
    jit,
    vmap,
    random,
    jvp,
    vjp,
    jacfwd,
    jacrev,
    hessian,
    linearize,
    linear_transpose,
)

results = {}
key = random.key(0)
f = jnp.tanh
results["tanh"] = [grad(f)(2.0), grad(grad(f))(2.0), grad(grad(grad(f)))(2.0)]
fun = lambda W: jnp.sin(W @ jnp.arange(3.0)) * jnp.sum(W)
W = random.normal(key, (4, 3))
results["jf"] = jacfwd(fun)(W)
results["jr"] = jacrev(fun)(W)
results["ff"] = jacfwd(jacfwd(fun))(W)
results["fr"] = jacfwd(jacrev(fun))(W)
results["rf"] = jacrev(jacfwd(fun))(W)
results["rr"] = jacrev(jacrev(fun))(W)


def hvp(f, x, v):
    return grad(lambda x: jnp.vdot(grad(f)(x), v))(x)


def hvp_fr(f, primals, tangents):
    return jvp(grad(f), primals, tangents)[1]


def hvp_rf(f, primals, tangents):
    g = lambda primals: jvp(f, primals, tangents)[1]
    return grad(g)(primals)


def hvp_rr(f, primals, tangents):
    (x,) = primals
    (v,) = tangents
    return grad(lambda x: jnp.vdot(grad(f)(x), v))(x)


def ff(X):
    return jnp.sum(jnp.tanh(X) ** 2)


X = random.normal(random.key(1), (6, 5))
V = random.normal(random.key(2), (6, 5))
results["hvp"] = [
    hvp(ff, X, V),
    hvp_fr(ff, (X,), (V,)),
    hvp_rf(ff, (X,), (V,)),
    hvp_rr(ff, (X,), (V,)),
]
results["hess"] = jnp.tensordot(hessian(ff)(X), V, 2)


def vmap_mjp(f, x, M):
    y, vjp_fun = vjp(f, x)
    (outs,) = vmap(vjp_fun)(M)
    return outs


def vmap_jmp(f, W, M):
    pushfwd = lambda v: jvp(f, (W,), (v,))
    y, jvps = vmap(pushfwd, out_axes=(None, 0))(M)
    return y, jvps


results["mjp"] = vmap_mjp(fun, W, random.normal(key, (7, 4)))
results["jmp"] = vmap_jmp(fun, W, random.normal(key, (7, 4, 3)))


def our_jacrev(f):
    def jacfun(x):
        y, vjp_fun = vjp(f, x)
        (J,) = vmap(vjp_fun, in_axes=0)(jnp.eye(len(y)))
        return J

    return jacfun


def our_jacfwd(f):
    def jacfun(x):
        _jvp = lambda s: jvp(f, (x,), (s,))[1]
        return vmap(_jvp, in_axes=1)(jnp.eye(len(x)))

    return jacfun


g = lambda x: jnp.stack([x[0] * x[1], jnp.sin(x[2]), x[0] ** 3])
x3 = jnp.array([1.0, 2.0, 3.0])
results["ours"] = [our_jacrev(g)(x3), our_jacfwd(g)(x3).T, jacrev(g)(x3)]


# complex
def cf(z):
    x, y = jnp.real(z), jnp.imag(z)
    return (x**2 - y**2) + 1j * (2 * x * y)


z = 3.0 + 4j
results["holo"] = [
    grad(jnp.sin, holomorphic=True)(z),
    grad(cf, holomorphic=True)(z),
    grad(lambda z: jnp.abs(z) ** 2)(z),
    grad(lambda z: jnp.real(z) ** 2 + 3 * jnp.imag(z))(z),
]
results["conj"] = grad(lambda z: jnp.conj(z) * (1 + 0j), holomorphic=True)(z) if True else 0
results["jfh"] = jacfwd(lambda z: z**2 * jnp.array([1, 1j]), holomorphic=True)(z)
results["jrh"] = jacrev(lambda z: jnp.exp(z) * jnp.array([1, 1j]), holomorphic=True)(z)
A = jnp.array([[5.0, 2.0 + 3j, 5j], [2.0 - 3j, 7.0, 1.0 + 7j], [-5j, 1.0 - 7j, 12.0]])


def fA(X):
    L = jnp.linalg.cholesky(X)
    return jnp.sum((L - jnp.sin(L)) ** 2)


results["chol"] = grad(fA, holomorphic=True)(A)
results["rc"] = vjp(lambda x: jnp.exp(1j * x), 1.0)[1](1.0 + 2j)
results["cr"] = vjp(lambda z: jnp.real(z * z), 1.0 + 2j)[1](1.0)
results["cj"] = jvp(lambda z: z * jnp.conj(z), (1.0 + 2j,), (0.5 - 1j,))
results["cfft"] = grad(lambda x: jnp.sum(jnp.abs(jnp.fft.fft(x)) ** 2 * jnp.arange(4)))(
    jnp.arange(4.0)
)
results["ang"] = grad(lambda z: jnp.angle(z))(1.0 + 2j)
y, f_jvp = linearize(fun, W)
results["lin"] = [y, f_jvp(jnp.ones_like(W)), vmap(f_jvp)(jnp.stack([W, 2 * W]))]
results["lt"] = linear_transpose(lambda x: jnp.dot(A.real, x), jnp.ones(3))(jnp.arange(3.0))
out, vjp_fn, aux = vjp(lambda x: (jnp.sin(x), {"a": x}), x3, has_aux=True)
results["aux"] = [out, vjp_fn(jnp.ones(3)), aux]
results["gaux"] = grad(lambda x: (jnp.sum(x**2), x + 1), has_aux=True)(x3)
results["vgaux"] = jax.value_and_grad(lambda x: (jnp.sum(x**2), x + 1), has_aux=True)(x3)
results["jaux"] = jvp(lambda x: (x**2, x), (x3,), (x3,), has_aux=True)
results["jraux"] = jacrev(lambda x: (x**2, x), has_aux=True)(x3)
results["jfaux"] = jacfwd(lambda x: (x**2, x), has_aux=True)(x3)


def multi(a, b, *, c=2.0):
    return {"p": a * b**c, "q": (a + b, jnp.sin(a))}


results["jm"] = jacrev(multi, argnums=(0, 1))(x3, 2 * x3)
results["jmf"] = jacfwd(multi, argnums=(0, 1))(x3, 2 * x3, c=3.0)
results["hm"] = hessian(lambda p: jnp.sum(p["a"] * p["b"] ** 2) * p["c"])(
    {"a": x3, "b": x3 + 1, "c": 2.0}
)
results["int"] = grad(lambda x, i: x * i)(2.0, 3)
results["allow"] = grad(lambda x, i: x * i, argnums=(0, 1), allow_int=True)(2.0, 3)[0]
results["float0"] = str(grad(lambda i: i * 2.0, allow_int=True)(3).dtype)
results["stop"] = grad(lambda x: jax.lax.stop_gradient(x) * x)(3.0)
theta = jnp.array([0.1, -0.1, 0.0])
value_fn = lambda theta, state: jnp.dot(theta, state)


def td_loss(theta, s_tm1, r_t, s_t):
    v_tm1 = value_fn(theta, s_tm1)
    target = r_t + value_fn(theta, s_t)
    return -0.5 * ((jax.lax.stop_gradient(target) - v_tm1) ** 2)


s_tm1 = jnp.array([1.0, 2.0, -1.0])
r_t = jnp.array(1.0)
s_t = jnp.array([2.0, 1.0, 0.0])
results["td"] = grad(td_loss)(theta, s_tm1, r_t, s_t)


def ste(x):
    zero = x - jax.lax.stop_gradient(x)
    return zero + jax.lax.stop_gradient(jnp.round(x))


results["ste"] = [ste(3.2), grad(ste)(3.2)]
perex = jit(vmap(grad(td_loss), in_axes=(None, 0, 0, 0)))
results["per"] = perex(
    theta, jnp.stack([s_tm1, s_tm1]), jnp.stack([r_t, r_t]), jnp.stack([s_t, s_t])
)
results["nums"] = grad(lambda x, y, z: x * y * z, argnums=(2, 0))(2.0, 3.0, 4.0)
results["neg"] = grad(lambda x, y: x * y**2, argnums=-1)(2.0, 3.0)
results["sub"] = [
    grad(lambda x: jnp.max(jnp.stack([x, x])))(1.0),
    grad(jax.nn.relu)(0.0),
    grad(lambda x: jnp.maximum(x, 0.0))(0.0),
    grad(jnp.sign)(0.0),
    grad(lambda x: x**2.0)(0.0),
    grad(jnp.sqrt)(0.0),
    grad(lambda x: jnp.sum(jnp.sort(x)[::-1] * jnp.arange(3.0)))(jnp.array([1.0, 1.0, 0.0])),
    grad(lambda x: jnp.prod(x))(jnp.array([0.0, 2.0, 3.0])),
    grad(lambda x: jnp.median(x))(jnp.array([1.0, 2.0, 2.0, 3.0])),
    grad(jnp.floor)(1.5),
    grad(lambda x: jnp.mod(x, 1.3))(2.0),
    grad(jax.nn.sigmoid)(1000.0),
    grad(jax.nn.softplus)(-1000.0),
    grad(jnp.sinc)(0.0),
    grad(jnp.logaddexp, (0, 1))(-jnp.inf, 0.0),
]
results["max"] = grad(lambda x: jnp.max(x))(jnp.array([1.0, 1.0, 0.0]))
results["hv"] = jit(hvp_fr, static_argnums=0)(ff, (X,), (V,))


def cubic(x):
    return jnp.sum(x**3)


results["newton"] = x3 - jnp.linalg.solve(hessian(cubic)(x3), grad(cubic)(x3))
results["jvpjvp"] = jvp(lambda x: jvp(jnp.sin, (x,), (1.0,))[1], (2.0,), (1.0,))
_, pull = vjp(lambda d: {"o": d["x"] * d["y"]}, {"x": 2.0, "y": x3})
results["pull"] = pull({"o": jnp.ones(3)})
results["jt"] = jacfwd(lambda t: (t[0] ** 2, t[1] * t[0]))((x3, 2.0))
