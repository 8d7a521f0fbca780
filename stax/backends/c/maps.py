"""Long functions as a machine has them, compiled once: rows for `vecmath`.

Of each function in `ROUTINES` there is one of many elements, `stax_map_tanh_f32(from, to, count)`,
and one of a single element, `stax_one_tanh_f32(x)`; programs have pointers to them.  A loop over
several long functions is cut into blocks whose values lie in arrays (`fission`): there, nothing is
left of a function but a call, and programs need neither its text nor the compiler's time for it.
Code without loops, and code that is compiled briefly, calls those of one element
(`vecmath.with_calls`).  The formula is the one that other loops inline, so the bits are too.

Whole vectors are computed: both arrays have room for a multiple of `LANES` elements, of which those
beyond `count` mean nothing.  `from` and `to` may be the same.
"""

from __future__ import annotations

__all__ = ["LANES", "NAMES", "ROUTINES", "rows"]

LANES = 16
ROUTINES = tuple(
    f"{name}_f32"
    for name in ("exp", "expm1", "log", "log1p", "tanh", "sigmoid", "erf", "sin", "cos")
)
NAMES = tuple(f"{kind}_{name}" for kind in ("map", "one") for name in ROUTINES)

# Loops of fixed length compile in half the time, with nothing for a rest.
_ROWS = """\
//: map_@name 0 scalar
static void stax_map_@name(const float *from, float *to, int64_t count) {
    for (int64_t at = 0; at < count; at += @lanes)
        #pragma omp simd
        for (int64_t k = 0; k < @lanes; k++) to[at + k] = stax_@name(from[at + k]);
}
//: one_@name 0 scalar
static float stax_one_@name(float x) {
    return stax_@name(x);
}
"""


def rows() -> str:
    """The rows of all routines."""
    return "".join(_ROWS.replace("@name", name).replace("@lanes", str(LANES)) for name in ROUTINES)
