"""What is never saved beside something that lives anyway, and arrays too large to copy."""

from __future__ import annotations

import numpy as np
import pytest

import stax
from stax.errors import ConfigurationError, MemoryBudgetError, MutationError, StaticArgumentError
from stax.transforms.linearize import BORROWED_BYTES
from tests.budget.models import chain

X = np.ones((8, 16)) / 3
W = np.ones((16, 32)) / 5


def saved(f, *args):
    return [v.name for v in stax.joint_graph(f, argnums=(0, 1))(*args).partition().saved]


def test_a_cheap_function_of_a_weight_is_not_saved():
    assert saved(lambda x, w: np.sin(x @ (w * 0.5)).sum(), X, W) == ["dot_general"]
    assert saved(lambda x, w: np.sin(x @ w.T.reshape(32, 16).T).sum(), X, W) == ["dot_general"]


def test_a_view_is_not_saved_beside_its_base():
    f = lambda x, w: np.sin(x @ w).sum() + np.exp((x @ w)[:2]).sum() + ((x @ w).T ** 3).sum()
    partition = stax.joint_graph(f, argnums=(0, 1))(X, W).partition()
    assert [v.name for v in partition.saved] == ["dot_general"]
    assert partition.saved_bytes == 8 * 32 * 8


def test_a_slice_is_saved_in_place_of_the_whole():
    f = stax.jit(lambda x, w: (np.sin(x @ w)[0] ** 2).sum())
    graph = stax.make_ir(lambda x, w: stax.vjp(f, x, w)[1](1.0))(X, W)
    forward = next(e for e in graph.eqns if e.op == "jit")
    assert sum(v.aval.nbytes for v in forward.outputs[1:]) <= 32 * 8


