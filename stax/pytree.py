"""Nested containers as a flat list of leaves plus a structure, and back.

Input: any nesting of tuples, lists, dicts, namedtuples, dataclasses, None and registered classes.
Output: `(leaves, treedef)`. The treedef is one flat tuple of entries in preorder, `None` for a leaf
and `(class, number of children, aux)` for a node, so that comparing and hashing run in C and no
walk over it recurses: nesting depth is bounded by memory alone. Dicts flatten by sorted key.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from stax.errors import PytreeError
from stax.pytree_registry import (
    NODES,
    SEALED,
    UNKNOWN,
    Children,
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    KeyPath,
    SequenceKey,
    check_finite,
    classify,
    is_tree_node,
    keystr,
    node_of,
    register_dataclass,
    register_leaf,
    register_pytree_node,
    register_pytree_node_class,
    register_pytree_with_keys,
    register_pytree_with_keys_class,
    register_static,
    seal,
    sorted_keys,
    static,
)

__all__ = [
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "KeyPath",
    "Partial",
    "PyTreeDef",
    "SequenceKey",
    "all_leaves",
    "broadcast_prefix",
    "for_users",
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
    "seal",
    "static",
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

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
IsLeaf = Callable[[Any], bool] | None
Entry = tuple[type, int, Any] | None

# ---------------------------------------------------------------- structure


class PyTreeDef:
    """The structure of a tree: hashable, comparable, printable; build one with `tree_structure`."""

    __slots__ = ("_hash", "num_leaves", "spec")

    spec: tuple[Entry, ...]
    num_leaves: int

    def __init__(self, spec: Iterable[Entry]) -> None:
        self.spec = tuple(spec)
        self.num_leaves = self.spec.count(None)
        self._hash: int | None = None

    @property
    def num_nodes(self) -> int:
        return len(self.spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PyTreeDef) and (self is other or self.spec == other.spec)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self.spec)
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return PyTreeDef, (self.spec,)

    def __repr__(self) -> str:
        return f"PyTreeDef({self._fold(['*'] * self.num_leaves, _node_text)})"

    def _fold(self, values: list[Any], build: Callable[[type, Any, list[Any]], Any]) -> Any:
        """Return what `build(class, aux, children)` makes bottom-up; empties `values`."""
        stack: list[Any] = []
        push = stack.append
        for entry in reversed(self.spec):
            if entry is None:
                push(values.pop())
                continue
            cls, n, aux = entry
            children = stack[: -n - 1 : -1]
            if n:
                del stack[-n:]
            if cls is tuple and build is _rebuild:
                push(tuple(children))
            else:
                push(build(cls, aux, children))
        return stack.pop()

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Return the tree of this structure with these leaves."""
        values = list(leaves)
        if len(values) != self.num_leaves:
            raise PytreeError(f"{self!r} has {self.num_leaves} leaves, got {len(values)}")
        return self._fold(values, _rebuild)

    def flatten_up_to(self, tree: Any, name: str = "tree") -> list[Any]:
        """Return the subtrees of `tree` that stand where this structure has leaves.

        Raises:
          PytreeError: `tree` does not begin with this structure; says at which path.
        """
        subtrees: list[Any] = []
        stack = [tree]
        for entry in self.spec:
            subtree = stack.pop()
            if entry is None:
                subtrees.append(subtree)
                continue
            cls, n, aux = entry
            if type(subtree) is not cls and _recorded(type(subtree)) is not cls:
                self._raise_mismatch(tree, name)
            node: Any = NODES[cls]
            children, other = node.flatten(subtree)
            if len(children) != n or other != aux:
                self._raise_mismatch(tree, name)
            stack.extend(reversed(children))
        return subtrees

    def _raise_mismatch(self, tree: Any, name: str) -> None:
        stack: list[tuple[KeyPath, Any]] = [((), tree)]
        for entry in self.spec:
            path, subtree = stack.pop()
            if entry is None:
                continue
            cls, n, aux = entry
            children: Children = ()
            other: Any = None
            if _recorded(type(subtree)) is cls:
                children, other = _children(subtree)
            if _recorded(type(subtree)) is not cls or len(children) != n or other != aux:
                raise PytreeError(
                    f"{name} does not have the structure {self!r}: at {name}{keystr(path)} "
                    f"expected {_summary(cls, n, aux)}, found {_summary_of(subtree)}"
                )
            stack.extend(reversed(_keyed(path, subtree, children)))

    def children(self) -> list[PyTreeDef]:
        """Return the structures of the root's children."""
        found, start = [], 1
        while start < len(self.spec):
            end, open_nodes = start, 1
            while open_nodes:
                entry = self.spec[end]
                open_nodes += (entry[1] if entry else 0) - 1
                end += 1
            found.append(PyTreeDef(self.spec[start:end]))
            start = end
        return found

    def node_data(self) -> tuple[type, Any] | None:
        """Return the root's `(class, aux)`, or None for a leaf."""
        root = self.spec[0]
        return None if root is None else (root[0], root[2])

    def compose(self, inner: PyTreeDef) -> PyTreeDef:
        """Return this structure with `inner` in place of every leaf."""
        return PyTreeDef(
            part for entry in self.spec for part in (inner.spec if entry is None else (entry,))
        )


