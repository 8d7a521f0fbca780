"""Long sequences of calls as a table of numbers, so that compiling them takes no time.

Input: the statements of a block, and where each pointer they name lies.  Output: the C text that
runs them.  A network of many layers calls few functions many times; written one after another, the
calls become the largest function of the program, and compilers take more than linear time over it.
Statements that differ in pointers and integers alone share one `case`, which reads what differs
from its row of the table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MANY = 24  # calls; fewer stay as they are

_CALL = re.compile(r"(bad = )?(\w+|\(\(stax_product_\w+\)ctx->products\[\d+\]\))\(")
_OPERAND = re.compile(r"\bb\d+\b|(?<![\w.\[])\d{1,18}(?![\w.\]])")
_KINDS = {"nothing": 0, "arena": 0, "in": 1, "out": 2, "constants": 3}
_TABLE = "static const int64_t stax_rows[] = {"
_INTEGER = 4  # a word of a table that is no pointer

LOCATE = """\
/* The words of a row: integers, and pointers by where they lie. */
static __attribute__((noinline)) void stax_read(const int64_t *row, void **in, void **out,
        void **constants, char *arena, void **words) {
    for (int64_t k = 0; k < row[1]; k++) {
        int64_t at = row[k + 2] >> 3;
        switch (row[k + 2] & 7) {
            case 0: words[k] = arena + at; break;
            case 1: words[k] = in[at]; break;
            case 2: words[k] = out[at]; break;
            case 3: words[k] = constants[at]; break;
            default: words[k] = (void *)at;
        }
    }
}
"""


@dataclass(frozen=True)
class Place:
    """Where a pointer comes from.

    `kind` is "arena" (an offset), "in", "out" or "constants" (a number), or "nothing".
    """

    ctype: str
    kind: str
    value: int

    def declared(self, name: str) -> str:
        """The declaration of a variable for the pointer."""
        if self.kind == "nothing":
            return f"{self.ctype} *{name} = 0; (void){name};"
        if self.kind == "arena":
            return f"{self.ctype} *{name} = ({self.ctype} *)(arena + {self.value});"
        const = "" if self.kind == "out" else "const "
        table = "ctx->constants" if self.kind == "constants" else self.kind
        return f"{const}{self.ctype} *{name} = {table}[{self.value}];"

    @property
    def code(self) -> int:
        """The number that `stax_read` understands."""
        return self.value * 8 + _KINDS[self.kind]


CALLS = "    /* calls, beside which nothing takes time */\n"  # what such a body begins with
# Functions of calls alone, which compile in half the time as they are.
AS_IS = '__attribute__((optimize("O0")))\n'


def attribute_of(body: str) -> str:
    """The attribute of the function that `body` is: of a table of calls, or marked as calls."""
    return AS_IS if _TABLE in body or body.startswith(CALLS) else ""


def has_rows(statements: Sequence[str]) -> bool:
    """Whether the statements are better run from a table."""
    return sum(_CALL.match(s) is not None for s in statements) >= MANY


def rows_text(statements: Sequence[str], places: Mapping[str, Place]) -> str:
    """The statements as a table and the loop that runs it."""
    shapes: dict[str, list[list[str]]] = {}
    order: list[tuple[str, int]] = []
    for statement in statements:
        shape, operands = _parted(statement, places)
        found = shapes.setdefault(shape, [])
        order.append((shape, len(found)))
        found.append(operands)
    cases, numbers = [], {}
    varied: dict[str, list[int]] = {}
    for number, (shape, calls) in enumerate(shapes.items()):
        numbers[shape] = number
        slots = varied[shape] = [
            k
            for k, words in enumerate(zip(*calls, strict=True))
            if words[0] in places or len(set(words)) > 1
        ]
        text = _filled(shape, calls[0], slots, places)
        cases.append(f"        case {number}: {{\n            {text}\n        }} break;")
    rows = []
    for shape, k in order:
        values = [shapes[shape][k][slot] for slot in varied[shape]]
        coded = [places[v].code if v in places else int(v) * 8 + _INTEGER for v in values]
        rows.append(", ".join(map(str, [numbers[shape], len(coded), *coded])))
    return (
        f"    {_TABLE}\n        " + ",\n        ".join(rows) + "\n    };\n"
        f"    void *word[{max(1, *map(len, varied.values()))}];\n"
        "    for (const int64_t *row = stax_rows;\n"
        "         row < stax_rows + sizeof(stax_rows) / sizeof(stax_rows[0]);\n"
        "         row += row[1] + 2) {\n"
        "        stax_read(row, in, out, ctx->constants, arena, word);\n"
        "        switch (row[0]) {\n" + "\n".join(cases) + "\n        }\n    }"
    )


def _parted(statement: str, places: Mapping[str, Place]) -> tuple[str, list[str]]:
    """A call with `@` in place of its operands, and those; other statements as they are."""
    if not _CALL.match(statement):
        return statement, []
    operands: list[str] = []

    def take(match: re.Match[str]) -> str:
        word = match[0]
        operands.append(word)
        return f"@{places[word].ctype}@" if word in places else "@@"

    return _OPERAND.sub(take, statement), operands


def _filled(
    shape: str, operands: Sequence[str], slots: Sequence[int], places: Mapping[str, Place]
) -> str:
    """The statement of a case: what differs from call to call is read from the row."""
    at = {slot: k for k, slot in enumerate(slots)}
    count = iter(range(len(operands)))

    def put(match: re.Match[str]) -> str:
        slot = next(count)
        if slot not in at:
            return operands[slot]
        if not match[1]:
            return f"(int64_t)word[{at[slot]}]"
        return f"(({match[1]} *)word[{at[slot]}])"

    return re.sub(r"@([\w ]*)@", put, shape) if operands else shape


def named(statements: Sequence[str]) -> set[str]:
    """The pointers that statements other than calls name."""
    rest = [s for s in statements if not _CALL.match(s)]
    return {word for s in rest for word in re.findall(r"\bb\d+\b", s)}
