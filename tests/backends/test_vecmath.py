"""The C mathematical functions against references: accuracy, special values, integer rules."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import ml_dtypes
import mpmath
import numpy as np
import pytest

from stax.backends.c import vecmath
from stax.backends.c.toolchain import find_toolchain
from stax.errors import DtypeError
from stax.loops.scalar_ops import SCALAR_OPS, spelling
from tests.backends.ulp import (
    BINARY,
    DTYPES,
    ELEMENTARY,
    LIMITS,
    run,
    sampled_error,
    worst_ulp,
)

if find_toolchain() is None:
    pytest.skip("these functions exist only where there is a C compiler", allow_module_level=True)


@pytest.mark.parametrize("tag", ["f32", "f64"])
@pytest.mark.parametrize("op", [*ELEMENTARY, "lgamma", "digamma"])
def test_accuracy_within_two_ulp(op: str, tag: str) -> None:
    worst, at = sampled_error(op, tag, 150, seed=7)
    assert worst <= LIMITS.get(op, 2.0), f"{worst:.2f} ulp at {at}"


@pytest.mark.parametrize("op", ["sin", "cos", "tan"])
def test_angles_next_to_multiples_of_a_right_angle(op: str) -> None:
    # The double closest to a multiple of pi/2, and its neighbours in kind.
    hard = [6381956970095103.0 * 2.0**797, 5319372648326541.0 * 2.0**-1, 1e22, 3.0, 1.7e308]
    hard += [float(k) * np.pi / 2 for k in range(1, 60)]
    x = np.array(hard)
    with mpmath.workprec(1400):
        exact = [getattr(mpmath, op)(mpmath.mpf(v)) for v in hard]
        worst, at = worst_ulp(run(f"{op}_f64", x), exact, False)
        assert worst <= 2.0, (worst, x[at])
        single = x[x < 3e38].astype("f4")
        exact = [getattr(mpmath, op)(mpmath.mpf(v)) for v in single.tolist()]
        worst, at = worst_ulp(run(f"{op}_f32", single), exact, True)
        assert worst <= 1.0, (worst, single[at])


SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 1e-45]
NUMPY_NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh",
               "acosh": "arccosh", "atanh": "arctanh", "atan2": "arctan2", "pow": "power",
               "abs": "absolute", "max": "maximum", "min": "minimum", "mod": "remainder",
               "floordiv": "floor_divide"}  # fmt: skip


def _same(got: np.ndarray, expected: np.ndarray, tolerance: float) -> np.ndarray:
    close = np.isclose(got, expected, rtol=tolerance, atol=0) | (got == expected)
    signs = (np.signbit(got) == np.signbit(expected)) | np.isnan(got)
    return (close & signs) | (np.isnan(got) & np.isnan(expected))


@pytest.mark.parametrize("tag", ["f32", "f64"])
@pytest.mark.parametrize(
    "op",
    [op for op in ELEMENTARY if op not in ("sigmoid", "erf", "erfc", "erfinv")]
    + "abs sign max min fmax fmin sqrt floor ceil trunc rint copysign nextafter fmod mod".split()
    + ["floordiv"],
)
def test_special_values_are_those_of_numpy(op: str, tag: str) -> None:
    dtype = np.dtype("f4" if tag == "f32" else "f8")
    info = np.finfo(dtype)
    values = np.array(
        [*SPECIAL, info.max, -info.max, info.tiny, -info.tiny, info.smallest_subnormal,
         -info.smallest_subnormal, 2**30, -(2.0**30), 4.5, -4.5, 100, -100, 710, -750], dtype
    )  # fmt: skip
    with np.errstate(all="ignore"):
        function = getattr(np, NUMPY_NAMES.get(op, op))
        if op in BINARY:
            x, y = (m.ravel() for m in np.meshgrid(values, values))
            got, expected = run(f"{op}_{tag}", x, y), function(x, y)
        else:
            x = y = values
            got, expected = run(f"{op}_{tag}", x), function(x)
    same = _same(got, expected, 1e-6 if tag == "f32" else 4e-15)
    if op in ("max", "min", "fmax", "fmin"):  # which zero of two is returned is not specified
        same |= (got == 0) & (expected == 0)
    bad = np.flatnonzero(~same)[:5]
    assert not bad.size, [(x[i], y[i], got[i], expected[i]) for i in bad]


def test_special_values_of_functions_numpy_lacks() -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0])
    nan, inf = np.nan, np.inf
    cases = {
        "erf": [0.0, -0.0, 1.0, -1.0, nan, 0.8427007929497149, -0.8427007929497149, 0.99532226502],
        "erfc": [1.0, 1.0, 0.0, 2.0, nan, 0.15729920705028513, 1.8427007929497148, 0.004677734981],
        "sigmoid": [
            0.5,
            0.5,
            1.0,
            0.0,
            nan,
            0.7310585786300049,
            0.2689414213699951,
            0.880797077978,
        ],
        "erfinv": [0.0, -0.0, nan, nan, nan, inf, -inf, nan],
    }
    for op, expected in cases.items():
        for tag in ("f32", "f64"):
            got = run(f"{op}_{tag}", x)
            want = np.array(expected, got.dtype)
            close = np.isclose(got, want, rtol=1e-6, atol=0, equal_nan=True)
            assert (close & ((np.signbit(got) == np.signbit(want)) | np.isnan(want))).all(), (
                op,
                got,
            )


@pytest.mark.parametrize("op", ["isnan", "isinf", "isfinite", "signbit"])
def test_classification(op: str) -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, 1.0, -1.0, np.nan, 1e-310])
    assert (run(f"{op}_f64", x).astype(bool) == getattr(np, op)(x)).all()


@pytest.mark.parametrize("tag", [f"{s}{b}" for s in "iu" for b in (8, 16, 32, 64)])
@pytest.mark.parametrize("op", ["floordiv", "mod", "fmod", "max", "min", "abs", "sign"])
def test_integer_rules_are_those_of_numpy(op: str, tag: str) -> None:
    info = np.iinfo(DTYPES[tag])
    signed = [-1, -2, -3, -7] if info.min < 0 else []
    values = np.array([0, 1, 2, 3, 7, info.min, info.max, info.max - 1, *signed], DTYPES[tag])
    x, y = (m.ravel() for m in np.meshgrid(values, values))
    function = getattr(np, NUMPY_NAMES.get(op, op))
    with np.errstate(all="ignore"):
        expected = function(x, y) if op in BINARY else function(x)
    np.testing.assert_array_equal(run(f"{op}_{tag}", x, y), expected)


@pytest.mark.parametrize("tag", [f"{s}{b}" for s in "iu" for b in (8, 16, 32, 64)])
def test_shifts_by_any_count(tag: str) -> None:
    bits = int(tag[1:])
    info = np.iinfo(DTYPES[tag])
    counts = np.array([0, 1, bits - 1, bits, 100], DTYPES[tag])
    x, y = (
        m.ravel() for m in np.meshgrid(np.array([1, 5, info.max, info.min], counts.dtype), counts)
    )
    np.testing.assert_array_equal(run(f"shift_left_{tag}", x, y), np.left_shift(x, y))
    np.testing.assert_array_equal(run(f"shift_right_{tag}", x, y), np.right_shift(x, y))


def test_half_conversions_are_exact() -> None:
    codes = np.arange(65536, dtype=np.uint16)
    np.testing.assert_array_equal(run("f16_to_f32", codes), codes.view(np.float16).astype("f4"))
    wide = run("bf16_to_f32", codes)
    np.testing.assert_array_equal(wide, codes.view(ml_dtypes.bfloat16).astype("f4"))
    rng = np.random.default_rng(3)
    x = rng.integers(0, 2**32, 200_000, np.uint64).astype(np.uint32).view("f4")
    mid = codes[:0x7C01].view(np.float16).astype("f4")
    halfway = (mid[:-1] + mid[1:]) / 2
    x = np.concatenate([x, halfway, np.nextafter(halfway, np.float32(9)), (mid * 1.01)])
    x = x[~np.isnan(x)]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(run("f32_to_f16", x), x.astype(np.float16).view(np.uint16))
        b = x.astype(ml_dtypes.bfloat16).view(np.uint16)
        np.testing.assert_array_equal(run("f32_to_bf16", x), b)
        d = x.astype("f8") * (1 + rng.uniform(-1, 1, x.size) * 1e-9)
        np.testing.assert_array_equal(run("f64_to_f16", d), d.astype(np.float16).view(np.uint16))
    for name in ("f32_to_f16", "f64_to_f16"):
        assert np.isnan(run(name, np.array([np.nan])).view(np.float16)).all()
    assert np.isnan(run("f32_to_bf16", np.array([np.nan])).view(ml_dtypes.bfloat16)).all()


@pytest.mark.parametrize("op", [op for op in ELEMENTARY if op not in BINARY])
@pytest.mark.parametrize("tag", ["f32", "f64"])
def test_same_bits_in_vector_body_and_remainder(op: str, tag: str) -> None:
    x = np.random.default_rng(1).uniform(-0.99, 0.99, 67).astype(DTYPES[tag])
    x = x + 2 if op == "acosh" else np.abs(x)
    whole = run(f"{op}_{tag}", x)
    single = np.concatenate([run(f"{op}_{tag}", x[i : i + 1]) for i in range(x.size)])
    assert whole.tobytes() == single.tobytes()


def test_a_constant_operand_has_the_bits_of_another() -> None:
    # What the compiler computes itself, for a padding or a fill value, is what the function gives.
    types = {"f64": ("double", "f8"), "f32": ("float", "f4"),
             "c128": ("complex128_t", "c16"), "c64": ("complex64_t", "c8")}  # fmt: skip
    points = [(0.3, 0.1), (5.0, 0.0), (0.7, -1.3), (-0.45, 0.25), (1.9, 2.2), (-2.6, 3.1)]
    made, source = {}, ""
    for name, function in vecmath.function_table().items():
        ct, code = types.get(name.rpartition("_")[2], ("", ""))
        head = rf"{ct} stax_{name}\({ct}(?: \w+)?(, {ct}[^,)]*)?\)"
        head += rf"|STAX_LIBRARY(2?)\({ct}, stax_{name},"
        if not ct or not (found := re.search(head, function.text)):
            continue
        source += f"{{ volatile {ct} x; {ct} *out = p[{len(made)}];\n"
        made[name] = np.zeros((len(points), 2), code)
        for a, b in points:
            value = f"__builtin_complex({a!r}, {b!r})" if code[0] == "c" else repr(a)
            value = re.sub(r"(\.\d+)", r"\1f", value) if code in ("c8", "f4") else value
            calls = [
                f"stax_{name}({v}, {v})" if found[1] or found[2] else f"stax_{name}({v})"
                for v in "cv"
            ]
            source += f"x = {value}; {{ {ct} c = {value}, v = x;\n"
            source += f"*out++ = {calls[0]}; *out++ = {calls[1]}; }}\n"
        source += "}\n"
    assert {"sin_c128", "libm_pow_c64", "lgamma_f64", "expm1_c128", "atan2_f32"} <= {*made}
    toolchain = find_toolchain()
    assert toolchain is not None
    text = vecmath.definitions(made) + f"void both(void **p) {{\n{source}}}\n"
    both = toolchain.load(text).handle.both
    both((ctypes.c_void_p * len(made))(*(m.ctypes.data for m in made.values())))
    bits = {name: np.nan_to_num(m.T, copy=False) for name, m in made.items()}
    assert [name for name, (c, v) in bits.items() if c.tobytes() != v.tobytes()] == []


def test_definitions_hold_what_is_needed_and_no_more() -> None:
    text = vecmath.definitions(["exp_f32", "exp_f32"])
    assert text.count("stax_exp_f32(float x)") == 1
    assert "f64" not in text
    assert vecmath.definitions([]) == vecmath.PREAMBLE
    assert vecmath.names_in("x = stax_tanh_f32(y) + stax_foo(z);") == ["tanh_f32"]
    with pytest.raises(KeyError):
        vecmath.definitions(["no_such_f32"])


def test_every_function_compiles() -> None:
    source = vecmath.definitions(vecmath.function_table())
    toolchain = find_toolchain()
    assert toolchain is not None
    assert toolchain.compile(source + "int answer(void) { return 42; }").is_file()


def test_every_function_that_the_scalar_table_names_is_defined() -> None:
    table = vecmath.function_table()
    dtypes = [np.dtype(code) for code in "f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 ?".split()]
    missing = []
    for row in SCALAR_OPS.values():
        for dtype in dtypes:
            try:
                text = spelling(row, (dtype,) * max(1, row.arity), "c", ("a", "b", "c"), n=3)
            except DtypeError:
                continue
            missing += [name for name in re.findall(r"stax_(\w+)", text) if name not in table]
    assert not missing


def test_the_table_of_errors_holds_on_a_fresh_sample() -> None:
    page = (Path(__file__).parents[2] / "docs" / "accuracy.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+) \| ([\d.]+) \|$", page, re.MULTILINE)
    assert [op for op, _, _ in rows] == [*ELEMENTARY, "lgamma", "digamma"]
    for op, *stated in rows:
        for tag, limit in zip(("f32", "f64"), stated, strict=True):
            worst, at = sampled_error(op, tag, 20, seed=11)
            assert worst <= 1.1 * float(limit) + 0.05, (op, tag, worst, at)
            assert float(limit) <= LIMITS.get(op, 2.0), (op, tag)