def _recorded(cls: type) -> type:
    """The class that a structure records for a container of class `cls`."""
    node = node_of(cls)
    return cls if node is None or node.cls is None else node.cls


def _rebuild(cls: type, aux: Any, children: list[Any]) -> Any:
    if cls is list:
        return children
    if cls is dict:
        return dict(zip(aux, children, strict=True))
    node: Any = NODES[cls]
    return node.unflatten(aux, children)


def _node_text(cls: type, aux: Any, parts: list[str]) -> str:
    node: Any = node_of(cls)
    return str(node.text(cls, aux, parts))


def _children(tree: Any) -> tuple[Children, Any]:
    node = node_of(type(tree))
    return ((), None) if node is None else node.flatten(tree)


def _keyed(path: KeyPath, tree: Any, children: Children) -> list[tuple[KeyPath, Any]]:
    node: Any = node_of(type(tree))
    keys = node.keys(tree, len(children))
    return [((*path, key), child) for key, child in zip(keys, children, strict=True)]


def _summary(cls: type, n: int, aux: Any) -> str:
    if cls is type(None):
        return "None"
    if cls in (dict, OrderedDict):
        return f"{cls.__name__} with keys {list(aux)!r}"
    size = f"{n} child" if n == 1 else f"{n} children"
    return f"{cls.__name__} with {size}" + ("" if aux is None or aux == () else f" and {aux!r}")


def _summary_of(tree: Any) -> str:
    if node_of(type(tree)) is None:
        return f"a leaf of type {type(tree).__name__}"
    children, aux = _children(tree)
    return _summary(type(tree), len(children), aux)


# ---------------------------------------------------------------- flatten and map

_LEAF = PyTreeDef((None,))


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], PyTreeDef]:
    """Return the leaves of a tree, left to right, and its structure.

    Args:
      tree: any nesting of containers.
      is_leaf: called on every node; where true, the node is taken as a leaf.

    >>> tree_flatten({"b": 1, "a": (2, None)})
    ([2, 1], PyTreeDef({'a': (*, None), 'b': *}))
    """
    leaves: list[Any] = []
    spec: list[Entry] = []
    stack = [tree]
    pop, extend, find = stack.pop, stack.extend, NODES.get
    many = 1 << 16  # so many nodes raise the suspicion that a container holds itself
    while stack:
        value = pop()
        cls = type(value)
        node = find(cls, UNKNOWN)
        if node is UNKNOWN:
            node = classify(cls)
        if node is None or (is_leaf is not None and is_leaf(value)):
            spec.append(None)
            leaves.append(value)
            continue
        if len(spec) > many:
            check_finite(tree, is_leaf)
            many *= 8
        if cls is tuple or cls is list:
            spec.append((cls, len(value), None))
            extend(value[::-1])
        elif cls is dict:
            try:
                keys = sorted(value)
            except TypeError:
                keys = sorted_keys(value)
            spec.append((dict, len(keys), tuple(keys)))
            keys.reverse()
            extend([value[key] for key in keys])
        else:
            children, aux = node.flatten(value)
            spec.append((node.cls or cls, len(children), aux))
            extend(children[::-1])
    return leaves, _LEAF if len(spec) == 1 and spec[0] is None else PyTreeDef(spec)


