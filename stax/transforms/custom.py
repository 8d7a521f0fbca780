"""Functions with derivative rules of the user's: custom_jvp, custom_vjp, custom_gradient.

Input: a function and its rule.  Output: a callable that every transformation differentiates by
the rule: under jit, checkpoint and vmap, and again at second order, where the rule itself is
differentiated.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from stax.core.aval import Aval, aval_of
from stax.core.graph import Graph
from stax.core.primitive import Zero
from stax.core.staging import eval_graph, lift_constants, stage
from stax.dtypes import DType, float0
from stax.errors import CustomDerivativeError
from stax.primitives.elementwise import add
from stax.pytree import (
    Partial,
    PyTreeDef,
    register_leaf,
    tree_flatten,
    tree_map,
    tree_structure,
    tree_unflatten,
)
from stax.transforms.arguments import check_leaves, name_of, unshared
from stax.transforms.custom_calls import CustomJVPCall, CustomVJPCall, Flat
from stax.transforms.jvp import instantiate


class SymbolicZero:
    """A tangent or cotangent that is zero by structure, as a rule sees it on demand."""

    __slots__ = ("aval",)

    def __init__(self, aval: Aval) -> None:
        self.aval = aval

    @staticmethod
    def of(zero: Zero) -> SymbolicZero:
        """The rule's view of `zero`."""
        return SymbolicZero(zero.aval)

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return self.aval.shape

    @property
    def dtype(self) -> DType:
        """NumPy dtype."""
        return self.aval.dtype

    def instantiate(self) -> Any:
        """The array of zeros."""
        return instantiate(Zero(self.aval))

    def __repr__(self) -> str:
        return f"SymbolicZero({self.aval})"


class CustomVJPPrimal(NamedTuple):
    """A leaf of a `fwd` rule's argument: its value, and whether it is being differentiated."""

    value: Any
    perturbed: bool


register_leaf(CustomVJPPrimal)


def custom_vjp_primal_tree_values(tree: Any) -> Any:
    """`tree` with the value in the place of every `CustomVJPPrimal`."""
    return tree_map(lambda leaf: leaf.value, tree)


def zero_from_primal(value: Any, symbolic_zeros: bool = False) -> Any:
    """The zero tangent of `value`."""
    zero = Zero(aval_of(value).tangent())
    return SymbolicZero.of(zero) if symbolic_zeros else instantiate(zero)


class _Custom:
    """What custom_jvp and custom_vjp share: which arguments are differentiated, and flattening."""

    def __init__(
        self,
        fun: Callable[..., Any],
        nondiff_argnums: int | Sequence[int] = (),
        nondiff_argnames: str | Sequence[str] = (),
    ) -> None:
        self.fun = fun
        self.__wrapped__ = fun
        self.__name__ = name_of(fun)
        self.__doc__ = fun.__doc__
        numbers = (nondiff_argnums,) if isinstance(nondiff_argnums, int) else nondiff_argnums
        names = (nondiff_argnames,) if isinstance(nondiff_argnames, str) else nondiff_argnames
        self.nondiff = set(numbers)
        try:
            self.signature: inspect.Signature | None = inspect.signature(fun)
        except (TypeError, ValueError):
            self.signature = None
        if names:
            known = list(self.signature.parameters) if self.signature else []
            for name in names:
                if name not in known:
                    raise CustomDerivativeError(f"{name_of(fun)} has no argument {name!r}")
                self.nondiff.add(known.index(name))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{type(self).__name__} has no rule of its own")

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """All arguments by position, defaults filled in."""
        if self.signature is None:
            if kwargs:
                raise CustomDerivativeError(
                    f"{name_of(self.fun)} has no signature: pass its arguments by position"
                )
            return list(args)
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise CustomDerivativeError(f"{name_of(self.fun)}: {error}") from None
        if bound.kwargs:
            raise CustomDerivativeError(
                f"{name_of(self.fun)} was given keyword-only arguments {sorted(bound.kwargs)}, "
                "which a custom rule cannot take",
                hint="make them positional, or close over them",
            )
        bound.apply_defaults()
        return list(bound.args)

    def split(self, values: Sequence[Any]) -> tuple[list[Any], list[int], list[Any], PyTreeDef]:
        """Non-differentiated arguments, positions and leaves of the others, their structure."""
        nondiff = {k % len(values) if values else k for k in self.nondiff}
        positions = [k for k in range(len(values)) if k not in nondiff]
        leaves, treedef = tree_flatten(tuple(values[k] for k in positions))
        check_leaves(leaves, f"arguments of {name_of(self.fun)}")
        return [values[k] for k in sorted(nondiff) if k < len(values)], positions, leaves, treedef

    def flat(
        self,
        values: Sequence[Any],
        positions: Sequence[int],
        treedef: PyTreeDef,
        trees: list[PyTreeDef],
        fun: Callable[..., Any] | None = None,
    ) -> Callable[..., Any]:
        """`fun` (the function itself by default) of the flat differentiated leaves."""
        called = self.fun if fun is None else fun

        def flat(*leaves: Any) -> list[Any]:
            full = list(values)
            for k, value in zip(positions, tree_unflatten(treedef, leaves), strict=True):
                full[k] = value
            outs, tree = tree_flatten(called(*full))
            trees[:] = [tree]
            return outs

        return flat


