"""VAE, GP, HMC, flows, neural ODE, MAML, PINN, REINFORCE, diffusion, SVGD, ES."""

import stax as jax
import stax.numpy as jnp
from stax import random, lax, jit, grad, vmap
from stax.flatten_util import ravel_pytree
from stax.scipy.linalg import cho_factor, cho_solve, solve_triangular
from stax.scipy.stats import norm, multivariate_normal
from functools import partial

results = {}
key = random.key(7)


def dense(k, i, o):
    return {"w": random.normal(k, (i, o)) / jnp.sqrt(i), "b": jnp.zeros(o)}


def ap(l, x):
    return x @ l["w"] + l["b"]


ks = random.split(key, 6)
vae = {
    "enc": dense(ks[0], 8, 16),
    "mu": dense(ks[1], 16, 2),
    "lv": dense(ks[2], 16, 2),
    "d1": dense(ks[3], 2, 16),
    "d2": dense(ks[4], 16, 8),
}
data = random.bernoulli(ks[5], 0.4, (32, 8)).astype(jnp.float64)


def elbo(p, k, x):
    h = jnp.tanh(ap(p["enc"], x))
    mu, lv = ap(p["mu"], h), ap(p["lv"], h)
    z = mu + jnp.exp(0.5 * lv) * random.normal(k, mu.shape)
    logits = ap(p["d2"], jnp.tanh(ap(p["d1"], z)))
    rec = -jnp.sum(jnp.logaddexp(0.0, jnp.where(x > 0.5, -1.0, 1.0) * logits))
    return rec + 0.5 * jnp.sum(1 + lv - mu**2 - jnp.exp(lv))


@jit
def vstep(p, k):
    l, g = jax.value_and_grad(
        lambda p: -jnp.mean(vmap(elbo, (None, 0, 0))(p, random.split(k, 32), data))
    )(p)
    return jax.tree.map(lambda a, b: a - 0.05 * b, p, g), l


L = []
for k in random.split(key, 10):
    vae, l = vstep(vae, k)
    L.append(l)
results["vae"] = jnp.stack(L)
x = jnp.linspace(-2, 2, 12)
y = jnp.sin(2 * x)


def kern(p, a, b):
    return jnp.exp(p["v"]) * jnp.exp(-0.5 * ((a[:, None] - b[None]) / jnp.exp(p["l"])) ** 2)


def nll(p):
    K = kern(p, x, x) + jnp.exp(p["n"]) * jnp.eye(len(x))
    c = cho_factor(K, lower=True)
    return (
        0.5 * y @ cho_solve(c, y)
        + jnp.sum(jnp.log(jnp.diag(c[0])))
        + 0.5 * len(x) * jnp.log(2 * jnp.pi)
    )


gp = {"v": 0.0, "l": 0.0, "n": -3.0}
gp_step = jit(lambda p: jax.tree.map(lambda a, g: a - 0.01 * g, p, grad(nll)(p)))
for _ in range(20):
    gp = gp_step(gp)
results["gp"] = [
    gp,
    nll(gp),
    -multivariate_normal.logpdf(y, jnp.zeros(12), kern(gp, x, x) + jnp.exp(gp["n"]) * jnp.eye(12)),
]


def logp(q):
    return -0.5 * jnp.sum(q**2 / jnp.array([1.0, 4.0])) - 0.1 * q[0] ** 4


@partial(jit, static_argnames=("n",))
def hmc(key, q, eps=0.2, n=8):
    k1, k2 = random.split(key)
    m = random.normal(k1, q.shape)

    def leap(c, _):
        q, m = c
        m = m + 0.5 * eps * grad(logp)(q)
        q = q + eps * m
        m = m + 0.5 * eps * grad(logp)(q)
        return (q, m), None

    (qn, mn), _ = lax.scan(leap, (q, m), None, length=n)
    acc = jnp.log(random.uniform(k2)) < logp(qn) - 0.5 * mn @ mn - logp(q) + 0.5 * m @ m
    return jnp.where(acc, qn, q), acc


results["hmc"] = lax.scan(
    lambda q, k: (lambda r: (r[0], r))(hmc(k, q)), jnp.ones(2), random.split(key, 20)
)[1]


def coupling(p, z, rev=False):
    a, b = z[:1], z[1:]
    h = jnp.tanh(ap(p["a"], a))
    s, t = jnp.split(ap(p["b"], h), 2)
    return (
        (jnp.concatenate([a, b * jnp.exp(s) + t]), s.sum())
        if not rev
        else (jnp.concatenate([a, (b - t) * jnp.exp(-s)]), -s.sum())
    )


fp = [{"a": dense(k, 1, 8), "b": dense(random.fold_in(k, 1), 8, 2)} for k in random.split(key, 4)]


def flow_logp(p, v):
    ld = 0.0
    for l in p:
        v, s = coupling(l, v, True)
        v = v[::-1]
        ld += s
    return norm.logpdf(v).sum() + ld


pts = random.normal(key, (16, 2)) * jnp.array([0.5, 2.0])
results["flow"] = jax.value_and_grad(lambda p: -vmap(flow_logp, (None, 0))(p, pts).mean())(fp)
results["jacdet"] = jnp.linalg.slogdet(
    jax.jacfwd(lambda z: coupling(fp[0], z)[0])(jnp.array([0.3, -0.2]))
)


def rk4(f, y, t, h, *a):
    k1 = f(y, t, *a)
    k2 = f(y + h / 2 * k1, t + h / 2, *a)
    k3 = f(y + h / 2 * k2, t + h / 2, *a)
    k4 = f(y + h * k3, t + h, *a)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def nodef(y, t, p):
    return ap(p["o"], jnp.tanh(ap(p["i"], y**3)))


