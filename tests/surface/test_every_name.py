"""Every public function on arrays as they come, against NumPy, SciPy and itself when compiled.

Input: examples.txt, a call for each function.  Its arrays are given in every layout, then without
elements, then as scalars: the results are those of the library where it has the function, and the
compiled program's are the same.  Where one refuses, so does the other, but for `LENIENT`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.signal
import scipy.special

import stax
from stax.testing import check_grads
from tests.surface.names_table import FLOATS, Trial, examples, public_functions
from tests.surface.test_edge_inputs import LAYOUTS

GROUP = 40
ORACLES = {
    "numpy": np, "numpy.linalg": np.linalg, "numpy.fft": np.fft, "scipy.special": scipy.special,
    "scipy.linalg": scipy.linalg, "scipy.signal": scipy.signal,
}  # fmt: skip
# What has no value to compare.
SKIPPED = {"lax.empty", "numpy.empty", "numpy.empty_like"}
# Their shapes and types are chosen by values: real where NumPy finds nothing complex.
BY_VALUES = {"numpy.linalg.eig", "numpy.linalg.eigvals", "numpy.roots", "numpy.fft.fftn",
             "numpy.fft.ifftn", "numpy.polydiv", "scipy.linalg.funm"}  # fmt: skip
BY_SIGN = {"scipy.linalg.eigh"}  # of eigenvectors: SciPy calls another routine
# Taken where NumPy or SciPy refuses: polynomials that are numbers, shifts of a scalar, sums of
# weights that are 0, convolutions of nothing; and the reverse: matrices of no axes and spectra of
# nothing in SciPy.
LENIENT = set(
    "numpy.apply_along_axis numpy.apply_over_axes numpy.average numpy.fft.fftshift "
    "numpy.fft.ifftshift numpy.histogram2d numpy.histogramdd numpy.linalg.tensorinv numpy.poly "
    "numpy.polyder numpy.polyint numpy.polyval numpy.asfortranarray scipy.linalg.cho_factor "
    "scipy.linalg.cholesky scipy.linalg.expm scipy.linalg.hankel scipy.linalg.lu "
    "scipy.linalg.lu_factor scipy.linalg.lu_solve scipy.linalg.solve scipy.linalg.solve_sylvester "
    "scipy.linalg.sqrtm scipy.signal.convolve scipy.signal.convolve2d scipy.signal.correlate "
    "scipy.signal.correlate2d scipy.signal.csd scipy.signal.fftconvolve "
    "scipy.signal.istft scipy.signal.stft scipy.signal.welch scipy.special.log_softmax "
    "scipy.special.softmax scipy.special.multigammaln".split()
)
Values = dict[str, Any]


def trials() -> list[tuple[str, Trial]]:
    texts = examples()
    return [
        (name, Trial(function, texts[name]))
        for name, function in public_functions()
        if name in texts and name not in SKIPPED
    ]


TRIALS = trials()
GROUPS = [TRIALS[k : k + GROUP] for k in range(0, len(TRIALS), GROUP)]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def given(trial: Trial, change: Callable[[Any], Any] = lambda x: x) -> Values:
    return {n: change(np.array(v)) for n, v in (trial.floats | trial.others).items()}


def attempt(run: Callable[[], Any]) -> Any:
    """The arrays of the result, or the exception."""
    try:
        return [np.asarray(v) for v in stax.tree.leaves(run())]
    except Exception as error:
        return error


def outcomes(group: list[tuple[str, Trial]], values: list[Values]) -> list[Any]:
    return [attempt(lambda t=t, v=v: t.run(v)) for (_, t), v in zip(group, values, strict=True)]


def same(found: Any, wanted: Any) -> bool:
    if isinstance(found, Exception) or isinstance(wanted, Exception):
        return isinstance(found, Exception) and isinstance(wanted, Exception)
    for a, b in zip(found, wanted, strict=True):
        if a.dtype.kind in "OSU" or b.dtype.kind in "OSU":
            continue
        # NumPy itself keeps a foreign byte order where it moves elements only.
        if (a.dtype.newbyteorder("="), a.shape) != (b.dtype.newbyteorder("="), b.shape):
            return False
        if not np.allclose(a, b, rtol=1e-9, atol=1e-9, equal_nan=True):
            return False
    return len(found) == len(wanted)


def traceable(trial: Trial, values: Values) -> frozenset[str] | None:
    """The arrays that can be traced: all, those of floats alone, or None where tracing refuses."""
    for names in (frozenset(values), frozenset(trial.floats)):
        run = lambda v, names=names: trial.run(
            {n: x for n, x in values.items() if n not in names} | v
        )
        traced = attempt(lambda run=run, names=names: stax.make_ir(run)(pick(values, names)) and [])
        if not isinstance(traced, Exception):
            return names
    return None


def pick(values: Values, names: frozenset[str]) -> Values:
    return {n: v for n, v in values.items() if n in names}


def program(
    group: list[tuple[str, Trial]], values: list[Values]
) -> tuple[list[bool], Callable[[list[Values]], list[Any]]]:
    """Which trials can be traced, and one compiled program that runs those."""
    names = [traceable(trial, v) for (_, trial), v in zip(group, values, strict=True)]
    rest = [
        {n: x for n, x in v.items() if k is not None and n not in k}
        for v, k in zip(values, names, strict=True)
    ]

    @stax.jit
    def run(traced: list[Values]) -> list[Any]:
        rows = zip(group, rest, traced, names, strict=True)
        return [trial.run(r | v) for (_, trial), r, v, k in rows if k is not None]

    return [k is not None for k in names], lambda given: run(
        [pick(v, k or frozenset()) for v, k in zip(given, names, strict=True)]
    )


def check(group: list[tuple[str, Trial]], found: list[Any], wanted: list[Any], how: str) -> None:
    for (name, _), a, b in zip(group, found, wanted, strict=True):
        assert same([np.asarray(v) for v in stax.tree.leaves(a)], b), f"{name}, {how}: {a}, not {b}"


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: f"{g[0][0]}-{g[-1][0]}")
def test_every_layout_gives_the_same(group: list[tuple[str, Trial]]) -> None:
    plain = [given(trial) for _, trial in group]
    wanted = outcomes(group, plain)
    traced, run = program(group, plain)
    kept = [pair for pair, k in zip(group, traced, strict=True) if k]
    left = [w for (n, _), w, k in zip(group, wanted, traced, strict=True) if k]
    left = [w if n not in BY_VALUES else None for (n, _), w in zip(kept, left, strict=True)]
    compare = lambda found, how: check(
        [p for p, w in zip(kept, left, strict=True) if w is not None],
        [f for f, w in zip(found, left, strict=True) if w is not None],
        [w for w in left if w is not None],
        how,
    )
    compare(run(plain), "compiled")
    for layout, change in LAYOUTS.items():
        # A scalar has no order of axes; NumPy makes it a vector of one.
        keep = lambda x, change=change: change(x) if x.ndim else x
        changed = [given(trial, keep) for _, trial in group]
        eager = [
            attempt(lambda t=t, v=v: t.run(v)) for (_, t), v in zip(group, changed, strict=True)
        ]
        for (name, _), a, b in zip(group, eager, wanted, strict=True):
            assert same(a, b), f"{name}, {layout}: {a}, not {b}"
        compare(run(changed), f"{layout}, compiled")


EXTENTS: dict[str, Callable[[Any], Any]] = {
    "as given": lambda x: x,
    "no rows": lambda x: x[:0] if x.ndim else x,
    "no columns": lambda x: x[..., :0] if x.ndim else x,
    "scalars": lambda x: x.reshape(-1)[0].reshape(()),
}


@pytest.mark.parametrize("extent", EXTENTS)
@pytest.mark.parametrize("group", GROUPS, ids=lambda g: f"{g[0][0]}-{g[-1][0]}")
def test_the_library_and_the_compiled_program_agree(
    group: list[tuple[str, Trial]], extent: str
) -> None:
    values = [given(trial, EXTENTS[extent]) for _, trial in group]
    eager = outcomes(group, values)
    texts = examples()
    for (name, _), v, found in zip(group, values, eager, strict=True):
        space, _, leaf = name.rpartition(".")
        function = getattr(ORACLES.get(space), leaf, None)
        if function is None or name in LENIENT | BY_SIGN:
            continue
        wanted = attempt(lambda f=function, n=name, v=v: Trial(f, texts[n]).run(v))
        if isinstance(wanted, TypeError) and "keyword" in str(wanted):
            continue  # an argument that only JAX's function of the name has
        assert same(found, wanted), f"{name}, {extent}: {found}, not {wanted}"
    works = [not isinstance(e, Exception) for e in eager]
    kept = [pair for pair, w in zip(group, works, strict=True) if w]
    left = [v for v, w in zip(values, works, strict=True) if w]
    traced, run = program(kept, left)
    found = run(left)
    reached = [e for e, w in zip(eager, works, strict=True) if w]
    for (name, _), wanted, k in zip(kept, reached, traced, strict=True):
        result = [np.asarray(v) for v in stax.tree.leaves(found.pop(0))] if k else wanted
        if name not in LENIENT | BY_VALUES:
            assert same(result, wanted), f"{name}, {extent}, compiled: {result}, not {wanted}"
    for (name, trial), v, w in zip(group, values, works, strict=True):
        if not w and name not in LENIENT:
            assert isinstance(attempt(lambda t=trial, v=v: stax.jit(t.run)(v)), Exception), name


def test_every_batch_is_its_examples() -> None:
    for name, trial in TRIALS:
        whole = trial.floats | trial.others
        for names in (frozenset(whole), frozenset(trial.floats)):
            batch = {
                n: np.stack([v, v * 0.9 if n in trial.floats else v])
                for n, v in pick(whole, names).items()
            }
            found = attempt(lambda t=trial, b=batch: stax.vmap(t.run)(b))
            if batch and not isinstance(found, Exception):
                rows = [{n: v[k] for n, v in batch.items()} for k in (0, 1)]
                pairs = zip(*[stax.tree.leaves(trial.run(row)) for row in rows], strict=True)
                wanted = [np.stack([np.asarray(a), np.asarray(b)]) for a, b in pairs]
                assert name in BY_VALUES or same(found, wanted), f"{name}: {found}, not {wanted}"
                break


# Given by one triangle, or symmetric by promise.
SYMMETRIC = set(
    "numpy.linalg.cholesky numpy.linalg.eigh numpy.linalg.eigvalsh scipy.linalg.cho_factor "
    "scipy.linalg.cho_solve scipy.linalg.cholesky scipy.linalg.eigh lax.custom_linear_solve".split()
)
NOT_SMOOTH = {
    "counts jump where an edge passes": "numpy.histogram2d numpy.histogramdd",
    "constant by convention": "numpy.nextafter lax.nextafter lax.stop_gradient",
    "rounded": "lax.reduce_precision",
    "no second derivative in a parameter of shape": (
        "lax.betainc lax.igamma lax.igammac lax.regularized_incomplete_beta "
        "scipy.special.gammainc scipy.special.gammaincc"
    ),
    "derivatives themselves, of functions that have two in a parameter of shape": (
        "lax.igamma_grad_a lax.random_gamma_grad"
    ),
}
EXEMPT = {name for names in NOT_SMOOTH.values() for name in names.split()}


def test_every_derivative_agrees_with_differences_to_the_second_order() -> None:
    checked = 0
    for name, trial in TRIALS:
        if name in EXEMPT | BY_VALUES or not trial.floats or trial.grad() != "yes":
            continue
        keys = list(trial.floats)

        def f(*values: Any, t: Trial = trial, n: str = name, k: list[str] = keys) -> list[Any]:
            given = dict(zip(k, values, strict=True))
            if n in SYMMETRIC:
                given["A"] = (given.get("A", FLOATS["A"]) + given.get("A", FLOATS["A"]).T) / 2
            leaves = stax.tree.leaves(t.run(given))
            return [v for v in leaves if np.dtype(getattr(v, "dtype", int)).kind in "fc"]

        values = tuple(np.array(trial.floats[k]) for k in keys)
        try:
            check_grads(f, values, order=2, modes=("rev",))
        except Exception as error:
            raise AssertionError(f"{name}: {error}") from error
        checked += 1
    assert checked > 480
