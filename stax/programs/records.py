"""Programs as JSON, text and raw arrays, and back.

Input: the `Image` of a compiled program, or the record of one.  Output: the other.  Arrays are kept
apart, by the digest of their bytes, so that what several programs share is stored once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stax.backends.c.image import Fallback, Image, Operand, RoutineCall
from stax.core.aval import Aval
from stax.core.graph import Eqn, Graph, Var
from stax.core.text import (
    BLOB_LIMIT,
    array_bytes,
    array_from,
    constant_digest,
    parse_graph,
    print_graph,
    short_source,
)
from stax.dtypes import BY_SHORT_NAME, short_name
from stax.errors import ExportError, GraphError
from stax.loops.lower import CheckedIndex

Arrays = dict[str, bytes]  # by digest


def image_record(image: Image, arrays: Arrays, *, whole_sources: bool = False) -> dict[str, Any]:
    """All of `image` but its C text; its arrays are added to `arrays`.

    Sources are `file.py:12`, or with `whole_sources` full paths.
    """

    def place(source: str) -> str:
        return source if whole_sources else short_source(source)

    constants = []
    for value in image.constants:
        arrays[constant_digest(value)] = array_bytes(value)
        constants.append([constant_digest(value), *_type_record((value.shape, value.dtype))])
    return {
        "arena": image.arena,
        "inputs": [_type_record(t) for t in image.inputs],
        "outputs": [_type_record(t) for t in image.outputs],
        "constants": constants,
        "fallbacks": [_fallback_record(f) for f in image.fallbacks],
        "checks": [[name, list(extents)] for name, extents in image.checks],
        "routines": list(image.routines),
        "calls": [[c.routine, c.op, place(c.source)] for c in image.calls],
        "checked": [[c.op, place(c.source), sorted(c.extents)] for c in image.checked],
    }


def image_from(record: Any, functions: str, body: str, arrays: Mapping[str, bytes]) -> Image:
    """The image of a record and its C text."""
    return Image(
        functions=functions,
        body=body,
        arena=int(record["arena"]),
        inputs=tuple(map(_type_from, record["inputs"])),
        outputs=tuple(map(_type_from, record["outputs"])),
        constants=tuple(
            array_from(arrays[d], *_type_from(kind)) for d, *kind in record["constants"]
        ),
        fallbacks=tuple(map(_fallback_from, record["fallbacks"])),
        checks=tuple((str(name), tuple(map(int, sizes))) for name, sizes in record["checks"]),
        checked=tuple(
            CheckedIndex(op, source, frozenset(sizes)) for op, source, sizes in record["checked"]
        ),
        routines=tuple(map(str, record["routines"])),
        calls=tuple(RoutineCall(*map(str, call)) for call in record["calls"]),
    )


def large_constants(graph: Graph, arrays: Arrays) -> None:
    """Add the constants that the text of `graph` gives by digest to `arrays`."""
    pending: list[Any] = [graph]
    while pending:
        value = pending.pop()
        if isinstance(value, Graph):
            pending += [c for _, c in value.constants]
            for eqn in value.eqns:
                pending += eqn.params.values()
        elif isinstance(value, tuple | list):
            pending += value
        elif isinstance(value, np.ndarray) and value.nbytes > BLOB_LIMIT:
            arrays[constant_digest(value)] = array_bytes(value)


def unsaved_steps(image: Image) -> list[str]:
    """The steps of a program that run in Python and have no text: `name at file:line`."""
    found = []
    for fallback in image.fallbacks:
        try:
            parse_graph(_step_text(fallback))
        except GraphError:
            found.append(f"{fallback.eqn.prim.name} at {fallback.eqn.source or '?'}")
    return found


def _type_record(kind: tuple[tuple[int, ...], np.dtype]) -> list[Any]:
    return [list(kind[0]), short_name(kind[1])]


def _type_from(record: Any) -> tuple[tuple[int, ...], np.dtype]:
    shape, name = record
    return tuple(int(n) for n in shape), dtype_named(name)


def dtype_named(name: str) -> np.dtype:
    """The dtype of a short name.

    Raises:
      ExportError: there is none.
    """
    found = BY_SHORT_NAME.get(name)
    if found is None:
        raise ExportError(f"the file names a dtype {name!r} that stax does not know")
    return found


def _step_text(fallback: Fallback) -> str:
    """The step as a graph of one equation."""
    eqn = fallback.eqn
    inputs = [Var(Aval(o.shape, o.dtype), f"x{k}") for k, o in enumerate(fallback.operands)]
    outputs = [Var(Aval(s, d), f"y{k}") for k, (s, d) in enumerate(fallback.results)]
    step = Eqn(eqn.prim, inputs, outputs, eqn.params, source=eqn.source)
    return print_graph(Graph(inputs, [step], list(outputs), [], "step"), blobs=True)


def _fallback_record(fallback: Fallback) -> dict[str, Any]:
    views = [[o.extent, o.offset, list(o.strides)] for o in fallback.operands]
    return {"step": _step_text(fallback), "views": views}


def _fallback_from(record: Any) -> Fallback:
    graph = parse_graph(record["step"])
    operands = tuple(
        Operand(int(extent), int(offset), v.shape, tuple(map(int, strides)), v.dtype)
        for v, (extent, offset, strides) in zip(graph.inputs, record["views"], strict=True)
    )
    (eqn,) = graph.eqns
    return Fallback(eqn, operands, tuple((v.shape, v.dtype) for v in eqn.outputs))
