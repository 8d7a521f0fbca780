"""Long loops outside jit: after so many steps the rest runs as a compiled program.

Input: a loop as an equation, and values.  Output: its results.  Interpreting a step costs
microseconds for each operation, compiling a loop about half a second, so it pays from some
thousands of steps on; the number is fixed, so that the same call always gives the same bits.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from stax.core.aval import aval_of
from stax.core.graph import Graph
from stax.core.primitive import Primitive
from stax.core.staging import stage
from stax.core.trace import bind
from stax.transforms.jit_call import compiled_results, compiles

LONG = 10_000


class _Running(threading.local):
    """Whether a loop of this thread has been handed over: what it calls back runs in Python."""

    now: bool = False


_running = _Running()


def can_hand_over() -> bool:
    """True when a compiled program can run the rest of a loop."""
    return not _running.now and compiles()


def compiled_run(prim: Primitive, values: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """The results of one equation, by a compiled program; the program is kept on its graph."""
    body: Graph = params["body"]
    key = ("eager program", prim.name, *(v for v in params.values() if isinstance(v, int)))
    graph: Graph | None = body.cache.get(key)
    if graph is None:
        avals = [aval_of(v).strong() for v in values]
        graph = stage(lambda *args: bind(prim, *args, **params), avals, name=prim.name)
        body.cache[key] = graph
    _running.now = True
    try:
        outs = compiled_results(graph, values)
    finally:
        _running.now = False
    return [out[()] for out in outs]
