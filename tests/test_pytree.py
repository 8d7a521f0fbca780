"""Pytrees: round trips, structures, paths, prefixes, registration; errors that name the path."""

from __future__ import annotations

import collections
import dataclasses
import pickle
import timeit
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stax
from stax import tree, tree_util
from stax.errors import DtypeError, PytreeError, RegistrationError, ShapeError
from stax.flatten_util import ravel_pytree
from stax.pytree import broadcast_prefix, register_leaf, register_static, static


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class Layer:
    w: Any
    b: Any
    width: int = static(default=3)


@register_static
class Mode(str):
    __slots__ = ()


@register_leaf
@dataclasses.dataclass(frozen=True)
class Spec:
    size: int


@tree_util.register_pytree_node_class
class Pair:
    def __init__(self, a: Any, b: Any, label: str = "") -> None:
        self.a, self.b, self.label = a, b, label

    def tree_flatten(self) -> tuple[tuple[Any, Any], str]:
        return (self.a, self.b), self.label

    @classmethod
    def tree_unflatten(cls, label: str, children: tuple[Any, Any]) -> Pair:
        return cls(*children, label=label)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pair) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


@tree_util.register_pytree_with_keys_class
class Named:
    def __init__(self, value: Any) -> None:
        self.value = value

    def tree_flatten_with_keys(self) -> tuple[tuple[tuple[Any, Any]], None]:
        return ((tree_util.GetAttrKey("value"), self.value),), None

    @classmethod
    def tree_unflatten(cls, aux: None, children: tuple[Any]) -> Named:
        return cls(children[0])


EXAMPLES: list[tuple[Any, int, str]] = [
    (1, 1, "*"),
    (None, 0, "None"),
    ((), 0, "()"),
    ((1,), 1, "(*,)"),
    ([1, (2, None)], 2, "[*, (*, None)]"),
    ({"b": 1, "a": [2]}, 2, "{'a': [*], 'b': *}"),
    (Point(1, (2, 3)), 3, "Point(x=*, y=(*, *))"),
    (Layer(1, 2), 2, "Layer(w=*, b=*, width=3)"),
    (collections.OrderedDict(z=1, a=2), 2, "OrderedDict({'z': *, 'a': *})"),
    (collections.defaultdict(list, {"k": 1}), 1, "defaultdict(<class 'list'>, {'k': *})"),
    (Pair(1, {"q": 2}, "tag"), 2, "Pair['tag'](*, {'q': *})"),
    (Mode("fast"), 0, "'fast'"),
    (Spec(3), 1, "*"),
    ({1: 0, "a": 1}, 2, "{1: *, 'a': *}"),
]


@pytest.mark.parametrize(("value", "count", "text"), EXAMPLES)
def test_round_trip(value: Any, count: int, text: str) -> None:
    leaves, structure = tree.flatten(value)
    assert len(leaves) == structure.num_leaves == count
    assert str(structure) == f"PyTreeDef({text})"
    rebuilt = structure.unflatten(leaves)
    assert rebuilt == value
    assert type(rebuilt) is type(value)
    assert tree.structure(rebuilt) == structure
    assert hash(tree.structure(rebuilt)) == hash(structure)
    assert pickle.loads(pickle.dumps(structure)) == structure
    assert [leaf for _, leaf in tree.leaves_with_path(value)] == leaves
    assert tree.flatten_with_path(value)[1] == structure


NESTED = st.recursive(
    st.integers() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=2), inner, max_size=3)
        | st.tuples(inner, inner).map(lambda two: Point(*two))
    ),
    max_leaves=20,
)


@given(NESTED)
def test_any_nesting_comes_back(value: Any) -> None:
    leaves, structure = tree.flatten(value)
    assert structure.unflatten(leaves) == value
    assert structure.flatten_up_to(value) == leaves
    assert tree.map(lambda leaf: leaf, value) == value
    assert structure.num_nodes >= structure.num_leaves
    parts = structure.children()
    if structure.node_data() is not None:
        assert sum(part.num_leaves for part in parts) == structure.num_leaves


@given(NESTED, NESTED)
def test_composition_is_a_tree_of_trees(outer: Any, inner: Any) -> None:
    both = tree.structure(outer).compose(tree.structure(inner))
    assert both == tree.structure(tree.map(lambda _: inner, outer))


def test_different_structures_differ() -> None:
    structures = [tree.structure(value) for value, _, _ in EXAMPLES]
    leaf = tree.structure(0)
    assert len({s for s in structures if s != leaf}) == len([s for s in structures if s != leaf])
    assert tree.structure((1, 2)) != tree.structure([1, 2])
    assert tree.structure(Layer(1, 2)) != tree.structure(Layer(1, 2, 4))