def tree_unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """Return the tree of a structure with the given leaves.

    Raises:
      PytreeError: the number of leaves is not the structure's.
    """
    return treedef.unflatten(leaves)


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """Return the leaves of a tree, left to right."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> PyTreeDef:
    """Return the structure of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """Return the tree of `f(leaf, *corresponding subtrees of rest)`.

    Raises:
      PytreeError: a tree of `rest` does not begin with the structure of the first.

    >>> tree_map(lambda a, b: a + b, {"x": 1, "y": (2,)}, {"x": 10, "y": (20,)})
    {'x': 11, 'y': (22,)}
    """
    leaves, treedef = tree_flatten(tree, is_leaf)
    if not rest:
        return treedef.unflatten(map(f, leaves))
    others = [treedef.flatten_up_to(t, f"tree {k}") for k, t in enumerate(rest, start=2)]
    return treedef.unflatten(map(f, leaves, *others))


def tree_leaves_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> list[tuple[KeyPath, Any]]:
    """Return `(path, leaf)` pairs, left to right; print a path with `keystr`."""
    return tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def tree_flatten_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """Return `(path, leaf)` pairs and the structure."""
    pairs: list[tuple[KeyPath, Any]] = []
    spec: list[Entry] = []
    stack: list[tuple[KeyPath, Any]] = [((), tree)]
    deep = 1000
    while stack:
        path, value = stack.pop()
        if len(path) > deep and not is_leaf_takes_path:
            check_finite(tree, is_leaf)
            deep *= 8
        stop = is_leaf is not None and (
            is_leaf(path, value) if is_leaf_takes_path else is_leaf(value)
        )
        node = None if stop else node_of(type(value))
        if node is None:
            spec.append(None)
            pairs.append((path, value))
            continue
        children, aux = node.flatten(value)
        spec.append((_recorded(type(value)), len(children), aux))
        stack.extend(reversed(_keyed(path, value, children)))
    return pairs, PyTreeDef(spec)


def tree_map_with_path(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> Any:
    """Return the tree of `f(path, leaf, *corresponding subtrees of rest)`."""
    pairs, treedef = tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    others = [treedef.flatten_up_to(t, f"tree {k}") for k, t in enumerate(rest, start=2)]
    columns = zip(*pairs, strict=True) if pairs else ((), ())
    return treedef.unflatten(map(f, *columns, *others))


def broadcast_prefix(prefix: Any, full: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """Return one value of `prefix` for each leaf of `full`, repeated over the subtree below it.

    Args:
      prefix: a tree whose structure is the beginning of `full`'s, like `vmap`'s `in_axes`.
      full: the full tree.
      is_leaf: as in `tree_flatten`, for `prefix`; pass `lambda x: x is None` to keep None.
    """
    leaves, treedef = tree_flatten(prefix, is_leaf)
    subtrees = treedef.flatten_up_to(full)
    found: list[Any] = []
    for leaf, subtree in zip(leaves, subtrees, strict=True):
        found.extend([leaf] * len(tree_leaves(subtree)))
    return found


def tree_broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None) -> Any:
    """Return a tree of `full_tree`'s structure with the leaves of `prefix_tree` repeated."""
    values = broadcast_prefix(prefix_tree, full_tree, is_leaf)
    return tree_structure(full_tree).unflatten(values)


def tree_reduce(
    function: Callable[[Any, Any], Any],
    tree: Any,
    initializer: Any = UNKNOWN,
    is_leaf: IsLeaf = None,
) -> Any:
    """Return `function` folded over the leaves from the left."""
    leaves = tree_leaves(tree, is_leaf)
    if initializer is UNKNOWN:
        return functools.reduce(function, leaves)
    return functools.reduce(function, leaves, initializer)


def tree_reduce_associative(
    operation: Callable[[Any, Any], Any],
    tree: Any,
    *,
    identity: Any = UNKNOWN,
    is_leaf: IsLeaf = None,
) -> Any:
    """Return an associative operation folded over the leaves pairwise, in logarithmic depth."""
    values = tree_leaves(tree, is_leaf)
    if not values:
        if identity is UNKNOWN:
            raise PytreeError("a tree without leaves needs an identity to reduce to")
        return identity
    while len(values) > 1:
        pairs = [operation(a, b) for a, b in zip(values[::2], values[1::2], strict=False)]
        values = pairs + values[len(pairs) * 2 :]
    return values[0]


def tree_all(tree: Any, *, is_leaf: IsLeaf = None) -> bool:
    """Return whether every leaf is true."""
    return all(tree_leaves(tree, is_leaf))


def tree_transpose(
    outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any
) -> Any:
    """Return a tree of trees turned inside out.

    Args:
      outer_treedef: the outer structure of the tree.
      inner_treedef: the inner one; None takes that of the first outer leaf.
      pytree_to_transpose: a tree of structure `outer_treedef.compose(inner_treedef)`.
    """
    rows = outer_treedef.flatten_up_to(pytree_to_transpose)
    if inner_treedef is None:
        if not rows:
            raise PytreeError("the outer structure has no leaves: give inner_treedef")
        inner_treedef = tree_structure(rows[0])
    inner = inner_treedef
    columns = zip(*[inner.flatten_up_to(row) for row in rows], strict=True) if rows else []
    parts = [outer_treedef.unflatten(column) for column in columns]
    if not rows:
        parts = [outer_treedef.unflatten(())] * inner.num_leaves
    return inner.unflatten(parts)


def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf = None) -> bool:
    """Return whether no element is a container."""
    return all(
        (is_leaf is not None and is_leaf(value)) or node_of(type(value)) is None
        for value in iterable
    )


