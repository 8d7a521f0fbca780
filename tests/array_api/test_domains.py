"""Every function of the array-API standard over its whole domain: eager and in one jitted program.

Input: the calls of `domains.py`.  What is asserted: NumPy's dtype, shape and values; integers,
NaN, infinities and signed zeros exactly, other numbers to a few units of rounding.  And what the
standard has refused is refused, traced or not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import stax
import stax.numpy as snp
from tests.array_api.domains import MAKERS, domain
from tests.array_api.test_standard import compiled, leaves, member

# Results of sums: their error is relative to the largest, and a zero's sign depends on the order.
SUMMED = {"matmul", "tensordot", "vecdot", "sum", "mean", "std", "var", "prod"}
SUMMED |= {"cumulative_sum", "cumulative_prod"}
# Of 0.0 and -0.0 either is the greatest: NumPy's own choice varies with the position.
EITHER_ZERO = {"clip", "max", "maximum", "min", "minimum"}


def close(have: Any, want: Any, summed: bool, either_zero: bool) -> bool:
    """Whether two arrays are the same up to rounding."""
    if have.dtype != want.dtype or have.shape != want.shape:
        return False
    if want.dtype.kind not in "fc":
        return bool(np.array_equal(have, want))
    single = want.dtype in (np.float32, np.complex64)
    tolerance = 3e-5 if single else 1e-11
    finite = np.isfinite(want)
    size = np.abs(np.where(finite, want, 0))
    scale = np.max(size, initial=0) if summed else size
    near = finite & (
        np.abs(np.where(finite, have, 0) - np.where(finite, want, 0)) <= tolerance * scale
    )
    if want.dtype.kind == "c":
        parts = [(have.real, want.real), (have.imag, want.imag)]
        exact = np.all([(a == b) | (np.isnan(a) & np.isnan(b)) for a, b in parts], axis=0)
        separate = [np.isclose(a, b, tolerance, 0, equal_nan=True) for a, b in parts]
        return bool(np.all(near | exact | np.all(separate, axis=0)))
    same = (have == want) | (np.isnan(have) & np.isnan(want))
    if not summed and not either_zero:
        same &= (np.signbit(have) == np.signbit(want)) | np.isnan(want)
        near &= want != 0
    return bool(np.all(same | near))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of means of nothing
@pytest.mark.parametrize("name", MAKERS)
def test_the_whole_domain_gives_what_numpy_gives(name: str) -> None:
    calls = domain(name)
    summed = name in SUMMED or name.startswith(("linalg.", "fft."))
    with np.errstate(all="ignore"):
        wanted = [leaves(member(np, name)(*c.args, **c.options)) for c in calls]
        eager = [member(snp, name)(*c.args, **c.options) for c in calls]
        traced = []
        for k in range(0, len(calls), 150):
            traced += compiled(calls[k : k + 150])
        for call, want, *found in zip(calls, wanted, eager, traced, strict=True):
            for way, result in zip(("eager", "jit"), found, strict=True):
                for a, b in zip(leaves(result), want, strict=True):
                    a, b = np.asarray(a), np.asarray(b)
                    assert close(a, b, summed, name in EITHER_ZERO), (
                        f"{way} {call}: {a!r}, not {b!r}, of {call.args}"
                    )


MATRIX = np.arange(6.0).reshape(2, 3)
REFUSED: dict[str, tuple[type[Exception], Callable[[Any], Any]]] = {
    "expand_dims": (IndexError, lambda x: snp.expand_dims(x, axis=4)),
    "squeeze": (ValueError, lambda x: snp.squeeze(x, 0)),
    "index": (IndexError, lambda x: x[5]),
    "mask": (IndexError, lambda x: x[np.ones((3, 3), bool)]),
    "take": (IndexError, lambda x: snp.take(x, np.array([5]), axis=0)),
    "asarray copy=False": (ValueError, lambda x: snp.asarray(x, dtype=np.int8, copy=False)),
    "reshape copy=False": (ValueError, lambda x: snp.reshape(x.T, (6,), copy=False)),
    "astype device": (ValueError, lambda x: snp.astype(x, np.float32, device="elsewhere")),
    "zeros device": (ValueError, lambda x: snp.zeros(3, device="elsewhere") + x[0]),
    "full_like device": (ValueError, lambda x: snp.full_like(x, 1.0, device="elsewhere")),
    "to_device": (ValueError, lambda x: x.to_device("elsewhere")),
    "matmul": (ValueError, lambda x: snp.matmul(x, x)),
    "bitwise_and": (TypeError, lambda x: snp.bitwise_and(x, x)),
    "cross": (ValueError, lambda x: snp.linalg.cross(x.T, x.T)),
    "argmax": (ValueError, lambda x: snp.argmax(x[:0])),
    "unstack": (ValueError, lambda x: snp.unstack(x[0, 0])),
}


@pytest.mark.parametrize("wrap", [lambda f: f, stax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("what", REFUSED)
def test_what_the_standard_does_not_take_is_refused(what: str, wrap: Any) -> None:
    error, function = REFUSED[what]
    with pytest.raises(error):
        wrap(function)(MATRIX)


def test_a_copy_that_is_asked_for_is_made() -> None:
    def f(x: Any) -> Any:
        a = snp.zeros(4) + x
        b = snp.reshape(a, (2, 2), copy=True)
        c = snp.reshape(a, (2, 2), copy=False)
        a[0] = 9
        return b[0, 0], c[0, 0]

    assert [float(v) for v in stax.jit(f)(1.0)] == [1.0, 9.0]


def test_traced_repeat_counts_are_refused_with_the_alternative() -> None:
    with pytest.raises(stax.errors.ConcretizationError, match="total_repeat_length"):
        stax.jit(lambda x, n: snp.repeat(x, n, axis=0))(MATRIX, np.array([1, 2]))
