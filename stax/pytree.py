"""Nested containers as a flat list of leaves plus a structure, and back.

Input: any nesting of tuples, lists, dicts, namedtuples, dataclasses, None and registered classes.
Output: `(leaves, treedef)`. The treedef is one flat tuple of entries in preorder, `None` for a leaf
and `(class, number of children, aux)` for a node, so that comparing and hashing run in C and no
walk over it recurses: nesting depth is bounded by memory alone. Dicts flatten by sorted key.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from stax.errors import PytreeError, RegistrationError

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
C = TypeVar("C", bound=type)
IsLeaf = Callable[[Any], bool] | None
Entry = tuple[type, int, Any] | None
Children = Sequence[Any]


# ---------------------------------------------------------------- keys and paths


class _Key:
    """One step of a path into a tree; equal when of one kind with one key."""

    __slots__ = ("key",)

    def __init__(self, key: Any) -> None:
        self.key = key

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.key == self.key  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.key))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.key!r})"


class DictKey(_Key):
    """A step into a dict, printed `['key']`."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"[{self.key!r}]"


class SequenceKey(_Key):
    """A step into a tuple or list, printed `[index]`."""

    __slots__ = ()

    @property
    def idx(self) -> int:
        return int(self.key)

    def __str__(self) -> str:
        return f"[{self.key}]"


class GetAttrKey(_Key):
    """A step into a namedtuple or dataclass, printed `.name`."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return str(self.key)

    def __str__(self) -> str:
        return f".{self.key}"


class FlattenedIndexKey(_Key):
    """A step into a registered class that names no keys, printed `[<flat index 0>]`."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"[<flat index {self.key}>]"


KeyPath = tuple[Any, ...]


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """Return a path as text: `['w'][0].bias`, or with `simple=True` and a separator `w/0/bias`."""
    if not simple:
        return separator.join(str(key) for key in keys)
    return separator.join(str(key.key) if isinstance(key, _Key) else str(key) for key in keys)


# ---------------------------------------------------------------- registry


class _Node:
    """How one container class comes apart and together again."""

    __slots__ = ("flatten", "keys", "text", "unflatten")

    def __init__(
        self,
        flatten: Callable[[Any], tuple[Children, Any]],
        unflatten: Callable[[Any, Children], Any],
        keys: Callable[[Any, int], Sequence[Any]],
        text: Callable[[type, Any, list[str]], str],
    ) -> None:
        self.flatten = flatten
        self.unflatten = unflatten
        self.keys = keys
        self.text = text


_NODES: dict[type, _Node | None] = {}  # None: known to be a leaf
_EXPLICIT: set[type] = set()
_LEAF_CLASSES_KEPT = 4096  # forget the remembered leaf classes beyond this many entries
_UNKNOWN: Any = object()


def _sorted_keys(mapping: dict[Any, Any]) -> list[Any]:
    try:
        return sorted(mapping)
    except TypeError:
        pass
    try:  # keys of several types: group by type, then by value
        return sorted(mapping, key=lambda key: (type(key).__qualname__, key))
    except TypeError as error:
        raise PytreeError(
            f"dict keys cannot be sorted: {list(mapping)[:8]!r}",
            hint="use keys with an order, or collections.OrderedDict, which keeps its own",
        ) from error


def _flatten_dict(mapping: dict[Any, Any]) -> tuple[Children, Any]:
    keys = _sorted_keys(mapping)
    return [mapping[key] for key in keys], tuple(keys)


def _flatten_default_dict(mapping: defaultdict[Any, Any]) -> tuple[Children, Any]:
    children, keys = _flatten_dict(mapping)
    return children, (mapping.default_factory, keys)


def _index_keys(kind: type[_Key]) -> Callable[[Any, int], Sequence[Any]]:
    return lambda tree, n: [kind(index) for index in range(n)]


def _dict_text(keys: Iterable[Any], parts: Iterable[str]) -> str:
    return "{" + ", ".join(f"{key!r}: {part}" for key, part in zip(keys, parts, strict=True)) + "}"


def _call_text(name: str, fields: Iterable[str], parts: Iterable[str]) -> str:
    pairs = zip(fields, parts, strict=True)
    return f"{name}({', '.join(f'{field}={part}' for field, part in pairs)})"


def _custom_text(cls: type, aux: Any, parts: list[str]) -> str:
    return f"{cls.__name__}[{aux!r}]({', '.join(parts)})"


