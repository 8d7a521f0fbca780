"""The classes that interpreters of a jaxpr name, as `jax.extend.core` has them.

A jaxpr is a `Graph` here, closed or not, and a `Primitive` is a row that cannot be made by users.

>>> graph = stax.make_jaxpr(lambda x: np.exp(x))(np.ones(2))
>>> jaxpr_as_fun(graph)(np.zeros(2))
[array([1., 1.])]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stax.absent import missing
from stax.core.graph import Eqn as JaxprEqn
from stax.core.graph import Graph, Literal, Var
from stax.core.staging import eval_graph

__all__ = ["ClosedJaxpr", "Jaxpr", "JaxprEqn", "Literal", "Var", "jaxpr_as_fun"]

Jaxpr = ClosedJaxpr = Graph


def jaxpr_as_fun(closed_jaxpr: Graph) -> Callable[..., list[Any]]:
    """The function of the inputs that a graph stands for; it returns a list."""
    return lambda *args: eval_graph(closed_jaxpr, args)


def __getattr__(name: str) -> Any:
    raise missing(__name__, name)
