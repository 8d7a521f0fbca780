"""The text of a Graph: a printer and its inverse.

Input: a Graph, or text.  Output: stable text, or the Graph it spells; `parse_graph(str(g)) == g`.
The grammar is one line per value (docs/ir-grammar.md).  Whitespace has no meaning; a comment on
the line of an equation is the user's file:line.  What has no spelling (a Python function in a
parameter, a tracer captured as a constant) prints as an opaque token `<...>` that names it and
cannot be parsed back; different opaque objects print differently, so that equal text means equal
graphs.
"""

from __future__ import annotations

import base64
import enum
import functools
import hashlib
import json
import re
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.graph import (
    BACKWARD,
    FORWARD,
    GRAPH_TEXT,
    Atom,
    Eqn,
    Graph,
    Literal,
    Var,
    check_graph,
    literal_array,
)
from stax.core.primitive import REGISTRY, Primitive
from stax.core.trace import Tracer
from stax.dtypes import BY_SHORT_NAME, SHORT_NAMES, WEAK_DTYPES, DType, float0, short_name
from stax.errors import GraphError

PHASE_WORDS = {FORWARD: "fwd", BACKWARD: "bwd"}
LIST_LIMIT = 16  # elements of a constant written out as numbers
BLOB_LIMIT = 1 << 16  # bytes of a constant written out as base64; above, str() gives a digest
RESERVED = frozenset({"nan", "inf", "True", "False", "None", "complex", "zero"})
_IDENTIFIER = re.compile(r"[A-Za-z_][\w.]*\Z")


# --- printing -----------------------------------------------------------------------------------


def print_graph(graph: Graph, *, blobs: bool = False) -> str:
    """The text of `graph`.

    Constants above 64 KiB print as a digest, which tells graphs apart but cannot be parsed
    without the arrays; `blobs=True` writes them out in base64 like the smaller ones.
    """
    return "\n".join(_graph_lines(graph, "", blobs))


def _graph_lines(graph: Graph, indent: str, blobs: bool) -> list[str]:
    inner = indent + "  "
    inputs = ", ".join(_typed(v) for v in graph.inputs)
    lines = [f"graph {_name(graph.name)}({inputs}) {{"]
    for var, value in graph.constants:
        lines.append(f"{inner}const {_typed(var)} = {_constant(value, blobs)}")
    for eqn in graph.eqns:
        lines.append(inner + _eqn_text(eqn, inner, blobs))
    lines.append(f"{inner}return {', '.join(map(_atom, graph.outputs))}".rstrip())
    lines.append(indent + "}")
    return lines


def _eqn_text(eqn: Eqn, indent: str, blobs: bool) -> str:
    outputs = ", ".join([_typed(v) for v in eqn.outputs]) or "()"
    word = PHASE_WORDS[eqn.phase]
    if eqn.region:
        word += f"@{eqn.region}"
    text = f"{word} {outputs} = {eqn.prim.name}({', '.join(map(_atom, eqn.inputs))})"
    if eqn.params:
        params = [f"{k}={_value(v, indent, blobs)}" for k, v in sorted(eqn.params.items())]
        text += f" {{{', '.join(params)}}}"
    if eqn.source:
        text += f"  # {short_source(eqn.source)}"
    return text


@functools.lru_cache(maxsize=4096)
def short_source(source: str) -> str:
    """`file.py:12`: the directory is left out so that the text is the same in every checkout."""
    return source.replace("\n", " ").replace("\\", "/").rsplit("/", 1)[-1].strip()


@functools.lru_cache(maxsize=4096)
def _name(name: str | None) -> str:
    if name and _IDENTIFIER.match(name) and name not in RESERVED:
        return name
    return json.dumps(name or "")


def _typed(var: Var) -> str:
    return f"{_name(var.name)}: {var.aval}"


def _atom(atom: Atom) -> str:
    if isinstance(atom, Var):
        return _name(atom.name)
    if atom.aval.weak and WEAK_DTYPES.get(type(atom.value)) == atom.aval.dtype:
        return _scalar(atom.value)
    mark = "~" if atom.aval.weak else ""
    return f"{_scalar(literal_array(atom)[()])}:{short_name(atom.aval.dtype)}{mark}"