_NODES[tuple] = _Node(
    lambda tree: (tree, None),
    lambda aux, children: tuple(children),
    _index_keys(SequenceKey),
    lambda cls, aux, parts: f"({', '.join(parts)}{',' if len(parts) == 1 else ''})",
)
_NODES[list] = _Node(
    lambda tree: (tree, None),
    lambda aux, children: list(children),
    _index_keys(SequenceKey),
    lambda cls, aux, parts: f"[{', '.join(parts)}]",
)
_NODES[dict] = _Node(
    _flatten_dict,
    lambda aux, children: dict(zip(aux, children, strict=True)),
    lambda tree, n: [DictKey(key) for key in _sorted_keys(tree)],
    lambda cls, aux, parts: _dict_text(aux, parts),
)
_NODES[type(None)] = _Node(
    lambda tree: ((), None), lambda aux, children: None, _index_keys(SequenceKey), lambda *a: "None"
)
_NODES[OrderedDict] = _Node(
    lambda tree: (list(tree.values()), tuple(tree)),
    lambda aux, children: OrderedDict(zip(aux, children, strict=True)),
    lambda tree, n: [DictKey(key) for key in tree],
    lambda cls, aux, parts: f"OrderedDict({_dict_text(aux, parts)})",
)
_NODES[defaultdict] = _Node(
    _flatten_default_dict,
    lambda aux, children: defaultdict(aux[0], zip(aux[1], children, strict=True)),
    lambda tree, n: [DictKey(key) for key in _sorted_keys(tree)],
    lambda cls, aux, parts: f"defaultdict({aux[0]!r}, {_dict_text(aux[1], parts)})",
)
_EXPLICIT.update(_NODES)


def _named_tuple_node(cls: Any) -> _Node:
    fields = cls._fields
    return _Node(
        lambda tree: (tree, None),
        lambda aux, children: cls._make(children),
        lambda tree, n: [GetAttrKey(name) for name in fields],
        lambda cls, aux, parts: _call_text(cls.__name__, fields, parts),
    )


def _dataclass_node(cls: Any, data: Sequence[str], meta: Sequence[str]) -> _Node:
    def unflatten(aux: Any, children: Children) -> Any:
        fields = dict(zip(meta, aux, strict=True))
        fields.update(zip(data, children, strict=True))
        return cls(**fields)

    def text(cls: type, aux: Any, parts: list[str]) -> str:
        values = dict(zip(meta, map(repr, aux), strict=True))
        return _call_text(cls.__name__, (*data, *meta), (*parts, *values.values()))

    return _Node(
        lambda tree: (
            [getattr(tree, name) for name in data],
            tuple([getattr(tree, name) for name in meta]),
        ),
        unflatten,
        lambda tree, n: [GetAttrKey(name) for name in data],
        text,
    )


def _dataclass_fields(cls: Any) -> tuple[list[str], list[str]]:
    data, meta = [], []
    for field in dataclasses.fields(cls):
        if field.init:
            (meta if field.metadata.get("static", False) else data).append(field.name)
    return data, meta


def _classify(cls: Any) -> _Node | None:
    """Return the node of a class met for the first time, or None where its instances are leaves."""
    node: _Node | None = None
    if issubclass(cls, tuple) and hasattr(cls, "_fields") and hasattr(cls, "_make"):
        node = _named_tuple_node(cls)
    elif dataclasses.is_dataclass(cls):
        node = _dataclass_node(cls, *_dataclass_fields(cls))
    elif len(_NODES) > _LEAF_CLASSES_KEPT:
        for known in [known for known, entry in _NODES.items() if entry is None]:
            if known not in _EXPLICIT:
                del _NODES[known]
    _NODES[cls] = node
    return node


def _node_of(cls: type) -> _Node | None:
    node = _NODES.get(cls, _UNKNOWN)
    return _classify(cls) if node is _UNKNOWN else node


def _register(cls: type, node: _Node | None) -> None:
    if not isinstance(cls, type):
        raise RegistrationError(f"only a class can be a pytree node, got {cls!r}")
    if cls in _EXPLICIT:
        raise RegistrationError(f"{cls.__qualname__} is already registered as a pytree")
    _EXPLICIT.add(cls)
    _NODES[cls] = node


