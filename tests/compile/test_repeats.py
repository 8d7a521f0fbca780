"""Kernels that differ in buffers alone are printed once, and never taken for one another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stax
from stax.backends.c import repeats

X = np.linspace(-1.0, 1.0, 64 * 64).reshape(64, 64).astype(np.float32)


def chain(layers: int) -> Any:
    def loss(x: Any, w: Any) -> Any:
        for _ in range(layers):
            x = np.tanh(x @ w) * 0.9
        return (x * x).sum()

    return stax.jit(stax.grad(loss, argnums=(0, 1)))


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    emit = repeats.emit_kernel

    def counted(kernel: Any, *rest: Any) -> Any:
        found.append(kernel.name)
        return emit(kernel, *rest)

    monkeypatch.setattr(repeats, "emit_kernel", counted)
    return found


def test_layers_of_a_network_are_printed_once(printed: list[str]) -> None:
    few = chain(8).lower(X, X)
    assert few.source.text
    once = len(printed)
    many = chain(24).lower(X, X)
    assert many.source.text
    assert len(many.kernels) > len(few.kernels) > once
    assert len(printed) == 2 * once


def test_the_text_is_that_of_printing_each(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any, y: Any) -> Any:
        def step(c: Any, row: Any) -> Any:
            return np.tanh(c @ y) + row, c.sum(-1)

        c, sums = stax.lax.scan(step, x, np.stack([x, y]))
        return c, sums, np.sort(x), (x.T + y).mean(0), np.exp(y).sum(-1), np.exp(x).sum(-1)

    with_memory = stax.jit(f).lower(X, X).as_text("source")
    known = repeats.PrintedKernels.source
    monkeypatch.setattr(
        repeats.PrintedKernels,
        "source",
        lambda self, *given: known(repeats.PrintedKernels(), *given),
    )
    assert stax.jit(lambda x, y: f(x, y)).lower(X, X).as_text("source") == with_memory


def attentive(layers: int) -> Any:
    """Layers of attention over the same 8 heads, each with weights of its own."""

    def loss(x: Any, weights: Any) -> Any:
        for w in weights:
            s = (x @ w) @ np.swapaxes(x, -1, -2)
            e = np.exp(s - s.max(-1, keepdims=True))
            x = (e / e.sum(-1, keepdims=True)) @ x
        return (x * x).sum()

    x = np.linspace(-1.0, 1.0, 8 * 256 * 32).reshape(8, 256, 32).astype(np.float32)
    w = [np.eye(32, dtype=np.float32) * (k + 1) for k in range(layers)]
    return stax.jit(stax.grad(loss, argnums=(0, 1))).lower(x, w)


def test_steps_over_the_scores_of_layers_are_printed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks: list[int] = []
    emit = repeats.print_block

    def counted(*given: Any) -> Any:
        blocks.append(1)
        return emit(*given)

    monkeypatch.setattr(repeats, "print_block", counted)
    assert "attention2" in {k.name for k in attentive(3).kernels}
    text, once = attentive(3).as_text("source"), len(blocks)
    assert attentive(6).as_text("source") != text
    assert len(blocks) == 2 * once > 0
    monkeypatch.setattr(repeats.PrintedKernels, "_block", lambda self, *given: emit(*given))
    assert attentive(3).as_text("source") == text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda x: x * np.float32(0.0), lambda x: x * np.float32(-0.0)),
        (lambda x: x[::2] + np.float32(1), lambda x: x[1::2] + np.float32(1)),
        (lambda x: x + np.float32(np.nan), lambda x: x + np.float32(np.inf)),
        (lambda x: stax.numpy.sum(x, -1), lambda x: stax.numpy.max(x, -1)),
        (lambda x: x.astype(np.int32) // 3, lambda x: x.astype(np.int64) // 3),
        (lambda x: stax.numpy.argmax(x, -1), lambda x: stax.numpy.argmin(x, -1)),
    ],
)
def test_what_tells_kernels_apart_is_seen(one: Any, other: Any) -> None:
    """Two results that share no kernel, since a product lies between them."""

    def f(x: Any) -> Any:
        return one(x), other(x @ stax.numpy.eye(64, dtype=np.float32))

    for found, wanted in zip(stax.jit(f)(X), (one(X), other(X)), strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
