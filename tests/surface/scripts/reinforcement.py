"""Environments in while loops, a replay buffer, DQN, advantages, PPO, tabular learning."""

import stax as jax
import stax.numpy as jnp
from stax import lax, random
from typing import NamedTuple, Any
from functools import partial
import numpy as np


class EnvState(NamedTuple):
    x: Any
    v: Any
    t: Any


class Transition(NamedTuple):
    obs: Any
    action: Any
    reward: Any
    next_obs: Any
    done: Any


class ReplayBuffer(NamedTuple):
    data: Any
    pos: Any
    size: Any


def reset(key):
    x = random.uniform(key, minval=-0.6, maxval=-0.4)
    return EnvState(x, 0.0, 0)


def step(s, a):
    v = s.v + (a - 1) * 0.001 - jnp.cos(3 * s.x) * 0.0025
    v = jnp.clip(v, -0.07, 0.07)
    x = jnp.clip(s.x + v, -1.2, 0.6)
    v = jnp.where((x <= -1.2) & (v < 0), 0.0, v)
    done = jnp.logical_or(x >= 0.5, s.t >= 199)
    return EnvState(x, v, s.t + 1), -1.0 - 0.1 * jnp.square(v), done


def obs_of(s):
    return jnp.stack([s.x, s.v])


def rollout(key):
    k, sub = random.split(key)

    def cond(c):
        s, done, total, k = c
        return ~done

    def body(c):
        s, done, total, k = c
        a = jnp.where(s.v < 0, 0, 2)
        s, r, done = step(s, a)
        return s, done, total + r, k

    s, done, total, _ = lax.while_loop(cond, body, (reset(sub), False, 0.0, k))
    return s.t, total, s.x


t, total, x = jax.vmap(rollout)(random.split(random.PRNGKey(0), 5))


def buf_init(cap, example):
    return ReplayBuffer(
        jax.tree.map(lambda e: jnp.zeros((cap, *jnp.shape(e)), jnp.asarray(e).dtype), example),
        0,
        0,
    )


def buf_add(b, tr):
    data = jax.tree_util.tree_map(lambda d, e: d.at[b.pos].set(e), b.data, tr)
    cap = jax.tree_util.tree_leaves(data)[0].shape[0]
    return b._replace(data=data, pos=(b.pos + 1) % cap, size=jnp.minimum(b.size + 1, cap))


def buf_sample(b, key, n):
    idx = random.randint(key, (n,), 0, b.size)
    return jax.tree.map(lambda d: jnp.take(d, idx, axis=0), b.data)


def init_q(key, sizes):
    ks = random.split(key, len(sizes) - 1)
    init = jax.nn.initializers.orthogonal()
    return [
        {"w": init(k, (m, n), jnp.float64), "b": jnp.zeros(n)}
        for k, m, n in zip(ks, sizes[:-1], sizes[1:])
    ]


def q(params, o):
    for i, l in enumerate(params):
        o = o @ l["w"] + l["b"]
        if i < len(params) - 1:
            o = jax.nn.relu(o)
    return o


def dqn_loss(params, target, tr, gamma=0.99):
    qs = jax.vmap(q, (None, 0))(params, tr.obs)
    qa = jnp.take_along_axis(qs, tr.action[:, None], axis=1).squeeze(-1)
    nxt = jax.vmap(q, in_axes=(None, 0))(target, tr.next_obs)
    a_star = jnp.argmax(jax.vmap(partial(q, params))(tr.next_obs), -1)
    y = tr.reward + gamma * (1 - tr.done) * nxt[jnp.arange(nxt.shape[0]), a_star]
    td = lax.stop_gradient(y) - qa
    return jnp.mean(jnp.where(jnp.abs(td) < 1, 0.5 * td**2, jnp.abs(td) - 0.5)), td


