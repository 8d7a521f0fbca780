"""Effects in what is computed again.

Input: a graph, or an equation that carries graphs, of a forward pass.  Output: the same without the
effects that give no result (prints), which happened when it was computed first; an error where an
effect's result is needed again.
"""

from __future__ import annotations

from collections.abc import Iterator

from stax.core.graph import Eqn, Graph
from stax.errors import ConfigurationError
from stax.transforms.simplify import acts, graph_acts, graphs_of, has_effect


def quiet(graph: Graph) -> Graph:
    """`graph` without the effects that give no result, at any depth."""
    if not graph_acts(graph):
        return graph
    found: Graph | None = graph.cache.get("quiet")
    if found is None:
        eqns = [quiet_equation(e) for e in graph.eqns if e.outputs or not acts(e)]
        found = graph.cache["quiet"] = graph.replace(eqns=eqns)
    return found


def quiet_equation(eqn: Eqn) -> Eqn:
    """An equation with the graphs that it carries made `quiet`."""
    if has_effect(eqn.prim) or not acts(eqn):
        return eqn
    params = dict(eqn.params)
    for name, value in params.items():
        if isinstance(value, Graph):
            params[name] = quiet(value)
        elif isinstance(value, tuple | list):
            params[name] = type(value)(quiet(v) if isinstance(v, Graph) else v for v in value)
    return eqn.replace(params=params)


def is_single(eqn: Eqn) -> bool:
    """Whether an equation must not be computed again: an effect gives results in it."""
    return has_effect(eqn.prim) or any(
        True for graph in graphs_of(eqn) for _ in effects_with_results(graph)
    )


def effects_with_results(graph: Graph) -> Iterator[tuple[Graph, Eqn]]:
    """The effects that give results, each with the graph that it stands in, at any depth."""
    if graph_acts(graph):
        for eqn in graph.eqns:
            if has_effect(eqn.prim) and eqn.outputs:
                yield graph, eqn
            for inner in graphs_of(eqn):
                yield from effects_with_results(inner)


def check_repeatable(graph: Graph, what: str) -> None:
    """Refuse what cannot be computed again.

    Raises:
      ConfigurationError: an effect gives a result.
    """
    for inner, eqn in effects_with_results(graph):
        raise ConfigurationError(
            f"{what}: {inner.name} has a side effect, {eqn.op}, that computing it again "
            "would repeat",
            where=eqn.source or None,
            hint="call it outside the checkpointed function, or use pure_callback if it has "
            "no effect",
        )
