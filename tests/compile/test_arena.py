"""Where temporaries lie: apart from each other, and in hardly more bytes than are live at once."""

from __future__ import annotations

import random

import numpy as np
import pytest

import stax
from stax.compile import lowered_graph, plan_search
from stax.programs.options import CompileOptions
from stax.schedule.kernel import Kernel
from stax.schedule.memory import Lifetime, plan_arena
from stax.schedule.packing import RANKS, Packing
from tests.budget.models import unet


def overlaps(a, b):
    return a.first <= b.last and b.first <= a.last


def check_apart(lifetimes, plan):
    spans = {b.name: (plan.offsets[b.name], plan.offsets[b.name] + b.nbytes) for b in lifetimes}
    for k, a in enumerate(lifetimes):
        assert spans[a.name][0] % 64 == 0
        assert spans[a.name][1] <= plan.nbytes
        for b in lifetimes[:k]:
            if overlaps(a, b) and a.nbytes and b.nbytes:
                assert spans[a.name][1] <= spans[b.name][0] or spans[b.name][1] <= spans[a.name][0]
    assert plan.nbytes >= plan.live_peak


@pytest.mark.parametrize("seed", range(30))
def test_buffers_that_live_together_lie_apart(seed):
    rng = random.Random(seed)
    steps = rng.randrange(2, 60)
    lifetimes = []
    for k in range(rng.randrange(1, 90)):
        first = rng.randrange(steps)
        size = rng.choice([0, 4, 100, 4096, 5000, 1 << 14])
        lifetimes.append(Lifetime(f"b{k}", size, first, min(first + rng.randrange(9), steps)))
    check_apart(lifetimes, plan_arena(lifetimes))


@pytest.mark.parametrize("seed", range(20))
def test_what_fits_exactly_is_found(seed):
    """A full rectangle of bytes and steps, cut into buffers at random, is put together again."""
    rng = random.Random(seed)
    pieces = [(0, 64, 0, 31)]  # offset, size (of 64 bytes), first, last
    while len(pieces) < 24:
        offset, size, first, last = piece = rng.choice(pieces)
        if rng.random() < 0.4 and size > 1:
            cut = rng.randrange(1, size)
            new = [(offset, cut, first, last), (offset + cut, size - cut, first, last)]
        elif last > first:
            cut = rng.randrange(first, last)
            new = [(offset, size, first, cut), (offset, size, cut + 1, last)]
        else:
            continue
        pieces.remove(piece)
        pieces += new
    rng.shuffle(pieces)
    buffers = [(64 * size, first, last) for _, size, first, last in pieces]
    found = [Packing(buffers).within(64 * 64, rank, 500) for rank in range(RANKS)]
    assert any(found)
    lifetimes = [Lifetime(f"b{k}", *b) for k, b in enumerate(buffers)]
    plan = plan_arena(lifetimes)
    check_apart(lifetimes, plan)
    assert plan.nbytes == plan.live_peak == 64 * 64


def test_a_search_ends_without_offsets_where_there_are_none():
    apart = [(128, 0, 1), (64, 1, 2), (128, 2, 3), (64, 0, 0), (64, 3, 3), (64, 1, 1)]
    for rank in range(RANKS):
        assert Packing(apart).within(64 * 3, rank, 0) is None
        assert Packing(apart).within(64 * 2, rank, 1000) is None


def test_little_is_lost_on_the_programs_of_a_budget():
    f, args = unet()
    graph = stax.jit(stax.value_and_grad(f)).trace(*args).graph
    search = plan_search(graph, CompileOptions.of(), "cpu", {})
    shares = []
    for candidate in search.candidates[::2]:
        _, lowered = search._measure(candidate.program)
        plan = lowered.source.plan
        shares.append(plan.nbytes / plan.live_peak)
    assert max(shares) <= 1.05
    assert np.mean(shares) <= 1.01


def test_the_last_reader_does_not_move_ahead_of_the_one_before_where_memory_is_short():
    """That would hold its result as well as what it reads, which lives until then anyway."""
    x = np.linspace(-1, 1, 256 * 64, dtype=np.float32).reshape(256, 64)
    w = np.eye(64, dtype=np.float32)

    def f(x, w):
        a = x @ w
        d = np.cos(np.sin(a) @ w) @ w
        e = np.cos((a * d) @ w) @ w
        return np.exp(a).T @ e

    options = CompileOptions.of(materialise="compact")
    order = lowered_graph(stax.jit(f).trace(x, w).graph, options).order
    kernels = [step for step in order if isinstance(step, Kernel)]
    a = order[0].accesses[1][0]
    readers = [set(k.accesses[1]) for k in kernels if a in k.accesses[0]]
    assert list(map(len, readers)) == [1, 2]  # the sine; the product and the exponential
