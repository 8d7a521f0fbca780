"""Random programs through the compiler: every level, every switch, every nesting.

The same program is run as plain NumPy, by the op-level interpreter (`backend="numpy"`), by the
loop IR under NumPy, and as C.  Passes that promise to keep the bits are switched on and off.
Only sums of floats (sum, mean, var, products of matrices) may be added up in another order: with
them the loop IR, whose order is fixed, still has to give the same bits, and C has to be close.
"""

from __future__ import annotations

import numpy as np
import pytest

import stax
from tests import programs
from tests.compile.levels import SWITCHES, lowered_with, run_c, run_loops, same_bits
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


def check_switches(program: Program, bitwise: bool) -> None:
    """No pass changes a result of the C program."""
    graph = stax.make_ir(program.fn)(*program.args)
    expected = run_c(graph, program.args)
    for name, switches in SWITCHES.items():
        found = run_c(graph, program.args, **switches)
        if bitwise:
            assert all(map(same_bits, found, expected)), name
        else:
            close(found, expected, 1e-12)


def check_loop_switches(program: Program) -> None:
    """No pass changes a bit of what the loop IR means, whatever the program."""
    graph = stax.make_ir(program.fn)(*program.args)
    expected = run_loops(lowered_with(graph).lowered, program.args)
    for name, switches in SWITCHES.items():
        found = run_loops(lowered_with(graph, **switches).lowered, program.args)
        assert all(map(same_bits, found, expected)), name


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
    """All levels and switches of one real and one complex program."""
    for dtype, tolerance, rules in (
        (np.float64, 1e-12, WITHOUT_SUMS),
        (np.complex128, 1e-11, COMPLEX_WITHOUT_SUMS),
    ):
        program = random_program(seed, smooth=False, scalar=False, dtype=dtype)
        with about(program):
            check_levels(program, tolerance)
            check_loop_switches(program)
        bitwise = random_program(seed, smooth=False, scalar=False, dtype=dtype, rules=rules)
        with about(bitwise):
            check_switches(bitwise, bitwise=True)


@pytest.mark.fuzz
def test_fuzz_nestings():
    fuzz(check_nestings, rate=0.3)


@pytest.mark.fuzz
def test_fuzz_levels_and_switches():
    fuzz(check_everything, rate=0.4)
