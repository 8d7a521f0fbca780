"""Pytrees: registered classes, dataclasses, paths, Partial, ravel_pytree."""

import stax as jax
import stax.numpy as jnp
import numpy as np
from stax import tree_util as jtu
from stax.tree_util import (
    tree_map,
    register_pytree_node_class,
    register_pytree_node,
    tree_flatten,
    tree_unflatten,
    Partial,
)
from dataclasses import dataclass
import dataclasses
import functools
from typing import NamedTuple, Any
from collections import OrderedDict, defaultdict

results = {}


@register_pytree_node_class
class RegPoint:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def tree_flatten(self):
        return ((self.x, self.y), None)

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children)


p = jax.tree.map(lambda v: v * 2, RegPoint(1.0, jnp.ones(2)))
results["reg"] = [p.x, p.y]
g = jax.grad(lambda p: jnp.sum(p.x * p.y))(RegPoint(3.0, jnp.arange(2.0)))
results["reggrad"] = [g.x, g.y]


@jtu.register_dataclass
@dataclass
class Params:
    w: jnp.ndarray
    b: jax.Array
    name: str = dataclasses.field(metadata=dict(static=True), default="n")


d = jax.jit(jax.grad(lambda p: jnp.sum(p.w**2) * p.b))(Params(jnp.arange(3.0), jnp.array(2.0)))
results["dc"] = [d.w, d.b, d.name]


@functools.partial(jax.tree_util.register_dataclass, data_fields=["a"], meta_fields=["k"])
@dataclass
class Q:
    a: Any
    k: int


q = jax.vmap(lambda q: q.a * q.k)(Q(jnp.arange(3.0), 2))
results["Q"] = q


class Special:
    def __init__(self, x, y):
        self.x = x
        self.y = y


register_pytree_node(Special, lambda s: ((s.x, s.y), "aux"), lambda aux, c: Special(*c))
leaves, treedef = tree_flatten([Special(0, 1), (2, {"k": 3}), None])
results["flat"] = leaves
results["n"] = treedef.num_leaves
re = tree_unflatten(treedef, [x * 10 for x in leaves])
results["unflat"] = [re[0].x, re[1][1]["k"], re[2] is None]
results["leaves"] = [
    len(jax.tree.leaves(t))
    for t in ([1, "a", object()], (1, (2, 3), ()), {"k1": 2, "k2": (3, 4)}, jnp.array([1, 2]), None)
]
results["none"] = jax.tree.leaves([None, 1], is_leaf=lambda x: x is None) == [None, 1]
results["multi"] = jax.tree.map(lambda x, y: x + y, [[1, 2], {"a": 3}], [[10, 20], {"a": 30}])
results["struct"] = jax.tree.structure((1, 2)) == jax.tree.structure((3, 4))
results["reduce"] = [
    jax.tree.reduce(lambda a, b: a + b, [1, (2, 3)]),
    jax.tree.reduce(lambda a, x: a + jnp.sum(x), [jnp.ones(2), jnp.ones(3)], 0.0),
]
results["all"] = [jax.tree.all([True, (True,)]), jax.tree.all([True, 0])]
results["transpose"] = jax.tree.transpose(
    jax.tree.structure([0, 0]), jax.tree.structure((0, 0, 0)), [(1, 2, 3), (4, 5, 6)]
)
results["tt"] = jax.tree.transpose(
    outer_treedef=jax.tree.structure([0 for e in range(2)]),
    inner_treedef=jax.tree.structure({"a": 0}),
    pytree_to_transpose=[{"a": 1}, {"a": 2}],
)
flat, td = jtu.tree_flatten_with_path({"b": [1, 2], "a": (3, Special(4, 5))})
results["paths"] = [jtu.keystr(k) for k, v in flat]
results["vals"] = [v for k, v in flat]
results["mwp"] = jtu.tree_map_with_path(lambda path, x: x * len(path), {"a": 1, "b": {"c": 2}})
results["keystr"] = [
    jtu.keystr(k, simple=True, separator="/")
    for k, v in jax.tree.leaves_with_path({"a": [1, {"z": 2}]})
]


class MyNT(NamedTuple):
    a: Any
    b: Any


results["nt"] = jax.tree.map(lambda x: x + 1, MyNT(1, MyNT(2, 3)))
results["ntpath"] = [jtu.keystr(k) for k, _ in jtu.tree_leaves_with_path(MyNT(1, 2))]
results["od"] = jax.tree.leaves(OrderedDict([("z", 1), ("a", 2)]))
results["dd"] = jax.tree.map(lambda x: x * 2, defaultdict(int, {"b": 1, "a": 2}))["b"]
part = Partial(jnp.add, 1)
results["partial"] = [part(2), jax.jit(lambda f, x: f(x))(part, 3), jax.tree.leaves(part)]
results["arange"] = jax.vmap(lambda t: t["x"] + t["y"][0], in_axes=({"x": 0, "y": None},))(
    {"x": jnp.arange(3.0), "y": [jnp.array(1.0)]}
)