def _scalar(value: Any) -> str:
    """A Python or NumPy scalar, such that reading it back in its dtype gives the same value."""
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, np.void):
        return "zero"
    if isinstance(value, complex | np.complexfloating):
        return f"complex({_scalar(value.real)}, {_scalar(value.imag)})"
    if value != value and np.signbit(value):
        return "-nan"
    if isinstance(value, float):  # np.float64 too
        return repr(float(value))
    return str(value)  # f16, f32, bf16: NumPy's shortest text that rounds back


def _constant(value: Any, blobs: bool) -> str:
    if isinstance(value, Tracer):
        return f"<tracer {value.aval}{_serial('tracer', value)}>"
    array = np.asarray(value)
    if array.size <= LIST_LIMIT:
        return _nested(array)
    if array.nbytes <= BLOB_LIMIT or blobs:
        return f'base64("{base64.b64encode(array_bytes(array)).decode()}")'
    return f'digest("{constant_digest(array)}")'


def _nested(array: np.ndarray[Any, Any]) -> str:
    if array.ndim == 0:
        return _scalar(array[()])
    return f"[{', '.join(_nested(array[k]) for k in range(len(array)))}]"


def array_bytes(array: np.ndarray[Any, Any]) -> bytes:
    """The elements of an array, little-endian, in C order."""
    if sys.byteorder == "big":
        array = array.astype(array.dtype.newbyteorder("<"))
    return array.tobytes(order="C")


def array_from(raw: bytes, shape: Sequence[int], dtype: DType) -> np.ndarray[Any, Any]:
    """The array whose `array_bytes` are `raw`."""
    little = dtype.newbyteorder("<") if sys.byteorder == "big" else dtype
    return np.frombuffer(raw, little).astype(dtype, copy=False).reshape(shape)


def constant_digest(array: np.ndarray[Any, Any]) -> str:
    """The SHA-256 of an array's bytes, as printed for constants too large to write out."""
    return hashlib.sha256(array_bytes(np.asarray(array))).hexdigest()


def _value(value: Any, indent: str, blobs: bool) -> str:
    """The text of a parameter."""
    if type(value) is int:
        return str(value)
    if type(value) is tuple:
        items = [_value(v, indent, blobs) for v in value]
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, enum.Enum):
        kind = type(value)
        return f'enum("{kind.__module__}", "{kind.__qualname__}", "{value.name}")'
    if isinstance(value, np.generic):
        return f"{_scalar(value)}:{short_name(value.dtype)}"
    if isinstance(value, int | float | complex):
        return _scalar(value)
    if isinstance(value, str):
        return json.dumps(value)
    if type(value) is list:
        return f"[{', '.join(_value(v, indent, blobs) for v in value)}]"
    if type(value) is dict:
        texts = [(_value(k, indent, blobs), _value(v, indent, blobs)) for k, v in value.items()]
        return f"{{{', '.join(f'{k}={v}' for k, v in texts)}}}"
    if type(value) is frozenset:
        return f"frozenset({', '.join(sorted(_value(v, indent, blobs) for v in value))})"
    if isinstance(value, slice):
        parts = (value.start, value.stop, value.step)
        return f"slice({', '.join(_value(v, indent, blobs) for v in parts)})"
    if isinstance(value, np.dtype):
        return short_name(value) if value in SHORT_NAMES else _opaque(value)
    if isinstance(value, Aval):
        return str(value)
    if isinstance(value, Graph):
        return "\n".join(_graph_lines(value, indent, blobs))
    if isinstance(value, Primitive):
        return f'primitive("{value.name}")'
    if isinstance(value, np.ndarray) and value.dtype in SHORT_NAMES:
        return f"array({aval_of(value)}, {_constant(value, blobs)})"
    return _opaque(value)


_numbers: dict[str, int] = {}
_numbered: dict[int, tuple[Callable[[], Any], str]] = {}
_numbered_equal: dict[Any, str] = {}


