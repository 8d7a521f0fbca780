"""Updates at places from data, divided among threads: the bits of one thread, and of NumPy."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

import stax
import stax.numpy as snp
from stax.backends.c.owners import one_row, owners_of, owners_of_rows, parted
from stax.backends.c.toolchain import find_toolchain

SIZE, UPDATES = 100_003, 400_037
THREADS = (1, 2, 3, 11)

Call = Callable[..., int]


def _kernel(function: Callable[..., np.ndarray], *args: np.ndarray) -> Call:
    """The last kernel of a program, as a function of pointers and a number of threads."""
    text = stax.jit(function).lower(*args).as_text("source")
    assert "stax_shares(" in text
    toolchain = find_toolchain()
    if toolchain is None:
        pytest.skip("needs a C compiler")
    name = text[text.rindex("static int32_t kernel") + len("static int32_t ") :].partition("(")[0]
    handle = toolchain.load(text.replace(f"static int32_t {name}(", f"int32_t {name}(")).handle

    def call(*arrays: np.ndarray, threads: int) -> int:
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in arrays]
        return int(getattr(handle, name)(*pointers, None, ctypes.c_int(threads)))

    return call


def _inputs(dtype: type[np.generic], most: int = SIZE) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    places = rng.integers(-most, most, UPDATES)
    places[:1000] = 17  # updates of one place one after the other
    return places, (rng.standard_normal(UPDATES) * 50).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.complex64])
def test_sums_have_the_bits_of_numpy_with_any_number_of_threads(
    dtype: type[np.generic],
) -> None:
    places, values = _inputs(dtype)
    kernel = _kernel(lambda i, v: snp.zeros(SIZE, dtype).at[i].add(v), places, values)
    expected = np.zeros(SIZE, dtype)
    np.add.at(expected, places, values)
    for threads in THREADS:
        found = np.zeros(SIZE, dtype)
        assert kernel(places, values, found, threads=threads) == 0
        assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("method", ["set", "multiply", "max"])
def test_the_order_of_updates_of_a_place_is_kept(method: str) -> None:
    places, values = _inputs(np.float32, 2 * SIZE)  # half of them outside

    def update(i: np.ndarray, v: np.ndarray) -> np.ndarray:
        return getattr(snp.ones(SIZE, np.float32).at[i], method)(v, mode="drop")

    kernel = _kernel(update, places, values)
    results = []
    for threads in THREADS:
        found = np.ones(SIZE, np.float32)
        assert kernel(places, values, found, threads=threads) == 0
        results.append(found.tobytes())
    assert results == results[:1] * len(THREADS)
    assert np.asarray(stax.jit(update)(places, values)).tobytes() == results[0]
    if method == "set":
        inside = (places >= -SIZE) & (places < SIZE)
        expected = np.ones(SIZE, np.float32)
        for place, value in zip(places[inside], values[inside], strict=True):
            expected[place] = value
        assert expected.tobytes() == results[0]


@pytest.mark.parametrize("width", [16, 37, 64])
def test_rows_have_the_bits_of_numpy_with_any_number_of_threads(width: int) -> None:
    rng = np.random.default_rng(width)
    rows, updates = 9001, 20_011
    places = rng.integers(-rows, rows, updates)
    places[:50] = 17
    values = rng.standard_normal((updates, width)).astype(np.float32)
    kernel = _kernel(lambda i, v: snp.zeros((rows, width), np.float32).at[i].add(v), places, values)
    expected = np.zeros((rows, width), np.float32)
    np.add.at(expected, places, values)
    for threads in THREADS:
        found = np.zeros((rows, width), np.float32)
        assert kernel(places, values, found, threads=threads) == 0
        assert found.tobytes() == expected.tobytes()
    wrong = places.copy()
    wrong[updates // 2] = rows
    for threads in THREADS:
        assert kernel(wrong, values, np.zeros_like(expected), threads=threads) != 0


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.complex64, np.int8])
@pytest.mark.parametrize("method", ["add", "set", "max"])
def test_updates_of_rows_and_of_parts_of_them_are_those_of_numpy(
    method: str, dtype: type[np.generic]
) -> None:
    if method == "max" and np.issubdtype(dtype, np.complexfloating):
        return
    rng = np.random.default_rng(1)
    places, others = rng.integers(-50, 50, 300), rng.integers(0, 7, 300)
    start = (rng.standard_normal((50, 7, 40)) * 20).astype(dtype)
    values = (rng.standard_normal((300, 40)) * 20).astype(dtype)
    apply = {"add": np.add, "max": np.maximum}.get(method, lambda old, new: new)

    def updated(x: np.ndarray, key: tuple) -> np.ndarray:
        return getattr(x.at[key], method)(values)

    keys: list[tuple] = [(places, 3), (3, others), (places, others), (places, others, slice(None))]
    keys.append((places, 2, slice(None, None, -1)))
    for key in keys:
        expected = start.copy()
        for n, value in enumerate(values):
            one = tuple(k[n] if isinstance(k, np.ndarray) else k for k in key)
            expected[one] = apply(expected[one], value)
        found = stax.jit(lambda x, key=key: updated(x, key))(start)
        assert np.asarray(found).tobytes() == expected.tobytes(), key


def test_what_is_the_same_along_a_row_is_computed_once() -> None:
    lines = [
        "int64_t v1 = p0[x0];",
        "bad |= ((uint64_t)v1 >= 9ULL) << 0;",
        "float v2 = p1[64*x0 + x1];",
        "float v3 = p2[5];",  # may be what the row writes
        "float v4 = (v2 * v3);",
        "p2[64*v1 + x1] = (p2[64*v1 + x1] + v4);",
    ]
    fixed, rest = parted(lines, "x1")
    assert fixed == lines[:2]
    assert not one_row(rest, "x1")  # it reads another place
    assert one_row([lines[2], "p2[64*v1 + x1] = (p2[64*v1 + x1] + v2);"], "x1")
    assert not one_row(["int64_t v1 = p0[x1];", "p2[64*v1 + x1] = 0.0f;"], "x1")
    assert not one_row(["p2[x1 + x1] = 0.0f;"], "x1")
    sizes, addresses = {"p2": 4}, {"v1": 1 << 20}
    assert owners_of_rows(["p2[64*v1 + x1] = v4;"], addresses, sizes, 64) is not None
    assert owners_of_rows(["p2[32*v1 + x1] = v4;"], addresses, sizes, 64) is None  # rows overlap
    assert owners_of_rows(["p2[64*v1 + x1] = v4;"], addresses, sizes, 8) is None  # short


def test_a_place_outside_is_reported_by_whichever_thread() -> None:
    places, values = _inputs(np.float32)
    kernel = _kernel(
        lambda i, v: snp.zeros(SIZE, np.float32).at[i].add(v, mode="error"), places, values
    )
    for at in (0, UPDATES // 2, UPDATES - 1):
        wrong = places.copy()
        wrong[at] = SIZE
        for threads in THREADS:
            assert kernel(wrong, values, np.zeros(SIZE, np.float32), threads=threads) != 0


def test_what_does_not_pay_or_is_not_known_stays_with_one_thread() -> None:
    sizes, addresses = {"p0": 8, "p1": 4, "p2": 4}, {"v5": 1 << 20, "v9": 100}
    update = ["p2[v5] = (p2[v5] + v6);"]
    assert owners_of(update, addresses, sizes) is not None
    assert owners_of(["p2[v9] = v6;"], addresses, sizes) is None  # a small target
    assert owners_of(["p2[v4] = v6;"], addresses, sizes) is None  # not tested
    assert owners_of(["p2[64*v5 + x1] = v6;"], addresses, sizes) is None
    assert owners_of(["float v7 = p2[x0];", *update], addresses, sizes) is None  # read elsewhere
    assert owners_of([*update, "p1[v5] = v6;"], addresses, sizes) is None
