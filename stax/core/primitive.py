"""The primitive: one row that says everything about an operation.

A row is one constructor call.  Every field holds a rule, comes from a family, or is an explicit
sentinel (`NOT_DIFFERENTIABLE`, `ZERO_DERIVATIVE`, `NONLINEAR`, `COMPOSED`, `FALLBACK`); a missing
field or a second row of the same name fails when the module is imported.

Signatures (values are NumPy arrays or tracers, `params` the equation's attributes):

  abstract_eval(*avals, **params) -> Aval, or a tuple of them when `multi`
  impl(*arrays, **params)         -> array, or a tuple when `multi` (the NumPy meaning, the oracle)
  jvp(primals, outs, tangents, **params) -> tangent out, or a tuple when `multi`.
      `outs` are the primal results, already computed; a tangent is a value or a `Zero`;
      not called when every tangent is `Zero`; may return `Zero`.
  transpose(cts, *args, **params) -> one cotangent, `Zero` or None per argument.
      `cts` is the cotangent (a tuple when `multi`); linear arguments arrive as `Linear(aval)`,
      the others as values; cotangents are returned for the linear ones, None for the others.
  batch(args, dims, **params)     -> (out, dim), or (outs, dims) when `multi`.
      `dims` holds the batch axis of each argument or None; at least one is not None.
  lower(ctx, *nodes, **params)    -> loop-IR node, or a tuple when `multi`
  cost(in_avals, out_avals, params) -> floating-point operations
  linearize(trace, primals, tangents, params) -> (outs, tangents): for operations that carry a
      graph or a user's rule; None for all others, which linearise through `jvp`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any, Final

from stax.core.aval import Aval


class Sentinel(enum.Enum):
    """What a field of a row holds when it holds no rule."""

    NOT_DIFFERENTIABLE = "not differentiable"
    ZERO_DERIVATIVE = "derivative is zero"
    NONLINEAR = "nonlinear"
    COMPOSED = "composed"
    FALLBACK = "fallback"


NOT_DIFFERENTIABLE: Final = Sentinel.NOT_DIFFERENTIABLE
ZERO_DERIVATIVE: Final = Sentinel.ZERO_DERIVATIVE
NONLINEAR: Final = Sentinel.NONLINEAR
COMPOSED: Final = Sentinel.COMPOSED
FALLBACK: Final = Sentinel.FALLBACK


class Recompute(enum.Enum):
    """What recomputing a result in the backward pass means (specification 5.4, rules for U)."""

    CHEAP = "cheap"  # elementwise work that fuses into the reader
    VIEW = "view"  # no work at all: an index transformation
    REDUCTION = "reduction"  # re-reads all of its input
    EXPENSIVE = "expensive"  # matmul, sort, ...: never recomputed unless asked to
    RANDOM = "random"  # deterministic in its key, yet not worth drawing again

    __hash__ = object.__hash__  # a set of these is asked for at every equation


Rule = Callable[..., Any]


class Primitive:
    """An operation and all of its rules."""

    __slots__ = (
        "name",
        "family",
        "abstract_eval",
        "impl",
        "jvp",
        "transpose",
        "batch",
        "lower",
        "cost",
        "recompute",
        "multi",
        "linearize",
        "decompose",
    )

    def __init__(
        self,
        name: str,
        *,
        family: str,
        abstract_eval: Rule,
        impl: Rule,
        jvp: Rule | Sentinel,
        transpose: Rule | Sentinel,
        batch: Rule,
        lower: Rule | Sentinel,
        cost: Rule,
        recompute: Recompute,
        multi: bool = False,
        linearize: Rule | None = None,
        decompose: Rule | None = None,
    ) -> None:
        if name in REGISTRY:
            raise ValueError(f"primitive {name!r} has a row already")
        if (lower is COMPOSED) != (decompose is not None):
            raise ValueError(f"primitive {name!r}: `decompose` goes with lower=COMPOSED")
        self.name = name
        self.family = family
        self.abstract_eval = abstract_eval
        self.impl = impl
        self.jvp = jvp
        self.transpose = transpose
        self.batch = batch
        self.lower = lower
        self.cost = cost
        self.recompute = recompute
        self.multi = multi
        self.linearize = linearize
        self.decompose = decompose
        REGISTRY[name] = self

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (primitive_named, (self.name,))

    @property
    def multiple_results(self) -> bool:
        """JAX's name of `multi`."""
        return self.multi

    def bind(self, *args: Any, **params: Any) -> Any:
        """Apply the operation to values, as the interpreter of a jaxpr does."""
        results = BINDER[0](self, *args, **params)
        return list(results) if self.multi else results[0]

    def out_avals(self, in_avals: Sequence[Aval], params: dict[str, Any]) -> tuple[Aval, ...]:
        """The types of the results, always as a tuple."""
        out = self.abstract_eval(*in_avals, **params)
        return tuple(out) if self.multi else (out,)


REGISTRY: dict[str, Primitive] = {}
BINDER: list[Callable[..., tuple[Any, ...]]] = []  # `trace.bind`, which stands on this file


def primitive_named(name: str) -> Primitive:
    """The row of that name."""
    return REGISTRY[name]


class Zero:
    """A tangent or cotangent that is zero by structure; it carries its type and no data."""

    __slots__ = ("aval",)

    def __init__(self, aval: Aval) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"Zero({self.aval})"


class Linear:
    """Stands for a linear argument while its operation is transposed."""

    __slots__ = ("aval",)

    def __init__(self, aval: Aval) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"Linear({self.aval})"
