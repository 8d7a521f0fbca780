"""Triton text of the exponential, power and tangent of random numbers, and of the contracted sum.

The formulas, and where each of them rounds, are those of `stax.loops.contracted_powers`; kernels
are compiled without contraction of their own.  In double precision they are the device library's.
"""

from __future__ import annotations

from stax.backends.triton.contracted import by_precision, full, polynomial
from stax.loops.contracted import LN2_HIGH, LN2_LOW
from stax.loops.contracted_powers import (
    EXP,
    EXP2_NEAR,
    EXP_END,
    EXP_MOST,
    EXP_START,
    HALF_PI,
    INVERSE,
    LOG2,
    LOG2_E,
    LOG2_NEAR,
    PARTS,
    POWER_END,
    QUARTER_PI,
    RANGE_START,
    ROOTS,
    TAN,
    TAN_END,
    TAN_FOLD,
    TAN_TINY,
    TINY,
)

__all__ = ["FUNCTIONS"]


def _wide(value: float) -> str:
    return f"tl.full(x.shape, {value!r}, tl.float64)"


def _chosen(name: str, values: tuple[float, ...], index: str) -> str:
    """Statements that give `name` the value of a table at `index`."""
    steps = "".join(
        f"\n        {name} = tl.where({index} == {k}, {_wide(v)}, {name})"
        for k, v in enumerate(values[1:], 1)
    )
    return f"{name} = {_wide(values[0])}{steps}"


_A, _B, _C, _D, _E = (_wide(v) for v in LOG2_NEAR)
_U, _V, _W = (_wide(v) for v in EXP2_NEAR)
_SHIFT = PARTS.bit_length() - 1
_PAIRS = "".join(
    f"\n        odd = {full(TAN[k])} + w * odd\n        even = {full(TAN[k + 1])} + w * even"
    for k in range(9, 0, -2)
)
_HIGH, _LOW = (full(v) for v in QUARTER_PI)

FUNCTIONS: dict[str, str] = {
    "stax_contracted_exp": by_precision("exp", f"""
        v = tl.where(x < {EXP_START!r}, {EXP_START!r}, tl.where(x > {EXP_END!r}, {EXP_END!r}, x))
        whole = tl.floor(libdevice.fma(v, {full(LOG2_E)}, {full(0.5)}))
        whole = tl.where(whole < {-EXP_MOST}, {-EXP_MOST}, whole)
        whole = tl.where(whole > {EXP_MOST}, {EXP_MOST}, whole)
        v = libdevice.fma(whole, {full(-LN2_HIGH)}, v)
        v = libdevice.fma(whole, {full(-LN2_LOW)}, v)
        {polynomial("p", EXP, "v")}
        p = libdevice.fma(p, v * v, v) + 1.0
        count = tl.where(whole == whole, whole, 0.0).to(tl.int32)
        r = p * ((count + 127) << 23).to(tl.float32, bitcast=True)
        r = tl.where(r < {TINY!r}, 0.0, r)
"""),
    "stax_contracted_power": by_precision("pow", f"""
        size = tl.abs(x)
        word = size.to(tl.int32, bitcast=True)
        above = word - {RANGE_START}
        part = (above >> 19) & 15
        v = (word - (above & {0xFF800000 - 2**32})).to(tl.float32, bitcast=True).to(tl.float64)
        {_chosen("inverse", INVERSE, "part")}
        {_chosen("p", LOG2, "part")}
        v = v * inverse - 1.0
        square = v * v
        low = {_E} * v + (p + (above >> 23).to(tl.float64))
        p = ({_A} * v + {_B}) * (square * square) + (({_C} * v + {_D}) * square + low)
        p = tl.where(size < {TINY!r}, -float("inf"), p)
        p = tl.where(size < float("inf"), p, size.to(tl.float64))
        p = y.to(tl.float64) * p
        p = tl.where(p < {-POWER_END}, {_wide(-POWER_END)}, p)
        p = tl.where(p > {POWER_END}, {_wide(POWER_END)}, p)
        steps = libdevice.nearbyint(p * {PARTS}.0)
        v = p - steps * {1 / PARTS}
        count = tl.where(steps == steps, steps, 0.0).to(tl.int32)
        factor = ({_U} * v + {_V}) * (v * v) + ({_W} * v + 1.0)
        {_chosen("root", ROOTS, f"(count & {PARTS - 1})")}
        two = (((count >> {_SHIFT}) + 1023).to(tl.int64) << 52).to(tl.float64, bitcast=True)
        r = (factor * root * two).to(tl.float32)
        r = tl.where(r < {TINY!r}, 0.0, r)
        r = tl.where((size == 1.0) | (y == 0.0), 1.0, r)
        whole = libdevice.nearbyint(y) == y
        odd = whole & (libdevice.nearbyint(0.5 * y) * 2.0 != y)
        negative = x.to(tl.int32, bitcast=True) < 0
        r = tl.where(odd & negative, -r, r)
        r = tl.where((x < 0.0) & (x > -float("inf")) & (whole == 0), float("nan"), r)
""", "libdevice.pow(x, y)"),
    "stax_contracted_tan": by_precision("tan", f"""
        size = tl.abs(x)
        gap = tl.where(size < {TAN_END!r}, x, 0.0).to(tl.float64)
        multiple = tl.floor(gap * {_wide(1 / HALF_PI)} + 0.5)
        multiple = tl.where(size <= {_HIGH}, 0.0, multiple)
        turned = (multiple.to(tl.int32) & 1) == 1
        gap = gap - multiple * {_wide(HALF_PI)}
        x0 = gap.to(tl.float32)
        x1 = (gap - x0.to(tl.float64)).to(tl.float32)
        folded = tl.abs(x0) >= {TAN_FOLD!r}
        sign = tl.where(folded & (x0 < 0.0), {full(-1.0)}, {full(1.0)})
        unit = tl.where(turned, {full(-1.0)}, {full(1.0)})
        v = tl.where(folded, ({_HIGH} - sign * x0) + ({_LOW} - sign * x1), x0)
        x1 = tl.where(folded, 0.0, x1)
        z = v * v
        w = z * z
        odd = {full(TAN[11])}
        even = {full(TAN[12])}{_PAIRS}
        s = z * v
        p = x1 + z * (s * (odd + z * even) + x1)
        p = p + {full(TAN[0])} * s
        total = v + p
        far = sign * (unit - 2.0 * (v - (tl.div_rn(total * total, total + unit) - p)))
        far = tl.where(tl.abs(v) < {2.0**-13!r}, sign * unit * (1.0 - 2.0 * unit * v), far)
        head = (total.to(tl.int32, bitcast=True) & -4096).to(tl.float32, bitcast=True)
        inverse = tl.div_rn({full(-1.0)}, total)
        cut = (inverse.to(tl.int32, bitcast=True) & -4096).to(tl.float32, bitcast=True)
        error = (1.0 + cut * head) + cut * (p - (head - v))
        r = tl.where(turned, cut + inverse * error, total)
        r = tl.where(folded, far, r)
        close = tl.where(turned, tl.div_rn({full(-1.0)}, x0), x0)
        r = tl.where(tl.abs(x0) < {TAN_TINY!r}, close, r)
        r = tl.where(size < {TAN_END!r}, r, float("nan"))
"""),
    "stax_contracted_fma": "\n    return libdevice.fma(x, y, z)\n",
}  # fmt: skip
