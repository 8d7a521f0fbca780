"""Functions that generated Triton kernels call: what the language has not, or has otherwise.

Input: the text of kernels.  Output: the definitions of the `stax_*` functions that it names, with
those they call in turn.  Each has NumPy's meaning: division rounds down, an integer divided by
zero is 0, a shift by the width or more gives 0 or the sign.
"""

from __future__ import annotations

import re

from stax.backends.triton import contracted, contracted_powers

HEADER = """\
import triton
import triton.language as tl
from triton.language.extra import libdevice
"""

FUNCTIONS: dict[str, str] = {
    "stax_sqrt": """
    if x.dtype == tl.float32:
        y = tl.sqrt_rn(x)
    else:
        y = tl.sqrt(x)
    return y
""",
    "stax_sign": """
    y = (x > 0).to(x.dtype) - (x < 0).to(x.dtype)
    return tl.where(x != x, x, y)
""",
    "stax_integer_sign": """
    return (x > 0).to(x.dtype) - (x < 0).to(x.dtype)
""",
    "stax_signbit": """
    if x.dtype == tl.float64:
        y = x.to(tl.int64, bitcast=True) < 0
    else:
        y = x.to(tl.int32, bitcast=True) < 0
    return y
""",
    "stax_fmod": """
    a = tl.abs(x)
    b = tl.abs(y)
    q = a / b
    r = a - libdevice.trunc(q) * b
    near = libdevice.fma(-libdevice.trunc(q), b, a)
    near = tl.where(near < 0, near + b, near)
    near = tl.where(near >= b, near - b, near)
    small = (q < 4194304.0) & (b < float("inf"))
    return tl.where(small, libdevice.copysign(near, x), libdevice.fmod(x, y))
""",
    "stax_mod": """
    r = stax_fmod(x, y)
    s = tl.where(((y < 0) != (r < 0)) & (r != 0), r + y, r)
    s = tl.where(r == 0, libdevice.copysign(r, y), s)
    return tl.where(y == 0, r, s)
""",
    "stax_floordiv": """
    r = stax_fmod(x, y)
    q = (x - r) / y
    q = tl.where((r != 0) & ((y < 0) != (r < 0)), q - 1.0, q)
    f = tl.floor(q)
    f = tl.where(q - f > 0.5, f + 1.0, f)
    f = tl.where(q == 0, libdevice.copysign(q * 0.0, x / y), f)
    return tl.where(y == 0, x / y, f)
""",
    "stax_integer_floordiv": """
    d = tl.where(y == 0, y + 1, y)
    q = x // d
    if x.dtype.is_int_signed():
        d = tl.where(d == -1, d * d, d)
        q = x // d
        r = x - q * d
        q = q - ((r != 0) & ((r < 0) != (d < 0))).to(q.dtype)
        q = tl.where(y == -1, -x, q)
    return tl.where(y == 0, q * 0, q)
""",
    "stax_gcd": """
    a, b = x.to(tl.uint64), y.to(tl.uint64)
    if x.dtype.is_int_signed():
        a, b = tl.abs(x.to(tl.int64)).to(tl.uint64), tl.abs(y.to(tl.int64)).to(tl.uint64)
    for _ in range(93):
        done = b == 0
        r = a % tl.where(done, b + 1, b)
        a = tl.where(done, a, b)
        b = tl.where(done, b, r)
    return a.to(x.dtype)
""",
    "stax_lcm": """
    g = stax_gcd(x, y)
    d = tl.where(g == 0, g + 1, g)
    p = (x // d) * y
    if x.dtype.is_int_signed():
        p = tl.where((x < 0) != (y < 0), -p, p)
    return tl.where(g == 0, g, p)
""",
    "stax_integer_mod": """
    d = tl.where(y == 0, y + 1, y)
    if x.dtype.is_int_signed():
        d = tl.where(d == -1, d * d, d)
    r = x % d
    if x.dtype.is_int_signed():
        r = tl.where((r != 0) & ((r < 0) != (d < 0)), r + d, r)
    return tl.where(y == 0, r * 0, r)
""",
    "stax_integer_fmod": """
    d = tl.where(y == 0, y + 1, y)
    if x.dtype.is_int_signed():
        d = tl.where(d == -1, d * d, d)
    r = x % d
    return tl.where(y == 0, r * 0, r)
""",
    "stax_integer_pow": """
    r = tl.full(x.shape, 1, x.dtype)
    bits: tl.constexpr = 31 if (n if n >= 0 else -n) < 2147483648 else 64
    for bit in tl.static_range(0, bits):
        if ((n if n >= 0 else -n) >> bit) & 1:
            r = r * x
        x = x * x
    if n < 0:
        r = 1.0 / r
    return r
""",
    "stax_integer_power": """
    width: tl.constexpr = x.dtype.primitive_bitwidth
    r = x * 0 + 1
    base = x
    for bit in tl.static_range(0, width):
        r = tl.where((y >> bit) & 1 != 0, r * base, r)
        base = base * base
    if x.dtype.is_int_signed():
        # A negative power is what is left of 1 / x**-y.
        one = x * 0 + 1
        below = tl.where((x == 1) | ((x == -1) & (y & 1 == 0)), one, tl.where(x == -1, x, x * 0))
        r = tl.where(y < 0, below, r)
    return r
""",
    "stax_shift_left": """
    width: tl.constexpr = x.dtype.primitive_bitwidth
    inside = (y >= 0) & (y < width)
    return tl.where(inside, x << tl.where(inside, y, y * 0), x * 0)
""",
    "stax_shift_right": """
    width: tl.constexpr = x.dtype.primitive_bitwidth
    inside = (y >= 0) & (y < width)
    by = tl.where(inside, y, y * 0)
    r = x >> by
    if x.dtype.is_int_signed():
        sign = tl.where(x < 0, x * 0 - 1, x * 0)
    else:
        sign = x * 0
    return tl.where(inside, r, sign)
""",
    "stax_cbrt": """
    a = tl.abs(x)
    ordinary = (a > 0) & (a < float("inf"))
    s = tl.where(ordinary, a, a * 0 + 1)
    y = libdevice.pow(s, s * 0 + 0.3333333333333333)
    y = y - (y * y * y - s) / (3.0 * y * y)
    return libdevice.copysign(tl.where(ordinary, y, a), x)
""",
    "stax_digamma": """
    v = x.to(tl.float64)
    near = v - libdevice.nearbyint(v)
    pole = (v <= 0) & (near == 0)
    low = v < 0
    angle = tl.where(low & (near != 0), near, v * 0 + 0.25) * 3.141592653589793
    shift = tl.where(low, -3.141592653589793 * tl.cos(angle) / tl.sin(angle), v * 0)
    z = tl.where(low, 1.0 - v, v)
    for _ in tl.static_range(0, 10):
        small = z < 10.0
        shift = shift - tl.where(small, 1.0 / z, z * 0)
        z = tl.where(small, z + 1.0, z)
    w = 1.0 / (z * z)
    t = w * (691.0 / 32760 - w * (1.0 / 12 - w * 3617.0 / 8160))
    t = w * (1.0 / 252 - w * (1.0 / 240 - w * (1.0 / 132 - t)))
    t = w * (1.0 / 12 - w * (1.0 / 120 - t))
    y = libdevice.log(z) - 0.5 / z - t + shift
    y = tl.where(pole, float("nan"), y)
    y = tl.where(v == 0, libdevice.copysign(v * 0 + float("inf"), -v), y)
    return y.to(x.dtype)
""",
    **contracted.FUNCTIONS,
    **contracted_powers.FUNCTIONS,
}