def flatten_one_level(tree: Any) -> tuple[Children, Any]:
    """Return the direct children of a container and its aux data.

    Raises:
      PytreeError: the value is a leaf.
    """
    node = node_of(type(tree))
    if node is None:
        raise PytreeError(f"cannot flatten a leaf of type {type(tree).__name__} by one level")
    children, aux = node.flatten(tree)
    return tuple(children), aux


def flatten_one_level_with_keys(tree: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """Return `(key, child)` pairs of a container and its aux data."""
    children, aux = flatten_one_level(tree)
    return [(path[0], child) for path, child in _keyed((), tree, children)], aux


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """Return the structure of a tuple of trees with these structures."""
    parts = list(treedefs)
    return PyTreeDef(((tuple, len(parts), None), *_entries(parts)))


def _entries(parts: Iterable[PyTreeDef]) -> Iterator[Entry]:
    for part in parts:
        yield from part.spec


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """Return the structures of the root's children."""
    return treedef.children()


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Return whether the structure is that of a single leaf."""
    return treedef.spec == (None,)


def for_users(function: F) -> F:
    """`function` with the leaves that users see: keys are not opened, as transformations do."""
    parameters = list(inspect.signature(function).parameters.values())
    by_name = any(p.name == "is_leaf" and p.kind is p.KEYWORD_ONLY for p in parameters)
    place = sys.maxsize if by_name else [p.name for p in parameters].index("is_leaf")

    @functools.wraps(function)
    def public(*args: Any, **kwargs: Any) -> Any:
        if not SEALED:
            return function(*args, **kwargs)
        given = args[place] if len(args) > place else kwargs.pop("is_leaf", None)

        def is_leaf(*where: Any) -> bool:
            return type(where[-1]) in SEALED or (given is not None and bool(given(*where)))

        if len(args) > place:
            return function(*args[:place], is_leaf, *args[place + 1 :], **kwargs)
        return function(*args, is_leaf=is_leaf, **kwargs)

    return public  # type: ignore[return-value]  # same signature


class Partial(functools.partial[T]):
    """A `functools.partial` whose arguments are leaves, so that closures pass through transforms.

    >>> tree_leaves(Partial(max, 1, key=None))
    [1]
    """


register_pytree_with_keys(
    Partial,
    lambda p: (((GetAttrKey("args"), p.args), (GetAttrKey("keywords"), p.keywords)), p.func),
    lambda func, children: Partial(func, *children[0], **children[1]),
)
