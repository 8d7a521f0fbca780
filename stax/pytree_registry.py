"""Which classes are containers, how they come apart, and the keys that name their children.

Input: classes to register. Output: one `Node` per class, found by exact type. Tuples, lists,
dicts, None, OrderedDict and defaultdict are known from the start; namedtuples and dataclasses are
recognised when first met; every other class is a leaf until registered.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from stax.errors import PytreeError, RegistrationError

__all__ = [
    "NODES",
    "UNKNOWN",
    "Children",
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "Key",
    "KeyPath",
    "Node",
    "SequenceKey",
    "check_finite",
    "classify",
    "is_tree_node",
    "keystr",
    "node_of",
    "register_dataclass",
    "register_leaf",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_pytree_with_keys",
    "register_pytree_with_keys_class",
    "SEALED",
    "register_static",
    "seal",
    "sorted_keys",
    "static",
]

C = TypeVar("C", bound=type)
Children = Sequence[Any]

# ---------------------------------------------------------------- keys and paths


class Key:
    """One step of a path into a tree; equal when of one kind with one key."""

    __slots__ = ("key",)
    field = "key"  # the attribute by which JAX knows it

    def __init__(self, key: Any) -> None:
        self.key = key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and type(other) is type(self) and other.key == self.key

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.key))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.field}={self.key!r})"


class DictKey(Key):
    """A step into a dict, printed `['key']`."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"[{self.key!r}]"


class SequenceKey(Key):
    """A step into a tuple or list, printed `[index]`."""

    __slots__ = ()
    field = "idx"

    @property
    def idx(self) -> int:
        return int(self.key)

    def __str__(self) -> str:
        return f"[{self.key}]"


class GetAttrKey(Key):
    """A step into a namedtuple or dataclass, printed `.name`."""

    __slots__ = ()
    field = "name"

    @property
    def name(self) -> str:
        return str(self.key)

    def __str__(self) -> str:
        return f".{self.key}"


