"""Integer index expressions: immutable, hash-consed, simplified as they are built.

Input: symbols with a known range (loop variables ``i0``, ``r0``, data-dependent ``s0``) and integer
arithmetic on them. Output: canonical expressions whose bounds, coefficients and text are at hand.
The idea: a sum keeps its affine terms sorted and merged, floor division and modulo by a constant
are split into the part that divides exactly and a remainder whose range decides the rest, and
equal expressions are one object, so that comparing two addresses is comparing two pointers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from importlib import import_module
from typing import Any
from weakref import WeakValueDictionary

from stax.forked import Lock
from stax.loops import ranges as _ranges
from stax.loops.expressions import (
    _RULES,
    Atom,
    Binary,
    Constant,
    Expr,
    IntLike,
    Product,
    Sum,
    Symbol,
)

__all__ = [
    "INF",
    "ONE",
    "ZERO",
    "Atom",
    "Binary",
    "Constant",
    "Expr",
    "IntLike",
    "Product",
    "Sum",
    "Symbol",
    "add",
    "affine",
    "affine_coefficients",
    "affine_parts",
    "as_expr",
    "binary",
    "constant",
    "delinearize",
    "floordiv",
    "is_affine",
    "linearize",
    "loop_variable",
    "loop_variables",
    "maximum",
    "minimum",
    "mod",
    "mul",
    "product",
    "scale",
    "sum_of",
    "symbol",
    "to_sympy",
]

INF = math.inf

_TABLE: WeakValueDictionary[tuple[Any, ...], Expr] = WeakValueDictionary()
_lock = Lock()
_CACHE_LIMIT = 100_000
_ADD_CACHE: dict[tuple[Expr, Expr], Expr] = {}
_MUL_CACHE: dict[tuple[Expr, int], Expr] = {}
_DIV_CACHE: dict[tuple[Expr, int], Expr] = {}
_MOD_CACHE: dict[tuple[Expr, int], Expr] = {}
_LINEAR_CACHE: dict[tuple[tuple[Expr, ...], tuple[int, ...], int], Expr] = {}


# ---------------------------------------------------------------------------------- construction


def _new(cls: Any, lo: float, hi: float, size: int) -> Any:
    e = cls.__new__(cls)
    e.lo, e.hi, e.size = lo, hi, size
    e._text = e._symbols = None
    return e


def _interned(key: tuple[Any, ...], made: Expr) -> Any:
    """The expression of this key: what is whole now, or what another thread made meanwhile."""
    with _lock:
        return _TABLE.setdefault(key, made)


_SMALL: list[Expr] = []


def constant(value: int) -> Expr:
    """The constant expression."""
    if 0 <= value < len(_SMALL):
        return _SMALL[value]
    value = int(value)
    key = (Constant, value)
    found = _TABLE.get(key)
    if found is None:
        made = _new(Constant, value, value, 1)
        made.value = value
        found = _interned(key, made)
    return found


_SMALL.extend([constant(n) for n in range(257)])
ZERO: Expr = _SMALL[0]
ONE: Expr = _SMALL[1]


def symbol(name: str, lo: float, hi: float) -> Symbol:
    """The variable ``name`` with values in ``[lo, hi]`` (either end may be infinite)."""
    key = (Symbol, name, lo, hi)
    found = _TABLE.get(key)
    if found is None:
        made = _new(Symbol, lo, hi, 1)
        made.name = name
        prefix = name.rstrip("0123456789")
        made.order = (0, prefix, int(name[len(prefix) :] or -1), name)
        found = _interned(key, made)
    assert isinstance(found, Symbol)
    return found


def loop_variable(name: str, extent: int) -> Expr:
    """The variable of a loop of ``extent`` trips; the constant 0 for a single trip."""
    if extent == 1:
        return ZERO
    return symbol(name, 0, extent - 1)


def loop_variables(prefix: str, shape: Iterable[int]) -> tuple[Expr, ...]:
    """One loop variable per extent, numbered in order: ``i0, i1, …``."""
    return _loop_variables(prefix, tuple(shape))


@functools.lru_cache(maxsize=4096)
def _loop_variables(prefix: str, shape: tuple[int, ...]) -> tuple[Expr, ...]:
    return tuple([loop_variable(f"{prefix}{n}", extent) for n, extent in enumerate(shape)])


def as_expr(value: IntLike) -> Expr:
    """``value`` as an expression."""
    return value if isinstance(value, Expr) else constant(int(value))


def _term_order(term: tuple[Atom, int]) -> tuple[Any, ...]:
    return term[0].order


def affine(terms: Iterable[tuple[Atom, int]], offset: int = 0) -> Expr:
    """``offset + sum(k * atom)`` from sorted terms, one for each atom, none with coefficient 0."""
    terms = tuple(terms)
    if not terms:
        return constant(offset)
    if not offset and len(terms) == 1 and terms[0][1] == 1:
        return terms[0][0]
    key = (Sum, terms, offset)
    found = _TABLE.get(key)
    if found is None:
        lo: float = offset
        hi: float = offset
        size = 1
        for atom, k in terms:
            if k >= 0:
                lo += atom.lo * k
                hi += atom.hi * k
            else:
                lo += atom.hi * k
                hi += atom.lo * k
            size += atom.size
        made = _new(Sum, lo, hi, size)
        made.terms, made.offset = terms, offset
        found = _interned(key, made)
    return found


def _parts(e: Expr) -> tuple[tuple[tuple[Atom, int], ...], int]:
    if isinstance(e, Sum):
        return e.terms, e.offset
    if isinstance(e, Constant):
        return (), e.value
    assert isinstance(e, Atom)
    return ((e, 1),), 0


def _cached(cache: dict[Any, Expr], key: Any, value: Expr) -> Expr:
    if len(cache) >= _CACHE_LIMIT:
        cache.clear()
    cache[key] = value
    return value


def add(a: Expr, b: Expr) -> Expr:
    """``a + b``; ``m*(x // m) + x mod m`` becomes ``x`` again."""
    if a is ZERO:
        return b
    if b is ZERO:
        return a
    key = (a, b)
    found = _ADD_CACHE.get(key)
    if found is not None:
        return found
    terms_a, offset_a = _parts(a)
    terms_b, offset_b = _parts(b)
    return _cached(_ADD_CACHE, key, _gather(terms_a, terms_b, offset_a + offset_b))


def _gather(
    terms_a: tuple[tuple[Atom, int], ...], terms_b: tuple[tuple[Atom, int], ...], offset: int
) -> Expr:
    if not terms_b:
        return affine(terms_a, offset)
    if not terms_a:
        return affine(terms_b, offset)
    total = dict(terms_a)
    for atom, k in terms_b:
        k += total.get(atom, 0)
        if k:
            total[atom] = k
        else:
            del total[atom]
    for atom, k in total.items():
        if isinstance(atom, Binary) and atom.kind == "mod" and isinstance(atom.right, Constant):
            joined = _rejoin(total, atom, k, atom.right.value)
            if joined is not None:
                return add(affine(sorted(total.items(), key=_term_order), offset), joined)
    return affine(sorted(total.items(), key=_term_order), offset)


def _rejoin(total: dict[Atom, int], remainder: Binary, k: int, m: int) -> Expr | None:
    """Removes ``k*(y mod m)`` and its partner from ``total``; returns what they make together."""
    y = remainder.left
    quotient = floordiv(y, constant(m))
    if not isinstance(quotient, Atom):
        return None
    if total.get(quotient) == k * m:
        del total[quotient], total[remainder]
        return scale(y, k)
    for other, coefficient in total.items():
        if (
            coefficient == k * m
            and isinstance(other, Binary)
            and other.kind == "mod"
            and other.left is quotient
            and isinstance(other.right, Constant)
        ):
            del total[other], total[remainder]
            return scale(mod(y, constant(m * other.right.value)), k)
    return None


def sum_of(parts: Iterable[Expr]) -> Expr:
    """The sum of the parts."""
    result = ZERO
    for part in parts:
        result = add(result, part)
    return result


def scale(e: Expr, k: int) -> Expr:
    """``k * e`` for an integer ``k``."""
    if k == 1:
        return e
    if k == 0 or e is ZERO:
        return ZERO
    key = (e, k)
    found = _MUL_CACHE.get(key)
    if found is not None:
        return found
    terms, offset = _parts(e)
    return _cached(_MUL_CACHE, key, affine([(atom, k * c) for atom, c in terms], k * offset))


def mul(a: Expr, b: Expr) -> Expr:
    """``a * b``; products of short sums are distributed."""
    if isinstance(b, Constant):
        return scale(a, b.value)
    if isinstance(a, Constant):
        return scale(b, a.value)
    terms_a, offset_a = _parts(a)
    terms_b, offset_b = _parts(b)
    if (isinstance(a, Sum) or isinstance(b, Sum)) and (len(terms_a) + 1) * (len(terms_b) + 1) <= 12:
        result = constant(offset_a * offset_b)
        for x, k in terms_a:
            result = add(result, scale(x, k * offset_b))
            for y, m in terms_b:
                result = add(result, scale(product((x, y)), k * m))
        for y, m in terms_b:
            result = add(result, scale(y, m * offset_a))
        return result
    return product((a, b))


def _factor_order(e: Expr) -> tuple[Any, ...]:
    return e.order if isinstance(e, Atom) else (2, str(e))


def product(factors: Iterable[Expr]) -> Expr:
    """The product of non-constant factors as one atom."""
    flat: list[Expr] = []
    for f in factors:
        flat.extend(f.factors if isinstance(f, Product) else (f,))
    parts = tuple(sorted(flat, key=_factor_order))
    key = (Product, parts)
    found = _TABLE.get(key)
    if found is None:
        interval = _ranges.Interval(parts[0].lo, parts[0].hi)
        square = len(parts) == 2 and parts[0] is parts[1]
        for p in parts[1:]:
            interval = _ranges.mul(interval, _ranges.Interval(p.lo, p.hi))
        lo, hi = interval
        if square:
            lo = max(lo, 0)
        made = _new(Product, lo, hi, 1 + sum(p.size for p in parts))
        made.factors = parts
        made.order = (1, str(made))
        found = _interned(key, made)
    return found


def binary(kind: str, left: Expr, right: Expr) -> Expr:
    """The atom ``kind(left, right)`` as it stands, unsimplified."""
    key = (Binary, kind, left, right)
    found = _TABLE.get(key)
    if found is None:
        rule = _ranges.RULES[kind]
        lo, hi = rule(_ranges.Interval(left.lo, left.hi), _ranges.Interval(right.lo, right.hi))
        made = _new(Binary, lo, hi, 1 + left.size + right.size)
        made.kind, made.left, made.right = kind, left, right
        made.order = (1, str(made))
        found = _interned(key, made)
    return found


def _split_small(
    terms: tuple[tuple[Atom, int], ...], offset: int, c: int
) -> tuple[Expr, Expr, int] | None:
    """``(big, small, g)``: ``terms + offset == g*big + small``, ``0 <= small < g``, ``g | c``."""
    divisors = sorted({math.gcd(k, c) for _, k in terms} - {1}, reverse=True)
    for g in divisors:
        big: list[tuple[Atom, int]] = []
        small: list[tuple[Atom, int]] = []
        for term in terms:
            (small if term[1] % g else big).append(term)
        rest = affine(small, offset % g)
        if rest.lo >= 0 and rest.hi < g:
            return affine([(x, k // g) for x, k in big], offset // g), rest, g
    return None


def floordiv(a: Expr, b: Expr) -> Expr:
    """``a // b`` rounding down; simplified by divisibility and by range."""
    if not isinstance(b, Constant):
        if a is ZERO and (b.lo > 0 or b.hi < 0):
            return ZERO
        return binary("floordiv", a, b)
    c = b.value
    if c == 1:
        return a
    if c == 0:
        raise ZeroDivisionError(f"index expression {a} // 0")
    if c < 0:
        return floordiv(scale(a, -1), constant(-c))
    key = (a, c)
    found = _DIV_CACHE.get(key)
    if found is not None:
        return found
    return _cached(_DIV_CACHE, key, _floordiv(a, c))


def _floordiv(a: Expr, c: int) -> Expr:
    if isinstance(a, Constant):
        return constant(a.value // c)
    if a.lo > -INF and a.hi < INF and a.lo // c == a.hi // c:
        return constant(int(a.lo) // c)
    if isinstance(a, Binary) and isinstance(a.right, Constant):
        d = a.right.value
        if a.kind == "floordiv" and d > 0:
            return floordiv(a.left, constant(d * c))
        if a.kind == "mod" and d > 0 and d % c == 0:
            return mod(floordiv(a.left, constant(c)), constant(d // c))
    if not isinstance(a, Sum):
        return binary("floordiv", a, constant(c))
    whole = [(x, k // c) for x, k in a.terms if k % c == 0]
    rest = tuple((x, k) for x, k in a.terms if k % c)
    quotient = affine(whole, a.offset // c)
    remainder = affine(rest, a.offset % c)
    if remainder.lo > -INF and remainder.hi < INF and remainder.lo // c == remainder.hi // c:
        return add(quotient, constant(int(remainder.lo) // c))
    if whole or quotient is not ZERO:
        return add(quotient, floordiv(remainder, constant(c)))
    split = _split_small(rest, a.offset % c, c)
    if split is not None:
        big, _, g = split
        return floordiv(big, constant(c // g))
    return binary("floordiv", remainder, constant(c))


def mod(a: Expr, b: Expr) -> Expr:
    """``a mod b`` with the sign of ``b``; simplified by divisibility and by range."""
    if not isinstance(b, Constant):
        if a is ZERO and (b.lo > 0 or b.hi < 0):
            return ZERO
        if a.lo >= 0 and b.lo > a.hi:
            return a
        return binary("mod", a, b)
    c = b.value
    if c == 0:
        raise ZeroDivisionError(f"index expression {a} mod 0")
    if c < 0:
        return scale(mod(scale(a, -1), constant(-c)), -1)
    if a.lo >= 0 and a.hi < c:
        return a
    if c == 1:
        return ZERO
    key = (a, c)
    found = _MOD_CACHE.get(key)
    if found is not None:
        return found
    return _cached(_MOD_CACHE, key, _mod(a, c))


def _mod(a: Expr, c: int) -> Expr:
    if isinstance(a, Constant):
        return constant(a.value % c)
    if a.lo > -INF and a.hi < INF and a.lo // c == a.hi // c:
        return add(a, constant(-c * (int(a.lo) // c)))
    if isinstance(a, Binary) and a.kind == "mod" and isinstance(a.right, Constant):
        if a.right.value > 0 and a.right.value % c == 0:
            return mod(a.left, constant(c))
    if not isinstance(a, Sum):
        return binary("mod", a, constant(c))
    for x, k in a.terms:
        if isinstance(x, Binary) and x.kind == "mod" and isinstance(x.right, Constant):
            if (k * x.right.value) % c == 0:
                return mod(add(add(a, scale(x, -k)), scale(x.left, k)), constant(c))
    rest = []
    for x, k in a.terms:
        k = int(math.fmod(k, c)) if abs(k) < 2**53 else k % c
        if k:
            rest.append((x, k))
    remainder = affine(rest, a.offset % c)
    if remainder is not a:
        return mod(remainder, constant(c))
    split = _split_small(a.terms, a.offset, c)
    if split is not None:
        big, small, g = split
        return add(scale(mod(big, constant(c // g)), g), small)
    return binary("mod", a, constant(c))


def minimum(a: Expr, b: Expr) -> Expr:
    """The smaller of two expressions."""
    if a.hi <= b.lo:
        return a
    if b.hi <= a.lo:
        return b
    return _extreme("min", a, b)


def maximum(a: Expr, b: Expr) -> Expr:
    """The larger of two expressions."""
    if a.lo >= b.hi:
        return a
    if b.lo >= a.hi:
        return b
    return _extreme("max", a, b)


def _extreme(kind: str, a: Expr, b: Expr) -> Expr:
    if a is b:
        return a
    gap = add(a, scale(b, -1))
    if gap.lo >= 0:
        return b if kind == "min" else a
    if gap.hi <= 0:
        return a if kind == "min" else b
    if str(b) < str(a):
        a, b = b, a
    return binary(kind, a, b)


# -------------------------------------------------------------------------------------- analysis


def affine_coefficients(e: Expr, variables: Iterable[Symbol]) -> dict[Symbol, int] | None:
    """The coefficient of each variable, or None when ``e`` is not affine in one of them."""
    wanted = tuple(variables)
    found = dict.fromkeys(wanted, 0)
    for atom, k in _parts(e)[0]:
        if type(atom) is Symbol:
            if atom in found:
                found[atom] = k
        elif not atom.symbols.isdisjoint(wanted):
            return None
    return found


def affine_parts(e: Expr) -> tuple[tuple[tuple[Atom, int], ...], int]:
    """The terms ``(atom, coefficient)`` and the constant of ``e``."""
    return _parts(e)


def is_affine(e: Expr) -> bool:
    """Whether ``e`` is a constant plus multiples of symbols."""
    return all(isinstance(atom, Symbol) for atom, _ in _parts(e)[0])


def linearize(index: Iterable[Expr], strides: Iterable[int], offset: int = 0) -> Expr:
    """``offset + sum(stride * index)``."""
    key = (tuple(index), tuple(strides), offset)
    found = _LINEAR_CACHE.get(key)
    if found is not None:
        return found
    result = constant(offset)
    for position, stride in zip(key[0], key[1], strict=True):
        result = add(result, scale(position, stride))
    return _cached(_LINEAR_CACHE, key, result)


def delinearize(e: Expr, shape: Iterable[int]) -> tuple[Expr, ...]:
    """The row-major coordinates of the flat position ``e`` in ``shape``."""
    extents = tuple(shape)
    out: list[Expr] = []
    step = 1
    for axis in range(len(extents) - 1, -1, -1):
        extent = extents[axis]
        position = floordiv(e, constant(step)) if step else ZERO
        if extent > 1:
            out.append(mod(position, constant(extent)))
            step *= extent
        else:
            out.append(ZERO)
            step *= extent or 1
    return tuple(reversed(out))


def to_sympy(e: Expr) -> Any:
    """The expression as a sympy object; an oracle for tests, never used to compile."""
    sympy = import_module("sympy")
    domain = {
        "constant": sympy.Integer,
        "add": lambda a, b: a + b,
        "mul": lambda a, b: a * b,
        "floordiv": lambda a, b: sympy.floor(a / b),
        "mod": lambda a, b: sympy.Mod(a, b),
        "min": sympy.Min,
        "max": sympy.Max,
    }
    return e.interpret(lambda s: sympy.Symbol(s.name, integer=True), domain)


_RULES.update(
    constant=constant,
    symbol=symbol,
    affine=affine,
    product=product,
    binary=binary,
    scale=scale,
    add=add,
    mul=mul,
    floordiv=floordiv,
    mod=mod,
    min=minimum,
    max=maximum,
)
