"""Trees: paths, registration, structures, flat vectors."""

import stax as jax
import stax.numpy as jnp
import numpy as np
from stax import tree_util as tu
from functools import partial
import dataclasses, collections

params = {
    "dense": {"w": jnp.arange(6.0).reshape(2, 3), "b": jnp.zeros(3)},
    "scale": (jnp.array(2.0), None, [jnp.ones(2)]),
}

results = {}

# flatten with path
out = [tu.keystr(p) for p, _ in tu.tree_flatten_with_path(params)[0]]
results["flatten with path"] = out

# keystr simple
out = [tu.keystr(p, simple=True, separator="/") for p, _ in tu.tree_flatten_with_path(params)[0]]
results["keystr simple"] = out

# map with path
out = tu.tree_map_with_path(lambda p, x: x * len(p), params)
results["map with path"] = out

# leaves with path none
out = [str(p) for p, _ in tu.tree_leaves_with_path(params, is_leaf=lambda x: x is None)]
results["leaves with path none"] = out

# tree reduce
out = tu.tree_reduce(lambda a, b: a + jnp.sum(b), params, 0.0)
results["tree reduce"] = out

# tree all
out = [tu.tree_all({"a": True, "b": [1, 2]}), tu.tree_all({"a": 0})]
results["tree all"] = out

# transpose
out = tu.tree_transpose(
    tu.tree_structure([0, 0]),
    tu.tree_structure({"a": 0, "b": 0}),
    [{"a": 1, "b": 2}, {"a": 3, "b": 4}],
)
results["transpose"] = out

# transpose none inner
out = tu.tree_transpose(tu.tree_structure([0, 0]), None, [{"a": 1, "b": 2}, {"a": 3, "b": 4}])
results["transpose none inner"] = out

# partial
out = jax.jit(lambda f, x: f(x))(tu.Partial(jnp.multiply, 3.0), 2.0)
results["partial"] = out

# broadcast prefix
out = (
    [tu.tree_broadcast({"a": 1, "b": 2}, {"a": [0, 0], "b": {"c": 0}})]
    if hasattr(tu, "tree_broadcast")
    else "no"
)
results["broadcast prefix"] = out

# build
leaves, td = tu.tree_flatten(params)
out = [
    td.num_leaves,
    td.num_nodes,
    str(td),
    td == tu.tree_structure(params),
    tu.treedef_is_leaf(td),
    len(tu.treedef_children(td)),
    tu.tree_unflatten(td, [1] * td.num_leaves),
]
results["build"] = out

# treedef children
out = [str(c) for c in tu.treedef_children(tu.tree_structure(params))]
results["treedef children"] = out

# treedef tuple
out = str(tu.treedef_tuple([tu.tree_structure(1), tu.tree_structure([1, 2])]))
results["treedef tuple"] = out

# compose
out = str(tu.tree_structure([0, {"a": 0}]).compose(tu.tree_structure((0, 0))))
results["compose"] = out

# flatten up to
out = tu.tree_structure([0, 0]).flatten_up_to([{"a": 1}, (2, 3)])
results["flatten up to"] = out


@tu.register_dataclass
@dataclasses.dataclass
class State:
    w: jnp.ndarray
    n: int = dataclasses.field(metadata=dict(static=True), default=3)


s = State(jnp.ones(2))


# register dataclass args
@dataclasses.dataclass
class S2:
    a: float
    b: float
    name: str


tu.register_dataclass(S2, data_fields=["a", "b"], meta_fields=["name"])
out = [
    tu.tree_leaves(S2(1.0, 2.0, "x")),
    [tu.keystr(p) for p, _ in tu.tree_leaves_with_path(S2(1.0, 2.0, "x"))],
    repr(tu.tree_map(lambda x: x + 1, S2(1.0, 2.0, "x"))),
]
results["register dataclass args"] = out


@tu.register_pytree_node_class
class Pt:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def tree_flatten(self):
        return (self.x, self.y), "aux"

    @classmethod
    def tree_unflatten(cls, aux, ch):
        return cls(*ch)


# register with keys
class Q:
    def __init__(self, x, y):
        self.x, self.y = x, y


tu.register_pytree_with_keys(
    Q, lambda q: (((tu.GetAttrKey("x"), q.x), (tu.GetAttrKey("y"), q.y)), None), lambda a, c: Q(*c)
)
out = [str(p) for p, _ in tu.tree_leaves_with_path(Q(1, [2, 3]))]
results["register with keys"] = out


