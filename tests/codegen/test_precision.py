"""How float32 matrices are multiplied is said by an option, and exact without it."""

from __future__ import annotations

import numpy as np
import pytest

import stax
from stax.config import from_environment
from stax.errors import ConfigurationError

X = np.ones((2048, 64), np.float32)
HEADS = np.ones((8, 512, 64), np.float32)


def attention(q, k, v):
    return stax.nn.softmax(q @ k.transpose(0, 2, 1), -1) @ v


PROGRAMS = {
    "a product": (lambda x: x @ x.T, X),
    "a product and its reader": (lambda x: np.tanh(x.T @ x), X),
    "attention": (stax.grad(lambda q: attention(q, q, q).sum()), HEADS),
    "a loop": (lambda x: stax.lax.fori_loop(0, 3, lambda i, w: w @ w, x.T @ x), X),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_products_ask_for_the_precision_of_their_program(name):
    f, x = PROGRAMS[name]
    for option, word in (({}, "ieee"), ({"matmul_precision": "tf32"}, "tf32")):
        source = stax.jit(f, **option).lower(x, device="cuda:sm_90").source
        text = "\n".join(k.body for k in source.functions.values())
        assert text.count("tl.dot(") == text.count(f'input_precision="{word}"') > 0


def test_the_environment_gives_the_default(monkeypatch):
    options = from_environment({"STAX_MATMUL_PRECISION": "tf32"})
    assert options.matmul_precision == "tf32"
    monkeypatch.setattr("stax.programs.options.process_options", lambda: options)
    source = stax.jit(lambda x: x @ x.T).lower(X, device="cuda:sm_90").source
    (product,) = source.kernels
    assert product.product.precision == "tf32"


def test_the_cpu_is_exact_and_other_words_are_refused():
    x = np.random.default_rng(0).standard_normal((100, 100)).astype(np.float32)
    found = stax.jit(lambda x: x @ x, matmul_precision="tf32")(x)
    np.testing.assert_array_equal(found, x @ x)
    with pytest.raises(ConfigurationError, match="matmul_precision='fast' is not one of highest"):
        stax.jit(lambda x: x, matmul_precision="fast")