def _opaque(value: Any) -> str:
    label = getattr(value, "__qualname__", None) or type(value).__qualname__
    kind = "function" if callable(value) else "object"
    label = f"{kind} {label}".replace("<", "").replace(">", "")
    return f"<{label}{_serial(label, value)}>"


def _serial(label: str, value: Any) -> str:
    """Empty for the first object of that label, ` #2` and so on for the others."""
    equality: Any = type(value).__eq__
    own_equality = equality is not object.__eq__
    by_value = own_equality and type(value).__hash__ is not None
    if by_value:
        try:
            found = _numbered_equal.get(value)
            if found is None:
                found = _numbered_equal[value] = _next_serial(label)
            return found
        except TypeError:  # holds something unhashable
            pass
    known = _numbered.get(id(value))
    if known is not None and known[0]() is value:
        return known[1]
    text = _next_serial(label)
    try:
        alive: Callable[[], Any] = weakref.ref(value)
    except TypeError:

        def alive(value: Any = value) -> Any:
            return value

    _numbered[id(value)] = (alive, text)
    return text


def _next_serial(label: str) -> str:
    n = _numbers[label] = _numbers.get(label, 0) + 1
    return "" if n == 1 else f" #{n}"


# --- parsing ------------------------------------------------------------------------------------


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


_TOKENS = re.compile(
    r"""(?P<space>[ \t\r]+)|(?P<newline>\n)|(?P<comment>\#[^\n]*)
    |(?P<string>"(?:[^"\\\n]|\\.)*")
    |(?P<number>-?(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|inf\b|nan\b))
    |(?P<name>[A-Za-z_][\w.]*)
    |(?P<opaque><[^<>\n]*>)
    |(?P<punct>[(){}\[\],:=@~])""",
    re.VERBOSE,
)
_FRACTION = re.compile(r"[.eE]|inf|nan")
_PHASES = {word: phase for phase, word in PHASE_WORDS.items()}


def parse_graph(text: str, constants: Mapping[str, Any] | None = None) -> Graph:
    """The Graph that `text` spells, checked.

    Args:
      text: as printed by `str(graph)`.
      constants: for the constants that were printed as a digest, arrays by name, or the bytes of
        arrays (`array_bytes`) by digest.

    Raises:
      GraphError: the text is not of the grammar, names an unknown operation, holds an opaque
        token, or spells a graph that breaks a rule of the IR.
    """
    parser = _Parser(text, dict(constants or {}))
    graph = parser.graph()
    parser.expect_end()
    check_graph(graph)
    return graph


