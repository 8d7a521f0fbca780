"""k-means, mixtures, PCA, Sinkhorn, Gaussian processes, graphs, segment sums."""

import stax as jax
import stax.numpy as jnp
from stax import random, lax, jit, vmap, grad
import stax.scipy as jsp
from functools import partial
from stax.scipy.special import logsumexp, gammaln, xlogy, digamma

r = {}
key = random.key(0)
cent = jnp.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
lab = random.choice(key, 3, (60,))
X = cent[lab] + 0.6 * random.normal(random.key(1), (60, 2))


@partial(jit, static_argnums=(1, 2))
def kmeans(X, k, it, key):
    c0 = X[random.choice(key, X.shape[0], (k,), replace=False)]

    def body(c, _):
        d = jnp.linalg.norm(X[:, None] - c[None], axis=-1)
        a = jnp.argmin(d, 1)
        s = jax.ops.segment_sum(X, a, k)
        n = jax.ops.segment_sum(jnp.ones(len(X)), a, num_segments=k)
        c = jnp.where(n[:, None] > 0, s / jnp.maximum(n, 1)[:, None], c)
        return c, (d.min(1) ** 2).sum()

    c, h = lax.scan(body, c0, length=it)
    return c, h


r["km"] = kmeans(X, 3, 8, random.key(3))


def kpp(X, k, key):
    cs = jnp.full((k, 2), jnp.inf).at[0].set(X[random.randint(key, (), 0, len(X))])

    def body(i, s):
        cs, key = s
        key, sub = random.split(key)
        d = jnp.min(jnp.sum((X[:, None] - cs) ** 2, -1), 1)
        return cs.at[i].set(X[random.choice(sub, len(X), p=d / d.sum())]), key

    return lax.fori_loop(1, k, body, (cs, key))[0]


r["kpp"] = jit(kpp, static_argnums=1)(X, 3, random.key(5))


def em(s, _):
    pi, mu, S = s
    lp = jnp.log(pi) + vmap(lambda m, S: jsp.stats.multivariate_normal.logpdf(X, m, S), out_axes=1)(
        mu, S
    )
    ll = logsumexp(lp, axis=1, keepdims=True)
    g = jnp.exp(lp - ll)
    n = g.sum(0)
    mu = g.T @ X / n[:, None]
    d = X[:, None] - mu
    S = jnp.einsum("nk,nki,nkj->kij", g, d, d) / n[:, None, None] + 1e-6 * jnp.eye(2)
    return (n / n.sum(), mu, S), ll.sum()


r["em"] = lax.scan(em, (jnp.ones(3) / 3, X[:3], jnp.tile(jnp.eye(2), (3, 1, 1))), None, 10)


def power(A, n, key):
    v = random.normal(key, (A.shape[0],))
    v = lax.fori_loop(0, n, lambda i, v: (lambda w: w / jnp.linalg.norm(w))(A @ v), v)
    return v @ A @ v, v * jnp.sign(v[0])


Xc = X - X.mean(0, keepdims=True)
C = jnp.cov(Xc, rowvar=False)
r["pow"] = power(C, 100, key)
r["eig"] = jnp.linalg.eigh(C)[0]
u, s, vt = jnp.linalg.svd(Xc, full_matrices=False)
r["pca"] = [s, jnp.abs(vt), jnp.abs(u * s)[:3]]


def sinkhorn(a, b, M, eps, n):
    def body(i, fg):
        f, g = fg
        f = eps * (jnp.log(a) - logsumexp((g[None] - M) / eps, axis=1))
        g = eps * (jnp.log(b) - logsumexp((f[:, None] - M) / eps, axis=0))
        return f, g

    f, g = lax.fori_loop(0, n, body, (jnp.zeros_like(a), jnp.zeros_like(b)))
    P = jnp.exp((f[:, None] + g - M) / eps)
    return jnp.sum(P * M), P


M = ((X[:6, None] - X[None, 6:13]) ** 2).sum(-1)
r["sk"] = sinkhorn(jnp.ones(6) / 6, jnp.ones(7) / 7, M, 0.5, 50)
r["skg"] = grad(lambda M: sinkhorn(jnp.ones(6) / 6, jnp.ones(7) / 7, M, 0.5, 20)[0])(M)


def sq(x, y):
    return jnp.sum((x - y) ** 2)


gram = lambda k, a, b: vmap(lambda x: vmap(lambda y: k(x, y))(b))(a)
rbf = lambda p, x, y: jnp.exp(p["lv"]) * jnp.exp(-0.5 * sq(x, y) / jnp.exp(2 * p["ll"]))


