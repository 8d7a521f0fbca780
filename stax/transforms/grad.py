"""Derivatives as the user asks for them: jvp, vjp, linearize, grad, Jacobians, Hessians.

Input: a function over pytrees.  Output: functions that return derivatives with the structure of
its arguments.  Jacobians are one batched pass over a basis, never a Python loop.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.source import user_stacklevel
from stax.core.trace import STATE, use_trace
from stax.dtypes import float0, is_complex, is_inexact
from stax.errors import DtypeError, LostDerivativeWarning, PytreeError
from stax.primitives.shapes import slice_axis
from stax.primitives.views import broadcast, move_axis, reshape
from stax.pytree import (
    PyTreeDef,
    tree_flatten,
    tree_map,
    tree_structure,
    tree_unflatten,
)
from stax.pytree_registry import register_as_tuple
from stax.transforms.arguments import (
    FlatFunction,
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
from stax.transforms.vmap import batch_flat


def jvp(
    f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> Any:
    """`(f(*primals), J @ tangents)`, in one forward pass that keeps nothing.

    Args:
      primals: a tuple or list with one entry per argument of `f`.
      tangents: the same structure; float0 zeros for integer and boolean leaves.
      has_aux: `f` returns `(output, aux)`; the result is `(output, tangent, aux)`.

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
            results = fun(*tracers)
    finally:
        trace.alive = False
    outs = [trace.primal_of(v) for v in results]
    out_tangents = [instantiate(trace.tangent_of(v), p) for v, p in zip(results, outs, strict=True)]
    done = finished([*outs, *out_tangents], [*leaves, *given])
    out = fun.unflatten(done[: len(outs)])
    tangent = fun.unflatten(done[len(outs) :])
    if has_aux:
        return out, tangent, tree_map(trace.primal_of, fun.aux)
    return out, tangent


