"""Checkpointing under the names of `jax.ad_checkpoint`; see `stax.transforms.checkpoint`."""

from collections.abc import Callable
from typing import Any

from stax.transforms.checkpoint import checkpoint, checkpoint_name, checkpoint_policies, remat
from stax.transforms.joint import joint_graph

__all__ = [
    "checkpoint",
    "checkpoint_name",
    "checkpoint_policies",
    "print_saved_residuals",
    "remat",
]


def print_saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Print what a compiled gradient of `f` keeps from its forward part: type, operation, line.

    Arguments that the backward part reads are kept by the caller and named as such.
    `stax.explain` tells the reasons.

    >>> print_saved_residuals(lambda x, w: np.tanh(x @ w).sum(), np.ones(3), np.ones((3, 2)))
    f64[3] from the argument x
    f64[3,2] from the argument w
    f64[2] output of dot_general from ...
    """
    count = len(args)
    keywords = list(kwargs)

    def positional(*values: Any) -> Any:
        return f(*values[:count], **dict(zip(keywords, values[count:], strict=True)))

    operands = (*args, *kwargs.values())
    of = positional if kwargs else f
    graph = joint_graph(of, argnums=tuple(range(len(operands))))(*operands)
    partition = graph.partition()
    for k in partition.needed_primals:
        var = graph.inputs[k]
        print(f"{var.aval} from the argument {var.name}")
    made = {var: eqn for eqn in graph.eqns for var in eqn.outputs}
    for var in partition.saved:
        print(f"{var.aval} output of {made[var].op} from {made[var].source}")
