"""Pytrees: maps, paths, registered classes, named tuples, transposes, flattening."""

import collections
from dataclasses import dataclass

import stax as jax
import stax.flatten_util
import stax.numpy as jnp
from stax import tree_util

results = {}
example = [[1, "a", 2.0], (1, (2, 3), ()), [1, {"k1": 2, "k2": (3, 4)}, 5], {"a": 2, "b": (2, 3)}]
results["leaves"] = [len(jax.tree.leaves(t)) for t in example]
lists = [[1, 2, 3], [1, 2], [1, 2, 3, 4]]
results["map"] = jax.tree.map(lambda x: x * 2, lists)
results["map2"] = jax.tree.map(lambda x, y: x + y, lists, lists)
results["sum"] = jax.tree.reduce(lambda a, b: a + b, lists)
results["none"] = len(jax.tree.leaves([None, 1, None]))
results["is_leaf"] = len(jax.tree.leaves([None, 1, None], is_leaf=lambda x: x is None))


class Special:
    def __init__(self, x, y):
        self.x, self.y = x, y


tree_util.register_pytree_node(
    Special, lambda s: ((s.x, s.y), None), lambda aux, children: Special(*children)
)
special = jax.tree.map(lambda v: v + 1, Special(0.0, {"a": jnp.arange(3.0)}))
results["special"] = (special.x, special.y)


@tree_util.register_pytree_node_class
class Counter:
    def __init__(self, value, name):
        self.value, self.name = value, name

    def tree_flatten(self):
        return (self.value,), self.name

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(children[0], aux)


results["class"] = jax.jit(lambda c: Counter(c.value * 2, c.name))(Counter(jnp.ones(2), "c")).value


@dataclass
class Params:
    w: jax.Array
    b: jax.Array
    name: str = "p"


tree_util.register_dataclass(Params, data_fields=["w", "b"], meta_fields=["name"])
g = jax.grad(lambda p: jnp.sum(p.w**2) + p.b)(Params(jnp.arange(3.0), jnp.array(1.0)))
results["dataclass"] = (g.w, g.b)
Point = collections.namedtuple("Point", "x y")
results["namedtuple"] = tuple(jax.grad(lambda p: p.x * p.y)(Point(2.0, 3.0)))
params = {"layer": {"w": jnp.ones((2, 3)), "b": jnp.zeros(3)}, "scale": jnp.array(2.0)}
flat, treedef = tree_util.tree_flatten_with_path(params)
results["paths"] = [tree_util.keystr(path) for path, _ in flat]
results["shapes"] = jax.tree.map(lambda v: jnp.array(v.shape), params)
vector, unravel = jax.flatten_util.ravel_pytree(params)
results["ravel"] = vector
results["unravel"] = unravel(vector * 2)
leaves, treedef = jax.tree.flatten(params)
results["unflatten"] = jax.tree.unflatten(treedef, [v + 1 for v in leaves])
results["same"] = jax.tree.structure(params) == jax.tree.structure(results["unflatten"])
results["transpose"] = jax.tree.transpose(
    jax.tree.structure([0, 0, 0]),
    jax.tree.structure({"a": 0, "b": 0}),
    [{"a": i, "b": 2 * i} for i in range(3)],
)
results["all"] = jax.tree.all(jax.tree.map(lambda a: bool(jnp.all(a == a)), params))
results["with_path"] = tree_util.tree_map_with_path(lambda p, v: v.size + len(p), params)
partial = tree_util.Partial(jnp.multiply, 3.0)
results["partial"] = jax.jit(lambda f, x: f(x))(partial, 2.0)