# register with keys class
@tu.register_pytree_with_keys_class
class R:
    def __init__(self, x):
        self.x = x

    def tree_flatten_with_keys(self):
        return ((tu.DictKey("x"), self.x),), None

    @classmethod
    def tree_unflatten(cls, a, c):
        return cls(*c)


out = [tu.keystr(p) for p, _ in tu.tree_leaves_with_path(R({"q": 1}))]
results["register with keys class"] = out


# static
@tu.register_static
class Cfg:
    def __init__(self, n):
        self.n = n

    def __hash__(self):
        return hash(self.n)

    def __eq__(self, o):
        return self.n == o.n


out = [tu.tree_leaves(Cfg(3)), jax.jit(lambda c, x: x * c.n)(Cfg(3), 2.0)]
results["static"] = out

N = collections.namedtuple("N", "a b")
dd = collections.defaultdict(list, {"z": [1, 2], "a": [3]})
od = collections.OrderedDict([("z", 1), ("a", 2)])
dq = collections.deque([1, 2, 3])

# is_leaf
out = tu.tree_map(
    lambda x: len(x) if isinstance(x, tuple) else x,
    [(1, 2), 3, {"a": (4, 5, 6)}],
    is_leaf=lambda x: isinstance(x, tuple),
)
results["is_leaf"] = out

# all leaves
out = [tu.all_leaves([1, 2, 3]), tu.all_leaves([1, (2,)])]
results["all leaves"] = out

# jax.tree api
out = [
    jax.tree.map(lambda a, b: a + b, [1, 2], [3, 4]),
    jax.tree.leaves({"b": 1, "a": 2}),
    jax.tree.reduce(lambda a, b: a * b, [2, 3, 4]),
    jax.tree.all([1, 1]),
    str(jax.tree.structure([1, 2])),
    jax.tree.flatten([1, [2]])[0],
    jax.tree.map_with_path(lambda p, x: tu.keystr(p), {"a": 1}),
    [tu.keystr(p) for p, _ in jax.tree.leaves_with_path([1, {"c": 2}])],
    jax.tree.reduce_associative(lambda a, b: a + b, [1, 2, 3])
    if hasattr(jax.tree, "reduce_associative")
    else 6,
    jax.tree.transpose(jax.tree.structure([0, 0]), jax.tree.structure((0, 0)), [(1, 2), (3, 4)]),
    jax.tree.unflatten(jax.tree.structure([0, 0]), [5, 6]),
    jax.tree.broadcast([1, 2], [(0, 0), 0]) if hasattr(jax.tree, "broadcast") else 0,
]
results["jax.tree api"] = out


# dtype map
from stax import ShapeDtypeStruct

out = jax.tree.map(
    lambda s: (s.shape, str(s.dtype)),
    jax.eval_shape(lambda p: tu.tree_map(lambda x: x.sum(), p), params),
    is_leaf=lambda x: isinstance(x, ShapeDtypeStruct),
)
results["dtype map"] = out

from stax.flatten_util import ravel_pytree

flat, un = ravel_pytree(
    {"a": jnp.arange(3, dtype=jnp.int32), "b": (jnp.ones((2, 2), jnp.float32), True)}
)

# ravel hessian
flat, un = ravel_pytree(params)


def loss(p):
    return jnp.sum((p["dense"]["w"].sum(0) + p["dense"]["b"]) ** 2) * p["scale"][0] + jnp.prod(
        p["scale"][2][0]
    )


out = [
    jax.hessian(lambda v: loss(un(v)))(flat),
    jax.hvp(loss, (params,), (params,)) if False else 0,
]
results["ravel hessian"] = out


# ravel in jit/vmap
def go(x):
    v, un = ravel_pytree({"a": x, "b": x**2})
    return un(v * 2)


out = [jax.jit(go)(jnp.ones((2, 2))), jax.vmap(go)(jnp.ones((3, 2)))]
results["ravel in jit/vmap"] = out

# none in grads
out = jax.grad(lambda p: p["a"] ** 2, allow_int=True)({"a": 3.0, "b": None, "c": 1})
results["none in grads"] = out

# has aux tree
out = jax.value_and_grad(lambda p: (p["a"] ** 2, {"m": p["a"]}), has_aux=True)({"a": 3.0})
results["has aux tree"] = out
