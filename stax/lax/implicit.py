"""`stax.lax`, implicit results: `custom_linear_solve` and `custom_root`, under JAX's names.

Input: functions that define a result by an equation (A x = b, or f(x) = 0) and functions that find
it.  Output: the result.  Its derivative follows from the equation alone, whatever was done to find
it: loops without a reverse derivative, tolerances, NumPy callbacks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stax.core.aval import Aval, aval_of
from stax.core.graph import Graph
from stax.core.source import user_source
from stax.core.staging import eval_graph
from stax.core.trace import EVAL, STATE, bind
from stax.dtypes import is_inexact
from stax.errors import ConcretizationError, PytreeError, ShapeError
from stax.lax.concrete_loops import runs_concretely
from stax.lax.control_flow import converted
from stax.lax.staged import Staged, staged
from stax.numpy.promotion import array_like
from stax.primitives.elementwise import neg
from stax.pytree import PyTreeDef, keystr, tree_flatten, tree_flatten_with_path, tree_unflatten
from stax.transforms.arguments import finished, name_of
from stax.transforms.custom_calls import CustomJVPCall
from stax.transforms.grad import linearize
from stax.transforms.jvp import instantiate, jvp_flat
from stax.transforms.linear_solve import linear_solve_p, transposed_matvec, with_constants

__all__ = ["custom_linear_solve", "custom_root"]

Function = Callable[..., Any]


def custom_linear_solve(
    matvec: Function,
    b: Any,
    solve: Function,
    transpose_solve: Function | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """The x with `matvec(x) = b` that `solve(matvec, b)` finds, differentiable in both modes.

    Derivatives are solutions of the same system with other right-hand sides; those with respect
    to the matrix go to what `matvec` closes over.

    Args:
      matvec: a linear function of a pytree like `b`; it may close over traced values.
      b: a pytree of arrays.
      solve: `solve(matvec, b)` returns x; `solve` itself is never differentiated.
      transpose_solve: `transpose_solve(vecmat, b)` for the transposed system; reverse mode needs
        it, or `symmetric`.
      symmetric: the matrix equals its transpose; `solve` serves both.
      has_aux: the solvers return `(x, aux)`, and so does this function; `aux` has no derivative.

    Raises:
      PytreeError, ShapeError: `matvec(b)` or the solution is not like `b`.
      NonDifferentiableError: reverse mode without a way to solve the transposed system.

    >>> custom_linear_solve(lambda x: 4.0 * x, 2.0, lambda matvec, b: b / 4)
    0.5
    """
    leaves, tree = _operands(b, "b")
    if STATE.trace is EVAL:
        return _checked(solve(matvec, b), has_aux, tree, leaves, "custom_linear_solve", solve)
    one = tree_flatten((b,))[1]
    leaves = _in_dtypes_of(matvec, one, leaves)
    avals = [aval_of(v) for v in leaves]
    applied = staged(matvec, one, avals)
    _check_like(applied.tree, applied.graph.out_avals, tree, avals, name_of(matvec), "matvec(x)")
    applied = applied.returning([a.dtype for a in avals])
    n = len(applied.consts)

    def solver(function: Function, graph: Graph) -> Staged:
        """(constants of matvec, b) -> x and aux."""

        def fun(consts: list[Any], right: Any) -> Any:
            product = _function_of(graph, consts, tree, avals, name_of(matvec))
            found = function(product, right)
            return _checked(found, has_aux, tree, avals, "custom_linear_solve", function)

        fun.__name__ = name_of(function)
        structure = tree_flatten((applied.consts, b))[1]
        return staged(fun, structure, [*graph.in_avals[:n], *avals])

    direct = solver(solve, applied.graph)
    across: Staged | None = None
    if transpose_solve is not None:
        across = solver(transpose_solve, transposed_matvec(applied.graph, n))
    elif symmetric:
        across = direct
    own = [*direct.consts, *(across.consts if across is not None and across is not direct else [])]
    ahead = [aval_of(v) for v in direct.consts]
    later = [aval_of(v) for v in own[len(ahead) :]]
    graph = _spread(direct.graph, len(ahead), n, [], later)
    transposed = graph if across is direct else None
    if across is not None and across is not direct:
        transposed = _spread(across.graph, len(later), n, ahead, [])
    outs = bind(
        linear_solve_p,
        *own,
        *applied.consts,
        *leaves,
        graph=graph,
        matvec=with_constants(applied.graph, [*ahead, *later], n, []),
        transposed=transposed,
        consts=len(own) + n,
    )
    return tree_unflatten(direct.tree, finished(outs, leaves))


def _spread(
    graph: Graph, own: int, shared: int, before: Sequence[Aval], after: Sequence[Aval]
) -> Graph:
    """A solver's graph with the constants of the other solver around its own."""
    if before:
        return with_constants(graph, before, own + shared, [])
    return with_constants(graph, [], own, after)


