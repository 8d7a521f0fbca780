"""Pytree functions under `jax.tree`'s names; the account of them is in `stax.pytree`."""

from stax.pytree import broadcast_prefix, static
from stax.pytree import tree_all as all
from stax.pytree import tree_broadcast as broadcast
from stax.pytree import tree_flatten as flatten
from stax.pytree import tree_flatten_with_path as flatten_with_path
from stax.pytree import tree_leaves as leaves
from stax.pytree import tree_leaves_with_path as leaves_with_path
from stax.pytree import tree_map as map
from stax.pytree import tree_map_with_path as map_with_path
from stax.pytree import tree_reduce as reduce
from stax.pytree import tree_reduce_associative as reduce_associative
from stax.pytree import tree_structure as structure
from stax.pytree import tree_transpose as transpose
from stax.pytree import tree_unflatten as unflatten

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
