"""Pytree functions under `jax.tree`'s names; the account of them is in `stax.pytree`."""

from stax import pytree as _pytree
from stax.pytree import broadcast_prefix, static
from stax.pytree import tree_transpose as transpose
from stax.pytree import tree_unflatten as unflatten

all = _pytree.for_users(_pytree.tree_all)
broadcast = _pytree.for_users(_pytree.tree_broadcast)
flatten = _pytree.for_users(_pytree.tree_flatten)
flatten_with_path = _pytree.for_users(_pytree.tree_flatten_with_path)
leaves = _pytree.for_users(_pytree.tree_leaves)
leaves_with_path = _pytree.for_users(_pytree.tree_leaves_with_path)
map = _pytree.for_users(_pytree.tree_map)
map_with_path = _pytree.for_users(_pytree.tree_map_with_path)
reduce = _pytree.for_users(_pytree.tree_reduce)
reduce_associative = _pytree.for_users(_pytree.tree_reduce_associative)
structure = _pytree.for_users(_pytree.tree_structure)

__all__ = [
    "all",
    "broadcast",
    "broadcast_prefix",
    "flatten",
    "flatten_with_path",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "reduce",
    "reduce_associative",
    "static",
    "structure",
    "transpose",
    "unflatten",
]
