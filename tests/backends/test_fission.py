"""Loops over long functions cut into blocks: the same bits, and cut only where it is safe."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import stax
import stax.numpy as snp
from stax.backends.c import fission, vecmath
from stax.backends.c.fission import blocked_loops
from stax.backends.c.toolchain import find_toolchain

BODY = [
    "float v1 = p0[i];",
    "float v2 = p1[i];",
    "float v3 = (v1 * v2);",
    "float v4 = stax_tanh_f32(v3);",
    "float v5 = stax_sqrt_f32(stax_abs_f32(v1));",
    "float v6 = (v4 / (v5 + 1.0f));",
    "float v7 = stax_erf_f32(v6);",
    "p2[i] = v7;",
    "uint8_t v8 = (v7 > v4);",
    "float v9 = stax_exp_f32(v8 ? v2 : v6);",
    "float v10 = (v9 + v4);",
    "p1[i] = v10;",
]


def _both(n: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    cut = blocked_loops("i", "0", str(n), n, BODY, {})
    assert cut is not None
    whole = [f"for (int64_t i = 0; i < {n}; i++) {{", *BODY, "}"]
    text = vecmath.definitions(vecmath.names_in("\n".join(BODY)))
    for name, lines in (("whole", whole), ("cut", cut)):
        body = "\n".join(lines)
        text += f"void {name}(const float *p0, float *p1, float *p2) {{\n{body}\n}}\n"
    toolchain = find_toolchain()
    if toolchain is None:
        pytest.skip("needs a C compiler")
    handle = toolchain.load(text).handle
    results = []
    for name in ("whole", "cut"):
        rng = np.random.default_rng(0)
        arrays = [rng.standard_normal(n).astype(np.float32) for _ in range(3)]
        getattr(handle, name)(*(ctypes.c_void_p(a.ctypes.data) for a in arrays))
        results.append(arrays)
    return results[0], results[1]


@pytest.mark.parametrize("n", [64, 100, 640, 1000, 4099])
def test_the_same_bits_as_the_whole_loop(n: int) -> None:
    for one, other in zip(*_both(n), strict=True):
        assert one.tobytes() == other.tobytes()


def test_each_long_function_has_a_loop_and_only_what_crosses_is_kept() -> None:
    lines = blocked_loops("i", "0", "1024", 1024, BODY, {})
    assert lines is not None
    text = "\n".join(lines)
    loops = text.split("#pragma omp simd")[1:]
    assert [("tanh" in s, "erf" in s, "exp" in s) for s in loops[:3]] == [
        (True, False, False), (False, True, False), (False, False, True),
    ]  # fmt: skip
    assert len(loops) == 4
    # A load of an array that nobody writes is done again, not kept.
    assert "block_v1[" not in text
    # p1 is written in the last loop: what is read from it stays as it was.
    assert "block_v2[" in text
    assert "p2[i]" in loops[3]


@pytest.mark.parametrize(
    "extra",
    [
        "a3 += v10;",
        "if (v1 > 0) {",
        "float v11 = stax_digamma_f32(v1);",
    ],
)
def test_other_statements_leave_the_loop_whole(extra: str) -> None:
    assert blocked_loops("i", "0", "1024", 1024, [*BODY, extra], {}) is None


def test_short_loops_and_few_functions_stay_whole() -> None:
    assert blocked_loops("i", "0", "32", 32, BODY, {}) is None
    assert blocked_loops("i", "0", "1024", 1024, BODY[:4], {}) is None


def test_tests_of_values_run_in_a_loop_of_their_own() -> None:
    lines = blocked_loops("i", "0", "1024", 1024, [*BODY, "bad |= (v1 < 0.0f) << 0;"], {})
    assert lines is not None
    loops = "\n".join(lines).split("#pragma omp simd")[1:]
    assert loops[0].startswith(" reduction(|:bad)")
    assert "tanh" not in loops[0]
    assert not any("bad" in s for s in loops[1:])


def test_addresses_from_data_are_made_before_they_are_used() -> None:
    body = [
        "int64_t v1 = p0[i];",
        "bad |= ((uint64_t)v1 >= 100ULL) << 0;",
        "int64_t v2 = ((uint64_t)v1 < 100ULL ? v1 : 0);",
        "int64_t v3 = p1[v2];",
        "int64_t v4 = ((uint64_t)v3 < 9000000000ULL ? v3 : 0);",
        "float v5 = p2[v4];",
        "p3[i] = v5;",
    ]
    addresses = {"v2": 100, "v4": 9_000_000_000}
    lines = blocked_loops("i", "0", "1024", 1024, body, addresses)
    assert lines is not None
    loops = "\n".join(lines).split("#pragma omp simd")[1:]
    assert [("bad |=" in s, "p1[v2]" in s, "p2[v4]" in s) for s in loops] == [
        (True, False, False), (False, True, False), (False, False, True),
    ]  # fmt: skip
    assert "int32_t block_v2[" in lines[1]
    assert "int64_t block_v4[" in lines[2]
    # A write through addresses that others were read through before it keeps the loop whole.
    turned = [*body[:6], "p1[v4] = v5;"]
    assert blocked_loops("i", "0", "1024", 1024, turned, addresses, serial=True) is None


@pytest.mark.parametrize("n", [200, 256, 1000, 4099])
@pytest.mark.parametrize("mode", ["clip", "fill", "wrap", "drop"])
def test_reads_and_writes_at_computed_places_are_those_of_numpy(n: int, mode: str) -> None:
    rng = np.random.default_rng(n)
    x, values = rng.standard_normal((2, n)).astype(np.float32)
    places = rng.integers(-n, n, n)
    again = rng.integers(0, n, n).astype(np.int32)
    inside = np.where(places < 0, places + n, places)

    def read(x: np.ndarray, places: np.ndarray, again: np.ndarray) -> np.ndarray:
        return snp.tanh(x[places[again]]) * 2

    np.testing.assert_allclose(
        stax.jit(read)(x, places, again), np.tanh(x[inside[again]]) * 2, rtol=1e-6
    )

    def written(x: np.ndarray, places: np.ndarray, values: np.ndarray) -> np.ndarray:
        return x.at[places].add(values, mode=mode)

    found = stax.jit(written)(x, inside, values)
    expected = x.copy()
    np.add.at(expected, inside, values)
    assert found.tobytes() == expected.tobytes()  # repeated places in the order of the updates


def test_an_index_outside_is_reported_from_any_block() -> None:
    x, places = np.arange(2000.0), np.arange(2000)
    for bad in (2000, -2001):
        for at in (0, 300, 1999):
            wrong = places.copy()
            wrong[at] = bad
            with pytest.raises(IndexError):
                stax.jit(lambda x, i: x[i] * 2)(x, wrong)
            with pytest.raises(IndexError):
                stax.jit(lambda x, i: snp.zeros(2000).at[i].add(x, mode="error"))(x, wrong)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint32, np.uint8])
def test_the_first_and_the_last_place_are_inside_and_their_neighbours_are_not(
    dtype: type[np.integer],
) -> None:
    x, limits = np.arange(200.0), np.iinfo(dtype)
    inside = [-200, -1, 0, 199]
    outside = [-201, 200, 2**31 - 1, -(2**31), limits.min, limits.max]
    places = np.zeros(300, dtype)
    read = stax.jit(lambda x, i: x[i] * 2)
    for place in (p for p in inside if limits.min <= p <= limits.max):
        places[170] = place
        assert read(x, places)[170] == 2 * x[place]
    for place in (p for p in outside if limits.min <= p <= limits.max and not -200 <= p < 200):
        places[170] = place
        with pytest.raises(IndexError):
            read(x, places)


def test_the_message_names_the_index_that_is_outside() -> None:
    read = stax.jit(lambda x, i, j: x[i, j] * 2)
    x, ones = np.ones((70, 80)), np.ones(300, np.int64)
    with pytest.raises(IndexError, match="70"):
        read(x, ones * 70, ones)
    with pytest.raises(IndexError, match="80"):
        read(x, ones, ones * 80)


def test_programs_with_many_functions_equal_those_with_whole_loops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def model(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        gate = 1 / (1 + snp.exp(-x)) * snp.tanh(y)
        return snp.log1p(snp.exp(gate)) * snp.tanh(x - gate) + snp.sin(x * y)

    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((2, 70, 333))
    cut = stax.jit(model)(x, y)
    rows = stax.jit(stax.grad(lambda x, y: model(x, y).sum()))(x, y)
    monkeypatch.setattr(fission, "LEAST_FLOPS", 10**9)
    again = stax.jit(lambda x, y: model(x, y))(x, y)
    assert np.asarray(cut).tobytes() == np.asarray(again).tobytes()
    np.testing.assert_allclose(cut, model(x, y), rtol=1e-12, atol=1e-14)
    expected = stax.grad(lambda x, y: model(x, y).sum())(x, y)
    np.testing.assert_allclose(rows, expected, rtol=1e-11, atol=1e-13)