def test_depth_is_bounded_by_memory_alone() -> None:
    deep: Any = 1
    for _ in range(20_000):
        deep = [deep]
    leaves, structure = tree.flatten(deep)
    assert leaves == [1]
    assert len(str(structure)) > 20_000
    assert tree.structure(structure.unflatten(leaves)) == structure
    assert structure.flatten_up_to(deep) == [1]


def test_flattening_is_quick() -> None:
    value = {"a": 1, "b": {"c": 2, "d": [1, 2, 3]}, "e": (1, 2), "f": {"g": 1, "h": 2, "i": 3}}
    best = min(timeit.repeat(lambda: tree.flatten(value), number=1000, repeat=7)) / 1000
    assert best < 40e-6  # 6 us on an idle machine


def test_map_takes_subtrees_of_the_rest() -> None:
    assert tree.map(lambda a, b: (a, b), {"x": 1}, {"x": (2, 3)}) == {"x": (1, (2, 3))}
    assert tree.map(lambda x: x is None, [None, 1], is_leaf=lambda x: x is None) == [True, False]
    assert tree.map_with_path(lambda p, a, b: (tree_util.keystr(p), a + b), [1], [2]) == [
        ("[0]", 3)
    ]
    assert tree.map_with_path(lambda p, a: a, ()) == ()


@pytest.mark.parametrize(
    ("one", "two", "place", "found"),
    [
        ({"a": (1, 2)}, {"a": [1, 2]}, "['a']", "expected tuple with 2 children, found list"),
        ([1, {"b": 2}], [1, {"c": 2}], "[1]", "expected dict with keys ['b'], found dict with"),
        ((1, 2), (1, 2, 3), "", "found tuple with 3 children"),
        (Point(1, (2,)), Point(1, 2), ".y", "found a leaf of type int"),
        (Layer(1, [2]), Layer(1, None), ".b", "found None"),
    ],
)
def test_mismatch_names_the_path(one: Any, two: Any, place: str, found: str) -> None:
    with pytest.raises(PytreeError) as caught:
        tree.map(lambda a, b: a, one, two)
    assert f"tree 2{place} expected" in str(caught.value)
    assert found in str(caught.value)


def test_wrong_number_of_leaves() -> None:
    with pytest.raises(PytreeError, match="2 leaves, got 3"):
        tree.unflatten(tree.structure((1, 2)), [1, 2, 3])


def test_keys_without_an_order() -> None:
    with pytest.raises(PytreeError, match="cannot be sorted"):
        tree.flatten({1j: 0, 2j: 1})


def test_paths() -> None:
    value = {"w": [Layer(1, Point(2, 3))], "v": Pair(4, Named(5))}
    assert {tree_util.keystr(path): leaf for path, leaf in tree.leaves_with_path(value)} == {
        "['v'][<flat index 0>]": 4,
        "['v'][<flat index 1>].value": 5,
        "['w'][0].w": 1,
        "['w'][0].b.x": 2,
        "['w'][0].b.y": 3,
    }
    path = (tree_util.DictKey("a"), tree_util.SequenceKey(1), tree_util.GetAttrKey("b"))
    assert tree_util.keystr(path, simple=True, separator="/") == "a/1/b"
    assert tree_util.SequenceKey(1) == tree_util.SequenceKey(1) != tree_util.DictKey(1)
    assert len({tree_util.DictKey("a"), tree_util.DictKey("a"), tree_util.GetAttrKey("a")}) == 2
    deep = tree.leaves_with_path([[1]], is_leaf=lambda p, x: len(p) == 1, is_leaf_takes_path=True)
    assert deep == [((tree_util.SequenceKey(0),), [1])]


def test_prefixes() -> None:
    none = lambda x: x is None
    full = (1, (2, 3), {"a": [4, 5]})
    assert broadcast_prefix(0, full) == [0] * 5
    assert broadcast_prefix((0, None, {"a": 1}), full, is_leaf=none) == [0, None, None, 1, 1]
    assert tree.broadcast((0, 1, 2), full) == (0, (1, 1), {"a": [2, 2]})
    with pytest.raises(PytreeError, match=r"tree\[1\]"):
        broadcast_prefix((0, (1, 1, 1), 2), full)


def test_reductions() -> None:
    value = {"a": [1, 2], "b": (3,)}
    assert tree.reduce(lambda a, b: a * 10 + b, value) == 123
    assert tree.reduce(lambda a, b: a + b, value, 10) == 16
    assert tree.reduce_associative(lambda a, b: a + b, value) == 6
    assert tree.reduce_associative(lambda a, b: a + b, "abcde"[0:0] or [], identity=0) == 0
    assert tree.reduce_associative(lambda a, b: a + b, list("abcde")) == "abcde"
    with pytest.raises(PytreeError):
        tree.reduce_associative(lambda a, b: a, ())
    assert tree.all([True, (1,)])
    assert not tree.all([True, (0,)])


