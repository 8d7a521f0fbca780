"""The C mathematical functions against references: accuracy, special values, integer rules."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Callable

import ml_dtypes
import mpmath
import numpy as np
import pytest

from stax.backends.c import vecmath
from stax.backends.c.toolchain import find_toolchain
from stax.errors import DtypeError
from stax.loops.scalar_ops import SCALAR_OPS, spelling

if find_toolchain() is None:
    pytest.skip("these functions exist only where there is a C compiler", allow_module_level=True)

C_TYPES = {"f32": "float", "f64": "double", "b8": "uint8_t", "f16": "uint16_t", "bf16": "uint16_t"}
for _bits in (8, 16, 32, 64):
    C_TYPES[f"i{_bits}"] = f"int{_bits}_t"
    C_TYPES[f"u{_bits}"] = f"uint{_bits}_t"
DTYPES = {
    tag: np.dtype({"float": "f4", "double": "f8"}.get(c, c.removesuffix("_t")))
    for tag, c in C_TYPES.items()
}
BINARY = frozenset(
    "pow atan2 hypot max min fmax fmin copysign nextafter fmod mod floordiv shift_left "
    "shift_right".split()
)
ELEMENTARY = (
    "exp exp2 expm1 log log2 log10 log1p tanh sigmoid sinh cosh asinh acosh atanh cbrt atan asin "
    "acos sin cos tan erf erfc erfinv pow atan2 hypot"
).split()
# ulp allowed; the double functions that subtract two nearly equal logarithms get more.
LIMITS = {"digamma": 40.0, "lgamma": 4.0}


def _signature(name: str) -> tuple[str, str, bool]:
    if "_to_" in name:
        source, target = name.split("_to_")
        return source, target, False
    op, tag = name.rsplit("_", 1)
    boolean = op in ("isnan", "isinf", "isfinite", "signbit")
    return tag, "b8" if boolean else tag, op in BINARY


@functools.cache
def _library(names: tuple[str, ...]) -> ctypes.CDLL:
    source = vecmath.definitions(names)
    for name in names:
        tag, target, binary = _signature(name)
        a, o = C_TYPES[tag], C_TYPES[target]
        call = f"stax_{name}(a[i]{', b[i]' if binary else ''})"
        source += (
            f"void loop_{name}(const {a} *restrict a, const {a} *restrict b, {o} *restrict o,"
            f" long n) {{\n#pragma omp simd\n for (long i = 0; i < n; i++) o[i] = {call};\n}}\n"
        )
    toolchain = find_toolchain()
    assert toolchain is not None
    return toolchain.load(source).handle


def _testable() -> tuple[str, ...]:
    names = [f"{op}_{tag}" for op in (*ELEMENTARY, "lgamma", "digamma") for tag in ("f32", "f64")]
    basic = "abs sign max min fmax fmin sqrt floor ceil trunc rint copysign nextafter fmod mod"
    names += [f"{op}_{t}" for op in [*basic.split(), "floordiv"] for t in ("f32", "f64")]
    names += [f"{op}_{t}" for op in "isnan isinf isfinite signbit".split() for t in ("f32", "f64")]
    integers = "max min floordiv mod fmod shift_left shift_right abs sign".split()
    names += [f"{op}_{s}{b}" for op in integers for s in "iu" for b in (8, 16, 32, 64)]
    names += "f16_to_f32 f32_to_f16 f64_to_f16 bf16_to_f32 f32_to_bf16".split()
    return tuple(names)


def run(name: str, a: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
    tag, target, _ = _signature(name)
    a = np.ascontiguousarray(a, DTYPES[tag])
    b = a if b is None else np.ascontiguousarray(b, DTYPES[tag])
    out = np.empty(a.shape, DTYPES[target])
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in (a, b, out)]
    getattr(_library(_testable()), f"loop_{name}")(*pointers, ctypes.c_long(a.size))
    return out


REFERENCE: dict[str, Callable[..., object]] = {
    "exp2": lambda x: mpmath.power(2, x),
    "log2": lambda x: mpmath.log(x, 2),
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    "lgamma": lambda x: mpmath.loggamma(x).real,
    "pow": mpmath.power,
}
RANGES = {
    "exp": (-745, 709.7), "exp2": (-1074, 1023.9), "expm1": (-50, 709.7), "log1p": (-0.999, 10),
    "tanh": (-22, 22), "sigmoid": (-740, 40), "sinh": (-710, 710), "cosh": (-710, 710),
    "asin": (-1, 1), "acos": (-1, 1), "atanh": (-1, 1), "erf": (-6, 6), "erfc": (-6, 26.5),
    "erfinv": (-1, 1), "sin": (-100, 100), "cos": (-100, 100), "tan": (-100, 100),
    "lgamma": (0.01, 50), "digamma": (0.01, 50),
}  # fmt: skip


def _samples(op: str, single: bool, n: int, rng: np.random.Generator) -> np.ndarray:
    low, high = RANGES.get(op, (-10, 10))
    if single:
        low, high = max(low, -149 if op == "exp2" else -103), min(high, 88)
        high = min(high, 10) if op == "erfc" else high
    span = 36 if single else 300
    signs = rng.choice([-1, 1], n)
    near = 10.0 ** rng.uniform(-12, 0.3, n) * signs
    far = 10.0 ** rng.uniform(-span, span, n) * signs
    even = rng.uniform(low, high, n)
    pieces = [even, rng.uniform(-1, 1, n) * min(high, 1), far, near, 1 + near * 1e-3]
    x = np.concatenate(pieces).astype("f4" if single else "f8")
    if op in ("log", "log2", "log10", "pow", "lgamma", "digamma"):
        x = np.abs(x)
    if op == "acosh":
        x = 1 + np.abs(x)
    if op in RANGES and op not in ("sin", "cos", "tan", "erf", "tanh"):
        x = x[(x > low) & (x < high)]
    return x


def _ulp(got: np.ndarray, exact: list[object], single: bool) -> tuple[float, int]:
    digits, least, largest = (24, -149, 3.4e38) if single else (53, -1074, 1.79e308)
    worst, at = 0.0, 0
    for i, (g, r) in enumerate(zip(got.tolist(), exact, strict=True)):
        if abs(r) > largest:
            continue
        exponent = mpmath.mag(r) - 1 if r != 0 else least
        unit = mpmath.ldexp(1, max(exponent - digits + 1, least))
        error = float(abs(mpmath.mpf(g) - r) / unit) if np.isfinite(g) else np.inf
        if error > worst:
            worst, at = error, i
    return worst, at


@pytest.mark.parametrize("tag", ["f32", "f64"])
@pytest.mark.parametrize("op", [*ELEMENTARY, "lgamma", "digamma"])
def test_accuracy_within_two_ulp(op: str, tag: str) -> None:
    rng = np.random.default_rng(7)
    single = tag == "f32"
    x = _samples(op, single, 150, rng)
    arguments = [x]
    if op in BINARY:
        y = rng.permutation(x)
        if op == "pow":
            top = np.log(1e38 if single else 1e307)
            y = rng.uniform(-1, 1, x.size) * top / np.maximum(np.abs(np.log(x.astype(float))), 1e-9)
        arguments.append(np.clip(y, -1e30, 1e30).astype(x.dtype))
    got = run(f"{op}_{tag}", *arguments)
    reference = REFERENCE.get(op) or getattr(mpmath, op)
    with mpmath.workprec(160):
        exact = [
            reference(*(mpmath.mpf(v) for v in values))
            for values in zip(*(a.tolist() for a in arguments), strict=True)
        ]
        worst, at = _ulp(got, exact, single)
    assert worst <= LIMITS.get(op, 2.0), f"{worst:.2f} ulp at {[a[at] for a in arguments]}"


@pytest.mark.parametrize("op", ["sin", "cos", "tan"])
def test_angles_next_to_multiples_of_a_right_angle(op: str) -> None:
    # The double closest to a multiple of pi/2, and its neighbours in kind.
    hard = [6381956970095103.0 * 2.0**797, 5319372648326541.0 * 2.0**-1, 1e22, 3.0, 1.7e308]
    hard += [float(k) * np.pi / 2 for k in range(1, 60)]
    x = np.array(hard)
    with mpmath.workprec(1400):
        exact = [getattr(mpmath, op)(mpmath.mpf(v)) for v in hard]
        worst, at = _ulp(run(f"{op}_f64", x), exact, False)
        assert worst <= 2.0, (worst, x[at])
        single = x[x < 3e38].astype("f4")
        exact = [getattr(mpmath, op)(mpmath.mpf(v)) for v in single.tolist()]
        worst, at = _ulp(run(f"{op}_f32", single), exact, True)
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