def nll(p, X, y):
    K = gram(partial(rbf, p), X, X) + (jnp.exp(p["ln"]) + 1e-6) * jnp.eye(len(X))
    L = jnp.linalg.cholesky(K)
    a = jsp.linalg.cho_solve((L, True), y)
    return 0.5 * y @ a + jnp.log(jnp.diag(L)).sum() + len(y) / 2 * jnp.log(2 * jnp.pi)


y = jnp.sin(X[:, 0]) + 0.1 * random.normal(key, (60,))
p = dict(lv=0.0, ll=0.0, ln=-2.0)
p = jax.tree.map(jnp.asarray, p)
v = jit(jax.value_and_grad(nll))
h = []
for _ in range(8):
    l, g = v(p, X, y)
    p = jax.tree.map(lambda a, b: a - 0.01 * b, p, g)
    h.append(l)
r["gp"] = h
r["gpp"] = p
Ks = gram(partial(rbf, p), X[:4], X)
Kxx = gram(partial(rbf, p), X, X) + 0.1 * jnp.eye(60)
r["post"] = [Ks @ jnp.linalg.solve(Kxx, y), jnp.diag(Ks @ jnp.linalg.solve(Kxx, Ks.T))]


def rff(k, X, D=20):
    k1, k2 = random.split(k)
    return jnp.sqrt(2 / D) * jnp.cos(
        X @ random.normal(k1, (2, D)) + random.uniform(k2, (D,), maxval=2 * jnp.pi)
    )


F = rff(key, X)
r["ridge"] = jsp.linalg.solve(F.T @ F + 0.1 * jnp.eye(20), F.T @ y, assume_a="pos")
r["lstsq"] = jnp.linalg.lstsq(jnp.vander(X[:, 0], 4), y)[0]
r["irls"] = lax.fori_loop(
    0,
    10,
    lambda i, w: (
        lambda m: (
            w
            + jnp.linalg.solve(
                (Xc * (m * (1 - m))[:, None]).T @ Xc + 0.1 * jnp.eye(2),
                Xc.T @ ((lab > 0) - m) - 0.1 * w,
            )
        )
    )(jax.nn.sigmoid(Xc @ w)),
    jnp.zeros(2),
)


def knn(q, k=5):
    d, i = lax.top_k(-jnp.sum((X - q) ** 2, -1), k)
    return jnp.argmax(jnp.bincount(lab[i], length=3))


r["knn"] = vmap(knn)(X[:10])
r["pr"] = lax.while_loop(
    lambda s: jnp.abs(s[0] - s[1]).max() > 1e-9,
    lambda s: (
        s[1],
        0.15 / 4
        + 0.85
        * jnp.array([[0, 0, 1, 0.5], [1 / 3, 0, 0, 0], [1 / 3, 0.5, 0, 0.5], [1 / 3, 0.5, 0, 0]])
        @ s[1],
    ),
    (jnp.zeros(4), jnp.ones(4) / 4),
)[1]
adj = random.bernoulli(key, 0.3, (8, 8))
W = jnp.where(adj | adj.T, random.uniform(key, (8, 8)), jnp.inf).at[jnp.diag_indices(8)].set(0)
r["fw"] = lax.fori_loop(0, 8, lambda k, D: jnp.minimum(D, D[:, k, None] + D[k]), W)
snd, rcv = jnp.nonzero(adj, size=20, fill_value=0)
r["gnn"] = [
    jax.ops.segment_sum(X[snd], rcv, 8),
    jax.ops.segment_max(X[snd, 0], rcv, 8),
    jax.ops.segment_prod(X[snd, 0], rcv, 8),
    (lambda e: e / jax.ops.segment_sum(e, rcv, 8)[rcv])(jnp.exp(X[snd, 0])),
]
r["dir"] = grad(
    lambda a: gammaln(a.sum()) - gammaln(a).sum() + xlogy(a - 1, jnp.array([0.2, 0.3, 0.5])).sum()
)(jnp.array([1.5, 2.0, 3.0]))
r["lda"] = lax.fori_loop(
    0,
    20,
    lambda i, g: (
        0.1
        + jnp.einsum(
            "wk,w->k",
            jax.nn.softmax(
                jnp.log(jnp.array([[0.5, 0.1], [0.3, 0.2], [0.2, 0.7]])) + digamma(g), axis=1
            ),
            jnp.array([3.0, 4.0, 5.0]),
        )
    ),
    jnp.ones(2),
)
r["tsne"] = grad(
    lambda Y: (lambda Q: -jnp.sum(jnp.log(Q + jnp.eye(10))))(
        (lambda w: w / w.sum())(1 / (1 + jnp.sum((Y[:, None] - Y) ** 2, -1)) * (1 - jnp.eye(10)))
    )
)(X[:10])
results = r
