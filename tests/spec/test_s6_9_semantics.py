"""S6.9: passes that keep every bit, reductions that keep the value, errors that may vanish."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stax
from tests import programs
from tests.compile.levels import lowered_with, run_c, run_loops, same_bits
from tests.programs import RULES, random_program

WITHOUT_SUMS = [
    (rule, weight)
    for rule, weight in RULES
    if rule not in (programs._reduction, programs._contraction)
]
MODES = [
    {"materialise": "all"},
    {"materialise": "none"},
    {"merge": False},
    {"merge": False, "prune": False},
    {"materialise": "all", "merge": False, "prune": False},
]


@settings(max_examples=8, deadline=None)
@given(st.integers(1000, 100_000))
def test_s6_9a_inlining_storing_merging_and_pruning_keep_every_bit(seed):
    program = random_program(seed, size=10, smooth=False, scalar=False, rules=WITHOUT_SUMS)
    graph = stax.make_ir(program.fn)(*program.args)
    expected = run_c(graph, program.args)
    for switches in MODES:
        found = run_c(graph, program.args, **switches)
        assert all(map(same_bits, found, expected)), (switches, program)


@settings(max_examples=30, deadline=None)
@given(st.integers(1000, 100_000))
def test_s6_9a_with_sums_in_a_fixed_order_they_keep_every_bit_too(seed):
    program = random_program(seed, size=10, smooth=False, scalar=False)
    graph = stax.make_ir(program.fn)(*program.args)
    expected = run_loops(lowered_with(graph).lowered, program.args)
    for switches in MODES:
        found = run_loops(lowered_with(graph, **switches).lowered, program.args)
        assert all(map(same_bits, found, expected)), (switches, program)


def test_s6_9a_a_view_of_a_map_is_a_map_of_a_view():
    x = np.random.default_rng(0).standard_normal((5, 7))
    a = stax.jit(lambda x: np.sin(np.exp(x)[::-2].T))(x)
    b = stax.jit(lambda x: np.sin(np.exp(x[::-2].T)))(x)
    assert same_bits(a, b)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("axis", [0, 1, None])
def test_s6_9b_reordered_sums_differ_by_rounding_times_the_condition_number(dtype, axis):
    rng = np.random.default_rng(1)
    unit = np.finfo(dtype).eps / 2
    for scale in (0.0, 1e3, 1e6):  # cancellation grows with the offset
        x = rng.standard_normal((300, 400)).astype(dtype)
        x += np.where(rng.random(x.shape) < 0.5, scale, -scale).astype(dtype)
        found = np.atleast_1d(stax.jit(lambda x: x.sum(axis))(x))
        columns = [x.ravel()] if axis is None else np.moveaxis(x, axis, -1)
        for value, terms in zip(found, columns, strict=True):
            exact = math.fsum(terms.tolist())
            total = math.fsum(np.abs(terms).tolist())
            # |error| / |sum| <= coefficient * unit * condition, with condition = total / |sum|.
            assert abs(float(value) - exact) <= (len(terms) / 4 + 4) * unit * total


def test_s6_9b_integer_reductions_are_exact():
    rng = np.random.default_rng(2)
    x = rng.integers(-(2**62), 2**62, (257, 33))
    f = stax.jit(lambda x: (x.sum(0), x.sum(1), x.sum(), x.max(0), x.prod(1)))
    with np.errstate(over="ignore"):
        wanted = (x.sum(0), x.sum(1), x.sum(), x.max(0), x.prod(1))
    for a, b in zip(f(x), wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def test_s6_9b_the_number_of_threads_changes_no_bit():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((700, 900)).astype(np.float32)
    program = (
        stax.jit(lambda x: (x.sum(), x.sum(0), x.sum(1), np.exp(x).mean(), (x * x).max(0)))
        .lower(x)
        .compile()
        .program
    )
    results = []
    for threads in (1, 2, 3):
        program.context.threads = threads
        results.append(program.run([x]))
    for found in results[1:]:
        assert all(map(same_bits, found, results[0]))


# ------------------------------------------------------- S6.9c: errors of work nobody needs


def test_s6_9c_an_unused_index_out_of_bounds_is_not_an_error():
    """A refinement: where NumPy raises, a program that does not need the value may return."""

    def f(x, i):
        unused = x[i]
        del unused
        return x + 1

    x, i = np.arange(3.0), np.array([99])
    with pytest.raises(IndexError):
        f(x, i)
    np.testing.assert_array_equal(stax.jit(f)(x, i), x + 1)


def test_s6_9c_a_used_index_out_of_bounds_is_an_error_at_every_level():
    x, i = np.arange(3.0), np.array([1, 99])
    for backend in ("c", "numpy"):
        with pytest.raises(IndexError):
            stax.jit(lambda x, i: x[i] + 1, backend=backend)(x, i)
    lowered = stax.jit(lambda x, i: x[i] + 1).lower(x, i)
    with pytest.raises(IndexError, match="99"):
        run_loops(lowered.lowered, [x, i])


def test_s6_9c_dividing_an_integer_by_zero_gives_zero_used_or_not():
    x, y = np.array([7, 8]), np.array([0, 2])
    f = stax.jit(lambda x, y: (x // y, x % y))
    with np.errstate(divide="ignore"):
        wanted = x // y, x % y
    for a, b in zip(f(x, y), wanted, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(stax.jit(lambda x, y: [x // y, x][1])(x, y), x)
