"""The function that `vjp` returns: a linear function of cotangents, and a pytree of what it kept.

Input: a linearised function and the types around it.  Output: a `Pullback`.  It may be returned
from a function under `jit` or `vmap`, or kept as a residual of a custom rule: its leaves are the
values kept from the forward pass, its structure is the graph that reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stax.core.aval import Aval
from stax.core.primitive import Zero
from stax.pytree import PyTreeDef, tree_unflatten
from stax.pytree_registry import register_pytree_node_class
from stax.transforms.arguments import finished, matched_tangents, result_names
from stax.transforms.jvp import instantiate
from stax.transforms.linearize import LinearFunction, check_borrowed
from stax.transforms.transpose import backward_pass


def pull_back(
    linear: LinearFunction, cotangents: Sequence[Any], in_avals: Sequence[Aval]
) -> list[Any]:
    """Cotangents of all arguments, as values, for cotangents of all results (None when zero)."""
    check_borrowed(linear.borrowed)
    cts = [
        Zero(out.aval) if ct is None else ct
        for ct, out in zip(
            [c for c, m in zip(cotangents, linear.out_mask, strict=True) if m],
            linear.graph.outputs,
            strict=True,
        )
    ]
    n = len(linear.graph.inputs)
    found = iter(backward_pass(linear.graph, [True] * n, [None] * n, cts))
    return [
        instantiate(next(found) if marked else Zero(aval.tangent()))
        for aval, marked in zip(in_avals, linear.in_mask, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class Signature:
    """The part of a pullback that is no array; each is equal to itself alone.

    `count` is how many of the results have cotangents: what comes after them is auxiliary.
    """

    linear: LinearFunction
    in_avals: Sequence[Aval]
    in_tree: PyTreeDef
    out_like: Sequence[Any]
    out_tree: PyTreeDef
    count: int


@register_pytree_node_class
class Pullback:
    """`pull(cotangent)` is a tuple with one cotangent per primal; see `stax.vjp`."""

    __slots__ = ("signature", "kept", "__weakref__")

    def __init__(self, signature: Signature, kept: Sequence[Any] | None = None) -> None:
        self.signature = signature
        self.kept = kept  # None: the graph's own constants

    def __call__(self, cotangents: Any) -> Any:
        s = self.signature
        linear = s.linear
        if self.kept is not None:
            names = [var for var, _ in linear.graph.constants]
            constants = list(zip(names, self.kept, strict=True))
            linear = linear._replace(graph=linear.graph.replace(constants=constants), borrowed=())
        given = matched_tangents(
            cotangents, s.out_like, s.out_tree, result_names(s.count), "cotangent"
        )
        aside = [None] * (len(linear.out_mask) - s.count)
        results = pull_back(linear, [*given, *aside], s.in_avals)
        return tree_unflatten(s.in_tree, finished(results, given))

    def tree_flatten(self) -> tuple[tuple[Any, ...], Signature]:
        """The values kept from the forward pass, and the rest."""
        if self.kept is None:
            return tuple(
                value for _, value in self.signature.linear.graph.constants
            ), self.signature
        return tuple(self.kept), self.signature

    @classmethod
    def tree_unflatten(cls, signature: Signature, kept: Any) -> Pullback:
        """The pullback that reads other values in the place of those kept."""
        return cls(signature, tuple(kept))
