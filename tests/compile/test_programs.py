"""Random programs through the compiler: every level, every switch, every nesting.

The same program is run as plain NumPy, by the op-level interpreter (`backend="numpy"`), by the
loop IR under NumPy, and as C.  Passes that promise to keep the bits are switched on and off.
Only sums of floats (sum, mean, var, products of matrices) may be added up in another order: with
them the loop IR, whose order is fixed, still has to give the same bits, and C has to be close.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import stax
from stax.compile import program_of
from tests import programs
from tests.compile.levels import SWITCHES, lowered_with, run_loops, same_bits
from tests.compile.nestings import assert_agree, nestings
from tests.fuzzing import about, fuzz
from tests.programs import RULES, Program, random_program

SUMS = (programs._reduction, programs._contraction)
WITHOUT_SUMS = [(rule, weight) for rule, weight in RULES if rule not in SUMS]
COMPLEX_WITHOUT_SUMS = [
    (rule, weight)
    for rule, weight in programs.COMPLEX_RULES
    if rule not in (programs._complex_reduction, programs._contraction)
]


def close(found, wanted, tolerance):
    for a, b in zip(found, wanted, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def check_levels(program: Program, tolerance: float) -> None:
    """Eager NumPy = reference backend = loop IR = C."""
    args = program.args
    eager = program.fn(*args)
    close(stax.jit(program.fn, backend="numpy")(*args), eager, tolerance)
    close(stax.jit(program.fn)(*args), eager, tolerance)
    lowered = stax.jit(program.fn).lower(*args)
    assert lowered.fallbacks == []
    close(run_loops(lowered.lowered, args), eager, tolerance)


EXTREME = (0.0, -0.0, 1.0, -1.0, 5e-324, -1e-310, np.inf, -np.inf, np.nan, 1e300)


def extremes(program: Program, values: Sequence[float], count: int) -> Iterator[tuple[Any, ...]]:
    """Arguments whose elements are, more and more of them, among those values."""
    rng = np.random.default_rng(program.seed)

    def replaced(x: Any, share: float) -> Any:
        x = np.array(x)
        parts = (x.real, x.imag) if x.dtype.kind == "c" else (x,)
        for part in parts:
            chosen = rng.choice(np.array(values).astype(part.dtype), part.shape)
            part[...] = np.where(rng.random(part.shape) < share, chosen, part)
        return x[()]

    with np.errstate(all="ignore"):
        for k in range(count):
            yield tuple(replaced(x, (k + 1) / count) for x in program.args)


def check_switches(program: Program, bitwise: bool, values: Sequence[float] = EXTREME) -> None:
    """No pass changes a result of the C program, nor a bit of it for numbers of any kind."""
    graph = stax.make_ir(program.fn)(*program.args)
    given = [program.args, *(extremes(program, values, 6) if bitwise else ())]
    expected = [*map(program_of(lowered_with(graph)).run, given)]
    for name, switches in SWITCHES.items():
        run = program_of(lowered_with(graph, **switches)).run
        for args, wanted in zip(given, expected, strict=True):
            found = run(args)
            if bitwise:
                assert all(map(same_bits, found, wanted)), (name, args)
            else:
                close(found, wanted, 1e-12)


def check_loop_switches(program: Program, values: Sequence[float] = EXTREME) -> None:
    """No pass changes a bit of what the loop IR means, whatever the program and the numbers."""
    graph = stax.make_ir(program.fn)(*program.args)
    plain = lowered_with(graph).lowered
    lowered = {name: lowered_with(graph, **s).lowered for name, s in SWITCHES.items()}
    for args in (program.args, *extremes(program, values, 2)):
        with np.errstate(all="ignore"):
            expected = run_loops(plain, args)
            for name, other in lowered.items():
                found = run_loops(other, args)
                assert all(map(same_bits, found, expected)), (name, args)


@pytest.mark.parametrize("seed", range(12))
def test_levels_agree(seed):
    check_levels(random_program(seed, smooth=False, scalar=False), 1e-12)


@pytest.mark.parametrize("seed", range(12, 18))
def test_levels_agree_in_single_precision(seed):
    program = random_program(seed, smooth=False, scalar=False, dtype=np.float32, size=8)
    check_levels(program, 2e-4)


@pytest.mark.parametrize("seed", range(18, 32))
def test_levels_agree_on_complex_numbers(seed):
    wide = seed % 3 > 0
    dtype = np.complex128 if wide else np.complex64
    program = random_program(seed, scalar=False, dtype=dtype, size=12 if wide else 8)
    check_levels(program, 1e-12 if wide else 2e-4)


@pytest.mark.parametrize("seed", range(4))
def test_passes_keep_the_bits_of_complex_programs_without_sums(seed):
    program = random_program(seed, scalar=False, dtype=np.complex128, rules=COMPLEX_WITHOUT_SUMS)
    check_switches(program, bitwise=True)


@pytest.mark.parametrize("seed", range(6))
def test_compiled_gradients_of_complex_programs(seed):
    program = random_program(seed + 50, dtype=np.complex128, size=8)
    gradient = stax.grad(program.fn, argnums=tuple(range(len(program.args))))
    found, wanted = stax.jit(gradient, strict=True)(*program.args), gradient(*program.args)
    close(found, wanted, 1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_passes_keep_the_bits_of_programs_without_sums(seed):
    program = random_program(seed, smooth=False, scalar=False, rules=WITHOUT_SUMS)
    check_switches(program, bitwise=True)


@pytest.mark.parametrize("seed", range(3))
def test_passes_keep_sums_within_rounding(seed):
    check_switches(random_program(seed, smooth=False, scalar=False), bitwise=False)


@pytest.mark.parametrize("seed", range(20))
def test_passes_keep_the_bits_of_the_loop_ir(seed):
    check_loop_switches(random_program(seed, smooth=False, scalar=False))


NESTINGS = tuple(nestings(np.sum, (np.ones(1),)))


@pytest.mark.parametrize("seed", range(60))
def test_nestings_agree_with_unjitted_values(seed):
    # Each program takes three of the nestings in turn; the fuzz test takes all of them.
    program = random_program(seed, size=8)
    pairs = nestings(program.fn, program.args, seed)
    for k in range(3):
        assert_agree(pairs[NESTINGS[(3 * seed + k) % len(NESTINGS)]])


def check_nestings(seed: int) -> None:
    """All nestings of one program."""
    program = random_program(seed, size=8)
    for name, pair in nestings(program.fn, program.args, seed).items():
        with about(name, program):
            assert_agree(pair)


def check_everything(seed: int) -> None:
    """All levels and switches of one real and one complex program, every other one large."""
    large = seed % 2 == 1
    for dtype, tolerance, rules in (
        (np.float64, 1e-12, WITHOUT_SUMS),
        (np.complex128, 1e-11, COMPLEX_WITHOUT_SUMS),
    ):
        made = functools.partial(
            random_program, seed, smooth=False, scalar=False, dtype=dtype, large=large
        )
        program, bitwise = made(), made(rules=rules)
        with about(program):
            check_levels(program, 10 * tolerance if large else tolerance)
            if dtype is np.float64:  # NumPy rounds complex products by how operands lie in memory
                check_loop_switches(program)
        with about(bitwise):
            check_switches(bitwise, bitwise=True)


@pytest.mark.parametrize("seed", [1, 3, 5, 7])
def test_levels_and_switches_of_large_programs(seed):
    check_everything(seed)


@pytest.mark.fuzz
def test_fuzz_nestings():
    fuzz(check_nestings, rate=0.3)


@pytest.mark.fuzz
def test_fuzz_levels_and_switches():
    fuzz(check_everything, rate=0.4)
