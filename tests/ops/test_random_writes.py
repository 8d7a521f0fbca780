"""Random programs of views and in-place writes: traced, they do what NumPy does."""

from __future__ import annotations

import random

import numpy as np
import pytest

import stax
from tests.fuzzing import fuzz

STEPS = 7


def random_slice(r, n):
    if n and r.random() < 0.25:
        return r.randrange(-n, n)
    ends = [None, *range(-n - 1, n + 2)]
    return slice(r.choice(ends), r.choice(ends), r.choice([None, 1, 2, -1, -2, 3]))


def random_index(r, shape):
    index = []
    for n in shape[: r.randint(1, max(len(shape), 1))]:
        kind = r.random()
        if kind < 0.6:
            index.append(random_slice(r, n))
        elif kind < 0.75:
            index.append(slice(None))
        elif kind < 0.85 and n:
            index.append(np.array([r.randrange(-n, n) for _ in range(3)]))
        elif kind < 0.9:
            index.append(None)
        else:
            index.append(slice(None))
    if r.random() < 0.2:
        index.append(Ellipsis)
    return tuple(index)


def store(r, v):
    index = random_index(r, v.shape)
    target = v[index]
    plain = r.random() < 0.5 or np.ndim(target) == 0
    v[index] = r.choice([2.5, 0.0]) if plain else target * r.choice([2.0, -1.0]) + r.random()


def augment(r, v):
    index, c = random_index(r, v.shape), r.random()
    kind = r.randrange(3)
    if kind == 0:
        v[index] += c
    elif kind == 1:
        v[index] *= c + 0.5
    else:
        v[index] -= v[index] * c


def mask(r, v):
    v[v > r.uniform(-1, 1)] = r.choice([0.0, 1.5])


def out_argument(r, v):
    if r.random() < 0.5:
        np.add(v, r.random(), out=v)
    else:
        np.multiply(v, 2.0, out=v, where=np.arange(v.shape[-1]) % 2 == 0)


def fill(r, v):
    part = v[random_index(r, v.shape)]
    if np.ndim(part):
        part.fill(r.random())


def rows(r, v):
    for row in v if v.ndim > 1 else ():
        row[...] = row * 0.5 + 0.1


def exchange(r, v):
    if v.shape[0] > 1:
        kept = v[0] * 1 if v.ndim > 1 else v[0]
        v[0] = v[-1]
        v[-1] = kept


def repeated(r, v):
    if v.shape[0]:
        np.add.at(v, np.array([0, -1, 0]), 1.0)


def flat(r, v):
    if v.size:
        v.flat[r.randrange(v.size)] = r.random()


VIEWS = [
    lambda r, v: v[random_index(r, v.shape)],
    lambda r, v: v[random_index(r, v.shape)],
    lambda r, v: v.T,
    lambda r, v: np.swapaxes(v, 0, -1),
    lambda r, v: np.expand_dims(v, 0),
    lambda r, v: v.copy(),
    lambda r, v: v[0] if v.shape[0] else v,
]
WRITES = [store, augment, mask, out_argument, fill, rows, exchange, repeated, flat]


def program(seed):
    """A function that makes views of its argument and writes to them; it returns them all."""

    def run(x):
        r = random.Random(seed)
        values = [x * 1.0]
        for _ in range(r.randint(2, STEPS)):
            v = values[r.randrange(len(values))]
            if r.random() < 0.4:
                step = r.choice(VIEWS)
                if np.ndim(v):
                    values.append(step(r, v))
            else:
                step = r.choice(WRITES)
                if np.ndim(v):
                    step(r, v)
        return values

    return run


def check(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(rng.choice([0, 1, 2, 3, 4, 5], size=rng.integers(1, 4)).tolist())
    x = rng.normal(size=shape)
    run = program(seed)
    try:
        want = run(x)
    except (ValueError, IndexError) as error:
        with pytest.raises(type(error)):
            stax.jit(run)(x)
        return
    weights = [rng.normal(size=np.shape(v)) for v in want]

    def loss(x):
        return sum(((w * v) ** 2).sum() for w, v in zip(weights, run(x), strict=True))

    for got, expected in zip(stax.jit(run)(x), want, strict=True):
        assert np.shape(got) == np.shape(expected)
        np.testing.assert_allclose(got, expected, rtol=1e-13, atol=1e-13)
    slope = stax.grad(loss)(x)
    np.testing.assert_allclose(stax.jit(stax.grad(loss))(x), slope, rtol=1e-10, atol=1e-10)
    direction, step = rng.normal(size=shape), 1e-6
    change = (loss(x + step * direction) - loss(x - step * direction)) / (2 * step)
    np.testing.assert_allclose((slope * direction).sum(), change, rtol=1e-4, atol=1e-4)
    for got, expected in zip(stax.vmap(run)(np.stack([x, x / 2])), run(x / 2), strict=True):
        np.testing.assert_allclose(got[1], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("block", range(4))
def test_writes_through_views(block):
    for seed in range(block * 12, block * 12 + 12):
        check(seed)


@pytest.mark.fuzz
def test_writes_through_views_at_length():
    fuzz(check, rate=5.0)


def test_the_gradient_of_a_strided_slice_of_nothing():
    def loss(x):
        y = x * 1.0
        return (y[:0, :, ::3] ** 2).sum() + y.sum()

    given = np.ones((4, 1, 5))
    np.testing.assert_array_equal(stax.jit(stax.grad(loss))(given), given)
