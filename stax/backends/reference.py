"""The reference backend: a graph interpreted by NumPy.

Input: a Graph.  Output: the same `run` as a compiled program.  It is the oracle that other
backends are compared with, and what `jit` uses on a machine without a C compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


class ReferenceProgram:
    """Runs a program by calling NumPy for each operation.

    Args:
      evaluate: computes the results from the values of the inputs.
      inputs: (shape, dtype) of each input.
      outputs: (shape, dtype) of each result.
    """

    from_cache = True

    def __init__(
        self,
        evaluate: Callable[[Sequence[Any]], Sequence[Any]],
        inputs: Sequence[tuple[tuple[int, ...], Any]],
        outputs: Sequence[tuple[tuple[int, ...], Any]],
    ) -> None:
        self._evaluate = evaluate
        self._in = list(inputs)
        self._out = list(outputs)

    def run(self, values: Sequence[Any]) -> list[Any]:
        """Results as fresh arrays that share no memory with the arguments."""
        given = [
            np.asarray(v).astype(dtype, copy=False).reshape(shape)
            for v, (shape, dtype) in zip(values, self._in, strict=True)
        ]
        with np.errstate(all="ignore"):
            outs = self._evaluate(given)
        return [
            np.array(o, dtype=dtype, order="C", copy=True).reshape(shape)
            for o, (shape, dtype) in zip(outs, self._out, strict=True)
        ]
