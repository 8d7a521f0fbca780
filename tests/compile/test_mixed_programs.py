"""Random programs of many dtypes, with control flow and writes in place, at every level."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tests.compile.nestings import assert_agree, nestings
from tests.compile.test_programs import (
    NESTINGS,
    SUMS,
    check_levels,
    check_loop_switches,
    check_switches,
)
from tests.fuzzing import about, fuzz
from tests.programs import random_program
from tests.programs_mixed import HALF_RULES, MIXED_RULES, SINGLE_RULES

TABLES = (MIXED_RULES, SINGLE_RULES, HALF_RULES)  # the last one's sums only of few elements
WITHOUT_SUMS = [(rule, weight) for rule, weight in SINGLE_RULES if rule not in SUMS]

# What is too large for an integer, and NaN, become integers that C does not define.
FINITE = (0.0, -0.0, 1.0, -1.0, 0.5, 5e-324, -1e-310, 1e-30)

written = functools.partial(random_program, size=14, smooth=False, scalar=False)


def check_mixed_levels(seed: int) -> None:
    large = seed % 6 in (1, 3)
    program = written(seed, rules=TABLES[seed % 3], large=large)
    with about(program), np.errstate(all="ignore"):
        check_levels(program, program.tolerance * (10 if large else 1))


def check_mixed_switches(seed: int) -> None:
    large = seed % 2 == 1
    program = written(seed, rules=SINGLE_RULES, large=large)
    bitwise = written(seed, rules=WITHOUT_SUMS, large=large)
    with about(program):
        check_loop_switches(program, FINITE)
    with about(bitwise):
        check_switches(bitwise, True, FINITE)


def check_mixed_nestings(seed: int, names=NESTINGS) -> None:
    program = random_program(seed, size=10, rules=MIXED_RULES)
    pairs = nestings(program.fn, program.args, seed)
    for name in names:
        with about(name, program), np.errstate(all="ignore"):
            assert_agree(pairs[name])


@pytest.mark.parametrize("seed", range(30))
def test_levels_agree(seed):
    check_mixed_levels(seed)


@pytest.mark.parametrize("seed", range(8))
def test_passes_keep_the_bits(seed):
    check_mixed_switches(seed)


@pytest.mark.parametrize("seed", range(20))
def test_nestings_agree_with_unjitted_values(seed):
    check_mixed_nestings(seed, [NESTINGS[(2 * seed + k) % len(NESTINGS)] for k in range(2)])


@pytest.mark.fuzz
def test_fuzz_mixed_programs():
    def check(seed):
        check_mixed_levels(seed)
        check_mixed_switches(seed)
        check_mixed_nestings(seed)

    fuzz(check, rate=0.25)
