"""Hidden Markov models, filters, particle filters, EM, CTC, Viterbi, bandits, Q-learning, value iteration."""

import stax as jax
import stax.numpy as jnp
from stax import random, lax, jit, grad, vmap
from stax.scipy.special import logsumexp
from stax.scipy.stats import norm, dirichlet, gamma

results = {}
key = random.key(11)
logA = jnp.log(jnp.array([[0.8, 0.2], [0.3, 0.7]]))
logB = jnp.log(jnp.array([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]]))
logpi = jnp.log(jnp.array([0.5, 0.5]))
obs = jnp.array([0, 1, 2, 2, 1, 0])


def forward(logA, logB, logpi, obs):
    def step(a, o):
        a = logsumexp(a[:, None] + logA, 0) + logB[:, o]
        return a, a

    a0 = logpi + logB[:, obs[0]]
    return lax.scan(step, a0, obs[1:])


results["fwd"] = forward(logA, logB, logpi, obs)
results["gfwd"] = jit(grad(lambda B: logsumexp(forward(logA, B, logpi, obs)[0])))(logB)


def viterbi(logA, logB, logpi, obs):
    def fwd(d, o):
        s = d[:, None] + logA
        return s.max(0) + logB[:, o], s.argmax(0)

    d, bp = lax.scan(fwd, logpi + logB[:, obs[0]], obs[1:])
    last = d.argmax()
    _, path = lax.scan(lambda s, b: (b[s], s), last, bp, reverse=True)
    return d.max(), jnp.append(path, last)


results["vit"] = jit(viterbi)(logA, logB, logpi, obs)


def pf(key, ys, n=50):
    def step(c, y):
        x, k = c
        k, k1, k2 = random.split(k, 3)
        x = 0.9 * x + random.normal(k1, (n,))
        lw = norm.logpdf(y, x, 0.5)
        ix = random.categorical(k2, lw, shape=(n,))
        return (x[ix], k), logsumexp(lw) - jnp.log(n)

    return lax.scan(step, (jnp.zeros(n), key), ys)[1].sum()


results["pf"] = jit(pf)(key, jnp.array([0.1, 0.5, -0.3]))
data = jnp.concatenate([random.normal(key, (20,)) - 2, random.normal(random.key(1), (20,)) + 2])


def em(p, _):
    mu, s, w = p
    lp = jnp.log(w) + norm.logpdf(data[:, None], mu, s)
    r = jnp.exp(lp - logsumexp(lp, 1, keepdims=True))
    n = r.sum(0)
    mu = (r * data[:, None]).sum(0) / n
    s = jnp.sqrt((r * (data[:, None] - mu) ** 2).sum(0) / n)
    return (mu, s, n / 40), logsumexp(lp, 1).sum()


results["em"] = lax.scan(
    em, (jnp.array([-1.0, 1.0]), jnp.ones(2), jnp.ones(2) / 2), None, length=10
)
R = jnp.array([[0.0, 1.0], [0.5, 0.0], [1.0, -1.0]])
T = jax.nn.softmax(random.normal(key, (3, 2, 3)), -1)


def vi(V, _):
    Q = R + 0.9 * jnp.einsum("sat,t->sa", T, V)
    return Q.max(1), Q.argmax(1)


results["vi"] = lax.scan(vi, jnp.zeros(3), None, length=30)[0]


def q_step(c, k):
    Q, s = c
    k1, k2, k3 = random.split(k, 3)
    a = jnp.where(random.uniform(k1) < 0.2, random.randint(k2, (), 0, 2), Q[s].argmax())
    Tt = jnp.asarray(T)
    Rt = jnp.asarray(R)
    s2 = random.categorical(k3, jnp.log(Tt[s, a]))
    return (Q.at[s, a].add(0.1 * (Rt[s, a] + 0.9 * Q[s2].max() - Q[s, a])), s2), s2


results["ql"] = jit(lambda ks: lax.scan(q_step, (jnp.zeros((3, 2)), 0), ks)[0][0])(
    random.split(key, 60)
)


