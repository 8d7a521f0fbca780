"""Triton text of the logarithms and error functions of random numbers.

The formulas, and where each of them rounds, are those of `stax.loops.contracted`; kernels are
compiled without contraction of their own, and divide and take roots with one rounding.  In double
precision they are the device library's functions.
"""

from __future__ import annotations

from stax.loops.contracted import (
    ERF_BOTTOM,
    ERF_END,
    ERF_TOP,
    GILES_HIGH,
    GILES_LOW,
    LN2_HIGH,
    LN2_LOW,
    LOG,
    LOG1P_BOTTOM,
    LOG1P_TOP,
    NEAR,
    ROOT_HALF,
)

__all__ = ["FUNCTIONS", "by_precision", "full", "polynomial"]


def full(value: float) -> str:
    """A float32 constant of the shape of `x`."""
    return f"tl.full(x.shape, {value!r}, tl.float32)"


def polynomial(name: str, coefficients: tuple[float, ...], x: str) -> str:
    """Statements that define `name`, by Horner's rule from the highest power down."""
    first, *rest = coefficients
    steps = "".join(f"\n        {name} = libdevice.fma({name}, {x}, {full(c)})" for c in rest)
    return f"{name} = {full(first)}{steps}"


def by_precision(name: str, single: str, double: str = "") -> str:
    """The body of a function: the device library's in double precision, else `single`."""
    return f"""
    if x.dtype == tl.float64:
        r = {double or f"libdevice.{name}(x)"}
    else:
        {single.strip()}
    return r
"""


_A, _B, _C = (polynomial(v, LOG[k : k + 3], "y") for v, k in (("a", 0), ("b", 3), ("c", 6)))
_RATIO = "".join(
    f"\n        r = libdevice.fma(r, v, tl.where(high, {full(far)}, {full(near)}))"
    for near, far in zip(GILES_LOW[1:], GILES_HIGH[1:], strict=True)
)

FUNCTIONS: dict[str, str] = {
    "stax_contracted_log": by_precision("log", f"""
        u = tl.where(x > {2.0**-126!r}, x, {2.0**-126!r}).to(tl.int32, bitcast=True)
        exponent = ((u >> 23) - 126).to(tl.float32)
        part = ((u & 0x007FFFFF) | 0x3F000000).to(tl.float32, bitcast=True)
        low = part < {ROOT_HALF!r}
        exponent = tl.where(low, exponent - 1.0, exponent)
        y = (part - 1.0) + tl.where(low, part, 0.0)
        square = y * y
        cube = square * y
        {_A}
        {_B}
        {_C}
        r = libdevice.fma(libdevice.fma(a, cube, b), cube, c)
        r = libdevice.fma(r, cube, exponent * {LN2_LOW!r})
        r = libdevice.fma(square, {full(-0.5)}, y) + r
        r = libdevice.fma(exponent, {full(LN2_HIGH)}, r)
        r = tl.where(x == float("inf"), x, tl.where(x == 0, -float("inf"), r))
        r = tl.where(x >= 0, r, float("nan"))
"""),
    "stax_contracted_log1p": by_precision("log1p", f"""
        square = x * x
        {polynomial("top", LOG1P_TOP, "x")}
        {polynomial("bottom", LOG1P_BOTTOM, "x")}
        r = (x * square) * tl.div_rn(top, bottom)
        r = libdevice.fma(square, {full(-0.5)}, r) + x
        r = tl.where(tl.abs(x) < {NEAR!r}, r, stax_contracted_log(x + 1.0))
"""),
    "stax_contracted_erf": by_precision(
        "erf",
        f"""
        v = tl.where(x > {ERF_END!r}, {ERF_END!r}, tl.where(x < {-ERF_END!r}, {-ERF_END!r}, x))
        square = v * v
        {polynomial("top", ERF_TOP, "square")}
        {polynomial("bottom", ERF_BOTTOM, "square")}
        r = tl.div_rn(v * top, bottom)
        r = tl.where(x >= {ERF_END!r}, {full(1.0)}, tl.where(x <= {-ERF_END!r}, {full(-1.0)}, r))
""",
    ),
    "stax_contracted_erfinv": by_precision("erfinv", f"""
        w = -stax_contracted_log1p(-(x * x))
        high = (w < 5.0) == 0
        v = tl.where(high, stax_sqrt(w) - 3.0, w - 2.5)
        r = tl.where(high, {full(GILES_HIGH[0])}, {full(GILES_LOW[0])}){_RATIO}
        r = tl.where(tl.abs(x) == 1.0, float("inf"), r) * x
"""),
}  # fmt: skip
