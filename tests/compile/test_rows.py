"""Programs of many calls run them from a table: the same results, one `case` for each kind."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import stax
import stax.numpy as snp
from stax.backends.c.rows import MANY, Place, has_rows, named, rows_text
from stax.backends.c.toolchain import find_toolchain

needs_compiler = pytest.mark.skipif(find_toolchain() is None, reason="no C compiler here")
W = np.random.default_rng(0).standard_normal((64, 8, 8)) / 3


def layers(count: int) -> Any:
    def f(ws: Any, x: Any) -> Any:
        for k in range(count):
            x = np.tanh(ws[k] @ x) + k % 2
        return x.sum()

    return f


def cases(text: str) -> int:
    return len(re.findall(r"^ *case \d+: \{", text, re.M))


def test_calls_that_differ_in_numbers_share_a_case() -> None:
    places = {f"b{k}": Place("float", "arena", 64 * k) for k in range(MANY + 2)}
    places["b0"] = Place("float", "in", 3)
    calls = [f"kernel1(b{k}, b{k + 1}, {9 - k % 2}, ctx->threads);" for k in range(MANY)]
    checked = "bad = kernel2(b1, 0, ctx->threads);\n    if (bad) { code = 33; goto done; }"
    other = "{ void *list[] = { (void *)b2 }; ctx->fallback(7, list); }"
    assert not has_rows(calls[:-1])
    assert has_rows(calls)
    text = rows_text([*calls, checked, other], places)
    assert cases(text) == 3
    # Three words: b0 is input 3 (3 * 8 + 1), b1 lies 64 bytes into the arena, 9 is an integer.
    assert "0, 3, 25, 512, 76," in text
    assert "kernel1(((float *)word[0]), ((float *)word[1]), (int64_t)word[2]," in text
    assert "ctx->fallback(7, list)" in text
    assert "code = 33" in text  # what is equal in all calls stays a constant
    assert named([*calls, other]) == {"b2"}


@needs_compiler
def test_many_layers_take_no_more_functions_than_few() -> None:
    few, many = (
        stax.jit(stax.grad(layers(n))).lower([*W[:n]], W[0]).as_text("source") for n in (32, 64)
    )
    assert 0 < cases(few) == cases(many)
    assert few.count("static int32_t kernel") == many.count("static int32_t kernel")
    plain = stax.grad(layers(64))
    found, expected = (f([*W], W[0]) for f in (stax.jit(plain), plain))
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@needs_compiler
def test_steps_of_every_kind_stand_between_the_calls() -> None:
    table = np.arange(40.0).reshape(8, 5)

    def f(x: Any, i: Any) -> Any:
        for k in range(40):
            x = np.sin(W[k] @ x)
            if k % 5 == 0:
                x = snp.sort(x, axis=0)
                x = x + stax.lax.scan(lambda c, r: (c * 0.5 + r, c), x[0], x)[1]
            if k % 4 == 0:
                x = x + snp.asarray(table)[i][: x.shape[1]]
            x32 = (x.astype(np.float32) @ snp.ones((x.shape[1], 2), np.float32)).astype(np.float64)
            x = snp.concatenate([x, x32], 1)[:, :5]
        return x, snp.fft.fft(x).real

    compiled = stax.jit(f)
    x = W[1][:, :5]
    assert cases(compiled.lower(x, 3).as_text("source")) > 0
    for found, expected in zip(compiled(x, 3), stax.jit(f, backend="numpy")(x, 3), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(IndexError, match="out of bounds for an axis of size 8"):
        compiled(x, 8)