class _Parser:
    """Recursive descent over the tokens; it recurses over the nesting of subgraphs only."""

    def __init__(self, text: str, constants: dict[str, Any]) -> None:
        self.tokens: list[_Token] = []
        self.comments: dict[int, str] = {}
        self.at = 0
        self.constants = constants
        line, at = 1, 0
        while at < len(text):
            match = _TOKENS.match(text, at)
            if match is None:
                raise GraphError(f"line {line}: unexpected character {text[at]!r}")
            kind = match.lastgroup or ""
            if kind == "newline":
                line += 1
            elif kind == "comment":
                self.comments[line] = match.group()[1:].strip()
            elif kind != "space":
                self.tokens.append(_Token(kind, match.group(), line))
            at = match.end()
        self.tokens.append(_Token("end", "", line))

    def fail(self, wanted: str, token: _Token | None = None) -> GraphError:
        token = token or self.tokens[self.at]
        if token.kind == "opaque":
            return GraphError(
                f"line {token.line}: {token.text} stands for a Python object without a text, "
                "so this graph cannot be parsed back",
                hint="build the graph with make_ir, or leave custom rules and callbacks out of it",
            )
        return GraphError(
            f"line {token.line}: expected {wanted}, found {token.text or 'the end'!r}"
        )

    def peek(self) -> str:
        return self.tokens[self.at].text

    def take(self, kind: str, wanted: str) -> str:
        token = self.tokens[self.at]
        if token.kind != kind:
            raise self.fail(wanted)
        self.at += 1
        return token.text

    def accept(self, text: str) -> bool:
        token = self.tokens[self.at]
        if token.text == text and token.kind != "string":
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise self.fail(f"{text!r}")

    def expect_end(self) -> None:
        if self.tokens[self.at].kind != "end":
            raise self.fail("the end")

    def sequence(self, closing: str, item: Callable[[], Any]) -> list[Any]:
        """Items between commas up to `closing`; a trailing comma is allowed."""
        found: list[Any] = []
        while not self.accept(closing):
            found.append(item())
            if not self.accept(","):
                self.expect(closing)
                break
        return found

    def name(self) -> str:
        token = self.tokens[self.at]
        if token.kind == "string":
            self.at += 1
            return str(json.loads(token.text))
        return self.take("name", "a name")

    def dtype(self) -> DType:
        token = self.tokens[self.at]
        found = BY_SHORT_NAME.get(self.take("name", "a dtype"))
        if found is None:
            raise self.fail("a dtype such as f32", token)
        return found

    def aval(self) -> Aval:
        dtype = self.dtype()
        weak = self.accept("~")
        self.expect("[")
        shape = self.sequence("]", lambda: int(self.take("number", "an extent")))
        return Aval(tuple(shape), dtype, weak)

    def typed(self) -> Var:
        name = self.name()
        self.expect(":")
        return Var(self.aval(), name)

    def graph(self) -> Graph:
        self.expect("graph")
        name = self.name()
        self.expect("(")
        inputs = self.sequence(")", self.typed)
        self.expect("{")
        scope: dict[str, Var] = {}
        for var in inputs:
            self.bind(scope, var)
        constants = []
        while self.accept("const"):
            var = self.typed()
            self.expect("=")
            self.bind(scope, var)
            constants.append((var, self.constant(var.aval, var.name or "")))
        eqns = []
        while self.peek() in _PHASES and self.tokens[self.at].kind == "name":
            eqns.append(self.eqn(scope))
        self.expect("return")
        outputs = []
        if not self.accept("}"):
            outputs = self.sequence("}", lambda: self.atom(scope))
        return Graph(inputs, eqns, outputs, constants, name)

    def bind(self, scope: dict[str, Var], var: Var) -> None:
        if scope.setdefault(var.name or "", var) is not var:
            line = self.tokens[self.at].line
            raise GraphError(f"line {line}: {var.name} is bound twice")

    def eqn(self, scope: dict[str, Var]) -> Eqn:
        phase = _PHASES[self.take("name", "fwd or bwd")]
        region = int(self.take("number", "a region")) if self.accept("@") else 0
        outputs: list[Var] = []
        if self.accept("("):
            self.expect(")")
            self.expect("=")
        else:
            outputs = self.sequence("=", self.typed)
        token = self.tokens[self.at]
        prim = REGISTRY.get(self.take("name", "an operation"))
        if prim is None:
            raise GraphError(f"line {token.line}: there is no operation {token.text!r}")
        self.expect("(")
        inputs = self.sequence(")", lambda: self.atom(scope))
        params: dict[str, Any] = {}
        if self.accept("{"):
            params = dict(self.sequence("}", self.parameter))
        source = self.comments.get(self.tokens[self.at - 1].line, "")
        for var in outputs:
            self.bind(scope, var)
        return Eqn(prim, inputs, outputs, params, phase, source, region)

    def parameter(self) -> tuple[str, Any]:
        name = self.name()
        self.expect("=")
        return name, self.value()

    def atom(self, scope: dict[str, Var]) -> Atom:
        token = self.tokens[self.at]
        if token.kind == "number" or token.text in RESERVED:
            value = self.number()
            if not self.accept(":"):
                return Literal(value)
            dtype = self.dtype()
            weak = self.accept("~")
            return Literal(value if weak else _numpy_scalar(value, dtype), Aval((), dtype, weak))
        name = self.name()
        found = scope.get(name)
        if found is None:
            raise GraphError(f"line {token.line}: {name!r} is not bound before it is read")
        return found

    def number(self) -> Any:
        token = self.tokens[self.at]
        self.at += 1
        if token.kind == "number":
            return float(token.text) if _FRACTION.search(token.text) else int(token.text)
        match token.text:
            case "True" | "False":
                return token.text == "True"
            case "nan" | "inf":
                return float(token.text)
            case "complex":
                self.expect("(")
                real, imag = self.sequence(")", self.number)
                return complex(real, imag)
            case "zero":
                return 0
        raise self.fail("a number", token)

    def constant(self, aval: Aval, name: str) -> np.ndarray[Any, Any]:
        if self.accept("base64"):
            self.expect("(")
            raw = base64.b64decode(self.take("string", "base64 text")[1:-1])
            self.expect(")")
            return self.filled(raw, aval, name)
        if self.accept("digest"):
            self.expect("(")
            digest = self.take("string", "a digest")[1:-1]
            self.expect(")")
            stored = self.constants.get(digest)
            if isinstance(stored, bytes):
                return self.filled(stored, aval, name)
            given = self.constants.get(name)
            if given is None or constant_digest(np.asarray(given)) != digest:
                problem = "was not given" if given is None else "is not the array printed"
                raise GraphError(
                    f"constant {name} is too large for its text, and the array {problem}",
                    hint="pass constants={name: array}, or print with blobs=True",
                )
            return np.asarray(given)
        flat: list[Any] = []
        depth = 0
        while True:
            if self.accept("["):
                depth += 1
            elif self.accept("]"):
                depth -= 1
            elif not (depth and self.accept(",")):
                flat.append(self.number())
            if depth == 0:
                break
        if len(flat) != aval.size:
            raise GraphError(f"constant {name} holds {len(flat)} elements, not {aval}")
        if aval.dtype == float0:
            return np.zeros(aval.shape, aval.dtype)
        array = np.empty(len(flat), aval.dtype)
        array[:] = flat
        return array.reshape(aval.shape)

    def filled(self, raw: bytes, aval: Aval, name: str) -> np.ndarray[Any, Any]:
        """A constant from its bytes."""
        if len(raw) != aval.nbytes:
            raise GraphError(f"constant {name} holds {len(raw)} bytes, not those of {aval}")
        return array_from(raw, aval.shape, aval.dtype)

    def value(self) -> Any:
        """A parameter."""
        token = self.tokens[self.at]
        if token.kind == "string":
            self.at += 1
            return json.loads(token.text)
        if token.kind == "number" or token.text in RESERVED - {"None"}:
            number = self.number()
            return _numpy_scalar(number, self.dtype()) if self.accept(":") else number
        if self.accept("None"):
            return None
        if self.accept("("):
            return tuple(self.sequence(")", self.value))
        if self.accept("["):
            return self.sequence("]", self.value)
        if self.accept("{"):
            return dict(self.sequence("}", self.pair))
        if token.text == "graph":
            return self.graph()
        if token.text in BY_SHORT_NAME:
            following = self.tokens[self.at + 1].text
            return self.aval() if following in ("[", "~") else self.dtype()
        return self.call()

    def pair(self) -> tuple[Any, Any]:
        key = self.value()
        self.expect("=")
        return key, self.value()

    def call(self) -> Any:
        token = self.tokens[self.at]
        head = self.take("name", "a value")
        self.expect("(")
        if head == "array":
            aval = self.aval()
            self.expect(",")
            array = self.constant(aval, "in a parameter")
            self.expect(")")
            return array
        args = self.sequence(")", self.value)
        match head, args:
            case "frozenset", _:
                return frozenset(args)
            case "slice", [start, stop, step]:
                return slice(start, stop, step)
            case "primitive", [str(name)] if name in REGISTRY:
                return REGISTRY[name]
            case "enum", [str(module), str(kind), str(member)]:
                found: Any = sys.modules.get(module)
                for part in kind.split("."):
                    found = getattr(found, part, None)
                if isinstance(found, type) and issubclass(found, enum.Enum):
                    return found[member]
        raise self.fail("a value", token)


def _numpy_scalar(value: Any, dtype: DType) -> Any:
    if dtype == float0:
        return np.zeros((), float0)[()]
    return np.asarray(value).astype(dtype)[()]


GRAPH_TEXT[0] = print_graph
