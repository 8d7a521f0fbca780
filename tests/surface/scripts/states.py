"""State that training carries: counters, running means, registered modules, accumulated gradients."""

import stax as jax
import stax.numpy as jnp
from stax import random, lax
from functools import partial
from typing import NamedTuple, Any, Callable
import dataclasses

results = {}


class CounterState(NamedTuple):
    n: jax.Array


def count(state):
    return state.n, CounterState(state.n + 1)


st = CounterState(jnp.array(0))
vals = []
for _ in range(3):
    v, st = jax.jit(count)(st)
    vals.append(v)
results["counter"] = [vals, st]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrainState:
    params: Any
    opt: Any
    step: jax.Array
    apply_fn: Callable = dataclasses.field(metadata=dict(static=True), default=None)

    def replace(self, **kw):
        return dataclasses.replace(self, **kw)


def apply(p, x):
    return jnp.tanh(x @ p["w"]) @ p["v"]


k = random.key(0)
kx, kw, kv = random.split(k, 3)
state = TrainState(
    {"w": random.normal(kw, (3, 4)), "v": random.normal(kv, (4,))},
    {"w": jnp.zeros((3, 4)), "v": jnp.zeros(4)},
    jnp.int32(0),
    apply,
)
X = random.normal(kx, (20, 3))
y = jnp.sin(X.sum(1))


@jax.jit
def train_step(state, batch):
    x, y = batch
    loss, g = jax.value_and_grad(lambda p: jnp.mean((state.apply_fn(p, x) - y) ** 2))(state.params)
    m = jax.tree.map(lambda m, g: 0.9 * m + g, state.opt, g)
    return state.replace(
        params=jax.tree.map(lambda p, m: p - 0.05 * m, state.params, m), opt=m, step=state.step + 1
    ), loss


ls = []
for i in range(10):
    state, l = train_step(state, (X, y))
    ls.append(l)
results["train"] = [jnp.array(ls), state.step, state.params["v"]]


class BNState(NamedTuple):
    mean: Any
    var: Any


@partial(jax.jit, static_argnames="train")
def bn(x, s, train=True, momentum=0.9):
    if train:
        m, v = x.mean(0), x.var(0)
        return (x - m) / jnp.sqrt(v + 1e-5), BNState(
            momentum * s.mean + (1 - momentum) * m, momentum * s.var + (1 - momentum) * v
        )
    return (x - s.mean) / jnp.sqrt(s.var + 1e-5), s


o, s = bn(X, BNState(jnp.zeros(3), jnp.ones(3)))
o2, _ = bn(X, s, train=False)
results["bn"] = [o[:2], s, o2[:2]]


class Linear:
    def __init__(self, key, i, o):
        self.w = random.normal(key, (i, o))
        self.b = jnp.zeros(o)

    def __call__(self, x):
        return x @ self.w + self.b


jax.tree_util.register_pytree_node(
    Linear,
    lambda l: ((l.w, l.b), None),
    lambda _, c: (lambda o: (setattr(o, "w", c[0]), setattr(o, "b", c[1]), o)[2])(
        object.__new__(Linear)
    ),
)


class MLP:
    def __init__(self, key, sizes):
        self.layers = [
            Linear(k, i, o) for k, i, o in zip(random.split(key, len(sizes) - 1), sizes, sizes[1:])
        ]

    def __call__(self, x):
        for l in self.layers[:-1]:
            x = jax.nn.relu(l(x))
        return self.layers[-1](x)


jax.tree_util.register_pytree_node(
    MLP,
    lambda m: ((m.layers,), None),
    lambda _, c: (lambda o: (setattr(o, "layers", c[0]), o)[1])(object.__new__(MLP)),
)
m = MLP(k, [3, 5, 1])
g = jax.jit(jax.grad(lambda m: jnp.mean((m(X)[:, 0] - y) ** 2)))(m)
results["mlp"] = [g.layers[0].w, g.layers[1].b]
results["vm"] = jax.vmap(lambda m, x: m(x), (None, 0))(m, X)[:3]
ens = jax.vmap(lambda k: MLP(k, [3, 4, 1]))(random.split(k, 4))
results["ens"] = jax.vmap(lambda m: m(X[0]))(ens)
ema = jax.tree.map(lambda e, p: 0.99 * e + 0.01 * p, state.params, state.opt)
results["ema"] = ema["v"]
results["scan_train"] = lax.scan(
    train_step, state, (jnp.broadcast_to(X, (5, 20, 3)), jnp.broadcast_to(y, (5, 20)))
)[1]


def memo(f, cache={}):
    def g(n):
        if n not in cache:
            cache[n] = f(n)
        return cache[n]

    return g


results["memo"] = memo(lambda n: jnp.arange(n).sum())(5)
mask = {"w": True, "v": False}
results["freeze"] = jax.tree.map(lambda p, m: p if m else lax.stop_gradient(p), state.params, mask)[
    "v"
]
results["part"] = jax.grad(lambda w, v: apply({"w": w, "v": v}, X).sum())(
    state.params["w"], state.params["v"]
)
lr = lambda step: jnp.where(step < 5, 0.1 * step / 5, 0.1 * jnp.cos((step - 5) * 0.1))
results["lr"] = [lr(i) for i in range(0, 20, 5)] + [jax.vmap(lr)(jnp.arange(8))]
results["acc"] = lax.scan(
    lambda c, x: (
        jax.tree.map(jnp.add, c, jax.grad(lambda p: apply(p, x).sum())(state.params)),
        None,
    ),
    jax.tree.map(jnp.zeros_like, state.params),
    X,
)[0]["v"]
