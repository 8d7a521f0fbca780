"""What is computed again does not act again, at whatever depth the effect stands."""

from __future__ import annotations

import numpy as np
import pytest

import stax
from stax import lax
from stax.errors import ConfigurationError, MemoryBudgetError
from stax.experimental import io_callback

X = np.linspace(0.0, 1.0, 9)
SEEN: list[object] = []
NUMBER = stax.ShapeDtypeStruct((), np.float64)


def told(value):
    io_callback(lambda v: SEEN.append(float(v)), None, value)


def printed(value):
    stax.debug.callback(lambda v: SEEN.append(float(v)), value)


def answered(value):
    return io_callback(lambda v: (SEEN.append(float(v)), v)[1], NUMBER, value)


def scanned(act, **rule):
    def step(carry, x):
        act(x)
        carry = np.tanh(carry * 0.9 + x)
        return carry, carry

    return lambda x: lax.scan(step, 0.0, x, **rule)[1].sum()


def looped(act, **rule):
    def step(i, carry):
        act(i * 1.0)
        return np.sin(carry) * x.sum()

    def run(values):
        nonlocal x
        x = values
        return lax.fori_loop(0, 9, step, 1.0, **rule)

    x = X
    return run


def while_looped(act, **rule):
    def run(x):
        def step(state):
            act(state[0] * 1.0)
            return state[0] + 1, np.sin(state[1]) * x.sum()

        return lax.while_loop(lambda s: s[0] < 9, step, (0, 1.0), max_steps=20, **rule)[1]

    return run


def branched(act):
    def taken(x):
        act(x[0])
        return np.sin(np.exp(x)).sum()

    return lambda x: lax.cond(x.sum() > -1, taken, lambda x: x.sum(), x)


RULES = [{}, {"checkpoint": "all"}, {"checkpoint": "sqrt"}, {"checkpoint": stax.Binomial(slots=2)}]
LOOPS = [(make, rule, 9) for make in (scanned, looped) for rule in RULES]
PROGRAMS = [*LOOPS, (while_looped, {}, 9), (branched, {}, 1)]
WRAPPED = {
    "plain": lambda f: f,
    "checkpoint": stax.checkpoint,
    "budget": lambda f: stax.checkpoint(f, memory_budget=0),
    "twice": lambda f: stax.checkpoint(stax.checkpoint(f)),
    "jit": lambda f: stax.checkpoint(lambda x: stax.jit(f)(x)),
}


def within_the_least(f):
    """`f` compiled for the smallest budget that it has."""

    def run(x):
        try:
            return stax.jit(f, memory_budget=1)(x)
        except MemoryBudgetError as error:
            return stax.jit(f, memory_budget=error.least)(x)

    return run


@pytest.mark.parametrize("act", [told, printed])
@pytest.mark.parametrize(("make", "rule", "count"), PROGRAMS)
@pytest.mark.parametrize("wrap", WRAPPED.values(), ids=WRAPPED)
def test_an_effect_happens_once_a_step(act, make, rule, count, wrap):
    expected = stax.grad(make(lambda value: None, **rule))(X)
    f = wrap(make(act, **rule))
    first = stax.grad(f)
    second = stax.grad(lambda x: (first(x) ** 2).sum())
    for run in (first, stax.jit(first), second):
        SEEN.clear()
        found = run(X)
        assert len(SEEN) == count
        if run is not second:
            np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(("make", "rule", "count"), PROGRAMS)
def test_an_effect_happens_once_a_step_within_a_budget(make, rule, count):
    SEEN.clear()
    found = within_the_least(stax.grad(make(told, **rule)))(X)
    assert len(SEEN) == count
    np.testing.assert_allclose(found, stax.grad(make(lambda value: None, **rule))(X), rtol=1e-12)


@pytest.mark.parametrize(
    "f",
    [
        stax.checkpoint(lambda x: lax.scan(lambda c, r: (c + answered(r), r), 0.0, x)[0]),
        stax.checkpoint(lambda x: lax.cond(x[0] < 9, lambda v: v * answered(v), np.sin, x[0])),
        lambda x: lax.scan(lambda c, r: (c + answered(r), r), 0.0, x, checkpoint="sqrt")[0],
        lambda x: lax.scan(
            lambda c, r: (c * answered(r), r), 1.0, x, checkpoint=stax.Binomial(slots=2)
        )[0],
    ],
)
def test_an_effect_whose_result_is_needed_again_is_refused(f):
    with pytest.raises(ConfigurationError, match="has a side effect, callback") as caught:
        stax.grad(f)(X)
    assert "test_repeated_effects.py" in str(caught.value)


def test_a_loop_with_results_of_effects_runs_under_a_budget_as_it_is():
    f = stax.grad(lambda x: lax.scan(lambda c, r: (np.sin(c) * r + answered(r), c), 0.0, x)[0])
    SEEN.clear()
    found = within_the_least(f)(X)
    assert len(SEEN) == 9
    np.testing.assert_allclose(found, f(X), rtol=1e-12)