_BINARY = {
    "stax_fmod",
    "stax_mod",
    "stax_floordiv",
    "stax_integer_floordiv",
    "stax_gcd",
    "stax_integer_mod",
    "stax_lcm",
    "stax_integer_fmod",
    "stax_integer_power",
    "stax_shift_left",
    "stax_shift_right",
    "stax_contracted_power",
}
_TERNARY = {"stax_contracted_fma"}
_COUNTED = {"stax_integer_pow"}
_NAME = re.compile(r"\bstax_\w+(?=\()")


def names_in(text: str) -> list[str]:
    """The functions of this table that the text calls, those they call first."""
    found: dict[str, None] = {}
    open_names = [n for n in dict.fromkeys(_NAME.findall(text)) if n in FUNCTIONS]
    while open_names:
        name = open_names[-1]
        inner = [n for n in _NAME.findall(FUNCTIONS[name]) if n in FUNCTIONS and n not in found]
        if inner:
            open_names.extend(inner)
            continue
        found.setdefault(name)
        open_names.pop()
    return list(found)


def definition(name: str) -> str:
    """The text of one function."""
    if name in _COUNTED:
        parameters = "x, n: tl.constexpr"
    else:
        parameters = "x, y, z" if name in _TERNARY else "x, y" if name in _BINARY else "x"
    return f"@triton.jit\ndef {name}({parameters}):{FUNCTIONS[name].rstrip()}\n"


def prelude(text: str) -> str:
    """Imports and the functions that the text calls."""
    parts = [HEADER, *(definition(n) for n in names_in(text))]
    return "\n\n".join(parts)
