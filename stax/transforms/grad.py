"""Derivatives as the user asks for them: jvp, vjp, linearize, grad, Hessian times vector.

Input: a function over pytrees.  Output: functions that return derivatives with the structure of
its arguments.  `jacobians` has whole matrices of them.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stax.core.aval import Aval, Remote, aval_of
from stax.core.source import user_stacklevel
from stax.core.trace import STATE, fresh, use_trace
from stax.dtypes import float0
from stax.errors import LostDerivativeWarning, PytreeError
from stax.pytree import (
    PyTreeDef,
    tree_flatten,
    tree_structure,
    tree_unflatten,
)
from stax.pytree_registry import register_as_tuple
from stax.transforms.arguments import (
    FlatFunction,
    beside,
    check_argnums,
    check_callable,
    check_differentiable,
    check_leaves,
    check_scalar_output,
    finished,
    is_array,
    leaf_names,
    matched_tangents,
    normalized_argnums,
    result_names,
)
from stax.transforms.inspect import abstract_leaf, stage_function
from stax.transforms.jvp import JVPTrace, instantiate
from stax.transforms.linearize import (
    apply_linear,
    linearize_flat,
)
from stax.transforms.pullback import Pullback, Signature, pull_back
from stax.transforms.transpose import backward_pass


def jvp(
    f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> Any:
    """`(f(*primals), J @ tangents)`, in one forward pass that keeps nothing.

    `J` is the Jacobian of `f` at the primals; it is never made.

    Args:
      primals: a tuple or list with one entry, a pytree of arrays, per argument of `f`.
      tangents: the same structure, shapes and dtypes; float0 zeros for integer and boolean leaves.
      has_aux: `f` returns `(output, aux)`; the result is `(output, tangent, aux)`.

    Returns:
      The output, and a tangent of its structure, shapes and dtypes (float0 for integers).

    Raises:
      PytreeError: tangents of another structure, or not as many as primals.
      ShapeError, DtypeError: a tangent of another type than its primal.
      NonDifferentiableError: an operation has no forward derivative.

    >>> jvp(lambda x: x * x, (3.0,), (1.0,))
    (9.0, 6.0)
    """
    check_callable(f, "jvp")
    _check_sequences("jvp", primals, tangents)
    leaves, treedef = tree_flatten(tuple(primals))
    check_leaves(leaves, "primals of jvp")
    names = leaf_names(f, primals, {})
    given = matched_tangents(tuple(tangents), leaves, treedef, names, "tangent")
    fun = FlatFunction(f, primals, {}, range(len(primals)), has_aux)
    trace = JVPTrace(STATE.trace)
    given = [None if aval_of(t).dtype == float0 else t for t in given]
    tracers = trace.wrap(leaves, given)
    try:
        with use_trace(trace):
            results = with_aux(fun)(*tracers)
    finally:
        trace.alive = False
    outs, aux = split_aux(fun, [trace.primal_of(v) for v in results])
    out_tangents = [
        instantiate(trace.tangent_of(v), p) for v, p in zip(results, outs, strict=False)
    ]
    done = finished([*outs, *beside(outs, out_tangents)], [*leaves, *given])
    out = fun.unflatten(done[: len(outs)])
    tangent = fun.unflatten(done[len(outs) :])
    if has_aux:
        return out, tangent, aux
    return out, tangent


def linearize(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """`(f(*primals), f_lin)`: `f_lin(*tangents)` is the derivative, without evaluating `f` again.

    It keeps what the derivative reads, so many tangents at one point cost less than with `jvp`.

    Args:
      primals: pytrees of arrays, the arguments of `f`.
      has_aux: `f` returns `(output, aux)`; the result is `(output, f_lin, aux)`.

    Raises:
      PytreeError, ShapeError, DtypeError: `f_lin` is given tangents of other types than `primals`.
      NonDifferentiableError: an operation has no derivative.

    >>> out, f_lin = linearize(lambda x: x * x, 3.0)
    >>> f_lin(1.0)
    6.0
    """
    check_callable(f, "linearize")
    leaves, treedef = tree_flatten(primals)
    check_leaves(leaves, "primals of linearize")
    names = leaf_names(f, primals, {})
    fun = FlatFunction(f, primals, {}, range(len(primals)), has_aux)
    linear = linearize_flat(with_aux(fun), leaves)
    outs, aux = split_aux(fun, linear.outs)
    tree = fun.out_tree
    assert tree is not None
    avals = [aval_of(p) for p in leaves]

    def f_lin(*tangents: Any) -> Any:
        given = matched_tangents(tangents, avals_as_values(avals), treedef, names, "tangent")
        found = apply_linear(linear, given)[: len(outs)]
        values = [instantiate(t, p) for t, p in zip(found, out_avals, strict=True)]
        return tree_unflatten(tree, finished(values, given))

    out_avals = avals_as_values([aval_of(v) for v in outs])
    out = tree_unflatten(tree, finished(outs, leaves))
    return (out, f_lin, aux) if has_aux else (out, f_lin)


class _Typed:
    """Stands for a value of which only the type matters."""

    __slots__ = ("aval",)

    def __init__(self, aval: Aval) -> None:
        self.aval = aval


def avals_as_values(avals: Sequence[Aval]) -> list[_Typed]:
    """Stand-ins of these types."""
    return [_Typed(a) for a in avals]


def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """`(f(*primals), pull)`: `pull(cotangent)` is a tuple with one cotangent per primal.

    It is `cotangent @ J`, with the Jacobian `J` of `f` at the primals: reverse mode, for functions
    of many numbers with few results.  `pull` may be called any number of times.  It is a pytree:
    functions under `jit` and `vmap`, and rules of `custom_vjp`, may return it.

    Args:
      primals: pytrees of arrays, the arguments of `f`.
      has_aux: `f` returns `(output, aux)`; the result is `(output, pull, aux)`.

    Raises:
      PytreeError, ShapeError, DtypeError: `pull` is given a cotangent that is not of the type of
        the output.
      NonDifferentiableError: an operation has no reverse derivative, such as a `while_loop`.

    >>> out, pull = vjp(lambda x, y: x * y, 3.0, 4.0)
    >>> pull(1.0)
    (4.0, 3.0)
    """
    check_callable(f, "vjp")
    leaves, treedef = tree_flatten(primals)
    check_leaves(leaves, "primals of vjp")
    fun = FlatFunction(f, primals, {}, range(len(primals)), has_aux)
    linear = linearize_flat(with_aux(fun), leaves)
    outs, aux = split_aux(fun, linear.outs)
    tree = fun.out_tree
    assert tree is not None
    signature = Signature(
        linear._replace(outs=[]),
        [aval_of(p) for p in leaves],
        treedef,
        avals_as_values([aval_of(v) for v in outs]),
        tree,
        len(outs),
    )
    pull = Pullback(signature)
    out = tree_unflatten(tree, finished(outs, leaves))
    return (out, pull, aux) if has_aux else (out, pull)


def linear_transpose(f: Callable[..., Any], *primals: Any) -> Callable[[Any], Any]:
    """The transpose of the linear function `f`: it maps a cotangent to a tuple of cotangents.

    Args:
      primals: arrays, or anything with a shape and dtype; only the types matter.

    Raises:
      NonDifferentiableError: `f` is not linear in its arguments.

    >>> linear_transpose(lambda x: 3.0 * x, 1.0)(2.0)
    (6.0,)
    """
    leaves, treedef = tree_flatten(primals)
    graph, tree = stage_function(f, primals, {})
    out_values = avals_as_values(graph.out_avals)
    in_avals = [abstract_leaf(leaf) for leaf in leaves]

    def transposed(cotangents: Any) -> Any:
        names = result_names(len(graph.outputs))
        given = matched_tangents(cotangents, out_values, tree, names, "cotangent")
        n = len(in_avals)
        found = backward_pass(graph, [True] * n, [None] * n, given)
        return tree_unflatten(treedef, finished([instantiate(v) for v in found], given))

    return transposed


def with_aux(fun: FlatFunction) -> Callable[..., list[Any]]:
    """`fun`, returning the leaves of its auxiliary output behind its results."""
    if not fun.has_aux:
        return fun

    def flat(*leaves: Any) -> list[Any]:
        outs = fun(*leaves)
        return [*outs, *tree_flatten(fun.aux)[0]]

    return flat


def split_aux(fun: FlatFunction, outs: list[Any]) -> tuple[list[Any], Any]:
    """The results among the leaves that `with_aux` gives, and the auxiliary output."""
    assert fun.out_tree is not None
    count = fun.out_tree.num_leaves
    if not fun.has_aux:
        return outs, None
    # Copies: the function may hand out an argument, or one array twice.
    aux = [finished([v], outs)[0] if isinstance(v, np.ndarray) else fresh(v) for v in outs[count:]]
    return outs[:count], tree_unflatten(tree_structure(fun.aux), aux)


def value_and_grad(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """A function that returns `(f(...), gradient)`.

    Args:
      f: returns one real scalar (or `(scalar, aux)` with `has_aux`).
      argnums: the positional argument(s) to differentiate with respect to; a tuple gives a tuple.
      has_aux: the result is `((value, aux), gradient)`.
      holomorphic: `f` is holomorphic, with complex input and output.
      allow_int: integer leaves are accepted; their gradients are float0 zeros.

    Raises:
      NonDifferentiableError: an integer or boolean argument.
      ShapeError: `f` does not return a scalar.

    >>> value_and_grad(lambda x: x**3)(2.0)
    (8.0, 12.0)
    """
    check_callable(f, "value_and_grad")
    check_argnums(argnums, "value_and_grad")

    @functools.wraps(f)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        fun, leaves, treedef = function_of_leaves(
            "grad", f, args, kwargs, argnums, has_aux, holomorphic, allow_int
        )
        linear = linearize_flat(with_aux(fun), leaves)
        outs, aux = split_aux(fun, linear.outs)
        assert fun.out_tree is not None
        aval = check_scalar_output(outs, fun.out_tree, f, holomorphic)
        if linear.dropped and not linear.out_mask[0]:
            warnings.warn(
                "the gradient is zero: nothing but a number taken out of the traced values "
                f"({linear.dropped}) leads to the result, and a number has no derivative; use "
                "NumPy's functions on the values themselves (np.sin for math.sin), or "
                "stax.lax.stop_gradient where zero is meant",
                LostDerivativeWarning,
                stacklevel=user_stacklevel(),
            )
        # Where the value lies there lies the gradient.
        out = linear.outs[0]
        seed = np.ones_like(out) if isinstance(out, Remote) else np.ones((), aval.dtype)[()]
        cts = [seed, *[None] * (len(linear.outs) - 1)]
        results = pull_back(linear, cts, [aval_of(p) for p in leaves])
        gradients = tree_unflatten(treedef, finished(beside(leaves, results)))
        gradient = gradients if isinstance(argnums, tuple | list) else gradients[0]
        value = finished(outs)[0]
        return ((value, aux), gradient) if has_aux else (value, gradient)

    return differentiated


def function_of_leaves(
    what: str,
    f: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    argnums: Any,
    has_aux: bool,
    holomorphic: bool,
    allow_int: bool = False,
) -> tuple[FlatFunction, list[Any], PyTreeDef]:
    """`f` as a function of the leaves that it is differentiated for, these, and their structure.

    Raises:
      StaticArgumentError: argnums that name no argument.
      DtypeError, NonDifferentiableError: a leaf that has no derivative.
    """
    numbers = normalized_argnums(argnums, len(args), what)
    leaves, treedef = tree_flatten(tuple(args[k] for k in numbers))
    check_leaves(leaves, f"arguments of {what}")
    names, starts = leaf_names(f, args, {}), [0]
    for arg in args:
        starts.append(starts[-1] + tree_structure(arg).num_leaves)
    names = [name for k in numbers for name in names[starts[k] : starts[k + 1]]]
    check_differentiable(leaves, names, what, holomorphic, allow_int)
    return FlatFunction(f, args, kwargs, numbers, has_aux), leaves, treedef


def grad(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """A function that returns the gradient of `f`; arguments and errors as in `value_and_grad`.

    The gradient has the structure, shapes and dtypes of the argument it is taken for (a tuple of
    such for a tuple of `argnums`). With `has_aux` the function returns `(gradient, aux)`.

    >>> grad(lambda x: x**3)(2.0)
    12.0
    """
    check_callable(f, "grad")
    check_argnums(argnums, "grad")
    both = value_and_grad(f, argnums, has_aux, holomorphic, allow_int)

    @functools.wraps(f)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, found = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return gradient


def hvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The Hessian of the scalar function `f` times `tangents`, with the structure of `primals`.

    Forward over reverse: a constant multiple of the work of `f`, whatever the dimension
    (Pearlmutter, Fast exact multiplication by the Hessian, 1994).

    Args:
      f: returns one real scalar.
      primals: a tuple or list with one pytree of floating arrays per argument of `f`.
      tangents: the same structure, shapes and dtypes.

    Raises:
      ShapeError: `f` does not return a scalar.
      PytreeError, ShapeError, DtypeError: tangents of other types than `primals`.

    >>> hvp(lambda x: x**3, (2.0,), (1.0,))
    (12.0,)
    """
    check_callable(f, "hvp")
    _check_sequences("hvp", primals, tangents)
    gradient = grad(f, argnums=tuple(range(len(primals))))
    found, treedef = tree_flatten(jvp(gradient, primals, tangents)[1])
    product = tree_unflatten(treedef, beside(tree_flatten(tuple(primals))[0], found))
    if isinstance(primals, list):
        return list(product)
    return Product(product) if len(product) == 1 and is_array(product[0]) else product


class Product(tuple[Any, ...]):
    """A product with one array in it: the tuple `(H v,)`, which NumPy reads as the array `H v`."""

    __slots__ = ()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self[0], dtype)


register_as_tuple(Product)


def _check_sequences(what: str, primals: Any, tangents: Any) -> None:
    for values, name in ((primals, "primals"), (tangents, "tangents")):
        if not isinstance(values, tuple | list):
            raise PytreeError(
                f"{what}: {name} must be a tuple or list with one entry per argument, "
                f"got {type(values).__name__}",
                hint=f"write {what}(f, (x,), (t,))",
            )
    if len(primals) != len(tangents):
        raise PytreeError(f"{what}: {len(primals)} primals, but {len(tangents)} tangents")