def test_transpose() -> None:
    value = [{"a": 1, "b": 2}, {"a": 3, "b": 4}, {"a": 5, "b": 6}]
    outer, inner = tree.structure([0, 0, 0]), tree.structure({"a": 0, "b": 0})
    turned = {"a": [1, 3, 5], "b": [2, 4, 6]}
    assert tree.transpose(outer, inner, value) == turned
    assert tree.transpose(outer, None, value) == turned
    assert tree.transpose(tree.structure([]), inner, []) == {"a": [], "b": []}
    with pytest.raises(PytreeError):
        tree.transpose(outer, inner, value[:2])


def test_one_level_and_structures_of_structures() -> None:
    assert tree_util.flatten_one_level({"b": 1, "a": (2,)}) == (((2,), 1), ("a", "b"))
    pairs, _ = tree_util.flatten_one_level_with_keys(Point(1, 2))
    assert pairs == [(tree_util.GetAttrKey("x"), 1), (tree_util.GetAttrKey("y"), 2)]
    with pytest.raises(PytreeError):
        tree_util.flatten_one_level(3)
    parts = [tree.structure(1), tree.structure([1, 2])]
    assert tree_util.treedef_tuple(parts) == tree.structure((1, [1, 2]))
    assert tree_util.treedef_children(tree.structure((1, [1, 2]))) == parts
    assert tree_util.treedef_is_leaf(parts[0])
    assert not tree_util.treedef_is_leaf(parts[1])
    assert tree_util.all_leaves([1, "a"])
    assert not tree_util.all_leaves([1, ()])
    assert tree_util.is_tree_node(dict)
    assert tree_util.is_tree_node(Point)
    assert not tree_util.is_tree_node(np.ndarray)


def test_partial_is_a_tree() -> None:
    add = tree_util.Partial(lambda a, b: a + b, 1, b=2)
    leaves, structure = tree.flatten(add)
    assert leaves == [1, 2]
    assert structure.unflatten([10, 20])() == 30


class Stepwise(dict):  # type: ignore[type-arg]
    pass


def test_subclasses_of_containers_are_leaves() -> None:
    assert tree.leaves([Stepwise(a=1)]) == [{"a": 1}]


def test_a_class_met_as_a_leaf_can_be_registered_later() -> None:
    class Later:
        def __init__(self, value: Any) -> None:
            self.value = value

    later = Later(3)
    assert tree.leaves(later) == [later]
    tree_util.register_pytree_node(
        Later, lambda x: ((x.value,), None), lambda aux, children: Later(*children)
    )
    assert tree.leaves(later) == [3]
    with pytest.raises(RegistrationError, match="already registered"):
        tree_util.register_pytree_node(Later, lambda x: ((), None), lambda aux, children: None)


def test_register_dataclass() -> None:
    @dataclasses.dataclass
    class Model:
        w: Any
        name: str
        cached: Any = None

    with pytest.raises(RegistrationError, match="missing \\['cached'\\]"):
        tree_util.register_dataclass(Model, ["w"], ["name"])
    with pytest.raises(RegistrationError, match="both or neither"):
        tree_util.register_dataclass(Model, ["w"])
    tree_util.register_dataclass(Model, ["w"], ["name"], drop_fields=["cached"])
    leaves, structure = tree.flatten(Model(1, "m", cached=9))
    assert leaves == [1]
    assert structure.unflatten([2]) == Model(2, "m")
    with pytest.raises(RegistrationError, match="not a dataclass"):
        tree_util.register_dataclass(Stepwise)


def test_ravel() -> None:
    value = {"a": np.arange(3, dtype=np.float32), "b": (np.ones((2, 1)), 4)}
    flat, unravel = ravel_pytree(value)
    assert flat.dtype == np.float64
    np.testing.assert_array_equal(flat, [0, 1, 2, 1, 1, 4])
    back = unravel(flat)
    assert tree.structure(back) == tree.structure(value)
    assert back["a"].dtype == np.float32
    assert back["b"][1].shape == ()
    with pytest.raises(ShapeError):
        unravel(flat[1:])
    with pytest.raises(DtypeError):
        unravel(flat.astype(np.float32))
    empty, undo = ravel_pytree(())
    assert empty.shape == (0,)
    assert undo(empty) == ()


def test_a_container_that_holds_itself_is_refused():
    ring = [1.0]
    ring.append((ring,))
    table = {"a": 1.0}
    table["self"] = {"b": table}
    for endless in (ring, table):
        for use in (
            stax.tree.leaves,
            stax.tree.leaves_with_path,
            lambda t: stax.tree.map(lambda x: x, t),
            stax.jit(lambda t: t),
            stax.grad(lambda t: 1.0),
        ):
            with pytest.raises(stax.PytreeError, match="holds itself"):
                use(endless)
    assert stax.tree.leaves(ring, is_leaf=lambda v: v is ring)[0] is ring
    twice = [1.0, 2.0]
    assert stax.tree.leaves([[twice, twice]] * 30_000) == [1.0, 2.0, 1.0, 2.0] * 30_000
