"""Pictures drawn with matplotlib, which is optional and loaded by the first of them.

Input: axes, a file's path or nothing, and what draws.  Output: the axes, drawn on and saved.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from stax.errors import ConfigurationError


def drawn(axes: Any, draw: Callable[[Any], None], what: str) -> Any:
    """The axes after `draw(axes)`: those given, or new ones, saved where a path is given.

    Raises:
      ConfigurationError: something else is given, or matplotlib is not installed.
    """
    path = axes if isinstance(axes, str | os.PathLike) else None
    if axes is None or path is not None:
        try:
            from matplotlib import pyplot
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ConfigurationError(
                f"{what} draws with matplotlib, which cannot be imported: {error}",
                hint="install matplotlib, or give axes that have its methods",
            ) from None
        # What pyplot makes it also shows; a file needs no window.
        axes = (pyplot.figure() if path is None else Figure()).subplots()
    elif not hasattr(axes, "plot"):
        raise ConfigurationError(
            f"{what} takes matplotlib's axes or the path of a file, got {type(axes).__name__}"
        )
    draw(axes)
    if path is not None:
        axes.figure.savefig(path)
    return axes
