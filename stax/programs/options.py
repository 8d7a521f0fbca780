"""What distinguishes two compilations of one graph, and how often the stages ran.

Input: the arguments of `jit` and the process's options.  Output: a CompileOptions, part of the key
of a program in memory and on disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stax.config import BACKENDS, PRECISIONS
from stax.config import options as process_options
from stax.errors import ConfigurationError


@dataclass(frozen=True)
class CompileOptions:
    """What distinguishes two compilations of one graph.

    `materialise` ("default", "all", "none", "compact"), `merge` (common subexpressions), `prune`
    (dead code), `fuse` and `recompute` switch single passes, for tests that show that none changes
    a result.
    """

    backend: str = "c"
    memory_budget: int | float | str | None = None
    strict: bool = False
    matmul_precision: str = "highest"
    materialise: str = "default"
    merge: bool = True
    prune: bool = True
    fuse: bool = True
    recompute: bool = True
    dynamic_batch: bool = False

    @staticmethod
    def of(
        backend: str | None = None,
        memory_budget: int | float | str | None = None,
        strict: bool | None = None,
        matmul_precision: str | None = None,
        **switches: Any,
    ) -> CompileOptions:
        """Options with the process's defaults filled in.

        Raises:
          ConfigurationError: the backend or the precision is unknown.
        """
        process = process_options()
        chosen = backend or process.backend or "c"
        if chosen not in BACKENDS:
            raise ConfigurationError(f"backend={backend!r} is not one of {', '.join(BACKENDS)}")
        precision = matmul_precision or process.matmul_precision
        if precision not in PRECISIONS:
            raise ConfigurationError(
                f"matmul_precision={precision!r} is not one of {', '.join(PRECISIONS)}"
            )
        return CompileOptions(
            chosen,
            memory_budget,
            process.strict if strict is None else strict,
            precision,
            **switches,
        )


class Counters:
    """How often the stages ran in this process, for tests and for the curious."""

    def __init__(self) -> None:
        self.lowered = 0
        self.compiled = 0
        self.compiler_runs = 0


counters = Counters()