def register_pytree_node(
    nodetype: type,
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_with_keys_func: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]] | None = None,
) -> None:
    """Make a class a pytree node.

    Args:
      nodetype: the class; subclasses are not included.
      flatten_func: maps an instance to `(children, aux)`; aux must be comparable, and hashable
        where the structure meets `jit`.
      unflatten_func: maps `(aux, children)` back to an instance.
      flatten_with_keys_func: as `flatten_func`, with `(key, child)` pairs, for paths.

    Raises:
      RegistrationError: the class is registered already.
    """

    def flatten(tree: Any) -> tuple[Children, Any]:
        children, aux = flatten_func(tree)
        return tuple(children), aux

    def keys(tree: Any, n: int) -> Sequence[Any]:
        if flatten_with_keys_func is None:
            return [FlattenedIndexKey(index) for index in range(n)]
        return [key for key, _ in flatten_with_keys_func(tree)[0]]

    unflatten = lambda aux, children: unflatten_func(aux, tuple(children))  # noqa: E731 (one slot)
    _register(nodetype, _Node(flatten, unflatten, keys, _custom_text))


def register_pytree_with_keys(
    nodetype: type,
    flatten_with_keys: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]] | None = None,
) -> None:
    """Make a class a pytree node whose children have keys; see `register_pytree_node`."""

    def without_keys(tree: Any) -> tuple[Iterable[Any], Any]:
        pairs, aux = flatten_with_keys(tree)
        return [child for _, child in pairs], aux

    register_pytree_node(nodetype, flatten_func or without_keys, unflatten_func, flatten_with_keys)


def register_pytree_node_class(cls: C) -> C:
    """Class decorator: a node through its methods `tree_flatten` and `tree_unflatten`."""
    made: Any = cls
    register_pytree_node(cls, lambda tree: tree.tree_flatten(), made.tree_unflatten)
    return cls


def register_pytree_with_keys_class(cls: C) -> C:
    """Class decorator: as `register_pytree_node_class`, through `tree_flatten_with_keys`."""
    made: Any = cls
    plain = (lambda tree: tree.tree_flatten()) if hasattr(cls, "tree_flatten") else None
    register_pytree_with_keys(
        cls, lambda tree: tree.tree_flatten_with_keys(), made.tree_unflatten, plain
    )
    return cls