def bandit(c, k):
    n, m = c
    t = n.sum()
    u = m + jnp.sqrt(2 * jnp.log(t) / n)
    a = jnp.argmax(u)
    r = random.normal(k) * 0.1 + jnp.array([0.1, 0.5, 0.2])[a]
    return (n.at[a].add(1), m.at[a].set((m[a] * n[a] + r) / (n[a] + 1))), a


results["ucb"] = lax.scan(bandit, (jnp.ones(3), jnp.zeros(3)), random.split(key, 30))


def edit(a, b):
    def row(prev, ai):
        def col(left, x):
            up, diag, bj = x
            v = jnp.minimum(jnp.minimum(left, up) + 1, diag + (ai != bj))
            return v, v

        f = prev[0] + 1
        _, r = lax.scan(col, f, (prev[1:], prev[:-1], b))
        r = jnp.concatenate([f[None], r])
        return r, None

    return lax.scan(row, jnp.arange(len(b) + 1), a)[0][-1]


results["edit"] = edit(jnp.array([1, 2, 3, 4]), jnp.array([2, 3, 5]))


def soft_dtw(D, g=0.1):
    n, m = D.shape

    def row(prev, d):
        def col(left, x):
            up, dg, dd = x
            v = dd - g * logsumexp(-jnp.stack([left, up, dg]) / g)
            return v, v

        _, r = lax.scan(col, 1e6, (prev[1:], prev[:-1], d))
        return jnp.concatenate([jnp.array([1e6]), r]), None

    return lax.scan(row, jnp.concatenate([jnp.zeros(1), jnp.full(m, 1e6)]), D)[0][-1]


D = (jnp.arange(4.0)[:, None] - jnp.arange(3.0)[None] * 1.3) ** 2
results["dtw"] = jit(jax.value_and_grad(soft_dtw))(D)


def sinkhorn(C, n=20, e=0.1):
    def it(c, _):
        f, g = c
        f = -e * logsumexp((g[None] - C) / e, 1)
        g = -e * logsumexp((f[:, None] - C) / e, 0)
        return (f, g), None

    (f, g), _ = lax.scan(it, (jnp.zeros(4), jnp.zeros(3)), None, length=n)
    P = jnp.exp((f[:, None] + g[None] - C) / e)
    return (P * C).sum()


results["sink"] = jit(jax.value_and_grad(sinkhorn))(D)


def mh(c, k):
    x, lp = c
    k1, k2 = random.split(k)
    y = x + 0.5 * random.normal(k1, x.shape)
    l2 = -0.5 * jnp.sum(y**2)
    ok = jnp.log(random.uniform(k2)) < l2 - lp
    return jax.tree.map(lambda a, b: jnp.where(ok, a, b), (y, l2), (x, lp)), x


results["mh"] = jit(vmap(lambda k: lax.scan(mh, (jnp.ones(2), -1.0), random.split(k, 10))[1]))(
    random.split(key, 2)
)


def elbo(p, k):
    z = p[0] + jnp.exp(p[1]) * random.normal(k, (8,))
    return jnp.mean(gamma.logpdf(jnp.exp(z), 2.0) + z - norm.logpdf(z, p[0], jnp.exp(p[1])))


results["advi"] = grad(elbo)(jnp.array([0.1, -0.5]), key)
results["dir"] = grad(lambda a: dirichlet.logpdf(jnp.array([0.2, 0.3, 0.5]), a))(jnp.ones(3))


def kf(c, y):
    m, P = c
    P = P + 0.1
    K = P / (P + 0.5)
    return (m + K * (y - m), (1 - K) * P), m


results["kf"] = lax.scan(kf, (0.0, 1.0), jnp.array([1.0, 0.5, 2.0]))
results["assoc_kf"] = lax.associative_scan(
    lambda a, b: (b[0] * a[0], b[0] * a[1] + b[1]), (jnp.full(6, 0.9), jnp.arange(6.0))
)[1]
results["boot"] = (
    vmap(lambda k: jnp.asarray(data)[random.choice(k, 40, (40,))].mean())(random.split(key, 3))
    if True
    else 0
)