class FlattenedIndexKey(Key):
    """A step into a registered class that names no keys, printed `[<flat index 0>]`."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"[<flat index {self.key}>]"


KeyPath = tuple[Any, ...]


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """Return a path as text: `['w'][0].bias`, or with `simple=True` and a separator `w/0/bias`."""
    if not simple:
        return separator.join(str(key) for key in keys)
    return separator.join(str(key.key) if isinstance(key, Key) else str(key) for key in keys)


# ---------------------------------------------------------------- registry


class Node:
    """How one container class comes apart and together again."""

    __slots__ = ("cls", "flatten", "keys", "text", "unflatten")

    def __init__(
        self,
        flatten: Callable[[Any], tuple[Children, Any]],
        unflatten: Callable[[Any, Children], Any],
        keys: Callable[[Any, int], Sequence[Any]],
        text: Callable[[type, Any, list[str]], str],
        cls: type | None = None,
    ) -> None:
        self.cls = cls  # the class that structures record in the place of the container's own
        self.flatten = flatten
        self.unflatten = unflatten
        self.keys = keys
        self.text = text


NODES: dict[type, Node | None] = {}  # None: known to be a leaf
_EXPLICIT: set[type] = set()
_LEAF_CLASSES_KEPT = 4096  # forget the remembered leaf classes beyond this many entries
UNKNOWN: Any = object()


def sorted_keys(mapping: dict[Any, Any]) -> list[Any]:
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
    keys = sorted_keys(mapping)
    return [mapping[key] for key in keys], tuple(keys)


def _flatten_default_dict(mapping: defaultdict[Any, Any]) -> tuple[Children, Any]:
    children, keys = _flatten_dict(mapping)
    return children, (mapping.default_factory, keys)


def _index_keys(kind: type[Key]) -> Callable[[Any, int], Sequence[Any]]:
    return lambda tree, n: [kind(index) for index in range(n)]


def _dict_text(keys: Iterable[Any], parts: Iterable[str]) -> str:
    return "{" + ", ".join(f"{key!r}: {part}" for key, part in zip(keys, parts, strict=True)) + "}"


def _call_text(name: str, fields: Iterable[str], parts: Iterable[str]) -> str:
    pairs = zip(fields, parts, strict=True)
    return f"{name}({', '.join(f'{field}={part}' for field, part in pairs)})"


def _custom_text(cls: type, aux: Any, parts: list[str]) -> str:
    return f"{cls.__name__}[{aux!r}]({', '.join(parts)})"


NODES[tuple] = Node(
    lambda tree: (tree, None),
    lambda aux, children: tuple(children),
    _index_keys(SequenceKey),
    lambda cls, aux, parts: f"({', '.join(parts)}{',' if len(parts) == 1 else ''})",
)
NODES[list] = Node(
    lambda tree: (tree, None),
    lambda aux, children: list(children),
    _index_keys(SequenceKey),
    lambda cls, aux, parts: f"[{', '.join(parts)}]",
)
NODES[dict] = Node(
    _flatten_dict,
    lambda aux, children: dict(zip(aux, children, strict=True)),
    lambda tree, n: [DictKey(key) for key in sorted_keys(tree)],
    lambda cls, aux, parts: _dict_text(aux, parts),
)
NODES[type(None)] = Node(
    lambda tree: ((), None), lambda aux, children: None, _index_keys(SequenceKey), lambda *a: "None"
)
NODES[OrderedDict] = Node(
    lambda tree: (list(tree.values()), tuple(tree)),
    lambda aux, children: OrderedDict(zip(aux, children, strict=True)),
    lambda tree, n: [DictKey(key) for key in tree],
    lambda cls, aux, parts: f"OrderedDict({_dict_text(aux, parts)})",
)
NODES[defaultdict] = Node(
    _flatten_default_dict,
    lambda aux, children: defaultdict(aux[0], zip(aux[1], children, strict=True)),
    lambda tree, n: [DictKey(key) for key in sorted_keys(tree)],
    lambda cls, aux, parts: f"defaultdict({aux[0]!r}, {_dict_text(aux[1], parts)})",
)
_EXPLICIT.update(NODES)


def _named_tuple_node(cls: Any) -> Node:
    fields = cls._fields
    return Node(
        lambda tree: (tree, None),
        lambda aux, children: cls._make(children),
        lambda tree, n: [GetAttrKey(name) for name in fields],
        lambda cls, aux, parts: _call_text(cls.__name__, fields, parts),
    )


def _dataclass_node(cls: Any, data: Sequence[str], meta: Sequence[str]) -> Node:
    def unflatten(aux: Any, children: Children) -> Any:
        fields = dict(zip(meta, aux, strict=True))
        fields.update(zip(data, children, strict=True))
        return cls(**fields)

    def text(cls: type, aux: Any, parts: list[str]) -> str:
        values = dict(zip(meta, map(repr, aux), strict=True))
        return _call_text(cls.__name__, (*data, *meta), (*parts, *values.values()))

    return Node(
        lambda tree: (
            [getattr(tree, name) for name in data],
            tuple([getattr(tree, name) for name in meta]),
        ),
        unflatten,
        lambda tree, n: [GetAttrKey(name) for name in data],
        text,
    )


def _dataclass_fields(cls: Any) -> tuple[list[str], list[str]]:
    data: list[str] = []
    meta: list[str] = []
    for field in dataclasses.fields(cls):
        if field.init:
            (meta if field.metadata.get("static", False) else data).append(field.name)
    return data, meta


def classify(cls: Any) -> Node | None:
    """Return the node of a class met for the first time, or None where its instances are leaves."""
    node: Node | None = None
    if issubclass(cls, tuple) and hasattr(cls, "_fields") and hasattr(cls, "_make"):
        node = _named_tuple_node(cls)
    elif dataclasses.is_dataclass(cls):
        node = _dataclass_node(cls, *_dataclass_fields(cls))
    elif len(NODES) > _LEAF_CLASSES_KEPT:
        for known in [known for known, entry in NODES.items() if entry is None]:
            if known not in _EXPLICIT:
                del NODES[known]
    NODES[cls] = node
    return node


def node_of(cls: type) -> Node | None:
    node = NODES.get(cls, UNKNOWN)
    return classify(cls) if node is UNKNOWN else node


def _register(cls: type, node: Node | None) -> None:
    if not isinstance(cls, type):
        raise RegistrationError(f"only a class can be a pytree node, got {cls!r}")
    if cls in _EXPLICIT:
        raise RegistrationError(f"{cls.__qualname__} is already registered as a pytree")
    _EXPLICIT.add(cls)
    NODES[cls] = node


SEALED: set[type] = set()


def seal(cls: type) -> None:
    """Make a class of nodes a leaf to the tree functions that users call, and to those alone."""
    SEALED.add(cls)


def register_as_tuple(cls: type) -> None:
    """Make a subclass of tuple count as a plain tuple: its structure is a tuple's."""
    plain: Any = NODES[tuple]
    node = Node(lambda t: (tuple(t), None), plain.unflatten, plain.keys, plain.text, tuple)
    _register(cls, node)


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

    unflatten = lambda aux, children: unflatten_func(aux, tuple(children))
    _register(nodetype, Node(flatten, unflatten, keys, _custom_text))


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
        Node(
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
    return node_of(typ) is not None


def check_finite(tree: Any, is_leaf: Callable[[Any], bool] | None) -> None:
    """Raise PytreeError when a container holds itself, however deep.

    A walk in depth; a container that is met again while it is open holds itself.
    """
    opened: list[tuple[int, Iterator[Any]]] = []
    inside: set[int] = set()
    pending = iter([tree])
    while True:
        value = next(pending, UNKNOWN)
        if value is UNKNOWN:
            if not opened:
                return
            done, pending = opened.pop()
            inside.discard(done)
            continue
        node = NODES.get(type(value))
        if node is None or (is_leaf is not None and is_leaf(value)):
            continue
        if id(value) in inside:
            raise PytreeError(
                f"a {type(value).__name__} holds itself, so that as a tree it has no end",
                hint="pass its parts, each once",
            )
        inside.add(id(value))
        opened.append((id(value), pending))
        pending = iter(list(node.flatten(value)[0]))
