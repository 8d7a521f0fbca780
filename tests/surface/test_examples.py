"""The example of every name: compiled = eager, batch = examples, reverse mode = differences."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import stax
from tests.surface import names_table
from tests.surface.names_table import REFUSALS, Trial

TEXTS = names_table.examples()
TRIALS = {n: Trial(f, TEXTS[n]) for n, f in names_table.public_functions() if n in TEXTS}
GROUP = 40
UNSET = {"numpy.empty", "numpy.empty_like", "lax.empty"}
# Types and shapes that depend on values in NumPy: complex roots, trimmed polynomials.
BY_VALUE = {
    "numpy.linalg.eig", "numpy.linalg.eigvals", "numpy.polydiv", "scipy.linalg.eig",
    "scipy.linalg.funm",
}  # fmt: skip
# Not the derivative of the values: constants by definition, edges of a domain, steps; and
# functions of symmetric matrices, whose derivative is that of the symmetric part.
NOT_DIFFERENCES = {
    "numpy.acosh", "numpy.arccosh", "lax.acosh", "numpy.nextafter", "lax.nextafter",
    "lax.stop_gradient", "lax.reduce_precision", "numpy.histogram2d", "numpy.histogramdd",
    "numpy.linalg.cholesky", "numpy.linalg.eigh", "numpy.linalg.eigvalsh", "scipy.linalg.cholesky",
    "scipy.linalg.cho_factor", "scipy.linalg.cho_solve", "scipy.linalg.eigh", "lax.linalg.cholesky",
    "lax.linalg.eigh",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def copies(arrays: dict[str, Any]) -> dict[str, Any]:
    return {n: np.array(v) for n, v in arrays.items()}


def same(found: Any, expected: Any, name: str, tolerance: float) -> None:
    have, want = stax.tree.leaves(found), stax.tree.leaves(expected)
    assert len(have) == len(want), name
    for a, b in zip(have, want, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.dtype, a.shape) == (b.dtype, b.shape), name
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=1e-12, err_msg=name)


def traceable(trial: Trial) -> dict[str, Any] | None:
    """The arrays with which the example can be traced."""
    for traced in (trial.floats | trial.others, trial.floats):
        try:
            stax.make_ir(lambda values: trial.run(values))(traced)
        except REFUSALS:
            continue
        return traced
    return None


def groups() -> list[list[str]]:
    names = [n for n in TRIALS if n not in UNSET | BY_VALUE]
    return [names[k : k + GROUP] for k in range(0, len(names), GROUP)]


@pytest.mark.parametrize("names", groups(), ids=lambda g: f"{g[0]}-{g[-1]}")
def test_compiled_examples_have_the_values_of_eager_ones(names: list[str]) -> None:
    inputs = {n: traced for n in names if (traced := traceable(TRIALS[n]))}
    run = lambda values: {n: TRIALS[n].run(v) for n, v in values.items()}
    found = stax.jit(run)(inputs)
    for name, arrays in inputs.items():
        same(found[name], TRIALS[name].run(copies(arrays)), name, 1e-9)


@pytest.mark.parametrize("names", groups(), ids=lambda g: f"{g[0]}-{g[-1]}")
def test_a_batch_of_examples_has_their_values(names: list[str]) -> None:
    for name in names:
        trial = TRIALS[name]
        if trial.vmap() != "yes":
            continue
        expected = stax.tree.map(lambda v: np.stack([v, v]), trial.run({}))
        for mapped in (trial.floats | trial.others, trial.floats):
            batch = {n: np.stack([v, v]) for n, v in mapped.items()}
            try:
                found = stax.vmap(lambda values, t=trial: t.run(values))(batch)
            except REFUSALS:
                continue
            same(found, expected, name, 1e-6)
            break


@pytest.mark.parametrize("names", groups(), ids=lambda g: f"{g[0]}-{g[-1]}")
def test_gradients_of_examples_are_those_of_differences(names: list[str]) -> None:
    rng = np.random.default_rng(0)
    for name in names:
        trial = TRIALS[name]
        if name in NOT_DIFFERENCES or trial.grad() != "yes":
            continue
        f = lambda values, t=trial: names_table._inexact(t.run(values))
        outs, pull = stax.vjp(f, trial.floats)
        move = {
            n: rng.normal(size=np.shape(v)) * (1 + 1j if n == "z" else 1)
            for n, v in trial.floats.items()
        }
        weights = [np.asarray(rng.normal(size=np.shape(o))).astype(o.dtype)[()] for o in outs]
        (grads,) = pull(weights)
        slope = sum(np.sum(np.real(np.asarray(grads[n]) * move[n])) for n in move)
        step = 1e-6
        ahead = f({n: v + step * move[n] for n, v in trial.floats.items()})
        behind = f({n: v - step * move[n] for n, v in trial.floats.items()})
        parts = zip(weights, ahead, behind, strict=True)
        expected = sum(np.sum(np.real(w * (a - b))) / (2 * step) for w, a, b in parts)
        np.testing.assert_allclose(slope, expected, rtol=1e-4, atol=1e-5, err_msg=name)