np_ = {"i": dense(key, 2, 8), "o": dense(ks[0], 8, 2)}


def solve(p, y0):
    return lax.scan(
        lambda y, t: (lambda z: (z, z))(rk4(nodef, y, t, 0.1, p)), y0, jnp.arange(10) * 0.1
    )[1]


results["node"] = jit(
    jax.value_and_grad(lambda p: jnp.mean((solve(p, jnp.array([1.0, 0.0])) - 0.5) ** 2))
)(np_)
net = lambda p, x: ap(p[1], jnp.tanh(ap(p[0], x)))
mp = [dense(ks[0], 1, 10), dense(ks[1], 10, 1)]


def inner(p, x, y, a=0.1):
    return jax.tree.map(
        lambda u, g: u - a * g, p, grad(lambda p: jnp.mean((net(p, x) - y) ** 2))(p)
    )


def maml(p, x1, y1, x2, y2):
    return jnp.mean((net(inner(p, x1, y1), x2) - y2) ** 2)


tx = random.uniform(key, (4, 5, 1), minval=-3, maxval=3)
ph = jnp.arange(4.0)[:, None, None]
results["maml"] = jit(
    grad(
        lambda p: vmap(maml, (None, 0, 0, 0, 0))(
            p, tx, jnp.sin(tx + ph), tx + 0.1, jnp.sin(tx + 0.1 + ph)
        ).mean()
    )
)(mp)
u = lambda p, x: net(p, x[None])[0]


def residual(p, x):
    return grad(grad(u, 1), 1)(p, x) + jnp.pi**2 * jnp.sin(jnp.pi * x)


results["pinn"] = jit(
    jax.value_and_grad(
        lambda p: (
            jnp.mean(vmap(lambda x: residual(p, x) ** 2)(jnp.linspace(0, 1, 9)))
            + u(p, jnp.array(0.0)) ** 2
            + u(p, jnp.array(1.0)) ** 2
        )
    )
)(mp)
pol = jnp.zeros((4, 2))
reward = jnp.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.2], [0.0, 0.3]])


def rollout(pol, k):
    def st(s, k):
        a = random.categorical(k, pol[s])
        r = jnp.asarray(reward)[s, a]
        return (s + a + 1) % 4, (jax.nn.log_softmax(pol[s])[a], r)

    _, (lp, r) = lax.scan(st, 0, random.split(k, 6))
    G = jnp.cumsum(r[::-1])[::-1]
    return jnp.sum(lp * lax.stop_gradient(G))


results["reinforce"] = jit(
    grad(lambda p: vmap(rollout, (None, 0))(p, random.split(key, 8)).mean())
)(pol)
betas = jnp.linspace(1e-4, 0.2, 20)
abar = jnp.cumprod(1 - betas)
dm = [dense(ks[2], 3, 16), dense(ks[3], 16, 2)]


def dloss(p, k, x0):
    k1, k2 = random.split(k)
    t = random.randint(k1, (), 0, 20)
    e = random.normal(k2, x0.shape)
    xt = jnp.sqrt(jnp.asarray(abar)[t]) * x0 + jnp.sqrt(1 - jnp.asarray(abar)[t]) * e
    return jnp.mean((net(p, jnp.append(xt, t / 20)) - e) ** 2)


results["diff"] = jit(
    jax.value_and_grad(lambda p: vmap(dloss, (None, 0, 0))(p, random.split(key, 16), pts).mean())
)(dm)


def denoise(x, ti):
    t, k = ti
    e = net(dm, jnp.append(x, t / 20))
    mean = (x - jnp.asarray(betas)[t] / jnp.sqrt(1 - jnp.asarray(abar)[t]) * e) / jnp.sqrt(
        1 - jnp.asarray(betas)[t]
    )
    return mean + jnp.where(t > 0, jnp.sqrt(jnp.asarray(betas)[t]), 0.0) * random.normal(
        k, x.shape
    ), None


results["sample"] = lax.scan(denoise, jnp.ones(2), (jnp.arange(20)[::-1], random.split(key, 20)))[0]


def svgd(xs, _):
    K, dK = vmap(lambda a: vmap(jax.value_and_grad(lambda b: jnp.exp(-jnp.sum((a - b) ** 2))))(xs))(
        xs
    )
    return xs + 0.1 * (
        K @ vmap(grad(logp))(xs) + dK.sum(1) * -1 if False else K @ vmap(grad(logp))(xs) - dK.sum(0)
    ) / len(xs), None


results["svgd"] = lax.scan(svgd, pts, None, length=5)[0]


def es(k, th):
    eps = random.normal(k, (32, 2))
    return th + 0.1 * (vmap(logp)(th + 0.3 * eps)[:, None] * eps).mean(0)


results["es"] = lax.fori_loop(0, 5, lambda i, th: es(random.fold_in(key, i), th), jnp.ones(2))
dp = jnp.array([2.0, -1.0])
results["lbfgs"] = [vmap(lambda s: s * dp)(jnp.arange(2.0))]
flat, un = ravel_pytree(mp)
H = jax.hessian(lambda f: jnp.mean((net(un(f), tx[0]) - jnp.sin(tx[0])) ** 2))(flat)
results["H"] = [jnp.trace(H), jnp.linalg.eigvalsh(H + jnp.eye(len(flat)))[-2:]]
results["gn"] = (lambda J: jnp.linalg.solve(J.T @ J + 0.1 * jnp.eye(len(flat)), J.T @ jnp.ones(5)))(
    jax.jacrev(lambda f: net(un(f), tx[0])[:, 0])(flat)
)
