"""Several rows of a column reduction in one loop.

Input: the statements of a row, those of one element, and the columns that elements are merged into.
Output: the same statements for four rows, or two.  A column is read and written once for all of
them, and merged with their elements in the order of the rows, so its bits stay the same; memory is
read in as many places at once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from stax.backends.c.lanes import renamed

ROWS = 4
FEW_ROWS = 2  # where they come from the third cache, which answers fewer streams sooner
LARGE_BYTES = 8 << 20  # of all rows, from which they have left the second cache
MEMORY_BYTES = 96 << 20  # ... and the third
FEW_LINES = 8  # statements of one row, up to which those of several stand side by side
_DEFINED = re.compile(r"^\w+ (\w+) = ")


def how_many(nbytes: int) -> int:
    """How many rows stand side by side, where all of them are so many bytes."""
    return FEW_ROWS if LARGE_BYTES <= nbytes < MEMORY_BYTES else ROWS


def rows_abreast(
    count: int,
    row: str,
    of_row: Sequence[str],
    of_element: Sequence[str],
    columns: Sequence[tuple[str, str]],
) -> tuple[list[str], list[str]] | None:
    """The statements of `count` rows, and of one element of each; None where they are many.

    Args:
      count: how many rows.
      row: the variable that holds the number of the row.
      of_row: the statements in front of the loop.
      of_element: the statements inside it.
      columns: for each accumulator the C type and the text of the element it merges into.
    """
    if len(of_row) + len(of_element) > FEW_LINES:
        return None
    defined = [_DEFINED.match(s) for s in (*of_row, *of_element)]
    own = [m.group(1) for m in defined if m is not None]
    stored = [any(s.startswith(f"{text} = ") for _, text in columns) for s in of_element]
    if len(own) + sum(stored) != len(defined):
        return None
    held = {text: f"column{k}" for k, (_, text) in enumerate(columns)}
    before: list[str] = []
    inside = [f"{kind} {held[text]} = {text};" for kind, text in columns]
    for k in range(count):
        names = {n: f"{n}_{k}" for n in (*own, row)} if k else {}
        if k:
            before.append(f"int64_t {names[row]} = {row} + {k};")
        before += [renamed(s, names) for s in of_row]
        for s in of_element:
            line = s
            for text, name in held.items():
                line = line.replace(text, name)
            inside.append(renamed(line, names))
    return before, [*inside, *(f"{text} = {name};" for text, name in held.items())]
