"""Numbers stored in traced arrays of another dtype: NumPy's value, or a refusal that says where."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import stax
from stax import errors, lax

ARRAYS = {
    "u8": np.array([1, 0, 3], np.uint8),
    "i32": np.array([1, 0, 3], np.int32),
    "bool": np.array([True, False, True]),
    "f32": np.array([1, 0, 3], np.float32),
    "c64": np.array([1, 0, 3], np.complex64),
}
VALUES = [
    2, 300, -1, 2**40, 2.7, np.nan, np.inf, 1j, True, [300, 1, 2], [0.5, 1, 2],
    np.int64(300), np.array(300), np.array([300.5, 1, 2]), np.float32(2.5),
]  # fmt: skip


def _item(y: Any, value: Any) -> None:
    y[0 if np.ndim(value) == 0 else slice(None)] = value


def _mask(y: Any, value: Any) -> None:
    y[y > 0] = value if np.ndim(value) == 0 else value[0]


def _view(y: Any, value: Any) -> None:
    y[:][::-1][...] = value


def _diagonal(y: Any, value: Any) -> None:
    y[:] = y * 0
    y[None, :1][0, 0] = value if np.ndim(value) == 0 else value[1]


WRITES: dict[str, Callable[[Any, Any], None]] = {
    "item": _item,
    "mask": _mask,
    "view": _view,
    "element of a view": _diagonal,
    "copyto": lambda y, value: np.copyto(y, value),
    "copyto unsafe": lambda y, value: np.copyto(y, value, casting="unsafe"),
    "put": lambda y, value: np.put(y, [0, 1, 2], value),
    "fill": lambda y, value: y.fill(value if np.ndim(value) == 0 else value[0]),
}


def _outcome(f: Callable[[Any], Any], x: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return f(x)
        except (OverflowError, ValueError, TypeError) as error:
            return error


@pytest.mark.parametrize("write", WRITES)
def test_a_write_stores_or_refuses_what_numpy_does(write: str) -> None:
    for name, x in ARRAYS.items():
        for value in VALUES:

            def f(x: Any, value: Any = value) -> Any:
                y = x.copy()
                WRITES[write](y, value)
                return y

            want, have = _outcome(f, x), _outcome(lambda x, f=f: stax.make_jaxpr(f)(x), x)
            case = f"{write} of {value!r} into {name}: {want!r}, {have!r}"
            assert isinstance(have, Exception) == isinstance(want, Exception), case
            if isinstance(want, Exception):
                assert isinstance(have, type(want)), case
                assert isinstance(have, errors.DtypeError), case
                assert "test_stored_numbers.py:" in str(have), case
            else:
                written = _outcome(lambda x, f=f: stax.jvp(f, (x,), (_tangent(x),))[0], x)
                np.testing.assert_array_equal(written, want, case)


def _tangent(x: Any) -> Any:
    return np.zeros(x.shape, x.dtype if x.dtype.kind in "fc" else stax.dtypes.float0)


@pytest.mark.parametrize("value", [300, -1])
def test_a_number_that_does_not_fit_is_refused_with_its_place(value: int) -> None:
    x = np.ones(3, np.uint8)
    calls: list[Callable[[Any], Any]] = [
        lambda x: x + value,
        lambda x: np.maximum(value, x),
        lambda x: np.full_like(x, value),
    ]
    for call in calls:
        with pytest.raises(OverflowError):
            call(x)
        with pytest.raises(errors.RangeError) as caught:
            stax.jit(call)(x)
        for part in (str(value), "uint8", "test_stored_numbers.py:"):
            assert part in str(caught.value)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64])
def test_an_end_of_clip_past_the_dtype_bounds_nothing(dtype: Any) -> None:
    x = np.array([0, 3, 100], dtype)
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    intervals = [(least - 1, most + 1), (2, most + 1), (least - 1, 5), (least, most), (None, 2**70)]
    for ends in intervals:
        want = np.clip(x, *ends)
        have = stax.jit(lambda x, ends=ends: np.clip(x, *ends))(x)
        assert have.dtype == want.dtype
        assert np.array_equal(have, want)
    with pytest.raises(OverflowError):
        np.clip(x, 0, least - 1)
    with pytest.raises(errors.RangeError):
        stax.jit(lambda x: np.clip(x, 0, least - 1))(x)


def test_formats_and_branches_that_do_not_fit_are_refused_with_their_place() -> None:
    calls: list[Callable[[Any], Any]] = [
        lambda x: stax.debug.print("{} and {}", x),
        lambda x: stax.debug.print("{y}", x=x),
        lambda x: stax.debug.print("{", x),
        lambda x: stax.debug.print("nothing", x),
        lambda x: stax.experimental.checkify.check(x > 0, "{y}", x=x),
        lambda x: lax.switch(0, [], x),
    ]
    for call in calls:
        with pytest.raises(errors.StaticArgumentError, match=r"test_stored_numbers\.py:"):
            stax.jit(call)(1.0)
