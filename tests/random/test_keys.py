"""Keys of their own dtype: moved like arrays, opened by transformations, refused by arithmetic."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import stax
import stax.numpy as snp
from stax import lax, random
from stax.errors import DtypeError, ShapeError
from tests.random.draws import CLOSE, EXACT

KEYS = random.split(random.key(3), (2, 3))
WORDS = random.key_data(KEYS)


DRAWS = EXACT | CLOSE


@pytest.mark.parametrize("name", DRAWS)
def test_both_kinds_of_keys_give_the_same_draws(name: str) -> None:
    draw = DRAWS[name]
    for typed, pair in zip(
        stax.tree.leaves(draw(random, random.key)),
        stax.tree.leaves(draw(random, random.PRNGKey)),
        strict=True,
    ):
        is_key = snp.issubdtype(typed.dtype, stax.dtypes.prng_key)
        np.testing.assert_array_equal(random.key_data(typed) if is_key else typed, pair)


MOVES: list[Callable[[Any, Any], Any]] = [
    lambda m, k: m.reshape(k, (3, 2)),
    lambda m, k: m.transpose(k),
    lambda m, k: m.concatenate([k, k], 1),
    lambda m, k: m.stack([k[0], k[1]], 1),
    lambda m, k: m.flip(k, 1),
    lambda m, k: m.roll(k, 1, 0),
    lambda m, k: m.tile(k, 2),
    lambda m, k: m.repeat(k, 2, 0),
    lambda m, k: m.take(k, np.array([2, 0]), 1),
    lambda m, k: m.where(np.array([True, False, True]), k, k[:, ::-1]),
    lambda m, k: m.broadcast_to(k[0], (4, 3)),
    lambda m, k: m.expand_dims(k, 0),
    lambda m, k: m.split(k, 3, 1)[1],
    lambda m, k: k[1, ::2],
    lambda m, k: k[:, np.array([1, 1])],
    lambda m, k: k.ravel()[4],
    lambda m, k: k.at[0].set(k[1]),
    lambda m, k: lax.dynamic_slice(k, (0, 1), (2, 2)),
    lambda m, k: lax.rev(k, (0,)),
]


@pytest.mark.parametrize("k", range(len(MOVES)))
def test_keys_are_moved_as_numbers_are(k: int) -> None:
    move = MOVES[k]
    names = np.arange(6.0).reshape(2, 3)
    at = np.asarray(move(np, names)).astype(int)
    wanted = WORDS.reshape(6, 2)[at]
    for moved in (
        move(np, KEYS),
        move(snp, KEYS),
        stax.jit(lambda keys: move(snp, keys))(KEYS),
        stax.vmap(lambda keys: move(snp, keys))(KEYS[None])[0],
    ):
        assert moved.shape == at.shape
        assert str(moved.dtype) == "key<fry>"
        np.testing.assert_array_equal(random.key_data(moved), wanted)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda k: snp.sin(k),
        lambda k: np.exp(k),
        lambda k: k + 1,
        lambda k: 2 * k,
        lambda k: np.ones(2) * k,
        lambda k: snp.sum(k),
        lambda k: np.asarray(k),
        lambda k: snp.zeros(3).at[0].set(k),
        lambda k: random.key(k),
        lambda k: lax.add(k, k),
        lambda k: bool(k),
        lambda k: hash(k),
    ],
)
def test_arithmetic_on_keys_is_refused(wrong: Callable[[Any], Any]) -> None:
    for run in (wrong, stax.jit(wrong)):
        with pytest.raises(TypeError):  # DtypeError is one
            run(random.key(0))


def test_a_refusal_names_the_function_and_the_way_out() -> None:
    with pytest.raises(DtypeError, match=r"sum does not take keys[\s\S]*stax\.random\.key_data"):
        snp.sum(KEYS)
    with pytest.raises(ShapeError, match=r"one key has shape \(\)[\s\S]*stax\.vmap"):
        random.normal(KEYS)


def test_keys_are_leaves_to_users_and_pass_through_transformations() -> None:
    leaves, structure = stax.tree.flatten({"k": KEYS, "x": 1.0})
    assert leaves[0] is KEYS
    assert structure.num_leaves == 2
    assert stax.tree_util.tree_leaves(KEYS)[0] is KEYS
    assert stax.tree.leaves((KEYS, 1.0), lambda x: isinstance(x, tuple)) == [(KEYS, 1.0)]
    assert stax.tree.map(lambda k, x: k.shape, {"k": KEYS}, {"k": 1}) == {"k": (2, 3)}
    shape = stax.eval_shape(random.key, 0)
    assert shape.shape == ()
    assert shape.dtype == KEYS.dtype

    @stax.custom_vjp
    def noisy(x: Any, key: Any) -> Any:
        return x * random.uniform(key)

    noisy.defvjp(lambda x, k: (noisy(x, k), k), lambda k, ct: (ct * random.uniform(k), None))
    key = KEYS[0, 0]
    for gradient in (stax.grad(noisy), stax.jit(stax.grad(noisy))):
        assert gradient(2.0, key) == random.uniform(key)


def test_keys_are_copied_stored_and_exported() -> None:
    for other in (copy.deepcopy(KEYS), pickle.loads(pickle.dumps(KEYS)), stax.device_put(KEYS)):
        assert (other == KEYS).all()
        assert other.dtype == KEYS.dtype
    stored = stax.export.export(stax.jit(random.normal))(KEYS[0, 0])
    assert stored.call(KEYS[0, 0]) == random.normal(KEYS[0, 0])


def test_programs_with_keys_stay_in_c() -> None:
    draw = stax.jit(lambda k: random.normal(random.split(k)[0], (3,)), strict=True)
    np.testing.assert_array_equal(
        draw(KEYS[0, 0]), random.normal(random.split(KEYS[0, 0])[0], (3,))
    )


def test_rng_uniform_draws_anew_at_every_run() -> None:
    draw = stax.jit(lambda a, b: lax.rng_uniform(a, b, (1000,)))
    first, second = draw(2.0, 5.0), draw(2.0, 5.0)
    assert (first != second).any()
    assert abs(first.mean() - 3.5) < 0.2
    assert first.min() >= 2
    assert first.max() < 5
    whole = lax.rng_uniform(np.int32(0), np.int32(3), (1000,))
    assert whole.dtype == np.int32
    assert set(whole) == {0, 1, 2}
    rows = stax.vmap(lambda a: lax.rng_uniform(a, 1.0, (8,)))(np.zeros(2))
    assert (rows[0] != rows[1]).any()
    # Every number is a + u (b - a).
    slopes = stax.jacrev(lambda a: lax.rng_uniform(a, 1.0, (50,)))(0.5)
    assert (slopes > 0).all()
    assert (slopes <= 1).all()
    with pytest.raises(ShapeError, match="scalars"):
        lax.rng_uniform(np.zeros(2), 1.0, (2,))
    with pytest.raises(DtypeError, match="one floating or integer dtype"):
        lax.rng_uniform(0, 1.0, (2,))


def test_the_state_of_the_bit_generator_is_checked() -> None:
    with pytest.raises(ShapeError, match=r"four uint32 words[\s\S]*random\.bits"):
        lax.rng_bit_generator(random.PRNGKey(0), (3,))
    with pytest.raises(DtypeError, match="unsigned"):
        lax.rng_bit_generator(np.arange(4, dtype=np.uint32), (3,), np.int32)
    # The counter carries into its upper half.
    full = np.array([5, 7, 0xFFFFFFFF, 0xFFFFFFFF], np.uint32)
    state, bits = lax.rng_bit_generator(full, (6,))
    assert state.tolist() == [5, 7, 1, 0]
    assert bits[-2:].tolist() == [2581845347, 683046824]


def test_keys_are_chosen_among_keys() -> None:
    line, key = KEYS[0], random.key(5)
    order = random.permutation(key, 3)
    for run in (lambda f: f, stax.jit):
        shuffled = run(lambda k, keys: random.permutation(k, keys))(key, line)
        np.testing.assert_array_equal(random.key_data(shuffled), WORDS[0][order])
        one = run(lambda k, keys: random.choice(k, keys))(key, line)
        assert one.shape == ()
        assert one == line[random.choice(key, 3)]
