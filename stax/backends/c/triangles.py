"""Loops along rows that are masked from a place on that depends on the row.

Input: the bodies of a stage and their index expressions.  Output: from where on, along the row, a
comparison of loop variables has one outcome, and the statements that are left where it is known.
Behind a causal mask an element of the scores is a constant, and its exponential one of the row: two
loops, the second of which only stores it, take the place of one that computes what is not kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stax.backends.c.folds import LANES
from stax.loops.body import Instr
from stax.loops.scalar_ops import SCALAR_OPS
from stax.loops.symbolic import Expr, Symbol, affine_coefficients, as_expr

CALL_COST = 10  # of a function, in statements
LEAST_LENGTH = 2 * LANES
_DEFINED = re.compile(r"^\w+ (\w+) = ")
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Beyond:
    """From `start` on the comparisons of `outcomes`, by body and instruction, are decided."""

    start: Expr
    outcomes: dict[tuple[int, int], bool]


def beyond(bodies: Iterable[tuple[Sequence[Instr], Sequence[Expr]]], loop: Symbol) -> Beyond | None:
    """The comparisons that have one outcome from the same place of `loop` on, if there are any."""
    found: dict[Expr, dict[tuple[int, int], bool]] = {}
    for k, (instrs, indexes) in enumerate(bodies):
        for n, instr in enumerate(instrs):
            row = SCALAR_OPS.get(instr.op)
            if row is None or row.arity != 2 or instr.dtype.kind != "b":
                continue
            sides = [instrs[a] for a in instr.args]
            if any(s.op != "index_expr" or s.dtype.kind != "i" for s in sides):
                continue
            left, right = (indexes[s.attrs[0]] for s in sides)
            difference = left - right
            steps = affine_coefficients(difference, (loop,))
            if steps is None or abs(steps[loop]) != 1:
                continue
            up = steps[loop]
            less, same, more = (bool(row.numpy(side, 0)) for side in (-1, 0, 1))
            if less == more:
                continue
            outcome = more if up > 0 else less
            start = (difference - as_expr(loop) * up) * -up + (0 if same == outcome else 1)
            if loop not in start.symbols and start.symbols:
                found.setdefault(start, {})[k, n] = outcome
    if not found:
        return None
    start = max(found, key=lambda e: len(found[e]))
    return Beyond(start, found[start])


def needed(lines: Sequence[str]) -> list[str]:
    """The statements without definitions that nothing reads."""
    kept: list[str] = []
    wanted: set[str] = set()
    for line in reversed(lines):
        m = _DEFINED.match(line)
        if m is None or m.group(1) in wanted:
            kept.append(line)
            wanted.update(_WORD.findall(line[m.end() :] if m is not None else line))
    return kept[::-1]


def pays(whole: Sequence[str], rest: Sequence[str]) -> bool:
    """Whether the statements `rest` take at most half of the time of the statements `whole`."""

    def cost(lines: Sequence[str]) -> int:
        return len(lines) + CALL_COST * sum("stax_" in s for s in lines)

    return 2 * cost(rest) <= cost(whole)
