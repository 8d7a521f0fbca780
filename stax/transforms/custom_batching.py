"""Functions with a batching rule of the user's: custom_vmap.

Input: a function and a rule.  Output: a callable that `vmap` batches by the rule; every other
transformation sees the function itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stax.core.primitive import COMPOSED, Primitive, Recompute
from stax.core.trace import use_trace
from stax.errors import CustomDerivativeError, PytreeError
from stax.pytree import PyTreeDef, broadcast_prefix, tree_flatten, tree_unflatten
from stax.transforms.arguments import check_leaves, name_of
from stax.transforms.calls import Call, call_rules
from stax.transforms.jvp import jvp_flat
from stax.transforms.linearize import LinearizeTrace
from stax.transforms.vmap import to_axis

Flat = Sequence[Any]
# (axis size, which leaves are batched, leaves) -> (results, which of them are batched)
FlatRule = Callable[[int, Sequence[bool], Flat], tuple[Flat, Sequence[bool]]]


class InlineCall(Call):
    """A flat function that is simply run, whatever the trace."""

    __slots__ = ()

    def bind(self, values: Flat) -> tuple[Any, ...]:
        """The results under the current trace."""
        return tuple(self.run(values))


class CustomVmapCall(Call):
    """A call batched by `rule`, differentiated as the function it is."""

    __slots__ = ("rule",)

    def __init__(self, fun: Callable[..., Flat], rule: FlatRule) -> None:
        super().__init__(fun)
        self.rule = rule

    def rule_params(self) -> dict[str, Any]:
        """The rule, as parameters of an equation."""
        return {"rule": self.rule}

    def jvp(self, primals: Flat, tangents: Flat) -> tuple[Flat, Flat]:
        """Results and tangents of the function."""
        return jvp_flat(self.fun, primals, tangents)

    def linearize(self, trace: LinearizeTrace, primals: Flat, tangents: Flat) -> tuple[Flat, Flat]:
        """Linearise the function where it stands."""
        with use_trace(trace):
            outs = self.run(trace.wrap(primals, tangents))
        return [trace.primal_of(v) for v in outs], [trace.tangent_of(v) for v in outs]

    def batched(
        self, dims: Sequence[int | None], size: int, axis_name: Any, origin: Any = None
    ) -> Call:
        """The call of the rule."""

        def fun(*values: Any) -> list[Any]:
            front = [
                v if d is None else to_axis(v, d, 0, size)
                for v, d in zip(values, dims, strict=True)
            ]
            outs, marks = self.rule(size, [d is not None for d in dims], front)
            return [
                to_axis(v, 0 if mark else None, 0, size)
                for v, mark in zip(outs, marks, strict=True)
            ]

        return InlineCall(fun)


CustomVmapCall.prim = Primitive(
    "custom_vmap", lower=COMPOSED, recompute=Recompute.EXPENSIVE, **call_rules(CustomVmapCall)
)


class custom_vmap:
    """A function that `vmap` batches by the rule given to `def_vmap`.

    The rule is called as `rule(axis_size, in_batched, *args)`: `in_batched` holds True for every
    leaf that has the mapped axis, in front. It returns `(result, out_batched)`.

    >>> @custom_vmap
    ... def f(x):
    ...     return np.sin(x)
    >>> @f.def_vmap
    ... def rule(axis_size, in_batched, x):
    ...     return np.sin(x), in_batched[0]
    """

    def __init__(self, fun: Callable[..., Any]) -> None:
        self.fun = fun
        self.__wrapped__ = fun
        self.__name__ = name_of(fun)
        self.__doc__ = fun.__doc__
        self.rule: Callable[..., Any] | None = None

    def def_vmap(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule; returns it."""
        self.rule = rule
        return rule

    def __call__(self, *args: Any) -> Any:
        rule, name = self.rule, name_of(self.fun)
        if rule is None:
            raise CustomDerivativeError(
                f"no rule is defined for the custom_vmap function {name}",
                hint="give it one with .def_vmap",
            )
        leaves, treedef = tree_flatten(args)
        check_leaves(leaves, f"arguments of {name}")
        trees: list[PyTreeDef] = []

        def flat(*values: Any) -> list[Any]:
            outs, tree = tree_flatten(self.fun(*tree_unflatten(treedef, values)))
            trees[:] = [tree]
            return outs

        def flat_rule(size: int, marks: Sequence[bool], values: Flat) -> tuple[Flat, Flat]:
            result = rule(
                size, list(tree_unflatten(treedef, marks)), *tree_unflatten(treedef, values)
            )
            if not isinstance(result, tuple | list) or len(result) != 2:
                raise PytreeError(
                    f"the vmap rule of {name} must return a pair (result, out_batched), it "
                    f"returned {type(result).__name__}"
                )
            outs, tree = tree_flatten(result[0])
            trees[:] = [tree]
            return outs, [bool(m) for m in broadcast_prefix(result[1], result[0])]

        outs = CustomVmapCall(flat, flat_rule).bind(leaves)
        return tree_unflatten(trees[-1], outs)
