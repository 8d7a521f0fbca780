"""Looking at a function without running it: its graph, and the types of its results.

Input: a function and arguments, or stand-ins with a shape and dtype.  Output: a Graph, or a tree
of `ShapeDtypeStruct`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.functionalize import mark_arguments
from stax.core.graph import Graph
from stax.core.staging import stage
from stax.core.trace import Tracer
from stax.dtypes import DType
from stax.pytree import PyTreeDef, tree_flatten, tree_unflatten
from stax.transforms.arguments import check_callable, check_leaves, leaf_names, name_of
from stax.transforms.simplify import numbered_regions


class ShapeDtypeStruct:
    """Stands for an array of which only the shape and dtype matter.

    `jit(f).lower`, `eval_shape`, `make_ir`, `linear_transpose` and `export` take it for one.

    >>> stax.jit(np.sin).lower(ShapeDtypeStruct((3,), np.float32)).as_text("graph").splitlines()[0]
    'graph sin(x: f32[3]) {'
    """

    __slots__ = ("shape", "dtype", "weak_type")
    shape: tuple[int, ...]
    dtype: DType

    def __init__(self, shape: Sequence[int], dtype: Any, *, weak_type: bool = False) -> None:
        self.shape = tuple(int(n) for n in shape)
        self.dtype = np.dtype(dtype)
        self.weak_type = weak_type

    @property
    def aval(self) -> Aval:
        """The type this stands for."""
        return Aval(self.shape, self.dtype, self.weak_type)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.aval.size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and self.aval is other.aval

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    def __repr__(self) -> str:
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype})"


def abstract_leaf(leaf: Any) -> Aval:
    """The type of an argument: an array, a scalar, a tracer or anything with shape and dtype."""
    if isinstance(leaf, ShapeDtypeStruct):
        return leaf.aval
    shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    if isinstance(leaf, np.ndarray | np.generic | Tracer) or shape is None or dtype is None:
        check_leaves([leaf], "arguments")
        return aval_of(leaf)
    return Aval(tuple(shape), np.dtype(dtype))


def stage_function(
    f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Graph, PyTreeDef]:
    """The graph of `f` for arguments of these types, and the structure of its result."""
    leaves, treedef = tree_flatten((tuple(args), kwargs))
    avals = [abstract_leaf(leaf) for leaf in leaves]
    trees: list[PyTreeDef] = []

    def flat(*values: Any) -> list[Any]:
        mark_arguments(values)
        inner_args, inner_kwargs = tree_unflatten(treedef, values)
        found, tree = tree_flatten(f(*inner_args, **inner_kwargs))
        check_leaves(found, f"results of {name_of(f)}")
        trees.append(tree)
        return found

    graph = stage(flat, avals, leaf_names(f, args, kwargs), name_of(f))
    return numbered_regions(graph), trees[-1]


def make_ir(
    f: Callable[..., Any],
    static_argnums: int | Sequence[int] = (),
    axis_env: Any = None,
    return_shape: bool = False,
) -> Callable[..., Any]:
    """A function that returns the Graph of `f` for its arguments instead of running `f`.

    Args:
      static_argnums: positions of arguments that `f` gets as they are.
      axis_env: accepted for compatibility, without effect.
      return_shape: return (graph, the result as `eval_shape` gives it).

    >>> def double(x):
    ...     return x * 2.0
    >>> print(make_ir(double)(np.ones(3)))
    graph double(x: f64[3]) {
      fwd mul: f64[3] = mul(x, 2.0:f64)  # ...
      return mul
    }
    """
    check_callable(f, "make_ir")
    given = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)

    @functools.wraps(f)
    def traced(*args: Any, **kwargs: Any) -> Any:
        fixed = {k % len(args): args[k] for k in given}
        rest = [a for k, a in enumerate(args) if k not in fixed]

        def inner(*values: Any, **named: Any) -> Any:
            left = iter(values)
            return f(*(fixed[k] if k in fixed else next(left) for k in range(len(args))), **named)

        graph, tree = stage_function(inner if fixed else f, rest, kwargs)
        if not return_shape:
            return graph
        shapes = [ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak) for a in graph.out_avals]
        return graph, tree_unflatten(tree, shapes)

    return traced


make_jaxpr = make_ir


def eval_shape(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of `f` with a `ShapeDtypeStruct` in the place of every array; nothing is computed.

    >>> eval_shape(lambda x: x.sum(0), ShapeDtypeStruct((3, 4), np.float32))
    ShapeDtypeStruct(shape=(4,), dtype=float32)
    """
    graph, tree = stage_function(f, args, kwargs)
    found = [ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak) for a in graph.out_avals]
    return tree_unflatten(tree, found)
