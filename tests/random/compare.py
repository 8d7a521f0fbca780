"""Compare the numbers of `stax.random` with those of an installed JAX, and write the table of both.

JAX_ENABLE_X64=1 python -m tests.random.compare [part of a dtype or name ...]

Input: nothing, or which rows to compare.  Output: a line for each draw in each dtype; of all
rows also the table in docs/random.md.  Eager and compiled draws are both compared.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from stax import jit, random
from stax.errors import StaxError
from tests.random.functions import DTYPES, functions

KEYS = 2
PAGE = Path(__file__).parents[2] / "docs" / "random.md"
START, END = "<!-- table -->\n", "<!-- end -->\n"


def share(theirs: Any, draw: Any) -> str:
    """The share of numbers in which this library differs, or why there is none."""
    keys = [random.PRNGKey(seed) for seed in range(KEYS)]
    try:
        want = [np.asarray(draw(theirs, key)) for key in keys]
    except RuntimeError:  # what it has not got
        return "JAX refuses"
    worst = 0.0
    for function in (lambda key: draw(random, key), jit(lambda key: draw(random, key))):
        try:
            got = [np.asarray(function(key)) for key in keys]
        except StaxError as error:
            return f"stax refuses ({type(error).__name__})"
        if got[0].dtype != want[0].dtype or got[0].shape != want[0].shape:
            return f"{got[0].dtype}{got[0].shape} for {want[0].dtype}{want[0].shape}"
        differs = [(g != w) & ~((g != g) & (w != w)) for g, w in zip(got, want, strict=True)]
        worst = max(worst, float(np.mean(differs)))
    return "equal" if worst == 0 else f"{100 * worst:.2g} %"


def main(wanted: list[str]) -> None:
    theirs = import_module("jax.random")
    draws = {dtype: functions(dtype) for dtype in DTYPES}
    rows = []
    for name in draws["float32"]:
        cells = []
        for dtype in DTYPES:
            label = f"{name} {dtype}"
            if wanted and not any(part in label for part in wanted):
                continue
            cells.append(share(theirs, draws[dtype][name]))
            print(f"{label}: {cells[-1]}", flush=True)
        rows.append(f"| {name} | {' | '.join(cells)} |\n")
    if not wanted:
        head = f"| draw | {' | '.join(DTYPES)} |\n|---|{'---|' * len(DTYPES)}\n"
        text = PAGE.read_text()
        table = re.compile(f"{START}.*{END}", re.DOTALL)
        PAGE.write_text(table.sub(START + head + "".join(rows) + END, text))


if __name__ == "__main__":
    main(sys.argv[1:])
