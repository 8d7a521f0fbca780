"""Graphs run by NumPy: the reference backend, and what stands in for a missing compiler.

Input: a Graph.  Output: a program that evaluates its equations one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stax.backends.reference import ReferenceProgram
from stax.core.graph import Graph
from stax.core.staging import eval_graph
from stax.core.trace import EVAL, use_trace


def reference_program(graph: Graph) -> ReferenceProgram:
    """The program that interprets `graph` by NumPy."""

    def evaluate(values: Sequence[Any]) -> Sequence[Any]:
        with use_trace(EVAL):
            return eval_graph(graph, values)

    return ReferenceProgram(
        evaluate,
        [(v.shape, v.dtype) for v in graph.inputs],
        [(v.shape, v.dtype) for v in graph.outputs],
    )