class custom_jvp(_Custom):
    """A function whose derivative is the rule given to `defjvp`.

    The rule is called as `rule(*nondiff_args, primals, tangents)` and returns
    `(result, tangent)`; it serves forward and reverse mode.

    >>> @custom_jvp
    ... def f(x):
    ...     return x**3
    >>> @f.defjvp
    ... def f_jvp(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return f(x), 3 * x**2 * t
    >>> stax.grad(f)(2.0)
    12.0
    """

    rule: Callable[..., Any] | None = None
    symbolic_zeros = False

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Set the rule; returns it.

        Tangents of unperturbed arguments arrive as zeros, or as `SymbolicZero` on demand.
        """
        self.rule = jvp
        self.symbolic_zeros = symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Set the rule from one function per argument, `jvp(tangent, result, *primals)`."""
        if self.nondiff:
            raise CustomDerivativeError("defjvps cannot be used with nondiff_argnums")

        def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
            out = self(*primals)
            terms = [
                j(t, out, *primals) for j, t in zip(jvps, tangents, strict=True) if j is not None
            ]
            total = instantiate(None, out) if not terms else terms[0]
            for term in terms[1:]:
                total = add(total, term)
            return out, total

        self.rule = rule

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        rule, symbolic = self.rule, self.symbolic_zeros
        if rule is None:
            raise CustomDerivativeError(
                f"no JVP rule is defined for the custom_jvp function {name_of(self.fun)}",
                hint="give it one with .defjvp",
            )
        values = self.positional(args, kwargs)
        nondiff, positions, leaves, treedef = self.split(values)
        trees: list[PyTreeDef] = []
        name = name_of(self.fun)

        def flat_rule(primals: Flat, tangents: Flat) -> tuple[Flat, Flat]:
            zero = SymbolicZero.of if symbolic else instantiate
            given = [zero(t) if isinstance(t, Zero) else t for t in tangents]
            result = rule(
                *nondiff, tree_unflatten(treedef, primals), tree_unflatten(treedef, given)
            )
            if not isinstance(result, tuple | list) or len(result) != 2:
                raise CustomDerivativeError(
                    f"the JVP rule of {name} must return a pair (result, tangent), it returned "
                    f"{type(result).__name__}"
                )
            outs, tree = tree_flatten(result[0])
            found, tangent_tree = tree_flatten(result[1])
            _check_rule(name, "tangent", outs, tree, found, tangent_tree)
            trees[:] = [tree]
            return outs, [Zero(t.aval) if isinstance(t, SymbolicZero) else t for t in found]

        call = CustomJVPCall(self.flat(values, positions, treedef, trees), flat_rule)
        outs = unshared(call.bind(leaves), leaves)  # which calls the function, and so fills `trees`
        return tree_unflatten(trees[-1], outs)


def _check_rule(
    name: str, what: str, like: Flat, tree: PyTreeDef, found: Flat, found_tree: PyTreeDef
) -> None:
    if tree != found_tree:
        raise CustomDerivativeError(
            f"the rule of {name} returned {what}s of structure {found_tree!r}, expected {tree!r}"
        )
    for k, (value, primal) in enumerate(zip(found, like, strict=True)):
        have, want = aval_of(value), aval_of(primal).tangent()
        if have.shape != want.shape or (
            have.dtype != want.dtype and want.dtype != float0 and not have.weak
        ):
            raise CustomDerivativeError(
                f"the rule of {name} returned a {what} of type {have} for leaf {k}, expected {want}"
            )


