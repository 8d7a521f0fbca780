"""Plain arrays that the traced function writes into between two uses of them.

Input: functions that fill a NumPy buffer several times.  Each use has to see what the buffer held
at that moment, in every transformation: a recorded constant may be shared by two uses only while
the array's content is the same.
"""

from __future__ import annotations

import numpy as np
import pytest

import stax

X = np.array([1.0, 2.0, 3.0])
GRADIENT = np.array([3.0, 24.0, 81.0])


def refilled(x):
    mask = np.zeros(3)
    total = 0.0
    for k in range(3):
        mask[:] = 0
        mask[k] = k + 1
        total = total + np.sum(x * x * mask) * x[k]
    return total


def reshaped_in_place(x):
    c = np.arange(3.0)
    row = np.sum(x * c)
    c.shape = (3, 1)
    return row + np.sum(x * c)


def passed_to_jit(x):
    c = np.ones(3)
    inner = stax.jit(lambda a, b: a * b)
    first = inner(x, c)
    c[:] = 5
    return np.sum(first + inner(x, c))


def closed_over_by_loops(x):
    c = np.ones(3)

    def body(carry, row):
        return carry + np.sum(row * c), None

    first = stax.lax.scan(body, 0.0, x)[0]
    c[:] = 5
    return first + stax.lax.scan(body, 0.0, x)[0]


GRADIENTS = {
    "grad": lambda f: stax.grad(f),
    "jit(grad)": lambda f: stax.jit(stax.grad(f)),
    "grad(jit)": lambda f: stax.grad(stax.jit(f)),
    "grad(checkpoint)": lambda f: stax.grad(stax.checkpoint(f)),
    "jacfwd": lambda f: stax.jacfwd(f),
    "jit(jacrev)": lambda f: stax.jit(stax.jacrev(f)),
    "vmap(grad)": lambda f: lambda x: stax.vmap(stax.grad(f))(x[None])[0],
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradient_sees_each_content(name):
    np.testing.assert_allclose(GRADIENTS[name](refilled)(X), GRADIENT)


@pytest.mark.parametrize("f", [refilled, reshaped_in_place, passed_to_jit, closed_over_by_loops])
def test_compiled_value_sees_each_content(f):
    np.testing.assert_allclose(stax.jit(f)(X), f(X))


@pytest.mark.parametrize("f", [passed_to_jit, closed_over_by_loops])
def test_calls_see_each_content(f):
    expected = [18.0, 18.0, 18.0] if f is closed_over_by_loops else [6.0, 6.0, 6.0]
    for gradient in (stax.grad(f), stax.jit(stax.grad(f))):
        np.testing.assert_allclose(gradient(X), expected)


def test_a_borrowed_array_that_is_refilled_is_refused():
    def loss(x):
        c = np.ones(1 << 22)
        total = np.sum(x * c)
        c[:] = 2
        total = total + np.sum(x * c)
        c[:] = 1
        return total

    with pytest.raises(stax.errors.MutationError, match="written into"):
        stax.grad(loss)(2.0 * np.ones(1 << 22))


SCRATCH = np.zeros(3)


@stax.custom_vjp
def squared(x):
    return x * x


def _squared_forward(x):
    SCRATCH[:] = x
    return x * x, SCRATCH


squared.defvjp(_squared_forward, lambda kept, ct: (2 * kept * ct,))


@stax.custom_jvp
def squared_forward(x):
    return x * x


@squared_forward.defjvp
def _(primals, tangents):
    SCRATCH[:] = primals[0]
    return primals[0] ** 2, tangents[0] * SCRATCH * 2


@pytest.mark.parametrize("square", [squared, squared_forward])
def test_a_rule_may_fill_one_array_at_every_call(square):
    gradient = stax.grad(lambda x: np.sum(square(square(x))))
    np.testing.assert_allclose(gradient(X), 4 * X**3)


def test_a_callback_may_fill_one_array_at_every_call():
    def filled(x):
        SCRATCH[:] = x
        return SCRATCH

    def call(x):
        return stax.pure_callback(filled, stax.ShapeDtypeStruct((3,), np.float64), x)

    first, second = call(X), call(2 * X)
    np.testing.assert_array_equal(second, 2 * first)


def test_auxiliary_results_share_no_memory():
    _, aux = stax.value_and_grad(lambda x: (x.sum(), (x, x)), has_aux=True)(X)[0]
    assert not np.shares_memory(aux[0], X)
    assert not np.shares_memory(*aux)
