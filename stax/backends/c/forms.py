"""One library for programs that differ in numbers alone.

Input: the C text of a program about to be compiled.  Output: the text of a more general program and
the numbers with which it is that program, or nothing.

The text of a program is a form (everything that is not a number) and its numbers.  A batch of
another size, or another constant in a closure, gives the same form with other numbers.  Once a form
has come up often enough, the numbers that have differed become variables of the same C type, which
each function reads when it begins; further programs of the form are not compiled.  Nothing is
assumed about how the numbers depend on a size: the text of every program is made as before, and the
general text with its numbers put in is that text, to the letter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np

from stax.forked import Lock

STATIC = 2  # programs of a form that are compiled as they are; a more general one comes next
MOST_FORMS = 1024

_NUMBER = re.compile(
    r"(?<![\w.])((?:0x[\da-f.]+(?:p[+-]?\d+)?|(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)[ulf]*)",
    re.IGNORECASE,
)
_IN_NUMBERS = b"0123456789abcdefABCDEFxXpPlLuU.+-"
_REDUCTION = re.compile(r"simd .*reduction\((?:max|min):")  # of 0.0 and -0.0, either is one
_CONTEXT_ENDS = "} stax_context;\n"
_RUN = "int32_t stax_run("
_VARIABLES = """\
static __thread const int64_t *stax_sizes;
static __thread const double *stax_reals;
"""
# A step in Python may run another program of this library before the first one ends.
_SIZED_RUN = """\
int32_t stax_run(void **in, void **out, stax_context *ctx) {
    const int64_t *sizes = stax_sizes;
    const double *reals = stax_reals;
    stax_sizes = ctx->sizes;
    stax_reals = ctx->reals;
    int32_t code = stax_run_sized(in, out, ctx);
    stax_sizes = sizes;
    stax_reals = reals;
    return code;
}
"""


@dataclass(frozen=True)
class Shared:
    """A general text, and the numbers that make one program of it."""

    text: str
    sizes: tuple[int, ...]
    reals: tuple[float, ...]


class _NotGeneral(Exception):
    """A number stands where C has no place for a variable, or decides an order.

    The order of a reduction that a pragma leaves to the compiler depends on whether it knows the
    length; the bits of a result must not depend on what else has run.
    """


@dataclass(frozen=True)
class _Made:
    """A general text, if any yet, and which numbers vary in it.

    `classes` gives, for each number that has differed, the class of those that were equal in all
    programs seen; they are one variable.
    """

    classes: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    text: str = ""
    order: Sequence[int] = ()  # a number of each class, in the order of slots


@dataclass
class _Form:
    """What is known of the programs of one form: the numbers of the first, and a general text."""

    numbers: list[str]
    seen: int = 1
    made: _Made = field(
        default_factory=_Made
    )  # by one store: an interrupt or a fork leaves it whole
    general: bool = True


_forms: dict[bytes, _Form] = {}  # by what is no number in a text
# By what certainly is none, the first text: it is looked at more closely when there is a second.
_first: dict[bytes, str] = {}
_lock = Lock()


def shared(text: str, static: int = STATIC) -> Shared | None:
    """The general program that `text` is an instance of, None when it is compiled as it is.

    `static` programs of a form are compiled as they are before it is made general.
    """
    rough = sha256(text.encode().translate(None, _IN_NUMBERS)).digest()
    with _lock:
        if rough not in _first:
            _limit(_first)
            _first[rough] = text
            return None
        if _first[rough]:
            _form_of(_first[rough])
            _first[rough] = ""
        form, numbers = _form_of(text)
        if numbers == form.numbers or not form.general:
            return None
        if any(_kind(a) != _kind(b) for a, b in zip(numbers, form.numbers, strict=True) if a != b):
            return None
        if not _is_instance(form, numbers):
            form.seen += 1
            if form.seen <= static:
                return None
            classes = _widened(form, numbers)
            try:
                form.made = _Made(classes, *_general(text, classes))
            except _NotGeneral:
                form.general = False
                return None
        made = form.made
        values = [numbers[k] for k in made.order]
    return Shared(
        made.text,
        tuple(_integer(v) for v in values if _is_integer(v)),
        tuple(_real(v) for v in values if not _is_integer(v)),
    )


def _form_of(text: str) -> tuple[_Form, list[str]]:
    """The form of a text, begun by this one if it is new, and the numbers that make it the text."""
    parts = _NUMBER.split(text)
    numbers = parts[1::2]
    digest = sha256("0".join(parts[::2]).encode()).digest()
    form = _forms.get(digest)
    if form is None:
        _limit(_forms)
        form = _forms[digest] = _Form(numbers)
    return form, numbers


def _limit(known: dict[bytes, Any]) -> None:
    """Make room for one more."""
    while len(known) >= MOST_FORMS:
        del known[next(iter(known))]


def refuse(text: str) -> None:
    """Compile the programs of this general text one by one: C did not take it."""
    with _lock:
        for form in _forms.values():
            if form.made.text == text:
                form.general = False


def _is_instance(form: _Form, numbers: Sequence[str]) -> bool:
    """Whether the general text of the form gives the program with these numbers."""
    made = form.made
    if not made.text:
        return False
    found: dict[tuple[str, ...], str] = {}
    for k, (new, old) in enumerate(zip(numbers, form.numbers, strict=True)):
        if k in made.classes:
            if found.setdefault(made.classes[k], new) != new:
                return False
        elif new != old:
            return False
    return True


def _widened(form: _Form, numbers: Sequence[str]) -> dict[int, tuple[str, ...]]:
    """Let the numbers vary that differ from those seen, apart where they differ from each other."""
    classes = dict(form.made.classes)
    for k, (new, old) in enumerate(zip(numbers, form.numbers, strict=True)):
        if k in classes or new != old:
            classes[k] = (*classes.get(k, (old,)), new)
    return classes


def _general(text: str, classes: Mapping[int, tuple[str, ...]]) -> tuple[str, list[int]]:
    """`text` with a variable for each class, and a number of each class in the order of slots."""
    slots: dict[tuple[str, ...], tuple[str, str]] = {}  # name, and what it is initialised with
    order: list[int] = []
    counts = {True: 0, False: 0}
    number = 0
    lines: list[str] = []
    header, used, table = -1, dict[str, str](), -1
    for line in text.split("\n"):
        pieces, end, named = [], 0, False
        for match in _NUMBER.finditer(line):
            k, number = number, number + 1
            found = classes.get(k)
            if found is None:
                continue
            if found not in slots:
                integer = _is_integer(match[0])
                place, counts[integer] = counts[integer], counts[integer] + 1
                kind = _kind(match[0])
                name = f"stax_{'size' if integer else 'real'}{place}"
                source = f"{'stax_sizes' if integer else 'stax_reals'}[{place}]"
                slots[found] = name, f"    const {kind} {name} = ({kind}){source};"
                order.append(k)
            name, declared = slots[found]
            used[name] = declared
            pieces += [line[end : match.start()], name]
            end, named = match.end(), True
        if named and (header < 0 or line.startswith(("#", "static", "int32_t"))):
            raise _NotGeneral
        if named and ("#" in line or _REDUCTION.search(lines[-1])):
            raise _NotGeneral
        if named and table >= 0:
            lines[table] = lines[table].replace("static const", "const", 1)
        changed = "".join([*pieces, line[end:]])
        if named:  # a table on one line
            changed = changed.replace("static const", "const")
        if not line.startswith((" ", "}", "#")) and line.endswith(") {"):
            header, used = len(lines), {}
            changed = changed.replace(_RUN, "static int32_t stax_run_sized(")
        if line.lstrip().startswith("static const") and line.endswith("{"):
            table = len(lines)
        lines.append(changed)
        if line.strip() == "};":
            table = -1
        if line == "}" and header >= 0:
            lines[header] = "\n".join([lines[header], *used.values()])
            if "stax_run_sized(" in lines[header]:
                lines.append(_SIZED_RUN)
            header = -1
    whole = "\n".join(lines)
    return whole.replace(_CONTEXT_ENDS, _CONTEXT_ENDS + _VARIABLES, 1), order


def _is_integer(literal: str) -> bool:
    if literal[:2] in ("0x", "0X"):
        return "p" not in literal.lower()
    return not set(literal.lower()) & set(".ef")


def _kind(literal: str) -> str:
    """The C type of a number."""
    low = literal.lower()
    if not _is_integer(literal):
        return "float" if low.endswith("f") else "double"
    digits = low.rstrip("ul")
    suffix, bits = low[len(digits) :], int(digits, 0).bit_length()
    size = "long long" if "ll" in suffix else "long" if "l" in suffix or bits > 32 else "int"
    if "u" in suffix:
        return f"unsigned {size}"
    if size == "int" and bits == 32:
        return "unsigned int" if digits.startswith("0x") else "long"
    return size if bits < 64 else f"unsigned {size}"


def _integer(literal: str) -> int:
    value = int(literal.lower().rstrip("ul"), 0)
    return value if value < 1 << 63 else value - (1 << 64)


def _real(literal: str) -> float:
    low = literal.lower()
    digits = low.rstrip("f")
    if digits.startswith("0x"):
        return float.fromhex(digits)
    return float(digits) if digits == low else float(np.float32(digits))
