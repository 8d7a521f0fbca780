"""Errors of the C mathematical functions in units in the last place, and the table of them.

Input: the name of a function and of a type. Output: the largest error found on a sample, against
mpmath, or for single precision against double precision on evenly spread floats of every size.
`python -m tests.backends.ulp` measures all and writes docs/accuracy.md.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from pathlib import Path

import mpmath
import numpy as np
import scipy.special

from stax.backends.c import vecmath
from stax.backends.c.toolchain import find_toolchain

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
# ulp allowed where two do not suffice: it vanishes inside its range.
LIMITS = {"lgamma": 4.0}


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


def testable() -> tuple[str, ...]:
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
    getattr(_library(testable()), f"loop_{name}")(*pointers, ctypes.c_long(a.size))
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


def samples(op: str, single: bool, n: int, rng: np.random.Generator) -> np.ndarray:
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


def worst_ulp(got: np.ndarray, exact: list[object], single: bool) -> tuple[float, int]:
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


def arguments_of(op: str, tag: str, n: int, seed: int) -> list[np.ndarray]:
    """Operands that spread over all magnitudes and crowd where functions are delicate."""
    rng = np.random.default_rng(seed)
    single = tag == "f32"
    x = samples(op, single, n, rng)
    if op not in BINARY:
        return [x]
    y = rng.permutation(x)
    if op == "pow":
        top = np.log(1e38 if single else 1e307)
        y = rng.uniform(-1, 1, x.size) * top / np.maximum(np.abs(np.log(x.astype(float))), 1e-9)
    return [x, np.clip(y, -1e30, 1e30).astype(x.dtype)]


def sampled_error(op: str, tag: str, n: int, seed: int) -> tuple[float, list[float]]:
    """Return the largest error in ulp on 5 n points against mpmath, and where it is."""
    arguments = arguments_of(op, tag, n, seed)
    got = run(f"{op}_{tag}", *arguments)
    reference = REFERENCE.get(op) or getattr(mpmath, op)
    with mpmath.workprec(160):
        exact = [
            reference(*(mpmath.mpf(v) for v in values))
            for values in zip(*(a.tolist() for a in arguments), strict=True)
        ]
        worst, at = worst_ulp(got, exact, tag == "f32")
    return worst, [float(a[at]) for a in arguments]


_DOUBLE: dict[str, Callable[..., np.ndarray]] = {
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "erf": scipy.special.erf,
    "erfc": scipy.special.erfc, "erfinv": scipy.special.erfinv,
    "sigmoid": scipy.special.expit, "lgamma": scipy.special.gammaln,
    "digamma": scipy.special.digamma,
}  # fmt: skip


def spread_error(op: str, step: int = 257) -> float:
    """Return the largest error in ulp of a float function on every `step`-th float there is."""
    function = _DOUBLE.get(op) or getattr(np, op)
    worst = 0.0
    for start in range(0, 2**32, 2**28):
        bits = np.arange(start, start + 2**28, step, dtype=np.uint64).astype(np.uint32)
        x = bits.view(np.float32)
        x = x[x > 0] if op in ("lgamma", "digamma") else x[~np.isnan(x)]
        if not x.size:
            continue
        with np.errstate(all="ignore"):
            exact = function(x.astype(np.float64))
            finite = np.abs(exact) < np.finfo(np.float32).max
            error = np.abs(run(f"{op}_f32", x)[finite] - exact[finite])
            exponent = np.where(exact[finite] == 0, -149, np.frexp(exact[finite])[1] - 24)
            unit = np.ldexp(1.0, np.maximum(exponent, -149))
        worst = max(worst, float((error / unit).max(initial=0.0)))
    return worst


SLOW = ("erfinv", "lgamma", "digamma")


def table() -> dict[str, tuple[float, float]]:
    """Return the measured errors of each function in single and in double precision."""
    found = {}
    for op in (*ELEMENTARY, "lgamma", "digamma"):
        n = 200 if op in SLOW else 2000
        single = sampled_error(op, "f32", n, seed=1)[0]
        if op not in BINARY:
            single = max(single, spread_error(op))
        found[op] = single, sampled_error(op, "f64", n, seed=1)[0]
    return found


PAGE = """# Accuracy of the compiled functions

Compiled programs compute mathematical functions in code of their own, which vectorises. This is
the largest error found, in units in the last place of the exact result (0.5 is perfect
rounding). Single precision: every 257th float there is, against double precision, and a sample
against mpmath; double precision: 10,000 points of all magnitudes (1,000 for `erfinv`, `lgamma`
and `digamma`) that crowd where the function is delicate, against mpmath. No function is allowed
more than 2 (`digamma` on positive arguments), except `lgamma`, which is 0 inside its range, with 4.
Infinities, NaN, signed zeros and denormal numbers keep their meaning. Programs that run without
the compiler use the functions of NumPy and SciPy.

`python -m tests.backends.ulp` writes this page; a test compares it with a fresh sample.

| function | float32 | float64 |
|---|---|---|
"""


def page() -> str:
    """Return the text of docs/accuracy.md."""
    rows = (f"| `{op}` | {s:.2f} | {d:.2f} |\n" for op, (s, d) in table().items())
    return PAGE + "".join(rows)


if __name__ == "__main__":
    target = Path(__file__).parents[2] / "docs" / "accuracy.md"
    target.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"wrote {target}\n")