@jax.jit
def train_step(carry, key):
    params, target, opt, buf, s, i = carry
    k1, k2, k3, k4 = random.split(key, 4)
    eps = jnp.interp(i, jnp.array([0, 50]), jnp.array([1.0, 0.1]))
    a = jnp.where(
        random.bernoulli(k1, eps), random.randint(k2, (), 0, 3), jnp.argmax(q(params, obs_of(s)))
    )
    s2, r, d = step(s, a)
    buf = buf_add(buf, Transition(obs_of(s), a, r, obs_of(s2), d.astype(float)))
    s = jax.tree.map(
        lambda u, v: lax.select(d, jnp.asarray(u), jnp.asarray(v)),
        s2._replace(x=-0.5, v=0.0, t=0),
        s2,
    )
    (loss, td), g = jax.value_and_grad(dqn_loss, has_aux=True)(
        params, target, buf_sample(buf, k4, 8)
    )
    m, v, n = opt
    n = n + 1
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
    v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
    params = jax.tree.map(
        lambda p, m, v: p - 0.01 * (m / (1 - 0.9**n)) / (jnp.sqrt(v / (1 - 0.999**n)) + 1e-8),
        params,
        m,
        v,
    )
    target = lax.cond(i % 10 == 0, lambda: params, lambda: target)
    return (params, target, (m, v, n), buf, s, i + 1), loss


params = init_q(random.PRNGKey(1), [2, 16, 3])
zeros = jax.tree.map(jnp.zeros_like, params)
buf = buf_init(32, Transition(jnp.zeros(2), 0, 0.0, jnp.zeros(2), 0.0))
s0 = reset(random.PRNGKey(5))
carry = (params, jax.tree.map(jnp.array, params), (zeros, zeros, 0), buf, s0, 0)
losses = []
for k in random.split(random.PRNGKey(9), 40):
    carry, loss = train_step(carry, k)
    losses.append(loss)
bufd = carry[3]


# GAE + policy gradient
def gae(r, v, d, gamma=0.99, lam=0.95):
    def f(adv, x):
        r, v, nv, d = x
        delta = r + gamma * nv * (1 - d) - v
        adv = delta + gamma * lam * (1 - d) * adv
        return adv, adv

    _, adv = lax.scan(f, 0.0, (r, v[:-1], v[1:], d), reverse=True, unroll=4)
    return adv


rs = jnp.sin(jnp.arange(20.0))
vs = jnp.cos(jnp.arange(21.0))
ds = (jnp.arange(20) % 7 == 6).astype(jnp.float64)
adv = gae(rs, vs, ds)


def ppo(params, obs, act, old, adv, clip=0.2):
    lp = jax.nn.log_softmax(jax.vmap(lambda o: q(params, o))(obs))
    lpa = jnp.take_along_axis(lp, act[..., None], -1)[..., 0]
    ratio = jnp.exp(lpa - old)
    ent = -(jnp.exp(lp) * lp).sum(-1).mean()
    return -jnp.minimum(ratio * adv, jnp.clip(ratio, 1 - clip, 1 + clip) * adv).mean() - 0.01 * ent


obs = random.normal(random.PRNGKey(2), (20, 2))
act = random.randint(random.PRNGKey(3), (20,), 0, 3)
pl, pg = jax.value_and_grad(ppo)(
    params, obs, act, -jnp.ones(20), (adv - adv.mean()) / (adv.std() + 1e-8)
)
# tabular value iteration
P = random.dirichlet(random.PRNGKey(6), jnp.ones(6), (6, 3))
R = random.normal(random.PRNGKey(8), (6, 3))
V = lax.fori_loop(
    0, 50, lambda i, V: (R + 0.9 * jnp.einsum("sat,t->sa", P, V)).max(1), jnp.zeros(6)
)
Q = jnp.zeros((6, 3))


def qlearn(c, k):
    Q, s = c
    k1, k2, k3 = random.split(k, 3)
    a = lax.cond(
        random.uniform(k1) < 0.2,
        lambda: random.randint(k2, (), 0, 3),
        lambda: jnp.argmax(Q[s]).astype(jnp.int64),
    )
    s2 = random.categorical(k3, jnp.log(P[s, a]))
    Q = Q.at[s, a].add(0.1 * (R[s, a] + 0.9 * Q[s2].max() - Q[s, a]))
    return (Q, s2), s2


(Q, _), visited = lax.scan(qlearn, (Q, 0), random.split(random.PRNGKey(11), 100))
results = dict(
    t=t,
    total=total,
    x=x,
    losses=losses,
    params=carry[0],
    size=bufd.size,
    pos=bufd.pos,
    act_=bufd.data.action,
    obs=bufd.data.obs,
    adv=adv,
    pl=pl,
    pg=pg,
    V=V,
    Q=Q,
    visited=visited,
)