def custom_root(
    f: Function,
    initial_guess: Any,
    solve: Function,
    tangent_solve: Function,
    has_aux: bool = False,
) -> Any:
    """The x with `f(x) = 0` that `solve(f, initial_guess)` finds, with its implicit derivative.

    It is differentiable in both modes with respect to what `f` closes over, by the implicit
    function theorem; the derivative with respect to the initial guess is zero.

    Args:
      f: maps a pytree to one like it.
      initial_guess: where `solve` starts.
      solve: `solve(f, initial_guess)` returns a root; it is never differentiated.
      tangent_solve: `tangent_solve(g, y)` returns the x with `g(x) = y` for a linear function g
        (`f` linearised at the root); for scalars `lambda g, y: y / g(1.0)`. Reverse mode
        transposes it: use `stax.lax.custom_linear_solve` or operations linear in y.
      has_aux: `solve` returns `(root, aux)`, and so does this function.

    Raises:
      PytreeError, ShapeError: `f(x)` or the root is not like the initial guess.

    >>> def bisect(f, x):
    ...     low, high = 0.0, 2.0
    ...     for _ in range(60):
    ...         x = (low + high) / 2
    ...         low, high = (low, x) if f(x) > 0 else (x, high)
    ...     return x
    >>> round(float(custom_root(lambda x: x * x - 2.0, 1.0, bisect, lambda g, y: y / g(1.0))), 6)
    1.414214
    """
    leaves, tree = _operands(initial_guess, "initial_guess")
    if STATE.trace is EVAL:
        found = solve(f, initial_guess)
        return _checked(found, has_aux, tree, leaves, "custom_root", solve)
    one = tree_flatten((initial_guess,))[1]
    leaves = _in_dtypes_of(f, one, leaves)
    avals = [aval_of(v) for v in leaves]
    function = staged(f, one, avals)
    _check_like(function.tree, function.graph.out_avals, tree, avals, name_of(f), "f(x)")
    n, size = len(function.consts), len(avals)
    structure = tree_flatten((function.consts, initial_guess))[1]

    def at(consts: Sequence[Any]) -> Function:
        return _function_of(function.graph, consts, tree, avals, name_of(f))

    def solved(consts: list[Any], start: Any) -> Any:
        return _checked(solve(at(consts), start), has_aux, tree, avals, "custom_root", solve)

    def corrected(consts: list[Any], root: Any, right: Any) -> Any:
        _, slope = linearize(at(consts), root)
        return _checked(
            tangent_solve(slope, right), False, tree, avals, "custom_root", tangent_solve
        )

    solved.__name__, corrected.__name__ = name_of(solve), name_of(tangent_solve)
    const_avals = function.graph.in_avals[:n]
    trees: list[PyTreeDef] = []
    solver: Staged | None = None
    try:
        solver = staged(solved, structure, [*const_avals, *avals])
        trees.append(solver.tree)
    except ConcretizationError:
        # The solver needs numbers; outside jit and vmap they are known.
        if not runs_concretely():
            raise
    linear = staged(
        corrected,
        tree_flatten((function.consts, initial_guess, initial_guess))[1],
        [*const_avals, *avals, *avals],
    )
    captured = [] if solver is None else solver.consts
    a, b = len(captured), len(captured) + len(linear.consts)

    def fun(*values: Any) -> list[Any]:
        if solver is not None:
            return eval_graph(solver.graph, [*values[:a], *values[b:]])
        outs, found = tree_flatten(solved(*tree_unflatten(structure, values[b:])))
        trees.append(found)
        return outs

    def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        outs = CustomJVPCall(fun, rule).bind(primals)
        root, consts = outs[:size], primals[b : b + n]
        _, moved = jvp_flat(
            lambda *c: eval_graph(function.graph, [*c, *root]), consts, tangents[b : b + n]
        )
        found: list[Any] = [None] * size
        if any(m is not None for m in moved):
            right = [neg(instantiate(m, r)) for m, r in zip(moved, root, strict=True)]
            found = eval_graph(linear.graph, [*primals[a:b], *consts, *root, *right])
        # What has no tangent here is zero: auxiliary results, and roots that do not move.
        return outs, [*found, *([None] * (len(outs) - size))]

    call = CustomJVPCall(fun, rule)
    outs = call.bind([*captured, *linear.consts, *function.consts, *leaves])
    return tree_unflatten(trees[-1], finished(outs, leaves))


