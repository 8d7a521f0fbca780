"""Library optimisers, MAML, modules as pytrees with keys, ensembles."""

import stax as jax
import stax.numpy as jnp
import numpy as np
from stax import grad, vmap, jit, random
from stax.example_libraries import optimizers
from stax.example_libraries.stax import serial, Dense, Relu, LogSoftmax
from functools import partial

net_init, net_apply = serial(Dense(20), Relu, Dense(20), Relu, Dense(1))
out_shape, params = net_init(random.PRNGKey(0), (-1, 1))


def loss(params, x, y):
    return jnp.mean((y - net_apply(params, x)) ** 2)


xs = np.linspace(-2, 2, 20).reshape((20, 1))
ys = np.sin(xs)
opt_init, opt_update, get_params = optimizers.adam(step_size=1e-2)
st = opt_init(params)


@jit
def step(i, st, x, y):
    p = get_params(st)
    l, g = jax.value_and_grad(loss)(p, x, y)
    return l, opt_update(i, g, st)


ls = []
for i in range(20):
    l, st = step(i, st, xs, ys)
    ls.append(l)


def inner(p, x, y, alpha=0.1):
    g = grad(loss)(p, x, y)
    return jax.tree.map(lambda w, g: w - alpha * g, p, g)


def maml(p, x1, y1, x2, y2):
    return loss(inner(p, x1, y1), x2, y2)


def batch_maml(p, *b):
    return jnp.mean(vmap(partial(maml, p))(*b))


def tasks(rs, n, m=5):
    A = rs.uniform(0.1, 0.5, (n, 1, 1))
    ph = rs.uniform(0, np.pi, (n, 1, 1))
    x1, x2 = rs.uniform(-5, 5, (2, n, m, 1))
    return x1, A * np.sin(x1 + ph), x2, A * np.sin(x2 + ph)


rs = np.random.RandomState(0)
opt_init, opt_update, get_params = optimizers.momentum(
    optimizers.exponential_decay(1e-2, 10, 0.9), 0.9
)
st = opt_init(params)


@jit
def mstep(i, st, *b):
    p = get_params(st)
    l, g = jax.value_and_grad(batch_maml)(p, *b)
    g = optimizers.clip_grads(g, 1.0)
    return opt_update(i, g, st), l


ml = []
for i in range(15):
    st, l = mstep(i, st, *tasks(rs, 4))
    ml.append(l)


# custom pytrees of a module system
class Module:
    def __init_subclass__(cls, **kw):
        super().__init_subclass__(**kw)
        jax.tree_util.register_pytree_with_keys(
            cls,
            lambda m: (
                tuple((jax.tree_util.GetAttrKey(k), v) for k, v in sorted(vars(m).items())),
                tuple(sorted(vars(m))),
            ),
            lambda names, ch: cls._build(names, ch),
            lambda m: (tuple(v for _, v in sorted(vars(m).items())), tuple(sorted(vars(m)))),
        )

    @classmethod
    def _build(cls, names, ch):
        m = object.__new__(cls)
        m.__dict__.update(zip(names, ch))
        return m


class Linear(Module):
    def __init__(self, key, i, o):
        self.w = random.normal(key, (i, o)) / jnp.sqrt(i)
        self.b = jnp.zeros(o)

    def __call__(self, x):
        return x @ self.w + self.b


class MLP(Module):
    def __init__(self, key, sizes):
        self.layers = [
            Linear(k, a, b) for k, a, b in zip(random.split(key, len(sizes) - 1), sizes, sizes[1:])
        ]
        self.scale = jnp.array(1.0)

    def __call__(self, x):
        for l in self.layers[:-1]:
            x = jnp.tanh(l(x))
        return self.scale * self.layers[-1](x)


m = MLP(random.PRNGKey(1), [1, 8, 1])


@jit
def mfit(m, x, y):
    l, g = jax.value_and_grad(lambda m: jnp.mean((vmap(m)(x) - y) ** 2))(m)
    return l, jax.tree.map(lambda p, g: p - 0.1 * g, m, g)


fl = []
for _ in range(10):
    l, m = mfit(m, xs, ys)
    fl.append(l)
paths = [jax.tree_util.keystr(p) for p, _ in jax.tree_util.tree_flatten_with_path(m)[0]]
ens = vmap(lambda k: MLP(k, [1, 8, 1]))(random.split(random.PRNGKey(2), 4))
eo = vmap(lambda m, x: vmap(m)(x), (0, None))(ens, xs)
ema = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, MLP(random.PRNGKey(3), [1, 8, 1]))
mask = jax.tree_util.tree_map_with_path(
    lambda p, v: p[-1].name == "w" if hasattr(p[-1], "name") else False, m
)
tr = jax.tree.transpose(
    jax.tree.structure([0, 0, 0]), jax.tree.structure({"a": 0}), [{"a": 1}, {"a": 2}, {"a": 3}]
)
results = dict(
    ls=ls,
    ml=ml,
    fl=fl,
    paths=paths,
    eo=eo,
    ema=jax.tree.leaves(ema),
    mask=[bool(v) for v in jax.tree.leaves(mask)],
    tr=tr,
    shapes=[list(s.shape) for s in jax.tree.leaves(jax.eval_shape(m, xs))],
    norm=optimizers.l2_norm(params),
)
