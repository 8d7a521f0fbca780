"""S5.8b: binomial schedules reverse as many steps as possible, with as few forward steps."""

from __future__ import annotations

import functools
import math

import pytest

from stax.errors import ConfigurationError
from stax.transforms.chains import Binomial, checked_count


@pytest.mark.parametrize("slots", range(1, 7))
@pytest.mark.parametrize("repetitions", range(7))
def test_s5_8b_binomial_lengths_are_reached(slots, repetitions):
    length = math.comb(slots + repetitions, slots)
    scheme = Binomial(slots=slots)
    count = checked_count(scheme.schedule(length), length, slots)
    assert count.slots <= slots
    assert count.most_often == repetitions == scheme.repetitions(length)
    assert count.forward_steps == scheme.forward_steps(length)
    longer = checked_count(scheme.schedule(length + 1), length + 1, slots)
    assert longer.most_often == repetitions + 1


@functools.cache
def fewest(length: int, slots: int) -> int:
    """The least number of forward steps over all schedules, by dynamic programming."""
    if length <= 1:
        return 0
    if slots == 1:
        return length * (length - 1) // 2
    return min(m + fewest(length - m, slots - 1) + fewest(m, slots) for m in range(1, length))


@functools.cache
def least_repetition(length: int, slots: int) -> int:
    """The least bound on how often a step is computed, over all schedules."""
    if length <= 1:
        return 0
    if slots == 1:
        return length - 1
    return min(
        max(1 + least_repetition(m, slots), least_repetition(length - m, slots - 1))
        for m in range(1, length)
    )


@pytest.mark.parametrize("slots", range(1, 21))
def test_s5_8b_no_schedule_takes_fewer_steps(slots):
    for length in range(1, 21):
        count = checked_count(Binomial(slots).schedule(length), length, slots)
        assert count.forward_steps == fewest(length, slots) == Binomial(slots).forward_steps(length)
        assert count.most_often == least_repetition(length, slots)


def test_s5_8b_a_long_chain():
    scheme = Binomial(slots=20)
    count = checked_count(scheme.schedule(100_000), 100_000, 20)
    assert count.slots == 20
    assert count.most_often == 6
    assert count.forward_steps == scheme.forward_steps(100_000)


@pytest.mark.parametrize("slots", [0, -1, 1.5, True, "many"])
def test_s5_8b_nonsense_slots(slots):
    with pytest.raises(ConfigurationError, match="slots"):
        Binomial(slots=slots)
