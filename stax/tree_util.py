"""Pytree functions under `jax.tree_util`'s names; the account of them is in `stax.pytree`."""

from stax import tree as _tree
from stax.pytree import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    KeyPath,
    Partial,
    PyTreeDef,
    SequenceKey,
    all_leaves,
    flatten_one_level,
    flatten_one_level_with_keys,
    is_tree_node,
    keystr,
    register_dataclass,
    register_leaf,
    register_pytree_node,
    register_pytree_node_class,
    register_pytree_with_keys,
    register_pytree_with_keys_class,
    register_static,
    tree_transpose,
    tree_unflatten,
    treedef_children,
    treedef_is_leaf,
    treedef_tuple,
)

tree_all = _tree.all
tree_broadcast = _tree.broadcast
tree_flatten = _tree.flatten
tree_flatten_with_path = _tree.flatten_with_path
tree_leaves = _tree.leaves
tree_leaves_with_path = _tree.leaves_with_path
tree_map = _tree.map
tree_map_with_path = _tree.map_with_path
tree_reduce = _tree.reduce
tree_reduce_associative = _tree.reduce_associative
tree_structure = _tree.structure

__all__ = [
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "KeyPath",
    "Partial",
    "PyTreeDef",
    "SequenceKey",
    "all_leaves",
    "flatten_one_level",
    "flatten_one_level_with_keys",
    "is_tree_node",
    "keystr",
    "register_dataclass",
    "register_leaf",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_pytree_with_keys",
    "register_pytree_with_keys_class",
    "register_static",
    "tree_all",
    "tree_broadcast",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_with_path",
    "tree_reduce",
    "tree_reduce_associative",
    "tree_structure",
    "tree_transpose",
    "tree_unflatten",
    "treedef_children",
    "treedef_is_leaf",
    "treedef_tuple",
]
