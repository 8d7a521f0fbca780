"""Compiled programs on disk, found by what was traced: a later process lowers nothing.

Input: a traced graph and the options it is compiled with.  Output: a key, and under it in the disk
cache the `Image` of its program.  Equal keys stand for equal programs: the key holds the text of
the graph, the user's lines (errors name them), the options, the compiler, and this library's own
files as they are.  A graph that refers to Python objects without a text (callbacks, the rules of a
custom derivative) has no key, and a program with steps in Python is not kept.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import os
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from stax.backends.c.cache import content_key, load_blob, store_blob
from stax.backends.c.forms import Shared
from stax.backends.c.image import Image
from stax.backends.c.routines import has_routine
from stax.backends.c.toolchain import require_toolchain
from stax.core.aval import Aval
from stax.core.graph import Graph
from stax.core.primitive import Primitive
from stax.core.text import print_graph
from stax.core.trace import Tracer
from stax.programs.records import Arrays, image_from, image_record

CONSTANT_LIMIT = 1 << 20  # bytes of captured arrays; more are not worth hashing at every start
_PLAIN = (bool, int, float, complex, str, bytes, np.generic, np.dtype, enum.Enum, Aval, Primitive)


_NOT_FROZEN: Any = SimpleNamespace(frozen=False)


class _NoText(Exception):
    """The graph refers to a Python object that has no text."""


def graph_key(graph: Graph, options: str) -> str | None:
    """The key of the program of `graph`, None when it has none."""
    stamp = library_stamp()
    if stamp is None:
        return None
    try:
        words = list(_beside_text(graph))
    except _NoText:
        return None
    text = print_graph(graph)
    identity = require_toolchain().identity
    return content_key("program", stamp, identity, options, text, *words)


def _beside_text(graph: Graph) -> Iterator[str]:
    """What decides the program and is not, or not whole, in the graph's text.

    Raises:
      _NoText: there is no telling.
    """
    if any(isinstance(value, Tracer) for _, value in graph.constants):
        raise _NoText
    if sum(np.asarray(value).nbytes for _, value in graph.constants) > CONSTANT_LIMIT:
        raise _NoText
    source = ""
    for eqn in graph.eqns:
        if not getattr(eqn.prim.lower, "__module__", "stax.").startswith("stax."):
            raise _NoText
        if eqn.source != source:
            source = eqn.source or ""
            yield source
        for value in eqn.params.values():
            if type(value) is not int:
                yield from _words(value)


def _words(value: Any) -> Iterator[str]:
    """The words of one parameter; what the text spells in full has none."""
    if value is None or type(value) is int or isinstance(value, _PLAIN):
        return
    if type(value) is tuple:
        for item in value:
            if type(item) is not int:
                yield from _words(item)
        return
    if isinstance(value, Graph):
        yield from _beside_text(value)
    elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return
    elif getattr(type(value), "__dataclass_params__", _NOT_FROZEN).frozen:
        yield type(value).__qualname__
        for field in dataclasses.fields(value):
            content = getattr(value, field.name)
            yield f"{field.name}={content!r}" if isinstance(content, _PLAIN) else field.name
            yield from _words(content)
    elif isinstance(value, tuple | list | frozenset):
        if type(value) not in (tuple, list, frozenset):
            yield repr(value)
        ordered = sorted(value, key=repr) if isinstance(value, frozenset) else value
        for item in ordered:
            yield from _words(item)
    elif isinstance(value, slice):
        yield from _words((value.start, value.stop, value.step))
    elif type(value) is dict:
        for item in value.items():
            yield from _words(item)
    else:
        raise _NoText


@functools.cache
def library_stamp() -> str | None:
    """Text that changes with every file of this library; None when it does not lie in files."""
    root = Path(__file__).parents[1]
    words = [np.__version__]
    try:
        for folder, folders, names in os.walk(root, onerror=_raise):
            folders[:] = sorted(f for f in folders if f != "__pycache__")
            for name in sorted(names):
                info = os.stat(os.path.join(folder, name))
                words.append(f"{folder}/{name} {info.st_size} {info.st_mtime_ns}")
    except OSError:
        return None
    return content_key(*words)


def _raise(error: OSError) -> None:
    raise error


def load_image(key: str) -> tuple[Image, Shared | None] | None:
    """The program kept under a key, None when there is none or it cannot run here.

    Beside the image stands the general program that is compiled in its place, if any.
    """
    data = load_blob(key)
    if data is None:
        return None
    record = json.loads(data)
    arrays = {name: b64decode(text) for name, text in record["arrays"].items()}
    image = image_from(record["image"], record["functions"], record["body"], arrays)
    if not all(map(has_routine, image.routines)):
        return None
    general = record["general"]
    if general is None:
        return image, None
    text, sizes, reals = general
    return image, Shared(text, tuple(sizes), tuple(map(float.fromhex, reals)))


def store_image(key: str, image: Image, general: Shared | None) -> None:
    """Keep a program under a key, unless steps of it run in Python."""
    if image.fallbacks:
        return
    arrays: Arrays = {}
    record = {
        "image": image_record(image, arrays, whole_sources=True),
        "functions": image.functions,
        "body": image.body,
        "general": general and [general.text, general.sizes, [v.hex() for v in general.reals]],
        "arrays": {name: b64encode(data).decode() for name, data in arrays.items()},
    }
    store_blob(key, json.dumps(record).encode())