def test_a_large_array_is_borrowed_and_must_not_change():
    x = np.zeros(BORROWED_BYTES // 8)
    _, pull = stax.vjp(lambda v: np.sin(v).sum(), x)
    np.testing.assert_array_equal(pull(1.0)[0], 1.0)
    x[-1] = 2.0
    with pytest.raises(MutationError, match="after the function ran"):
        pull(1.0)
    x[-1] = 0.0
    np.testing.assert_array_equal(pull(2.0)[0], 2.0)
    small = np.zeros(4)
    _, pull = stax.vjp(lambda v: np.sin(v).sum(), small)
    small[0] = 3.0
    np.testing.assert_array_equal(pull(1.0)[0], 1.0)


def arrays_of_the_arena(argnums, wrap):
    """The arena of a gradient of four blocks of four tanh layers, in arrays of the batch."""
    rng = np.random.default_rng(0)
    ws = [rng.standard_normal((64, 64)) / 8 for _ in range(16)]
    x = rng.standard_normal((256, 64))

    def block(ws, z):
        for w in ws:
            z = np.tanh(z @ w)
        return z

    def f(ws, z):
        for k in range(0, 16, 4):
            z = wrap(block)(ws[k : k + 4], z)
        return z.sum()

    lowered = stax.jit(stax.value_and_grad(f, argnums=argnums)).lower(ws, x)
    return lowered.source.plan.nbytes / x.nbytes


def test_the_arena_of_a_checkpointed_training_step_is_two_and_a_half_times_smaller():
    plain = arrays_of_the_arena(0, lambda block: block)
    assert plain >= 2.5 * arrays_of_the_arena(0, stax.checkpoint)


def test_a_checkpointed_gradient_of_inputs_takes_the_least_that_it_can():
    """A product cannot overwrite its operand, so the first of the backward part needs two arrays.

    Beside them all earlier activations live, 15; in checkpointed blocks those of the last block,
    3, and what the second and the third begin with, 2.  So no program can make the ratio larger
    than 17 / 7, which is less than the 2.5 of gradients of weights.
    """
    assert arrays_of_the_arena(1, lambda block: block) < 17.1
    assert arrays_of_the_arena(1, stax.checkpoint) < 7.1


def test_a_region_keeps_no_more_than_its_budget():
    f, args = chain(depth=6, rows=128, width=32)
    state = 128 * 32 * 4
    want = stax.grad(f, (0, 1))(*args)
    for budget, most in ((6 * state, 6 * state), ("48KiB", 48 * 1024), (0.2, 0.2 * 13 * state)):
        region = stax.checkpoint(f, memory_budget=budget)
        for gradient in (stax.grad(region, (0, 1)), stax.jit(stax.grad(region, (0, 1)))):
            for a, b in zip(gradient(*args), want, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
        graph = stax.make_ir(lambda *a, r=region: stax.vjp(r, *a)[1](np.float32(1)))(*args)
        forward = next(e for e in graph.eqns if e.op == "checkpoint")
        assert sum(v.aval.nbytes for v in forward.outputs[1:]) <= most
    twice = stax.grad(lambda w: stax.grad(stax.checkpoint(f, memory_budget=0.5))(w, args[1]).sum())
    np.testing.assert_allclose(
        twice(args[0]), stax.grad(lambda w: stax.grad(f)(w, args[1]).sum())(args[0]), rtol=1e-3
    )
    mapped = stax.vmap(stax.checkpoint(lambda x: np.sin(np.sin(x)), memory_budget="1KiB"))
    x = np.linspace(0, 1, 8)
    np.testing.assert_allclose(
        stax.grad(lambda x: mapped(x).sum())(x), np.cos(np.sin(x)) * np.cos(x), rtol=1e-12
    )


def test_budgets_of_regions_lower_the_peak_of_the_whole():
    ws = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32) / 6
    x = np.ones((128, 32), np.float32)
    state = x.nbytes

    def part(x, w):
        for _ in range(4):
            x = np.tanh(x @ w)
        return x

    def loss(w, x, budget):
        for _ in range(4):
            x = stax.checkpoint(part, memory_budget=budget)(x, w)
        return (x * x).sum()

    want = stax.grad(lambda w: loss(w, x, None))(ws)
    peaks = []
    for budget in (4 * state, 2 * state, 0):
        gradient = stax.jit(stax.grad(lambda w, b=budget: loss(w, x, b)))
        np.testing.assert_allclose(gradient(ws), want, rtol=1e-3, atol=1e-3)
        peaks.append(gradient.lower(ws).peak_bytes)
    assert peaks[0] > peaks[1] > peaks[2]
    assert peaks[2] <= 0.6 * peaks[0]


@pytest.mark.parametrize("argnums", [1, (0, 1)])
def test_a_region_holds_no_activation_beside_what_it_is_computed_from(argnums):
    rng = np.random.default_rng(0)
    ws = [rng.standard_normal((64, 64)).astype(np.float32) / 8 for _ in range(16)]
    x = rng.standard_normal((1024, 64)).astype(np.float32)

    def block(x, ws):
        for w in ws:
            x = np.tanh(x @ w)
        return x

    def gradient(block):
        def loss(x, ws):
            for k in range(4):
                x = block(x, ws[4 * k : 4 * k + 4])
            return (x * x).sum()

        return stax.jit(stax.grad(loss, argnums))

    plain, kept = gradient(block), gradient(stax.checkpoint(block))
    assert plain.lower(x, ws).peak_bytes >= 2.5 * kept.lower(x, ws).peak_bytes
    found, want = (stax.tree.leaves(g(x, ws)) for g in (kept, plain))
    for a, b in zip(found, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_nonsense_budgets_of_regions():
    f = lambda x: np.sin(x)
    with pytest.raises(ConfigurationError, match="not a budget"):
        stax.checkpoint(f, memory_budget="lots")
    with pytest.raises(ConfigurationError, match="both"):
        stax.checkpoint(f, policy=lambda *a, **k: True, memory_budget=0.5)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: stax.checkpoint(3), "checkpoint takes a function, got int"),
        (lambda: stax.checkpoint(np.sin, policy="dots"), "policy='dots' is not a policy"),
        (lambda: stax.checkpoint(np.sin, policy=stax.checkpoint_policies), "is not a policy"),
        (lambda: stax.checkpoint(np.sin, policy=lambda prim: True), "cannot be called as policy("),
        (
            lambda: stax.checkpoint(np.sin, policy=stax.checkpoint_policies.save_only_these_names),
            "is called first: save_only_these_names('name')",
        ),
        (
            lambda: stax.grad(stax.checkpoint(lambda x: np.sin(x).sum(), policy=lambda *a, **k: X))(
                X
            ),
            "of sin, not True or False",
        ),
        (lambda: stax.checkpoint_policies.save_only_these_names(3), "3 is not a name"),
        (lambda: stax.checkpoint_policies.save_any_names_but_these(None), "None is not a name"),
        (lambda: stax.checkpoint_policies.save_from_both_policies("a", "b"), "first='a' is not"),
        (lambda: stax.checkpoint_name(X, 3), "3 is not a name"),
        (lambda: stax.checkpoint_sequential([np.sin, np.cos], 1.5, X), "segments=1.5 for 2"),
        (lambda: stax.checkpoint_sequential([np.sin, np.cos], True, X), "segments=True for 2"),
        (lambda: stax.checkpoint_sequential([np.sin, 3], 1, X), "takes a function, got int"),
        (lambda: stax.jit(np.sin, memory_budget="0.5")(X), "'0.5' is not a budget"),
        (lambda: stax.jit(np.sin, dynamic_batch=0), "dynamic_batch=0 is neither True nor False"),
        (lambda: stax.Binomial(slots=0), "slots=0 must be a whole number"),
        (lambda: stax.Binomial(slots=2).schedule(-1), "length=-1 must be a whole number"),
        (lambda: stax.Binomial(slots=2).forward_steps(2.5), "length=2.5 must be a whole number"),
    ],
)
def test_nonsense_is_named_where_it_is_written(wrong, message):
    with pytest.raises((TypeError, ConfigurationError, StaticArgumentError)) as caught:
        wrong()
    assert message in str(caught.value)
    assert isinstance(caught.value, TypeError) or __file__ in str(caught.value)


@pytest.mark.parametrize(
    "number", [np.float32(1.0), np.float16(1.0), np.int32(1 << 20), 10**400, "9" * 400]
)
def test_a_budget_is_any_number(number):
    g = stax.grad(lambda x: np.sin(np.sin(x)).sum())
    np.testing.assert_array_equal(stax.jit(g, memory_budget=number)(X), stax.jit(g)(X))


def test_slots_are_any_whole_number():
    assert stax.Binomial(slots=np.int64(3)) == stax.Binomial(slots=3)
    assert stax.Binomial(slots=3).forward_steps(np.int32(10)) == 15


def test_no_functions_in_sequence_are_the_identity():
    assert stax.checkpoint_sequential([], 1, X) is X


def test_a_budget_that_cannot_be_kept_names_the_users_line():
    f = stax.jit(stax.grad(lambda w: np.sin(X @ w).sum()), memory_budget=np.int64(1))
    with pytest.raises(MemoryBudgetError, match="at least") as caught:
        f(W)
    assert __file__ in str(caught.value)