class custom_vjp(_Custom):
    """A function whose reverse-mode derivative is the pair of rules given to `defvjp`.

    `fwd(*args)` returns `(result, residuals)`; `bwd(*nondiff_args, residuals, cotangent)` returns
    a tuple with one cotangent per differentiated argument (None for zero). Forward mode is had by
    transposing `bwd`.

    Args:
      fun: of pytrees of arrays.
      nondiff_argnums, nondiff_argnames: arguments that the rules get as they are, in front.

    Raises:
      CustomDerivativeError: a call without rules, or cotangents that do not have the structure,
        shapes and dtypes of the arguments.

    >>> @custom_vjp
    ... def f(x):
    ...     return x
    >>> f.defvjp(lambda x: (x, None), lambda _, ct: (10.0 * ct,))
    >>> stax.grad(f)(1.0)
    10.0
    """

    fwd: Callable[..., Any] | None = None
    bwd: Callable[..., Any] | None = None
    symbolic_zeros = False

    def defvjp(
        self,
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Set the rules.

        With `symbolic_zeros` the leaves of `fwd`'s arguments arrive as `CustomVJPPrimal` and
        cotangents that are zero by structure as `SymbolicZero`.
        """
        self.fwd = fwd
        self.bwd = bwd
        self.symbolic_zeros = symbolic_zeros

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        fwd, bwd, symbolic = self.fwd, self.bwd, self.symbolic_zeros
        name = name_of(self.fun)
        if fwd is None or bwd is None:
            raise CustomDerivativeError(
                f"no VJP rule is defined for the custom_vjp function {name}",
                hint="give it one with .defvjp(fwd, bwd)",
            )
        values = self.positional(args, kwargs)
        nondiff, positions, leaves, treedef = self.split(values)
        trees: list[PyTreeDef] = []
        residual_trees: list[PyTreeDef] = []

        def flat_fwd(primals: Flat, perturbed: Sequence[bool]) -> tuple[Flat, Flat]:
            full = list(values)
            if symbolic:
                primals = [CustomVJPPrimal(*pair) for pair in zip(primals, perturbed, strict=True)]
            for k, value in zip(positions, tree_unflatten(treedef, primals), strict=True):
                full[k] = value
            result = fwd(*full)
            if not isinstance(result, tuple | list) or len(result) != 2:
                raise CustomDerivativeError(
                    f"the fwd rule of {name} must return a pair (result, residuals), it returned "
                    f"{type(result).__name__}"
                )
            outs, tree = tree_flatten(result[0])
            residuals, residual_tree = tree_flatten(result[1])
            check_leaves(residuals, f"residuals of {name}")
            trees[:] = [tree]
            residual_trees[:] = [residual_tree]
            return outs, residuals

        def flat_bwd(residuals: Flat, cotangents: Flat) -> Flat:
            zero = SymbolicZero.of if symbolic else instantiate
            given = [zero(c) if isinstance(c, Zero) else c for c in cotangents]
            result = bwd(
                *nondiff,
                tree_unflatten(residual_trees[-1], residuals),
                tree_unflatten(trees[-1], given),
            )
            if isinstance(result, list):
                result = tuple(result)
            return _matched_cotangents(name, result, leaves, treedef)

        call = CustomVJPCall(self.flat(values, positions, treedef, trees), flat_fwd, flat_bwd)
        outs = unshared(call.bind(leaves), leaves)  # which calls the function, and so fills `trees`
        return tree_unflatten(trees[-1], outs)


def _matched_cotangents(name: str, result: Any, leaves: Flat, treedef: PyTreeDef) -> list[Any]:
    """The flat cotangents a bwd rule returned; None stands for zeros of a whole argument."""
    expected = treedef.children()
    if not isinstance(result, tuple) or len(result) != len(expected):
        got = f"{len(result)} entries" if isinstance(result, tuple) else type(result).__name__
        raise CustomDerivativeError(
            f"the bwd rule of {name} must return a tuple of {len(expected)} cotangents, one per "
            f"differentiated argument; it returned {got}"
        )
    found: list[Any] = []
    start = 0
    for ct, tree in zip(result, expected, strict=True):
        like = leaves[start : start + tree.num_leaves]
        start += tree.num_leaves
        if ct is None:
            found.extend(Zero(aval_of(p).tangent()) for p in like)
            continue
        parts, have = tree_flatten(ct, is_leaf=lambda v: v is None)
        if have != tree:
            raise CustomDerivativeError(
                f"the bwd rule of {name} returned a cotangent of structure "
                f"{tree_structure(ct)!r}, expected {tree!r}"
            )
        for part, primal in zip(parts, like, strict=True):
            want = aval_of(primal).tangent()
            if part is None or want.dtype == float0 or isinstance(part, SymbolicZero):
                found.append(Zero(want))
                continue
            got_aval = aval_of(part)
            if got_aval.shape != want.shape:
                raise CustomDerivativeError(
                    f"the bwd rule of {name} returned a cotangent of type {got_aval}, "
                    f"expected {want}"
                )
            found.append(part)
    return found


def custom_gradient(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function from one that returns `(result, pull)`; `pull(cotangent)` gives the gradients.

    `pull` may close over values computed by `fun`. It returns one gradient, or a tuple of one for
    each argument, of the argument's structure, shapes and dtypes.

    Raises:
      CustomDerivativeError: gradients of other types than the arguments.

    >>> @custom_gradient
    ... def clipped(x):
    ...     return x, lambda ct: np.clip(ct, -1.0, 1.0)
    >>> stax.grad(lambda x: 5.0 * clipped(x))(2.0)
    1.0
    """

    @custom_vjp
    @functools.wraps(fun)
    def wrapped(*args: Any) -> Any:
        return fun(*args)[0]

    def fwd(*args: Any) -> Any:
        out, pull = fun(*args)
        example = tree_unflatten(
            tree_structure(out), [instantiate(None, v) for v in tree_flatten(out)[0]]
        )
        converted, consts = closure_convert(pull, example)
        return out, Partial(converted, *consts)

    def bwd(kept: Partial[Any], ct: Any) -> Any:
        found = kept.func(ct, *kept.args)
        return found if isinstance(found, tuple | list) else (found,)

    wrapped.signature = None
    wrapped.defvjp(fwd, bwd)
    return wrapped


def closure_convert(
    fun: Callable[..., Any], *example_args: Any
) -> tuple[Callable[..., Any], list[Any]]:
    """`fun` with the traced values it closes over made explicit.

    Returns `(converted, consts)` such that `converted(*args, *consts)` is `fun(*args)` and closes
    over no traced value. `consts` is a list of arrays, for rules that have to hand them on.

    Args:
      example_args: arguments of `fun`, of which only the types matter.

    Raises:
      CustomDerivativeError: `converted` is called with arguments of another structure.

    >>> def outer(y):
    ...     converted, consts = closure_convert(lambda x: x * y, 1.0)
    ...     return converted(2.0, *consts)
    >>> stax.grad(outer)(3.0)
    2.0
    """
    leaves, treedef = tree_flatten(example_args)
    trees: list[PyTreeDef] = []

    def flat(*values: Any) -> list[Any]:
        outs, tree = tree_flatten(fun(*tree_unflatten(treedef, values)))
        trees.append(tree)
        return outs

    staged = stage(flat, [aval_of(v) for v in leaves], name=name_of(fun))
    graph, consts = lift_constants(staged)
    return _Converted(graph, len(consts), treedef, trees[-1]), consts


class _Converted:
    """The closed function of `closure_convert`; equal ones compare equal, as pytrees need."""

    def __init__(self, graph: Graph, count: int, in_tree: PyTreeDef, out_tree: PyTreeDef) -> None:
        self.graph = graph
        self.count = count
        self.in_tree = in_tree
        self.out_tree = out_tree

    def __call__(self, *args: Any) -> Any:
        n = len(args) - self.count
        leaves, tree = tree_flatten(args[:n])
        if tree != self.in_tree:
            raise CustomDerivativeError(
                f"closure_convert: called with {tree!r}, converted for {self.in_tree!r}"
            )
        return tree_unflatten(self.out_tree, eval_graph(self.graph, [*args[n:], *leaves]))