def register_dataclass(
    nodetype: C,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> C:
    """Register a dataclass (or class of keyword arguments), naming its data and its static fields.

    A dataclass needs this only to override which fields are static; by default those are the ones
    made with `static()`. Returns the class, so that it serves as a decorator.

    Raises:
      RegistrationError: the fields named are not exactly the ones the class has.
    """
    if (data_fields is None) != (meta_fields is None):
        raise RegistrationError("data_fields and meta_fields go together: give both or neither")
    is_dataclass = dataclasses.is_dataclass(nodetype)
    if data_fields is None or meta_fields is None:
        if not is_dataclass:
            raise RegistrationError(
                f"{nodetype.__qualname__} is not a dataclass",
                hint="name its data_fields and meta_fields",
            )
        data, meta = _dataclass_fields(nodetype)
        data = [name for name in data if name not in drop_fields]
    else:
        data, meta = list(data_fields), list(meta_fields)
        if is_dataclass:
            have = {field.name for field in dataclasses.fields(nodetype) if field.init}
            named = {*data, *meta, *drop_fields}
            if named != have:
                raise RegistrationError(
                    f"fields of {nodetype.__qualname__} do not match those named: "
                    f"missing {sorted(have - named)}, unexpected {sorted(named - have)}"
                )
    _register(nodetype, _dataclass_node(nodetype, data, meta))
    return nodetype


def register_static(cls: C) -> C:
    """Class decorator: instances are nodes without leaves, the instance itself is the structure."""
    _register(
        cls,
        _Node(
            lambda tree: ((), tree),
            lambda aux, children: aux,
            lambda tree, n: [],
            lambda cls, aux, parts: repr(aux),
        ),
    )
    return cls


def register_leaf(cls: C) -> C:
    """Class decorator: instances are leaves, even of a dataclass or namedtuple."""
    _register(cls, None)
    return cls


def static(**kwargs: Any) -> Any:
    """Return a dataclass field that belongs to the structure, not to the leaves."""
    metadata = {**kwargs.pop("metadata", {}), "static": True}
    return dataclasses.field(metadata=metadata, **kwargs)


def is_tree_node(typ: type) -> bool:
    """Return whether instances of a class are containers rather than leaves."""
    return _node_of(typ) is not None


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
            if type(subtree) is not cls:
                self._raise_mismatch(tree, name)
            node: Any = _NODES[cls]
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
            children, other = [], None
            if type(subtree) is cls:
                children, other = _children(subtree)
            if type(subtree) is not cls or len(children) != n or other != aux:
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


def _rebuild(cls: type, aux: Any, children: list[Any]) -> Any:
    if cls is list:
        return children
    if cls is dict:
        return dict(zip(aux, children, strict=True))
    node: Any = _NODES[cls]
    return node.unflatten(aux, children)


def _node_text(cls: type, aux: Any, parts: list[str]) -> str:
    node: Any = _node_of(cls)
    return str(node.text(cls, aux, parts))


def _children(tree: Any) -> tuple[Children, Any]:
    node = _node_of(type(tree))
    return ((), None) if node is None else node.flatten(tree)


def _keyed(path: KeyPath, tree: Any, children: Children) -> list[tuple[KeyPath, Any]]:
    node: Any = _node_of(type(tree))
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
    if _node_of(type(tree)) is None:
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
    pop, extend, find = stack.pop, stack.extend, _NODES.get
    while stack:
        value = pop()
        cls = type(value)
        node = find(cls, _UNKNOWN)
        if node is _UNKNOWN:
            node = _classify(cls)
        if node is None or (is_leaf is not None and is_leaf(value)):
            spec.append(None)
            leaves.append(value)
        elif cls is tuple or cls is list:
            spec.append((cls, len(value), None))
            extend(value[::-1])
        elif cls is dict:
            try:
                keys = sorted(value)
            except TypeError:
                keys = _sorted_keys(value)
            spec.append((dict, len(keys), tuple(keys)))
            keys.reverse()
            extend([value[key] for key in keys])
        else:
            children, aux = node.flatten(value)
            spec.append((cls, len(children), aux))
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
    while stack:
        path, value = stack.pop()
        stop = is_leaf is not None and (
            is_leaf(path, value) if is_leaf_takes_path else is_leaf(value)
        )
        node = None if stop else _node_of(type(value))
        if node is None:
            spec.append(None)
            pairs.append((path, value))
            continue
        children, aux = node.flatten(value)
        spec.append((type(value), len(children), aux))
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
    initializer: Any = _UNKNOWN,
    is_leaf: IsLeaf = None,
) -> Any:
    """Return `function` folded over the leaves from the left."""
    leaves = tree_leaves(tree, is_leaf)
    if initializer is _UNKNOWN:
        return functools.reduce(function, leaves)
    return functools.reduce(function, leaves, initializer)


def tree_reduce_associative(
    operation: Callable[[Any, Any], Any],
    tree: Any,
    *,
    identity: Any = _UNKNOWN,
    is_leaf: IsLeaf = None,
) -> Any:
    """Return an associative operation folded over the leaves pairwise, in logarithmic depth."""
    values = tree_leaves(tree, is_leaf)
    if not values:
        if identity is _UNKNOWN:
            raise PytreeError("a tree without leaves needs an identity to reduce to")
        return identity
    while len(values) > 1:
        pairs = [operation(a, b) for a, b in zip(values[::2], values[1::2], strict=False)]
        values = pairs + values[len(pairs) * 2 :]
    return values[0]


def tree_all(tree: Any, *, is_leaf: IsLeaf = None) -> bool:
    """Return whether every leaf is true."""
    return all(tree_leaves(tree, is_leaf))


def tree_transpose(outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, tree: Any) -> Any:
    """Return a tree of trees turned inside out.

    Args:
      outer_treedef: the outer structure of `tree`.
      inner_treedef: the inner one; None takes that of the first outer leaf.
      tree: a tree of structure `outer_treedef.compose(inner_treedef)`.
    """
    rows = outer_treedef.flatten_up_to(tree)
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
        (is_leaf is not None and is_leaf(value)) or _node_of(type(value)) is None
        for value in iterable
    )


def flatten_one_level(tree: Any) -> tuple[Children, Any]:
    """Return the direct children of a container and its aux data.

    Raises:
      PytreeError: the value is a leaf.
    """
    node = _node_of(type(tree))
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
