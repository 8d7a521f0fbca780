"""The tree of an index expression: its parts, its text, its value in other domains.

Input: nodes built by :mod:`stax.loops.symbolic`, which holds the rules of simplification and
installs them in :data:`_RULES` for the operators here. Output: immutable objects with bounds,
symbols, text, substitution and evaluation. Equal expressions are one object, so identity is
equality.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, Union

Domain = TypeVar("Domain")
IntLike = Union["Expr", int]

_RULES: dict[str, Callable[..., Expr]] = {}


def _expr(value: IntLike) -> Expr:
    return value if isinstance(value, Expr) else _RULES["constant"](int(value))


class Expr:
    """An integer expression. ``lo`` and ``hi`` bound its values; ``size`` counts its parts."""

    __slots__ = ("__weakref__", "_symbols", "_text", "hi", "lo", "size")

    _symbols: frozenset[Symbol] | None
    _text: str | None
    lo: float
    hi: float
    size: int

    def __add__(self, other: IntLike) -> Expr:
        return _RULES["add"](self, other if isinstance(other, Expr) else _RULES["constant"](other))

    __radd__ = __add__

    def __sub__(self, other: IntLike) -> Expr:
        if not isinstance(other, Expr):
            return _RULES["add"](self, _RULES["constant"](-other))
        return _RULES["add"](self, -other)

    def __rsub__(self, other: int) -> Expr:
        return _RULES["add"](-self, _RULES["constant"](other))

    def __neg__(self) -> Expr:
        return _RULES["scale"](self, -1)

    def __mul__(self, other: IntLike) -> Expr:
        if isinstance(other, Expr):
            return _RULES["mul"](self, other)
        return _RULES["scale"](self, other)

    __rmul__ = __mul__

    def __floordiv__(self, other: IntLike) -> Expr:
        return _RULES["floordiv"](self, _expr(other))

    def __rfloordiv__(self, other: int) -> Expr:
        return _RULES["floordiv"](_expr(other), self)

    def __mod__(self, other: IntLike) -> Expr:
        return _RULES["mod"](self, _expr(other))

    def __rmod__(self, other: int) -> Expr:
        return _RULES["mod"](_expr(other), self)

    def __str__(self) -> str:
        text: str | None = self._text
        if text is None:
            text = self._text = self.render(_TEXT)
        return text

    def __repr__(self) -> str:
        return f"<{self}>"

    def __copy__(self) -> Expr:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Expr:
        return self

    def __bool__(self) -> bool:
        raise TypeError(
            f"the truth of the index expression {self} is not known; compare .lo and .hi instead"
        )

    @property
    def args(self) -> tuple[Expr, ...]:
        """The direct subexpressions."""
        return ()

    @property
    def is_constant(self) -> bool:
        return False

    @property
    def symbols(self) -> frozenset[Symbol]:
        """The free symbols."""
        found: frozenset[Symbol] | None = self._symbols
        if found is None:
            found = self._symbols = frozenset().union(*[a.symbols for a in self.args])
        return found

    def render(self, printer: Printer) -> str:
        """The text of the expression in the words of ``printer``."""
        raise TypeError(type(self).__name__)

    def interpret(self, leaf: Callable[[Symbol], Domain], domain: Mapping[str, Any]) -> Domain:
        """The value in another domain: ``domain`` gives constant, add, mul, floordiv, mod, min,
        max.
        """
        memo: dict[Expr, Any] = {}
        const = domain["constant"]

        def visit(e: Expr) -> Any:
            if e in memo:
                return memo[e]
            if isinstance(e, Constant):
                out = const(e.value)
            elif isinstance(e, Symbol):
                out = leaf(e)
            elif isinstance(e, Sum):
                out = None
                for atom, coefficient in e.terms:
                    part = visit(atom)
                    if coefficient != 1:
                        part = domain["mul"](const(coefficient), part)
                    out = part if out is None else domain["add"](out, part)
                if e.offset:
                    out = domain["add"](out, const(e.offset))
            elif isinstance(e, Product):
                out = visit(e.factors[0])
                for factor in e.factors[1:]:
                    out = domain["mul"](out, visit(factor))
            else:
                assert isinstance(e, Binary)
                out = domain[e.kind](visit(e.left), visit(e.right))
            memo[e] = out
            return out

        result: Domain = visit(self)
        return result

    def substitute(self, mapping: Mapping[Symbol, IntLike]) -> Expr:
        """The expression with symbols replaced, simplified again."""
        if not mapping or self.symbols.isdisjoint(mapping):
            return self
        if isinstance(self, Symbol):
            return _expr(mapping[self])
        if isinstance(self, Sum):
            add, scale, out = _RULES["add"], _RULES["scale"], None
            for atom, coefficient in self.terms:
                part = scale(atom.substitute(mapping), coefficient)
                out = part if out is None else add(out, part)
            assert out is not None
            return add(out, _RULES["constant"](self.offset))
        return self.interpret(lambda s: _expr(mapping.get(s, s)), _RULES)

    def evaluate(self, env: Mapping[Symbol, Any]) -> Any:
        """The value for integers or integer NumPy arrays in ``env``."""
        return self.interpret(lambda s: env[s], _NUMERIC)

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(type(self).__name__)


class Constant(Expr):
    __slots__ = ("value",)
    value: int

    @property
    def is_constant(self) -> bool:
        return True

    def render(self, printer: Printer) -> str:
        return printer.constant(self.value)

    def __reduce__(self) -> tuple[Any, ...]:
        return _RULES["constant"], (self.value,)


class Atom(Expr):
    """Anything that can carry a coefficient inside a sum."""

    __slots__ = ("order",)
    order: tuple[Any, ...]


class Symbol(Atom):
    """A variable with a name and a range; two symbols are the same only if all three agree."""

    __slots__ = ("name",)
    name: str

    @property
    def symbols(self) -> frozenset[Symbol]:
        found: frozenset[Symbol] | None = self._symbols
        if found is None:
            found = self._symbols = frozenset((self,))
        return found

    def render(self, printer: Printer) -> str:
        return printer.symbol(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _RULES["symbol"], (self.name, self.lo, self.hi)


class Sum(Expr):
    """``offset + sum(coefficient * atom)``: at least two parts, or one with a coefficient."""

    __slots__ = ("offset", "terms")
    terms: tuple[tuple[Atom, int], ...]
    offset: int

    @property
    def args(self) -> tuple[Expr, ...]:
        return tuple(atom for atom, _ in self.terms)

    def render(self, printer: Printer) -> str:
        parts = []
        for atom, coefficient in self.terms:
            text = atom.render(printer)
            magnitude = abs(coefficient)
            if magnitude != 1:
                if isinstance(atom, Product) or printer.wraps(atom):
                    text = f"({text})"
                text = f"{printer.constant(magnitude)}*{text}"
            elif coefficient < 0 and printer.wraps(atom):
                text = f"({text})"
            parts.append(("-" if coefficient < 0 else "+", text))
        if self.offset:
            sign = "-" if self.offset < 0 else "+"
            parts.append((sign, printer.constant(abs(self.offset))))
        head = parts[0][1] if parts[0][0] == "+" else f"-{parts[0][1]}"
        return head + "".join(f" {sign} {text}" for sign, text in parts[1:])

    def __reduce__(self) -> tuple[Any, ...]:
        return _RULES["affine"], (self.terms, self.offset)


class Product(Atom):
    """A product of at least two non-constant factors."""

    __slots__ = ("factors",)
    factors: tuple[Expr, ...]

    @property
    def args(self) -> tuple[Expr, ...]:
        return self.factors

    def render(self, printer: Printer) -> str:
        return "*".join(_operand(f, printer) for f in self.factors)

    def __reduce__(self) -> tuple[Any, ...]:
        return _RULES["product"], (self.factors,)


class Binary(Atom):
    """``floordiv``, ``mod``, ``min`` or ``max`` of two expressions, where no rule removed it."""

    __slots__ = ("kind", "left", "right")
    kind: str
    left: Expr
    right: Expr

    @property
    def args(self) -> tuple[Expr, ...]:
        return (self.left, self.right)

    def render(self, printer: Printer) -> str:
        return printer.binary(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _RULES["binary"], (self.kind, self.left, self.right)


class Printer:
    """The project's own text; a back end overrides the four spellings."""

    def constant(self, value: int) -> str:
        return str(value)

    def symbol(self, s: Symbol) -> str:
        return s.name

    def wraps(self, atom: Expr) -> bool:
        """Whether the text of ``atom`` needs parentheses beside an operator."""
        return isinstance(atom, Binary) and atom.kind in ("floordiv", "mod")

    def binary(self, e: Binary) -> str:
        if e.kind in ("min", "max"):
            return f"{e.kind}({e.left.render(self)}, {e.right.render(self)})"
        word = "//" if e.kind == "floordiv" else "mod"
        return f"{_operand(e.left, self)} {word} {_operand(e.right, self)}"


_TEXT = Printer()


def _operand(e: Expr, printer: Printer) -> str:
    text = e.render(printer)
    plain = isinstance(e, Symbol | Constant) or (isinstance(e, Binary) and not printer.wraps(e))
    return text if plain else f"({text})"


def _numeric_extreme(kind: str) -> Callable[[Any, Any], Any]:
    def pick(a: Any, b: Any) -> Any:
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b) if kind == "min" else max(a, b)
        first = (a <= b) if kind == "min" else (a >= b)
        return first * a + (1 - first) * b

    return pick


_NUMERIC: dict[str, Any] = {
    "constant": int,
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "min": _numeric_extreme("min"),
    "max": _numeric_extreme("max"),
}
