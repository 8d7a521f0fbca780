"""Checkpointing: functions whose intermediate values are recomputed in the backward pass.

Input: a function and a policy that says which intermediate values may be kept.  Output: the same
function, staged as one `checkpoint` equation.  Its linearisation keeps the inputs (and what the
policy allows); the recomputation is part of the tangent graph, in a region of its own, so it is
evaluated when the backward pass first needs it and no pass merges it back into the forward pass.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.functionalize import mark_arguments
from stax.core.graph import Eqn, Graph, Var
from stax.core.primitive import COMPOSED, Primitive, Recompute
from stax.core.staging import eval_graph, frees_after, lift_constants, stage
from stax.core.trace import EVAL, STATE, bind, bind1, fresh, tagged, use_trace
from stax.errors import ConfigurationError, StaticArgumentError
from stax.primitives.families_arrays import linear_shape_op
from stax.pytree import PyTreeDef, tree_flatten, tree_unflatten
from stax.transforms.arguments import (
    check_callable,
    check_leaves,
    name_of,
    static_arguments,
    unshared,
)
from stax.transforms.budget import budget_bytes
from stax.transforms.calls import eval_call, graph_avals, graph_cost, is_zero, transpose_call
from stax.transforms.control_graphs import without_jit
from stax.transforms.effects import check_repeatable, quiet_equation
from stax.transforms.jit_call import saving_graphs
from stax.transforms.jvp import jvp_graph
from stax.transforms.linearize import LinearizeTrace
from stax.transforms.simplify import acts, has_effect
from stax.transforms.vmap import batch_graph

Policy = Callable[..., bool]
_regions = itertools.count(1)


def _checkpoint_jvp(primals: Any, outs: Any, tangents: Any, /, **params: Any) -> Any:
    nonzero = [not is_zero(t) for t in tangents]
    graph, marks = jvp_graph(params["graph"], nonzero)
    given = [t for t in tangents if not is_zero(t)]
    found = bind(checkpoint_p, *primals, *given, graph=graph, **_rules(params))
    rest = iter(found[len(marks) :])
    return found[: len(marks)], [next(rest) if m else None for m in marks]


def _checkpoint_batch(args: Any, dims: Any, /, *, size: int, axis_name: Any, **params: Any) -> Any:
    graph, out_dims = batch_graph(params["graph"], dims, size, axis_name)
    return bind(checkpoint_p, *args, graph=graph, **_rules(params)), out_dims


def _rules(params: dict[str, Any]) -> dict[str, Any]:
    """What the user says is kept."""
    return {"policy": params["policy"], "budget": params["budget"]}


def _checkpoint_linearize(
    trace: LinearizeTrace, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]
) -> tuple[Sequence[Any], Sequence[Any]]:
    graph, policy = params["graph"], params["policy"]
    check_repeatable(graph, "checkpoint")
    if params["budget"] is not None:
        return _linearize_within(trace, primals, tangents, params)
    saved = _saved_values(graph, policy)
    forward = graph.replace(outputs=[*graph.outputs, *saved]) if saved else graph
    results = bind(checkpoint_p, *primals, graph=forward, **_rules(params))
    count = len(graph.outputs)
    known = dict(zip(saved, results[count:], strict=True))
    staging = trace.tangents
    inner = LinearizeTrace(staging, staging, again=True)
    with use_trace(inner), tagged(region=next(_regions)):
        outs = _rerun(inner, graph, inner.wrap(primals, tangents), known)
        return results[:count], [inner.tangent_of(v) for v in outs]


def _linearize_within(
    trace: LinearizeTrace, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]
) -> tuple[Sequence[Any], Sequence[Any]]:
    """The rule with a budget: what is kept is the cheapest save set of that size."""
    active = [not is_zero(t) for t in tangents]
    parts = saving_graphs(params["graph"], active, params["budget"], trace.again)
    forward, tangent, sources, in_mask, out_mask = parts
    results = bind(checkpoint_p, *primals, graph=forward, **_rules(params))
    n = len(forward.inputs)
    residuals = [primals[k] if k < n else results[k - n] for k in sources]
    given = [t for t, m in zip(tangents, in_mask, strict=True) if m]
    with use_trace(trace.tangents), tagged(region=next(_regions)):
        found = iter(eval_graph(tangent, [*residuals, *given]))
    return results[: len(out_mask)], [next(found) if m else None for m in out_mask]


def _saved_values(graph: Graph, policy: Policy | None) -> list[Var]:
    """The values of `graph` that the policy lets the forward pass keep."""
    if policy is None:
        return []
    saved: list[Var] = []
    for eqn in graph.eqns:
        if eqn.prim.linearize is None and _allows(policy, eqn):
            saved.extend(eqn.outputs)
    return saved


def _rerun(
    trace: LinearizeTrace, graph: Graph, args: Sequence[Any], known: dict[Var, Any]
) -> list[Any]:
    """Linearise `graph`, taking the results of an equation from `known` where they are there."""
    env: dict[Var, Any] = dict(zip(graph.inputs, args, strict=True))
    env.update(graph.constants)
    frees = frees_after(graph)
    region = STATE.region
    before = STATE.source
    try:
        for k, eqn in enumerate(graph.eqns):
            STATE.source = eqn.source or before
            STATE.region = eqn.region or region
            values = [env[a] if isinstance(a, Var) else a.value for a in eqn.inputs]
            if acts(eqn):  # a print is made once, in the forward pass
                if not eqn.outputs:
                    continue
                eqn = quiet_equation(eqn)
            if eqn.outputs and eqn.outputs[0] in known:
                outs = [known[v] for v in eqn.outputs]
                results = trace.process_known(eqn.prim, values, eqn.params, outs)
            else:
                results = bind(eqn.prim, *values, **eqn.params)
            env.update(zip(eqn.outputs, results, strict=True))
            for var in frees[k]:
                env.pop(var, None)
    finally:
        STATE.source, STATE.region = before, region
    return [env[a] if isinstance(a, Var) else a.value for a in graph.outputs]


checkpoint_p = Primitive(
    "checkpoint",
    family="call",
    abstract_eval=graph_avals,
    impl=eval_call,
    jvp=_checkpoint_jvp,
    transpose=transpose_call,
    batch=_checkpoint_batch,
    lower=COMPOSED,
    cost=graph_cost,
    recompute=Recompute.EXPENSIVE,
    multi=True,
    linearize=_checkpoint_linearize,
    decompose=eval_call,
)


def checkpoint(
    fun: Callable[..., Any] | None = None,
    *,
    policy: Policy | None = None,
    memory_budget: int | float | str | None = None,
    static_argnums: int | Sequence[int] = (),
    prevent_cse: bool = True,
    concrete: bool = False,
) -> Any:
    """`fun`, keeping only its inputs for the backward pass and recomputing the rest there.

    Without `fun` it is a decorator: `@checkpoint(memory_budget=0.5)`. Checkpointed functions may
    call others, which takes five frames of Python's stack a level: for more than 150 levels raise
    its limit by `sys.setrecursionlimit`.

    Args:
      policy: says which results may be kept all the same; see `checkpoint_policies`.
      memory_budget: instead of a policy, how much may be kept: bytes, text such as "512MiB", or a
        fraction in (0, 1] of all that the backward pass reads; chosen to recompute least.
      static_argnums: arguments passed as they are, such as flags, by position or name.
      prevent_cse: accepted for compatibility; recomputations are never merged.
      concrete: accepted for compatibility.

    Raises:
      ConfigurationError: the policy is not a function, there is a budget as well, or `fun` calls
        back with an effect and uses the result.
      StaticArgumentError: `static_argnums` names no argument of `fun`.
      MemoryBudgetError: when it is differentiated: not so little can be kept.

    >>> f = checkpoint(lambda x: np.sin(np.sin(x)))
    """
    if policy is not None:
        _check_policy(policy, "checkpoint: policy")
    if policy is not None and memory_budget is not None:
        raise ConfigurationError(
            "checkpoint: both a policy and a memory_budget say what is kept",
            hint="give one of them",
        )
    if memory_budget is not None:
        budget_bytes(memory_budget, 0)  # refuses nonsense at once
    if fun is None:
        return functools.partial(
            checkpoint,
            policy=policy,
            memory_budget=memory_budget,
            static_argnums=static_argnums,
            prevent_cse=prevent_cse,
            concrete=concrete,
        )
    check_callable(fun, "checkpoint")
    static, static_names = static_arguments("checkpoint", fun, static_argnums)

    @functools.wraps(fun)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        if STATE.trace is EVAL:
            results, tree = tree_flatten(fun(*args, **kwargs))
            return tree_unflatten(tree, unshared(results, tree_flatten((args, kwargs))[0]))
        dynamic = [k for k in range(len(args)) if k not in static]
        static_kwargs = {k: kwargs.pop(k) for k in static_names if k in kwargs}
        leaves, treedef = tree_flatten((tuple(args[k] for k in dynamic), kwargs))
        check_leaves(
            leaves,
            f"arguments of {name_of(fun)}",
            "close over it, or mark it static in checkpoint with static_argnums",
        )
        trees: list[PyTreeDef] = []

        def flat(*values: Any) -> list[Any]:
            mark_arguments(values)
            inner, inner_kwargs = tree_unflatten(treedef, values)
            full = list(args)
            for k, value in zip(dynamic, inner, strict=True):
                full[k] = value
            outs, tree = tree_flatten(fun(*full, **inner_kwargs, **static_kwargs))
            check_leaves(outs, f"results of {name_of(fun)}")
            trees.append(tree)
            return outs

        staged = stage(flat, [aval_of(v) for v in leaves], name=name_of(fun))
        graph, consts = lift_constants(without_jit(staged))
        if any(has_effect(eqn.prim) and eqn.outputs for eqn in graph.eqns):
            check_repeatable(graph, "checkpoint")
        outs = bind(
            checkpoint_p, *consts, *leaves, graph=graph, policy=policy, budget=memory_budget
        )
        return tree_unflatten(trees[-1], outs)

    return checkpointed


remat = checkpoint


def _check_policy(policy: Any, what: str) -> None:
    if not callable(policy) or isinstance(policy, type):
        names = ", ".join(n for n in vars(checkpoint_policies) if not n.startswith("_"))
        raise ConfigurationError(
            f"{what}={policy!r} is not a policy",
            hint=f"take one of stax.checkpoint_policies: {names}",
        )
    try:
        parameters = inspect.signature(policy).parameters.values()
    except (TypeError, ValueError):
        return  # written in C
    kinds = {p.kind for p in parameters}
    if not kinds >= {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
        raise ConfigurationError(
            f"{what}={policy!r} cannot be called as policy(primitive, *avals, **params)",
            hint="write it with these arguments; a function of stax.checkpoint_policies that makes "
            "a policy is called first: save_only_these_names('name')",
        )


def _allows(policy: Policy, eqn: Eqn) -> bool:
    """Whether the policy keeps the results of an equation."""
    found = policy(eqn.prim, *(a.aval for a in eqn.inputs), **eqn.params)
    if isinstance(found, bool | np.bool_):
        return bool(found)
    raise ConfigurationError(
        f"checkpoint: the policy {name_of(policy)} says {found!r} of {eqn.op}, not True or False",
        where=eqn.source or None,
        hint="return True for what is kept, False for what is computed again",
    )


def _checked_names(names: Sequence[Any], what: str) -> frozenset[str]:
    for name in names:
        if not isinstance(name, str):
            raise ConfigurationError(
                f"{what}: {name!r} is not a name",
                hint="names are text, as given to stax.checkpoint_name(x, 'name')",
            )
    return frozenset(names)


def checkpoint_sequential(
    functions: Sequence[Callable[..., Any]], segments: int, *args: Any
) -> Any:
    """The functions applied one after another, checkpointed in `segments` nearly equal parts.

    With l functions at most `segments + ceil(l / segments)` states are kept, and every function
    runs at most twice.  `args` go to the first function; each following one takes the result of
    the one before it.

    Raises:
      StaticArgumentError: `segments` is no number of parts that so many functions have, or
        `functions` is one function.

    >>> stax.grad(lambda x: checkpoint_sequential([np.sin, np.exp, np.sin], 2, x))(0.0)
    0.5403023058681398
    """
    if callable(functions):
        raise StaticArgumentError(
            f"checkpoint_sequential: {name_of(functions)} is one function, not a sequence of them",
            hint="give the functions of the chain in a list",
        )
    steps = list(functions)
    for step in steps:
        check_callable(step, "checkpoint_sequential")
    whole = isinstance(segments, int | np.integer) and not isinstance(segments, bool)
    if not whole or not 1 <= segments <= max(len(steps), 1):
        raise StaticArgumentError(
            f"checkpoint_sequential: segments={segments!r} for {len(steps)} functions",
            hint=f"take a whole number from 1 to {max(len(steps), 1)}",
        )
    if not steps:
        return args[0] if len(args) == 1 else args
    bounds = [len(steps) * k // segments for k in range(segments + 1)]
    state: tuple[Any, ...] = args
    for start, stop in itertools.pairwise(bounds):
        state = (checkpoint(_chain(steps[start:stop]))(*state),)
    return state[0]


def _chain(steps: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    def segment(*args: Any) -> Any:
        value = steps[0](*args)
        for step in steps[1:]:
            value = step(value)
        return value

    return segment


# --- policies -----------------------------------------------------------------------------------


def _name_aval(x: Aval, *, name: str) -> Aval:
    return x


name_p: Primitive = linear_shape_op(
    "name",
    abstract_eval=_name_aval,
    impl=lambda x, *, name: x,
    transpose=lambda ct, aval, *, name: ct,
    batch=lambda args, dims, /, *, name: (bind1(name_p, args[0], name=name), dims[0]),
    family="identity",
)


def checkpoint_name(x: Any, name: str) -> Any:
    """`x` (a pytree of arrays), its leaves marked with a name that checkpoint policies refer to.

    Raises:
      ConfigurationError: the name is no string.

    >>> def layer(x, w):
    ...     return np.tanh(checkpoint_name(x @ w, "product"))
    >>> policy = checkpoint_policies.save_only_these_names("product")
    >>> stax.grad(checkpoint(lambda x, w: layer(x, w).sum(), policy=policy))(np.ones(2), np.eye(2))
    array([0.41997434, 0.41997434])
    """
    _checked_names([name], "checkpoint_name")
    leaves, treedef = tree_flatten(x)
    if STATE.trace is EVAL:
        return tree_unflatten(treedef, [fresh(leaf) for leaf in leaves])
    return tree_unflatten(treedef, [bind1(name_p, leaf, name=name) for leaf in leaves])


class checkpoint_policies:
    """Policies for `checkpoint`: `policy(primitive, *avals, **params)` is true for what is kept.

    The primitive is an operation, `avals` are the types of its operands and `params` its
    parameters. Some are policies, others make one of names given by `checkpoint_name`; a function
    of yours with these arguments will do too.

    >>> f = checkpoint(np.tanh, policy=checkpoint_policies.dots_saveable)
    """

    @staticmethod
    def everything_saveable(prim: Primitive, *avals: Aval, **params: Any) -> bool:
        """Keep everything, as without checkpointing."""
        return True

    @staticmethod
    def nothing_saveable(prim: Primitive, *avals: Aval, **params: Any) -> bool:
        """Keep only the inputs."""
        return False

    @staticmethod
    def dots_saveable(prim: Primitive, *avals: Aval, **params: Any) -> bool:
        """Keep the results of contractions (matmul, einsum, ...)."""
        return prim.family == "contraction"

    checkpoint_dots = dots_saveable

    @staticmethod
    def dots_with_no_batch_dims_saveable(prim: Primitive, *avals: Aval, **params: Any) -> bool:
        """Keep the results of contractions without batch dimensions."""
        return prim.family == "contraction" and not params["dimension_numbers"][1][0]

    checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable

    @staticmethod
    def save_only_these_names(*names: str) -> Policy:
        """Keep the values marked with one of these names."""
        chosen = _checked_names(names, "save_only_these_names")

        def policy(prim: Primitive, *avals: Aval, **params: Any) -> bool:
            return prim is name_p and params["name"] in chosen

        return policy

    @staticmethod
    def save_any_names_but_these(*names: str) -> Policy:
        """Keep the values marked with a name that is not one of these."""
        excluded = _checked_names(names, "save_any_names_but_these")

        def policy(prim: Primitive, *avals: Aval, **params: Any) -> bool:
            return prim is name_p and params["name"] not in excluded

        return policy

    @staticmethod
    def save_anything_except_these_names(*names: str) -> Policy:
        """Keep everything but the values marked with one of these names."""
        excluded = _checked_names(names, "save_anything_except_these_names")

        def policy(prim: Primitive, *avals: Aval, **params: Any) -> bool:
            return prim is not name_p or params["name"] not in excluded

        return policy

    @staticmethod
    def save_and_offload_only_these_names(
        *,
        names_which_can_be_saved: Sequence[str],
        names_which_can_be_offloaded: Sequence[str],
        offload_src: str = "device",
        offload_dst: str = "pinned_host",
    ) -> Policy:
        """Keep the values marked with one of these names; they stay where they are.

        What JAX would move to the host's memory is kept too: programs on the CPU work in it.
        """
        return checkpoint_policies.save_only_these_names(
            *names_which_can_be_saved, *names_which_can_be_offloaded
        )

    @staticmethod
    def offload_dot_with_no_batch_dims(
        offload_src: str = "device", offload_dst: str = "pinned_host"
    ) -> Policy:
        """Keep the results of contractions without batch dimensions, where they are."""
        return checkpoint_policies.dots_with_no_batch_dims_saveable

    @staticmethod
    def save_from_both_policies(first: Policy, second: Policy) -> Policy:
        """Keep what either policy keeps."""
        _check_policy(first, "save_from_both_policies: first")
        _check_policy(second, "save_from_both_policies: second")

        def policy(prim: Primitive, *avals: Aval, **params: Any) -> bool:
            return first(prim, *avals, **params) or second(prim, *avals, **params)

        return policy
