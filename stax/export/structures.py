"""Structures of containers as JSON, and back.

Input: a `PyTreeDef`, or what stands for one in a file.  Output: the other.  A file names classes
and never brings one in: a class is looked up among the modules that the program has imported, and
has to be a container there.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from typing import Any

from stax.errors import ExportError
from stax.pytree import PyTreeDef, is_tree_node

_BUILT_IN: dict[str, type] = {
    "tuple": tuple,
    "list": list,
    "dict": dict,
    "none": type(None),
    "ordered": OrderedDict,
}
_NAMES = {cls: name for name, cls in _BUILT_IN.items()}


def structure_record(tree: PyTreeDef) -> list[Any]:
    """`tree` in values that JSON has.

    Raises:
      ExportError: a class that is not found by its name, or static data without a spelling.
    """
    record: list[Any] = []
    for entry in tree.spec:
        if entry is None:
            record.append(None)
            continue
        cls, count, aux = entry
        record.append([_class_name(cls), count, _data_record(aux, cls)])
    return record


def structure_from(record: Any) -> PyTreeDef:
    """The structure that a record stands for.

    Raises:
      ExportError: the record is damaged, or a class is not there.
    """
    spec: list[Any] = []
    for entry in record:
        if entry is None:
            spec.append(None)
            continue
        name, count, aux = entry
        spec.append((_class_named(name), int(count), _data_from(aux)))
    # A spelling cut short or with too much in it would fail later, far from its cause.
    wanted = 1
    for entry in spec:
        wanted += (entry[1] if entry else 0) - 1
    if wanted or not spec:
        raise ExportError("the structure of the arguments or results is damaged")
    return PyTreeDef(spec)


def _class_name(cls: type) -> str:
    name = _NAMES.get(cls) or f"{cls.__module__}:{cls.__qualname__}"
    if cls not in _NAMES and _found(name) is not cls:
        raise ExportError(
            f"the container class {cls.__qualname__} cannot be found again by its name",
            hint="define it at the top of a module, not inside a function",
        )
    return name


def _found(name: str) -> Any:
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


def _class_named(name: str) -> type:
    built_in = _BUILT_IN.get(name)
    if built_in is not None:
        return built_in
    found = _found(name)
    if not (isinstance(found, type) and is_tree_node(found)):
        module, _, path = name.partition(":")
        raise ExportError(
            f"the arguments or results hold a container of class {path}, "
            f"and no such container class is known in {module}",
            hint=f"import {module} (and register the class as a pytree) before loading the file",
        )
    return found


def _data_record(value: Any, cls: type) -> Any:
    """Keys and static fields: numbers, text, None, and tuples, lists and dicts of those."""
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return {"float": value.hex()}
    if type(value) in (tuple, list):
        return {type(value).__name__: [_data_record(v, cls) for v in value]}
    if type(value) is dict:
        return {"dict": [[_data_record(k, cls), _data_record(v, cls)] for k, v in value.items()]}
    raise ExportError(
        f"a container of class {cls.__name__} has static data {value!r} of type "
        f"{type(value).__name__}, which has no spelling in a file",
        hint="static data may be numbers, text, None, and tuples, lists and dicts of those",
    )


def _data_from(record: Any) -> Any:
    if not isinstance(record, dict):
        return record
    ((kind, value),) = record.items()
    if kind == "float":
        return float.fromhex(value)
    if kind == "dict":
        return {_data_from(k): _data_from(v) for k, v in value}
    items = [_data_from(v) for v in value]
    return tuple(items) if kind == "tuple" else items
