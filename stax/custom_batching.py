"""Batching rules of the user's, under the names of `jax.custom_batching`."""

from collections.abc import Callable
from typing import Any

from stax.lax.control_flow import scan
from stax.pytree import tree_flatten, tree_map, tree_unflatten
from stax.transforms.custom_batching import custom_vmap

__all__ = ["custom_vmap", "sequential_vmap"]


def sequential_vmap(fun: Callable[..., Any]) -> custom_vmap:
    """`fun`, which `vmap` runs one example after the other, in a compiled loop.

    >>> stax.vmap(sequential_vmap(np.square))(np.arange(3.0))
    array([0., 1., 4.])
    """
    mapped = custom_vmap(fun)

    def rule(axis_size: int, in_batched: list[Any], *args: Any) -> Any:
        leaves, treedef = tree_flatten(args)
        marks, _ = tree_flatten(tuple(in_batched))
        moving = [v for v, m in zip(leaves, marks, strict=True) if m]

        def one(carry: Any, values: list[Any]) -> Any:
            rest = iter(values)
            inner = [next(rest) if m else v for v, m in zip(leaves, marks, strict=True)]
            return carry, mapped(*tree_unflatten(treedef, inner))

        out = scan(one, (), moving)[1]
        return out, tree_map(lambda _: True, out)

    mapped.def_vmap(rule)
    return mapped