def init_layer(key, n_in, n_out):
    return dict(weights=jax.random.normal(key, (n_in, n_out)), biases=jnp.ones(n_out))


params = [
    init_layer(k, i, o)
    for k, i, o in zip(jax.random.split(jax.random.key(0), 3), [1, 8, 8], [8, 8, 1])
]
results["shapes"] = jax.tree.map(lambda x: list(x.shape), params)


def forward(params, x):
    *hidden, last = params
    for layer in hidden:
        x = jax.nn.relu(x @ layer["weights"] + layer["biases"])
    return x @ last["weights"] + last["biases"]


def loss_fn(params, x, y):
    return jnp.mean((forward(params, x) - y) ** 2)


@jax.jit
def update(params, x, y):
    grads = jax.grad(loss_fn)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.01 * g, params, grads)


xs = np.random.RandomState(0).normal(size=(128, 1))
ys = xs**2
for _ in range(50):
    params = update(params, xs, ys)
results["trained"] = loss_fn(params, xs, ys)
from stax.flatten_util import ravel_pytree

vec, unravel = ravel_pytree(params)
results["ravel"] = [vec.sum(), vec.shape[0]]
results["unravel"] = unravel(vec * 2)[0]["biases"]
results["rt"] = jax.grad(lambda v: loss_fn(unravel(v), xs, ys))(vec)[:5]
results["norm"] = jnp.sqrt(sum(jnp.vdot(x, x) for x in jax.tree.leaves(params)))
results["zeros"] = jax.tree.map(jnp.zeros_like, params)[1]["biases"]
try:
    jax.tree.map(lambda x, y: x, [1, 2], [1, 2, 3])
    results["err"] = 0
except ValueError:
    results["err"] = 1
results["bc"] = jax.tree.broadcast([1, 2], [[0, 0], {"a": 0}])
results["isleaf"] = jax.tree.map(
    lambda t: sum(t), [(1, 2), (3, 4)], is_leaf=lambda t: isinstance(t, tuple)
)
results["children"] = [
    jtu.treedef_is_leaf(jtu.tree_structure(1)),
    len(jtu.treedef_children(jtu.tree_structure((1, 2)))),
]
results["tdt"] = jtu.treedef_tuple(
    [jtu.tree_structure(1), jtu.tree_structure([1])]
) == jtu.tree_structure((1, [1]))
results["str"] = str(jtu.tree_structure({"a": 1, "b": (2, [3, None])}))
results["keys"] = str(flat[0][0])


@register_pytree_node_class
@dataclass
class Kernel:
    ls: float
    var: float

    def tree_flatten(self):
        return (self.ls, self.var), ()

    @classmethod
    def tree_unflatten(cls, aux, ch):
        return cls(*ch)

    @jax.jit
    def __call__(self, x, y):
        return self.var * jnp.exp(-0.5 * ((x - y) / self.ls) ** 2)


k = Kernel(1.0, 2.0)
results["method"] = [k(0.0, 1.0), jax.grad(lambda k: k(0.0, 1.0))(k).ls]


class Counter:
    def __init__(self):
        self.c = jnp.zeros(())

    @functools.partial(jax.jit, static_argnums=0)
    def f(self, x):
        return x + 1


results["self"] = Counter().f(2)
results["stack"] = jax.tree.map(
    lambda *x: jnp.stack(x), *[{"a": jnp.ones(2) * i} for i in range(3)]
)
results["unzip"] = list(zip(*jax.tree.leaves({"a": jnp.ones((2, 1))}))) != []
results["leaves_path"] = [str(p[0]) for p, _ in jax.tree.flatten_with_path({"a": 1, "b": 2})[0]]
results["struct2"] = jax.tree.unflatten(jax.tree.structure({"a": 0, "b": [0]}), [5, 6])
results["attr"] = (
    [type(k[0]).__name__ for k, _ in jtu.tree_leaves_with_path({"a": 1})]
    + [type(k[0]).__name__ for k, _ in jtu.tree_leaves_with_path([1])]
    + [type(k[0]).__name__ for k, _ in jtu.tree_leaves_with_path(MyNT(1, 2))]
)
results["id"] = jax.tree_util.tree_leaves({"b": 1, "a": 2})
results["map_none"] = jax.tree.map(
    lambda x, y: x if y is None else y, [1, 2], [None, 3], is_leaf=lambda x: x is None
)
