"""Hidden Markov models: forward, backward, Viterbi, sampling, expectation maximisation."""

import stax as jax
import stax.numpy as jnp
from stax import lax, jit, grad, vmap
from functools import partial
from typing import NamedTuple


class HMM(NamedTuple):
    trans: jnp.ndarray
    obs: jnp.ndarray
    init: jnp.ndarray


key = jax.random.PRNGKey(3)
logits = jnp.array([[2.0, 0.3, -1.0], [0.1, 1.5, 0.2], [-0.5, 0.4, 2.2]])
hmm = HMM(
    jax.nn.softmax(logits, axis=1),
    jax.nn.softmax(jnp.arange(12.0).reshape(3, 4) % 5, axis=-1),
    jnp.array([0.5, 0.3, 0.2]),
)


def normalize(u, axis=0, eps=1e-15):
    u = jnp.where(u == 0, 0, jnp.where(u < eps, eps, u))
    c = u.sum(axis=axis)
    c = jnp.where(c == 0, 1, c)
    return u / c, c


@jit
def hmm_forwards(params, obs_seq, length=None):
    seq_len = len(obs_seq)
    if length is None:
        length = seq_len

    def scan_fn(carry, t):
        alpha_prev, log_ll_prev = carry
        alpha_n = jnp.where(
            t < length,
            params.obs[:, obs_seq[t]] * (alpha_prev[:, None] * params.trans).sum(axis=0),
            jnp.zeros_like(alpha_prev),
        )
        alpha_n, cn = normalize(alpha_n)
        carry = (alpha_n, jnp.log(cn) + log_ll_prev)
        return carry, alpha_n

    alpha_0, c0 = normalize(params.init * params.obs[:, obs_seq[0]])
    (alpha_final, log_ll), alpha_hist = lax.scan(
        scan_fn, (alpha_0, jnp.log(c0)), jnp.arange(1, seq_len)
    )
    return log_ll, jnp.vstack([alpha_0.reshape(1, -1), alpha_hist])


@jit
def backwards(params, obs_seq):
    beta = jnp.ones(3)

    def step(beta, o):
        b, _ = normalize((beta * params.obs[:, o] * params.trans).sum(axis=1))
        return b, b

    _, betas = lax.scan(step, beta, obs_seq[1:], reverse=True)
    return jnp.concatenate([betas, beta[None]], axis=0)


@jit
def viterbi(params, obs_seq):
    la, lb, l0 = jnp.log(params.trans), jnp.log(params.obs), jnp.log(params.init)

    def fwd(score, o):
        s = score[:, None] + la
        best = jnp.argmax(s, axis=0)
        return jnp.max(s, axis=0) + lb[:, o], best

    final, ptr = lax.scan(fwd, l0 + lb[:, obs_seq[0]], obs_seq[1:])
    last = jnp.argmax(final)

    def back(s, p):
        return p[s], p[s]

    _, path = lax.scan(back, last, ptr, reverse=True)
    return jnp.append(path, last), final.max()


obs_seq = jnp.array([0, 1, 3, 2, 2, 1, 0, 3, 3, 1])
ll, alphas = hmm_forwards(hmm, obs_seq)
ll6, _ = hmm_forwards(hmm, obs_seq, 6)
g = grad(lambda p: hmm_forwards(p, obs_seq)[0])(hmm)
batch = jnp.stack([obs_seq, obs_seq[::-1], (obs_seq + 1) % 4])
lls = vmap(lambda o: hmm_forwards(hmm, o)[0])(batch)
paths, scores = vmap(partial(viterbi, hmm))(batch)
gammas, _ = vmap(partial(normalize, axis=0))(alphas * backwards(hmm, obs_seq))


# sample from the chain
def draw_state(state, key):
    k1, k2 = jax.random.split(key)
    new = jax.random.categorical(k1, jnp.log(hmm.trans[state]))
    o = jax.random.choice(k2, 4, p=hmm.obs[new])
    return new, (new, o)


_, (zs, xs) = lax.scan(draw_state, 0, jax.random.split(key, 20))


# Baum-Welch step
def em_step(params, batch):
    def expected(o):
        _, a = hmm_forwards(params, o)
        b = backwards(params, o)
        gam = jax.vmap(lambda x: normalize(x)[0])(a * b)
        xi = vmap(
            lambda al, be, ob: normalize(
                (al[:, None] * params.trans * (params.obs[:, ob] * be)[None]).reshape(-1)
            )[0].reshape(3, 3)
        )(a[:-1], b[1:], o[1:])
        counts = jnp.zeros((3, 4)).at[:, o].add(gam.T)
        return gam[0], xi.sum(0), counts

    i, t, o = vmap(expected)(batch)
    n = lambda v: v / v.sum(-1, keepdims=True)
    return HMM(n(t.sum(0)), n(o.sum(0)), n(i.sum(0)))


p = hmm
for _ in range(3):
    p = jit(em_step)(p, batch)
results = dict(
    ll=ll,
    alphas=alphas,
    ll6=ll6,
    g=g._asdict(),
    lls=lls,
    paths=paths,
    scores=scores,
    gammas=gammas,
    zs=zs,
    xs=xs,
    em=p._asdict(),
)