def linearize(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """`(f(*primals), f_lin)`: `f_lin(*tangents)` is the derivative, without evaluating `f` again.

    >>> out, f_lin = linearize(lambda x: x * x, 3.0)
    >>> f_lin(1.0)
    6.0
    """
    check_callable(f, "linearize")
    leaves, treedef = tree_flatten(primals)
    check_leaves(leaves, "primals of linearize")
    names = leaf_names(f, primals, {})
    fun = FlatFunction(f, primals, {}, range(len(primals)), has_aux)
    linear = linearize_flat(_with_aux(fun), leaves)
    outs, aux = _split_aux(fun, linear.outs)
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

    `pull` is a pytree: functions under `jit` and `vmap`, and rules of `custom_vjp`, may return it.

    >>> out, pull = vjp(lambda x, y: x * y, 3.0, 4.0)
    >>> pull(1.0)
    (4.0, 3.0)
    """
    check_callable(f, "vjp")
    leaves, treedef = tree_flatten(primals)
    check_leaves(leaves, "primals of vjp")
    fun = FlatFunction(f, primals, {}, range(len(primals)), has_aux)
    linear = linearize_flat(_with_aux(fun), leaves)
    outs, aux = _split_aux(fun, linear.outs)
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


def _with_aux(fun: FlatFunction) -> Callable[..., list[Any]]:
    """`fun`, returning the leaves of its auxiliary output behind its results."""
    if not fun.has_aux:
        return fun

    def flat(*leaves: Any) -> list[Any]:
        outs = fun(*leaves)
        return [*outs, *tree_flatten(fun.aux)[0]]

    return flat


def _split_aux(fun: FlatFunction, outs: list[Any]) -> tuple[list[Any], Any]:
    assert fun.out_tree is not None
    count = fun.out_tree.num_leaves
    if not fun.has_aux:
        return outs, None
    # Copies: the function may hand out an argument, or one array twice.
    aux = [finished([v], outs)[0] if isinstance(v, np.ndarray) else v for v in outs[count:]]
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

    @functools.wraps(f)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        numbers = normalized_argnums(argnums, len(args), "grad")
        chosen = tuple(args[k] for k in numbers)
        leaves, treedef = tree_flatten(chosen)
        check_leaves(leaves, "arguments of grad")
        all_names = [leaf_names(f, args, {})] if leaves else []
        names = _names_at(all_names[0], args, numbers) if all_names else []
        check_differentiable(leaves, names, "grad", holomorphic, allow_int)
        fun = FlatFunction(f, args, kwargs, numbers, has_aux)
        linear = linearize_flat(_with_aux(fun), leaves)
        outs, aux = _split_aux(fun, linear.outs)
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
        seed = np.ones((), aval.dtype)[()]
        cts = [seed, *[None] * (len(linear.outs) - 1)]
        results = pull_back(linear, cts, [aval_of(p) for p in leaves])
        gradients = tree_unflatten(treedef, finished(results))
        gradient = gradients if isinstance(argnums, tuple | list) else gradients[0]
        value = finished(outs)[0]
        return ((value, aux), gradient) if has_aux else (value, gradient)

    return differentiated


def _names_at(names: list[str], args: Sequence[Any], numbers: Sequence[int]) -> list[str]:
    starts = [0]
    for arg in args:
        starts.append(starts[-1] + tree_structure(arg).num_leaves)
    return [n for k in numbers for n in names[starts[k] : starts[k + 1]]]


def grad(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """A function that returns the gradient of `f`; arguments as in `value_and_grad`.

    With `has_aux` it returns `(gradient, aux)`.

    >>> grad(lambda x: x**3)(2.0)
    12.0
    """
    check_callable(f, "grad")
    both = value_and_grad(f, argnums, has_aux, holomorphic, allow_int)

    @functools.wraps(f)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, found = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return gradient


def hvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The Hessian of the scalar function `f` times `tangents`, with the structure of `primals`.

    Forward over reverse: a constant multiple of the work of `f`, whatever the dimension.

    >>> hvp(lambda x: x**3, (2.0,), (1.0,))
    (12.0,)
    """
    check_callable(f, "hvp")
    _check_sequences("hvp", primals, tangents)
    gradient = grad(f, argnums=tuple(range(len(primals))))
    product = jvp(gradient, primals, tangents)[1]
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


# --- Jacobians ----------------------------------------------------------------------------------


def jacfwd(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """The Jacobian of `f` by columns, as one batched forward pass.

    Result: the structure of `f`'s output, each leaf holding the structure of the arguments, whose
    leaves have shape `output.shape + input.shape`.
    """
    check_callable(f, "jacfwd")

    @functools.wraps(f)
    def jacobian_function(*args: Any, **kwargs: Any) -> Any:
        numbers = normalized_argnums(argnums, len(args), "jacfwd")
        leaves, treedef = tree_flatten(tuple(args[k] for k in numbers))
        check_leaves(leaves, "arguments of jacfwd")
        names = _names_at(leaf_names(f, args, {}), args, numbers)
        check_differentiable(leaves, names, "jacfwd", holomorphic, False)
        fun = FlatFunction(f, args, kwargs, numbers, has_aux)
        flat = _with_aux(fun)
        basis, size = _basis([aval_of(p) for p in leaves])
        primal_outs: list[Any] = []

        def push(*tangents: Any) -> list[Any]:
            trace = JVPTrace(STATE.trace)
            try:
                with use_trace(trace):
                    results = flat(*trace.wrap(leaves, tangents))
            finally:
                trace.alive = False
            outs = [trace.primal_of(v) for v in results]
            primal_outs[:] = outs
            return [
                *outs,
                *(instantiate(trace.tangent_of(v), p) for v, p in zip(results, outs, strict=True)),
            ]

        found, dims = batch_flat(push, basis, [0] * len(basis), size)
        half = len(found) // 2
        outs, aux = _split_aux(
            fun, [_unbatched(v, d) for v, d in zip(found[:half], dims, strict=False)]
        )
        assert fun.out_tree is not None
        columns = [_front(v, d, size) for v, d in zip(found[half:], dims[half:], strict=True)][
            : len(outs)
        ]
        in_shapes = [aval_of(p).shape for p in leaves]
        blocks = []
        for out, column in zip(outs, columns, strict=True):
            shape = aval_of(out).shape
            moved = move_axis(column, 0, len(shape))
            blocks.append(_split_last(moved, shape, in_shapes))
        return _assemble(fun, treedef, blocks, outs, aux, argnums, has_aux)

    return jacobian_function


def jacrev(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """The Jacobian of `f` by rows, as one batched reverse pass; shapes as in `jacfwd`."""
    check_callable(f, "jacrev")

    @functools.wraps(f)
    def jacobian_function(*args: Any, **kwargs: Any) -> Any:
        numbers = normalized_argnums(argnums, len(args), "jacrev")
        leaves, treedef = tree_flatten(tuple(args[k] for k in numbers))
        check_leaves(leaves, "arguments of jacrev")
        names = _names_at(leaf_names(f, args, {}), args, numbers)
        check_differentiable(leaves, names, "jacrev", holomorphic, allow_int)
        fun = FlatFunction(f, args, kwargs, numbers, has_aux)
        linear = linearize_flat(_with_aux(fun), leaves)
        outs, aux = _split_aux(fun, linear.outs)
        out_avals = [aval_of(v) for v in outs]
        for aval in out_avals:
            if not is_inexact(aval.dtype) or is_complex(aval.dtype) != holomorphic:
                wanted = "complex" if holomorphic else "real floating-point"
                raise DtypeError(f"jacrev needs {wanted} outputs, got {aval.dtype}")
        basis, size = _basis(out_avals)
        in_avals = [aval_of(p) for p in leaves]
        rest = [None] * (len(linear.outs) - len(outs))

        def pull(*cts: Any) -> list[Any]:
            return pull_back(linear, [*cts, *rest], in_avals)

        found, dims = batch_flat(pull, basis, [0] * len(basis), size)
        rows = [_front(v, d, size) for v, d in zip(found, dims, strict=True)]
        blocks: list[list[Any]] = [[] for _ in outs]
        for row, in_aval in zip(rows, in_avals, strict=True):
            start = 0
            for block, aval in zip(blocks, out_avals, strict=True):
                part = _cut(row, 0, start, start + aval.size) if len(outs) > 1 else row
                start += aval.size
                block.append(_reshaped(part, (*aval.shape, *in_aval.shape)))
        return _assemble(fun, treedef, blocks, outs, aux, argnums, has_aux)

    return jacobian_function


jacobian = jacrev


def hessian(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """The Hessian of `f`, forward over reverse."""
    check_callable(f, "hessian")
    inner = jacrev(f, argnums, has_aux, holomorphic)
    return jacfwd(inner, argnums, has_aux, holomorphic)


def _basis(avals: Sequence[Aval]) -> tuple[list[Any], int]:
    """The unit vectors of the product space: for each part an array (size, *part.shape)."""
    size = sum(a.size for a in avals)
    found = []
    start = 0
    for aval in avals:
        if not is_inexact(aval.dtype):
            found.append(np.zeros((size, *aval.shape), float0))
            start += aval.size
            continue
        part = np.zeros((size, aval.size), aval.dtype)
        part[np.arange(start, start + aval.size), np.arange(aval.size)] = 1
        found.append(part.reshape((size, *aval.shape)))
        start += aval.size
    return found, size


def _front(value: Any, dim: int | None, size: int) -> Any:
    if dim is not None:
        return move_axis(value, dim, 0)
    aval = aval_of(value)
    if aval.dtype == float0:
        return np.zeros((size, *aval.shape), float0)
    return broadcast(value, (size, *aval.shape))


def _unbatched(value: Any, dim: int | None) -> Any:
    if dim is None:
        return value
    first = slice_axis(move_axis(value, dim, 0), 0, 0, 1)
    return reshape(first, aval_of(first).shape[1:])


def _cut(value: Any, axis: int, start: int, limit: int) -> Any:
    if aval_of(value).dtype == float0:
        return value[(slice(None),) * axis + (slice(start, limit),)]
    return slice_axis(value, axis, start, limit)


def _reshaped(value: Any, shape: tuple[int, ...]) -> Any:
    if aval_of(value).dtype == float0:
        return np.zeros(shape, float0)
    return value if aval_of(value).shape == shape else reshape(value, shape)


def _split_last(value: Any, shape: tuple[int, ...], parts: Sequence[tuple[int, ...]]) -> list[Any]:
    """The last axis of `value` cut into pieces of these shapes."""
    if len(parts) == 1:
        return [_reshaped(value, (*shape, *parts[0]))]
    found = []
    start = 0
    for part in parts:
        n = int(np.prod(part, dtype=np.int64))
        found.append(_reshaped(_cut(value, len(shape), start, start + n), (*shape, *part)))
        start += n
    return found


def _assemble(
    fun: FlatFunction,
    treedef: PyTreeDef,
    blocks: Sequence[Sequence[Any]],
    outs: Sequence[Any],
    aux: Any,
    argnums: Any,
    has_aux: bool,
) -> Any:
    single = not isinstance(argnums, tuple | list)
    trees = []
    for block in blocks:
        tree = tree_unflatten(treedef, finished(block))
        trees.append(tree[0] if single else tree)
    result = fun.unflatten(trees)
    return (result, aux) if has_aux else result
