"""The op sample table and random programs, with gradients, in the interpreter."""

from __future__ import annotations

import os

import numpy as np
import pytest

import stax
from tests import op_samples, op_samples_arrays, op_samples_numpy
from tests.fuzzing import about
from tests.programs import random_program
from tests.programs_mixed import HALF_RULES, MIXED_RULES, SINGLE_RULES

SAMPLES = [*op_samples.SAMPLES, *op_samples_arrays.SAMPLES, *op_samples_numpy.SAMPLES]
FULL = os.environ.get("STAX_TRITON_FULL") == "1"  # every type, and 300 programs
PROGRAMS = 300 if FULL else 10


def agree(found, wanted, tolerance):
    """The same structure, types and, within the tolerance, numbers."""
    found, wanted = stax.tree.leaves(found), stax.tree.leaves(wanted)
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        if a.dtype.name == "bfloat16":
            a, b = a.astype(np.float32), b.astype(np.float32)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def total(sample, args):
    """A number that depends on everything a sample gives."""

    def f(*diff):
        given = list(args)
        for k, value in zip(sample.diff, diff, strict=True):
            given[k] = value
        leaves = stax.tree.leaves(sample.fn(*given))
        parts = [
            (np.real(leaf) * np.cos(np.arange(leaf.size)).reshape(leaf.shape)).sum()
            for leaf in leaves
            if leaf.dtype.kind in "fc"
        ]
        return sum(parts[1:], parts[0])

    return f


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_sample(sample):
    rng = np.random.default_rng(0)
    for text in sample.dtypes[: 2 if FULL else 1]:
        dtype = np.dtype(text)
        args = sample.make(rng, dtype)
        wanted = sample.fn(*args)
        if any(np.asarray(v).dtype.kind == "c" for v in stax.tree.leaves((args, wanted))):
            return  # complex numbers have no generated code
        tolerance = 2e-4 if dtype.itemsize <= 4 else 1e-9
        agree(stax.jit(sample.fn, backend="triton")(*args), wanted, tolerance)
    if sample.diff and dtype.kind == "f" and sample.order:
        f = total(sample, args)
        diff = tuple(args[k] for k in sample.diff)
        every = tuple(range(len(diff)))
        gradient = stax.grad(f, argnums=every)
        wanted = gradient(*diff)
        if any(np.asarray(v).dtype.kind == "c" for v in stax.tree.leaves(wanted)):
            return
        agree(stax.jit(gradient, backend="triton")(*diff), wanted, 10 * tolerance)


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_random_program(seed):
    program = random_program(seed, smooth=True)
    agree(stax.jit(program.fn, backend="triton")(*program.args), program.fn(*program.args), 1e-9)

    def loss(*args):
        leaves = stax.tree.leaves(program.fn(*args))
        return sum((np.sin(v) * 0.5).sum() for v in leaves)

    every = tuple(range(len(program.args)))
    gradient = stax.grad(loss, argnums=every)
    found = stax.jit(gradient, backend="triton")(*program.args)
    agree(found, gradient(*program.args), 1e-8)


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_random_program_of_many_dtypes(seed):
    rules = (MIXED_RULES, SINGLE_RULES, HALF_RULES)[seed % 3]
    program = random_program(
        seed, size=14, smooth=False, scalar=False, rules=rules, large=seed % 6 in (1, 3)
    )
    with about(program), np.errstate(all="ignore"):
        found = stax.jit(program.fn, backend="triton")(*program.args)
        agree(found, program.fn(*program.args), max(1e-9, program.tolerance))