def test_a_bounded_loop_with_results_of_effects_runs_forward():
    def f(x):
        step = lambda s: (s[0] + 1, s[1] + answered(x[0]))
        return lax.while_loop(lambda s: s[0] < 3, step, (0, 0.0), max_steps=5)[1]

    SEEN.clear()
    assert stax.jit(f)(X + 1) == 3.0
    assert len(SEEN) == 3


def test_the_prints_of_a_derivative_rule_happen_once_a_step():
    @stax.custom_vjp
    def f(x):
        told(x * 0)
        return np.sin(x)

    def forward(x):
        return f(x), x

    def backward(x, ct):
        told(x * 0 + 1)
        return (np.cos(x) * ct,)

    f.defvjp(forward, backward)
    rule = stax.Binomial(slots=2)
    loop = lambda x: lax.scan(lambda c, r: (f(c) * r, c), 1.0, x, checkpoint=rule)[0]
    for run in (stax.grad(loop), stax.jit(stax.grad(loop))):
        SEEN.clear()
        run(X)
        assert sorted(SEEN) == [0.0] * 9 + [1.0] * 9


@pytest.mark.parametrize("act", [told, printed])
def test_a_rule_acts_once_where_its_call_is_computed_again(act):
    @stax.custom_jvp
    def f(x):
        return np.sin(x)

    @f.defjvp
    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        act(x)
        y = np.sin(x)
        act(y)
        return y, np.cos(x) * t

    def summed(x):
        return lax.scan(lambda c, v: (stax.checkpoint(f)(c) * v, None), 1.0, x)[0]

    twice = stax.checkpoint(lambda x: f(f(x)))
    nested = stax.checkpoint(lambda x: twice(x) * 1.0)
    budget = stax.checkpoint(lambda x: f(f(x)), memory_budget=1.0)
    shown = [0.5, np.sin(0.5), np.sin(0.5), np.sin(np.sin(0.5))]
    for loop in (twice, nested, budget):
        for run in (stax.grad(loop), stax.jit(stax.grad(loop)), stax.grad(stax.jit(loop))):
            SEEN.clear()
            np.testing.assert_allclose(run(0.5), np.cos(0.5) * np.cos(np.sin(0.5)))
            np.testing.assert_allclose(SEEN, shown)
    for run in (stax.grad(summed), stax.jit(stax.grad(summed))):
        SEEN.clear()
        run(X)
        assert len(SEEN) == 2 * len(X)


def noted(value, what):
    stax.debug.callback(lambda _: SEEN.append(what), value)


@stax.custom_jvp
def forward_rule(x):
    noted(x, "body")
    return np.sin(x)


@forward_rule.defjvp
def rule_of_forward_rule(primals, tangents):
    (x,), (t,) = primals, tangents
    noted(x, "rule")
    return forward_rule(x), np.cos(x) * t


@stax.custom_vjp
def reverse_rule(x):
    noted(x, "body")
    return np.sin(x)


def forward_of_reverse_rule(x):
    noted(x, "rule")
    return reverse_rule(x), x


def backward_of_reverse_rule(x, ct):
    noted(x, "backward")
    return (np.cos(x) * ct,)


reverse_rule.defvjp(forward_of_reverse_rule, backward_of_reverse_rule)


def in_scan(f, **rule):
    return lambda x: lax.scan(lambda c, v: (f(c) * v, None), 1.0, np.ones(4) * x, **rule)[0]


def in_while_loop(f):
    step = lambda state: (state[0] + 1, f(state[1]))
    return lambda x: lax.while_loop(lambda s: s[0] < 4, step, (0, x), max_steps=6)[1]


@pytest.mark.parametrize("f", [forward_rule, reverse_rule])
@pytest.mark.parametrize(
    ("place", "times"),
    [
        (lambda f: f, 1),
        (stax.checkpoint, 1),
        (lambda f: stax.checkpoint(stax.checkpoint(f)), 1),
        (lambda f: stax.checkpoint(f, memory_budget=1.0), 1),
        (in_scan, 4),
        (lambda f: in_scan(stax.checkpoint(f)), 4),
        (lambda f: in_scan(f, checkpoint="all"), 4),
        (lambda f: in_scan(f, checkpoint="sqrt"), 4),
        (lambda f: in_scan(f, checkpoint=stax.Binomial(slots=2)), 4),
        (in_while_loop, 4),
    ],
)
def test_a_function_and_its_rule_act_once_for_each_call(place, times, f):
    loss = place(f)
    acting = ["body", "rule"] + (["backward"] if f is reverse_rule else [])
    for run in (stax.grad(loss), stax.jit(stax.grad(loss)), stax.grad(stax.jit(loss))):
        SEEN.clear()
        run(0.5)
        assert sorted(SEEN) == sorted(acting * times)
