"""Schedules that reverse a chain of steps with few stored states.

Input: the length of a chain and the number of slots for states, the first of which holds the
initial state.  Output: a list of actions (restore, advance, store, reverse) that performs the
backward step of every step, last first, with the least possible number of forward steps.  The
chain is split where binomial coefficients say (Griewank and Walther, "Revolve"): with `s` slots
and no step computed more than `t` times, `binomial(s + t, s)` steps can be reversed, and no more.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from stax.errors import ConfigurationError


class Op(enum.IntEnum):
    """What an action does; its numbers are those that a compiled program reads."""

    RESTORE = 0  # the current state becomes that of slot `place`
    ADVANCE = 1  # `steps` steps forward from state `place`, which is current
    STORE = 2  # the current state goes into slot `place`
    REVERSE = 3  # the backward step of step `place`, whose input is current


class Action(NamedTuple):
    """One action of a schedule; `steps` is 0 but for ADVANCE."""

    op: Op
    place: int
    steps: int = 0


@dataclass(frozen=True)
class Binomial:
    """Binomial checkpointing: `scan(..., checkpoint=Binomial(slots=20))`.

    The backward pass of a loop of any length keeps `slots` states, the initial one included, and
    computes steps again in the order that takes the fewest of them: with t recomputations of each
    step at most, loops of `math.comb(slots + t, slots)` steps can be reversed.

    >>> Binomial(slots=3).forward_steps(10)
    15
    """

    slots: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "slots", _whole(self.slots, "slots", 1))

    def schedule(self, length: int) -> list[Action]:
        """The actions that reverse `length` steps."""
        return list(_actions(_whole(length, "length", 0), self.slots))

    def repetitions(self, length: int) -> int:
        """The largest number of times a step is computed."""
        return repetition_number(_whole(length, "length", 0), self.slots)

    def forward_steps(self, length: int) -> int:
        """How many forward steps the schedule takes, those inside the backward steps apart."""
        if _whole(length, "length", 0) <= 1:
            return 0
        t = repetition_number(length, self.slots)
        return t * length - math.comb(self.slots + t, t - 1)


def _whole(value: Any, name: str, least: int) -> int:
    """A number that the user gave, as an int of at least `least`."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= least:
        return int(value)
    raise ConfigurationError(
        f"Binomial: {name}={value!r} must be a whole number of at least {least}"
    )


def _keep_carries(length: int) -> str | Binomial | None:
    """The carry of every step."""
    return "all"


def _keep_roots(length: int) -> str | Binomial | None:
    """As many carries as with equal segments, but fewer steps computed again."""
    return _slots(2 * math.isqrt(length), length)


def _keep_logarithmic(length: int) -> str | Binomial | None:
    return _slots(2 * length.bit_length(), length)


def _keep_few(length: int) -> str | Binomial | None:
    return _slots(max(length.bit_length() // 2, 3), length)


def _slots(slots: int, length: int) -> str | Binomial | None:
    return Binomial(slots) if slots < length else "all"


# What a memory budget lets the loops of a program keep that say nothing themselves: the
# `checkpoint` of a loop by its length, from much memory to little.
LOOP_SCHEMES: Final = (_keep_carries, _keep_roots, _keep_logarithmic, _keep_few)


def repetition_number(length: int, slots: int) -> int:
    """The least t for which `length <= binomial(slots + t, slots)`."""
    if slots == 1:
        return max(length - 1, 0)
    t = 0
    while math.comb(slots + t, slots) < length:
        t += 1
    return t


def _split(length: int, slots: int) -> int:
    """How far to advance before the next state is stored; needs two slots and two steps."""
    t = repetition_number(length, slots)
    before = math.comb(slots + t - 2, slots) if t >= 2 else 1
    return max(before, length - math.comb(slots - 1 + t, slots - 1), 1)


def _actions(length: int, slots: int) -> Iterator[Action]:
    """Reverse the steps from the initial state, in slot 0; parts yet to do lie on a stack."""
    stack = [(0, length, slots)] if length else []
    while stack:
        start, count, free = stack.pop()
        slot = slots - free
        yield Action(Op.RESTORE, slot)
        if count == 1:
            yield Action(Op.REVERSE, start)
        elif free == 1:
            for k in range(count - 1, -1, -1):
                if k < count - 1:
                    yield Action(Op.RESTORE, slot)
                if k:
                    yield Action(Op.ADVANCE, start, k)
                yield Action(Op.REVERSE, start + k)
        else:
            m = _split(count, free)
            yield Action(Op.ADVANCE, start, m)
            yield Action(Op.STORE, slot + 1)
            stack.append((start, m, free))
            stack.append((start + m, count - m, free - 1))


@dataclass(frozen=True)
class Count:
    """What running a schedule takes."""

    forward_steps: int
    most_often: int  # how often the most repeated step is computed
    slots: int  # the most slots in use at once, the initial state's included


def checked_count(schedule: Sequence[Action], length: int, slots: int) -> Count:
    """Run a schedule on paper; GraphError-free by construction, ValueError when it is wrong."""
    held: dict[int, int] = {0: 0}
    current: int | None = None
    times = [0] * length
    expected = length - 1
    most = 1
    for op, place, count in schedule:
        if op is Op.RESTORE:
            current = held[place]
        elif op is Op.ADVANCE:
            if current != place:
                raise ValueError(f"advance from {place} while {current} is current")
            for k in range(place, place + count):
                times[k] += 1
            current = place + count
        elif op is Op.STORE:
            if current is None or place >= slots:
                raise ValueError(f"there is no slot {place}")
            # Slots are a stack: a store at one level gives up those above it.
            held = {k: v for k, v in held.items() if k < place}
            held[place] = current
            most = max(most, len(held))
        else:
            if current != place or place != expected:
                raise ValueError(f"step {place} reversed while {current} is current")
            expected -= 1
    if expected != -1:
        raise ValueError(f"steps 0 to {expected} are not reversed")
    return Count(sum(times), max(times, default=0), most)


__all__ = [
    "LOOP_SCHEMES",
    "Action",
    "Binomial",
    "Count",
    "Op",
    "checked_count",
    "repetition_number",
]
