"""In-place writes on traced values: what a write does to the value, to its views and its base.

Input: a tracer and the value it is to have from now on.  Output: the same tracer object standing
for the new value.  A tracer is a handle: its slots say what it stands for in its trace, and an
assignment moves the slots of the new value into it.  Whoever reads the handle later sees the
write; equations and results recorded earlier hold what the handle stood for then.

A view (basic index, reshape, transpose, ...) remembers its root and the path of steps from there.
Writing to a view rebuilds the root through the inverse steps; writing to a root renews its live
views.  Roots know their views by weak references only, so nothing is kept alive by being viewed.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from stax.core.source import user_source
from stax.core.staging import is_reachable
from stax.core.trace import Tracer, handle_of, value_slots
from stax.errors import MutationError

Read = Callable[[Any], Any]
Write = Callable[[Any, Any], Any]
# How to read the view from its base, how to write it back, and the same step on a plain array.
Step = tuple[Read, Write | None, Read]
# A path is () at the root, else (path of the base, step from the base).
Path = tuple[Any, ...]


def _become(handle: Tracer, value: Tracer) -> None:
    for name in value_slots(type(value)):
        setattr(handle, name, getattr(value, name))
    handle.version = getattr(handle, "version", 0) + 1


ARGUMENT = "an argument of a transformed function"


def mark_arguments(values: Iterable[Any], role: str = ARGUMENT) -> None:
    """Make tracers read-only: they stand for the caller's arrays."""
    for value in values:
        if isinstance(value, Tracer):
            value.role = role


def record_view(
    view: Any,
    base: Any,
    read: Read,
    write: Write | None,
    layout: Read,
) -> Any:
    """Remember that `view` = read(base); `write(base, new view)` gives the new base.

    `write=None` marks a view that NumPy refuses to write to (a broadcast); `layout` is the same
    step on a NumPy array.  Returns `view`, which is a handle of its own even when the operation
    changed nothing.
    """
    if not isinstance(view, Tracer) or not isinstance(base, Tracer):
        return view
    if view is base:
        view = handle_of(base)
    root, path = getattr(base, "origin", (base, ()))
    view.origin = (root, (path, (read, write, layout)))
    views = getattr(root, "views", None)
    if views is None:
        root.views = [weakref.ref(view)]
    else:
        n = len(views)
        if n >= 8 and n & (n - 1) == 0:
            views[:] = [r for r in views if r() is not None]
        views.append(weakref.ref(view))
    return view


def _steps(path: Path) -> list[Step]:
    steps = []
    while path:
        path, step = path
        steps.append(step)
    return steps[::-1]


def layout_of(value: Tracer) -> Any:
    """An array without memory of its own, with the strides NumPy's view would have.

    A value that is no view of another counts as row-major.
    """
    root, path = getattr(value, "origin", (value, ()))
    strides = [1] * len(root.shape)
    for k in range(len(root.shape) - 1, 0, -1):
        strides[k - 1] = strides[k] * max(root.shape[k], 1)
    array = np.lib.stride_tricks.as_strided(np.empty(1, np.int8), root.shape, strides)
    for _, _, layout in _steps(path):
        array = layout(array)
    return array


def reshaped_layout(array: Any, shape: Sequence[int]) -> Any:
    """`array` under another shape without a copy, or None when NumPy would have to copy."""
    try:
        return np.reshape(array, tuple(shape), copy=False)
    except ValueError:
        return None


def check_writable(target: Tracer) -> None:
    """Raise MutationError when `target`, or the value it is a view of, may not be written."""
    root, path = getattr(target, "origin", (target, ()))
    role = getattr(root, "role", "")
    if role:
        what = f"a view of {role}" if path else role
        hint = (
            "write to a copy (x = x.copy()), or say x = x + v for x += v and "
            "x = stax.at(x)[index].set(value) for x[index] = value"
        )
        if role == ARGUMENT:
            hint += (
                ", or let jit(f, write_back=True) store the final values into the caller's arrays"
            )
        raise MutationError(
            f"in-place write to {what} (type {target.aval})",
            where=user_source() or None,
            hint=hint,
        )
    while path:
        path, (_, write, _) = path
        if write is None:
            raise MutationError(
                f"in-place write to a read-only view (type {target.aval})",
                where=user_source() or None,
                hint="broadcast views repeat elements; write to a copy (x = x.copy())",
            )


def _lifted(target: Tracer, value: Any) -> Tracer:
    if isinstance(value, Tracer) and value.owner is not target.owner:
        if not is_reachable(value.owner, target.owner):
            raise MutationError(
                f"a value of an inner transformation was written into a value of type "
                f"{target.aval} that belongs to an outer one",
                where=user_source() or None,
                hint="return the new value from the inner function and assign it outside",
            )
    lifted: Tracer = target.owner.lift(value)
    return lifted


def assign(target: Tracer, value: Any) -> None:
    """Let `target` stand for `value`, of the same shape and dtype, and update base and views.

    Raises:
      MutationError: `target` is an argument, a read-only view, or of an outer transformation.
    """
    check_writable(target)
    root, path = getattr(target, "origin", (target, ()))
    steps = _steps(path)
    bases = [root]
    for read, _, _ in steps[:-1]:
        bases.append(read(bases[-1]))
    new = value
    for base, (_, write, _) in zip(reversed(bases), reversed(steps), strict=True) if steps else ():
        assert write is not None
        new = write(base, new)
    lifted = _lifted(root, new)
    if path:
        _become(target, _lifted(target, value))
    _become(root, lifted)
    for ref in getattr(root, "views", ()):
        view = ref()
        if view is None or view is target:
            continue
        current: Any = root
        for read, _, _ in _steps(view.origin[1]):
            current = read(current)
        _become(view, _lifted(view, current))