def _operands(value: Any, name: str) -> tuple[list[Any], PyTreeDef]:
    """Leaves that are arrays (Python scalars included) and their structure."""
    leaves, tree = tree_flatten(value)
    return [array_like(v, name) for v in leaves], tree


def _function_of(
    graph: Graph, consts: Sequence[Any], tree: PyTreeDef, avals: Sequence[Aval], name: str
) -> Function:
    """The function of pytrees that `graph` stands for, as a solver calls it."""

    def function(x: Any) -> Any:
        leaves, have = _operands(x, name)
        _check_like(have, [aval_of(v) for v in leaves], tree, avals, name, "its argument")
        values = [
            v if aval_of(v).dtype == a.dtype else converted(v, a.dtype)
            for v, a in zip(leaves, avals, strict=True)
        ]
        return tree_unflatten(tree, eval_graph(graph, [*consts, *values]))

    function.__name__ = name
    return function


def _in_dtypes_of(f: Function, structure: PyTreeDef, leaves: list[Any]) -> list[Any]:
    """`leaves`, where Python scalars take the dtypes that `f` gives them."""
    avals = [aval_of(v) for v in leaves]
    if not any(a.weak for a in avals):
        return leaves
    outs = staged(f, structure, avals).graph.out_avals
    if len(outs) != len(avals):
        return [converted(v, a.dtype) for v, a in zip(leaves, avals, strict=True)]
    return [
        converted(v, out.dtype if is_inexact(out.dtype) else a.dtype) if a.weak else v
        for v, a, out in zip(leaves, avals, outs, strict=True)
    ]


def _checked(
    found: Any, has_aux: bool, tree: PyTreeDef, like: Sequence[Any], op: str, function: Function
) -> Any:
    """What a solver returned, when its solution has the structure and shapes of `like`."""
    if has_aux and (not isinstance(found, tuple | list) or len(found) != 2):
        raise PytreeError(
            f"{op}: with has_aux=True {name_of(function)} must return a pair (solution, aux), it "
            f"returned {type(found).__name__}",
            where=user_source() or None,
        )
    leaves, have = tree_flatten(found[0] if has_aux else found)
    avals = [a if isinstance(a, Aval) else aval_of(a) for a in like]
    _check_like(have, [aval_of(v) for v in leaves], tree, avals, name_of(function), "its solution")
    return tuple(found) if has_aux else found


def _check_like(
    have: PyTreeDef,
    found: Sequence[Aval],
    tree: PyTreeDef,
    avals: Sequence[Aval],
    name: str,
    what: str,
) -> None:
    where = user_source() or None
    if have != tree:
        raise PytreeError(
            f"{name}: {what} has the structure {have!r}, expected {tree!r}", where=where
        )
    paths = [keystr(p) for p, _ in tree_flatten_with_path(tree_unflatten(tree, list(avals)))[0]]
    for path, got, want in zip(paths, found, avals, strict=True):
        if got.shape != want.shape:
            raise ShapeError(
                f"{name}: {what}{path} has shape {got.shape}, expected {want.shape}",
                operands=[f"{what}{path}: {got}", f"like: {want}"],
                where=where,
            )
