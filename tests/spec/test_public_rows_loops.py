"""Rows of 6.8 and 6.9 through the public API alone, from sources, bits and errors.

A pass is switched off by writing the program so that the pass finds nothing to do: what can be
seen from outside is that the bits of the result stay.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stax
import stax.numpy as snp
from tests.spec.test_public_rows import run_python
from tests.spec.test_public_rows_lowering import DEVICE, c_kernel, computed, same_bits

# ---------------------------------------------------------------------------------- S6.8


@pytest.mark.parametrize("perm", list(itertools.permutations(range(3))))
def test_s6_8a_loops_merge_exactly_when_every_access_allows_it(perm: tuple[int, ...]) -> None:
    shape = (3, 4, 5)
    y = np.ones(shape)
    x = np.ones(tuple(shape[perm.index(k)] for k in range(3)))
    text = c_kernel(stax.jit(lambda x, y: x.transpose(perm) * y).lower(x, y))
    extents = [int(n) for n in re.findall(r"for \(int64_t x\d = 0; x\d < (\d+);", text)]
    # axes k and k + 1 become one loop when x too has them adjacent and in order
    merged = sum(perm[k] + 1 == perm[k + 1] for k in range(2))
    assert len(extents) == 3 - merged
    assert math.prod(extents) == y.size


def test_s6_8a_the_first_read_of_a_split_row_has_one_loop_of_128() -> None:
    x = np.ones((64, 16384), np.float32)
    lowered = stax.jit(lambda x: (x * x).sum(-1)).lower(x, device=DEVICE)
    text = (
        lowered.as_text("source")
        .split(f"def {lowered.kernels[0].name}(")[1]
        .split("@triton.jit")[0]
    )
    assert "r = tl.arange(0, 8192)" in text
    assert "tl.load(p0 + (8192*x0 + x1))" in text  # x1 is r0
    # x0 is the number of the program, unmasked, and the place of its result: 64 * 2 of them
    assert "x0 = x\n" in text
    assert "tl.store(p1 + x0, " in text
    assert "mask" not in text
    assert math.prod(computed(lowered)[0].ranges) == 128


OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a, b: -a,
    "abs": lambda a, b: abs(a),
    "floordiv": lambda a, b: a // (abs(b) + 1),
    "mod": lambda a, b: a % (abs(b) + 1),
    "minimum": np.minimum,
    "maximum": np.maximum,
    "clip": lambda a, b: np.clip(a, -3, 5) + b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shift": lambda a, b: (a << 2) >> 1,
    "where": lambda a, b: np.where(a < b, a, b),
    "sign": lambda a, b: np.sign(a) * b,
    "square": lambda a, b: a**2 - b,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_s6_8b_a_check_is_dropped_only_where_every_index_is_inside(name: str) -> None:
    """The interval of each operation holds its concrete results, or a check would be missing."""
    rng = np.random.default_rng(len(name))
    dropped = 0
    for _ in range(40):
        n, size = int(rng.integers(2, 20)), int(rng.integers(1, 120))
        scale, shift = int(rng.integers(-3, 4)), int(rng.integers(-8, 9))

        def index(module: Any, n: int = n, scale: int = scale, shift: int = shift) -> Any:
            i = module.arange(n)
            return OPERATIONS[name](i * scale + shift, i[::-1] - 3)

        x = np.arange(float(size))
        text = stax.jit(lambda x, index=index: x[index(snp)]).lower(x).as_text("loops")
        found = index(np)
        if "ops.check" not in text:
            dropped += 1
            assert -size <= found.min()
            assert found.max() < size
    assert dropped  # the rule proves something


def test_s6_8c_an_index_from_memory_is_corrected_and_checked() -> None:
    x, idx = np.arange(128, dtype=np.float32), np.arange(128)[::-1].copy()
    f = stax.jit(lambda x, idx: x[idx] * 2)
    text = c_kernel(f.lower(x, idx))
    assert "+ 128LL" in text  # negative indices
    # Either sign says that it is outside, and the address is clamped.
    assert re.search(r"(\w+) \|= \(int64_t\)(v\d+) \| \(127LL - \(int64_t\)\2\);", text)
    assert re.search(r"bad \|= \(\w+ < 0\)", text)
    assert re.search(r"\(uint64_t\)v\d+ < 128ULL \? ", text)
    assert same_bits(f(x, idx - 128), x[idx] * 2)
    with pytest.raises(IndexError, match=r"size 128 \(valid: -128 to 127\)"):
        f(x, np.full(128, 128))


def test_s6_8c_an_index_from_the_loop_is_the_address() -> None:
    x = np.arange(128, dtype=np.float32)
    f = stax.jit(lambda x: x[(snp.arange(128) * 3) % 128] * 2)
    lowered = f.lower(x)
    text = c_kernel(lowered)
    assert "p0[((3*x0) % (128))]" in text
    assert "bad |=" not in text
    assert "? " not in text
    assert len(computed(lowered)) == 1  # no buffer of indices
    assert same_bits(f(x), x[(np.arange(128) * 3) % 128] * 2)


@pytest.mark.parametrize(("rows", "wide"), [(1 << 18, False), (1 << 19, True), (1 << 20, True)])
def test_s6_8d_devices_take_32_bits_below_2_to_the_31_and_c_always_64(
    rows: int, wide: bool
) -> None:
    """A device's kernel computes addresses in 32 bits, so that each takes one of its 32-bit
    registers, unless a bound reaches 2**31.  C computes them in 64 bits, the width of the pointers
    that they are added to: no conversion is left in the loop, and nothing can overflow."""
    x = stax.ShapeDtypeStruct((rows, 1 << 12), np.dtype(np.float32))
    for f in (lambda x: x + 1, lambda x: x[:, 0] * 2):  # the number of points, and a large stride
        device = stax.jit(f).lower(x, device=DEVICE).as_text("source")
        assert ("tl.int64" in device) is wide
        loops = re.findall(r"for \((\w+) x\d", c_kernel(stax.jit(f).lower(x)))
        assert set(loops) == {"int64_t"}


# ---------------------------------------------------------------------------------- S6.9

STEPS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b,
    lambda a, b: a * b,
    lambda a, b: a / (1.5 + np.square(b)),
    lambda a, b: np.tanh(a),
    lambda a, b: np.exp(-np.square(a)),
    lambda a, b: np.where(a < 0.25, 1.0, np.sin(b)),
    lambda a, b: a[::-1] - b,
    lambda a, b: np.maximum(a, b[:, ::-1]),
]


@pytest.mark.parametrize("seed", range(6))
def test_s6_9a_storing_inlining_merging_and_pruning_keep_every_bit(seed: int) -> None:
    """One random program in the ways that force each choice: every step a program of its own;
    every value a result; every use of a leaf an argument of its own, which leaves nothing to share
    and all to inline; dead steps present, absent, and kept alive."""
    rng = np.random.default_rng(seed)
    plan = [(int(rng.integers(8)), *rng.integers(0, k + 1, 2)) for k in range(6)]
    x = rng.standard_normal((5, 7))
    uses = 0

    def all_values(x: Any, apply: Callable[..., Any] = lambda step, a, b: step(a, b)) -> list[Any]:
        values = [x]
        for which, a, b in plan:
            values.append(apply(STEPS[which], values[a], values[b]))
        return values[1:]

    def tree(k: int, leaf: Callable[[], Any]) -> Any:
        """Value `k` as an expression in which nothing is shared."""
        if k == 0:
            return leaf()
        which, a, b = plan[k - 1]
        return STEPS[which](tree(int(a), leaf), tree(int(b), leaf))

    default = stax.jit(lambda x: all_values(x)[-1])(x)
    by_steps = all_values(x, lambda step, a, b: stax.jit(step)(a, b))
    every = stax.jit(all_values)
    assert len(computed(every.lower(x))) == len(plan)
    assert all(map(same_bits, every(x), by_steps))  # materialised, by kernels and by programs
    assert same_bits(default, by_steps[-1])  # dead code pruned, and cheap values inlined

    def count() -> Any:
        nonlocal uses
        uses += 1
        return x

    tree(len(plan), count)
    inlined = stax.jit(lambda *leaves: tree(len(plan), iter(leaves).__next__))
    lowered = inlined.lower(*[x] * uses)
    if uses <= 40:  # nothing has two readers, so all is one loop
        assert len(computed(lowered)) == 1
    assert same_bits(inlined(*[x] * uses), default)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_s6_9b_sums_in_any_order_agree_within_the_condition_number(dtype: Any) -> None:
    rng = np.random.default_rng(1)
    unit = np.finfo(dtype).eps / 2
    x = rng.standard_normal((300, 400)).astype(dtype)
    x += np.where(rng.random(x.shape) < 0.5, 1e4, -1e4).astype(dtype)  # cancellation
    for axis in (0, 1, None):
        found = np.atleast_1d(stax.jit(lambda x, axis=axis: x.sum(axis))(x))
        groups = [x.ravel()] if axis is None else np.moveaxis(x, axis, -1)
        for value, terms in zip(found, groups, strict=True):
            total = math.fsum(np.abs(terms).tolist())
            error = abs(float(value) - math.fsum(terms.tolist()))
            assert error <= (len(terms) / 4 + 4) * unit * total
    i = rng.integers(-(2**62), 2**62, (257, 33))
    with np.errstate(over="ignore"):
        for axis in (0, 1, None):
            reduced = stax.jit(lambda i, axis=axis: (i.sum(axis), i.prod(axis), i.max(axis)))(i)
            for a, b in zip(reduced, (i.sum(axis), i.prod(axis), i.max(axis)), strict=True):
                np.testing.assert_array_equal(a, b)


THREADS = """
import numpy as np, stax
x = np.random.default_rng(3).standard_normal((700, 900)).astype(np.float32)
f = stax.jit(lambda x: (x.sum(), x.sum(0), x.sum(1), np.exp(x).mean(), x.max(0), x.var(), x.var(0)))
print(b"".join(np.asarray(v).tobytes() for v in f(x)).hex())
"""


def test_s6_9b_the_number_of_threads_changes_no_bit(tmp_path: Path) -> None:
    printed = {
        hashlib.sha256(
            run_python(THREADS, STAX_CACHE_DIR=str(tmp_path), STAX_NUM_THREADS=threads).encode()
        ).hexdigest()
        for threads in ("1", "2", "3")
    }
    assert len(printed) == 1


def test_s6_9c_errors_of_unused_work_may_vanish_and_of_used_work_may_not() -> None:
    x, i = np.arange(3.0), np.array([1, 99])

    def unused(x: Any, i: Any) -> Any:
        return [x[i], x + 1][1]

    with pytest.raises(IndexError):
        unused(x, i)
    np.testing.assert_array_equal(stax.jit(unused)(x, i), x + 1)
    for backend in ("c", "numpy"):
        with pytest.raises(IndexError, match="size 3"):
            stax.jit(lambda x, i: x[i] + 1, backend=backend)(x, i)
    a, b = np.array([7, 8]), np.array([0, 2])
    np.testing.assert_array_equal(stax.jit(lambda a, b: a // b)(a, b), [0, 4])
    np.testing.assert_array_equal(stax.jit(lambda a, b: [a // b, a][1])(a, b), a)
