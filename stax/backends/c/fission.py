"""A loop over many long functions as several loops over blocks.

Input: the statements of one element of a loop.  Output: lines of C, or None where the loop is
better left whole.  A processor overlaps as many iterations as fit into its window of some 250
instructions; where one iteration fills the window, the latency of its longest chain of operations
is the time it takes.  So each long function gets a loop of its own over a block that stays in the
first cache, and values that cross from one loop to a later one are kept in arrays of that length.
What a load and a cheap operation or two give is computed again.  Every element's operations stay
the same, so its bits do.  Of a function that the machine has as a routine of many elements (`maps`)
nothing but the call is left, and the loop that computes what it is given.

Addresses that come from data get a loop of their own too, with the tests whether they are inside:
that loop vectorises, and in the loop that reads or writes through them so many are in flight at
once that the processor fetches the lines of a whole block together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from stax.backends.c.maps import LANES, ROUTINES
from stax.backends.c.owners import Owners
from stax.backends.c.streams import AHEAD_OF_LOOKUPS, Stream
from stax.backends.c.vecmath import function_table

__all__ = ["blocked_loops"]

LONG_FLOPS = 15  # operations from which a function gets a loop of its own
LEAST_FLOPS = 40  # of all long functions together, from which cutting pays
# Where routines are called: how many other statements there are for each of their operations, and
# how much memory the loop walks through, which is not fetched while a routine runs.
OTHERS = 0.75
MOST_BYTES = 6 << 20
BLOCK = 256
# Where addresses come from data: what the next block looks up has to come while this one waits.
BLOCK_OF_LOOKUPS = 128
LEAST_LENGTH = 64
ARRAY_BYTES = 16_384  # of all arrays of a block together
_WIDTHS = {"complex128_t": 16, "complex64_t": 8, "double": 8, "int64_t": 8, "uint64_t": 8}
CHEAP_LINES = 3  # statements up to which a value is computed again instead of kept

_DEFINED = re.compile(r"^(\w+) (\w+) = (.*);$")
_STORED = re.compile(r"^(?:if \(\w+\) )?(\w+)\[.*?\] = .*;$")
_CHECKED = re.compile(r"^bad \|= .*;$")
_OUTSIDE = re.compile(r"^bad \|= \(\(uint64_t\)(\w+) >= (\d+)ULL\) << (\d+);$")
_LOADED = re.compile(r"\b(\w+)\[")
_CALL = re.compile(r"stax_(\w+)\(")
_ALONE = re.compile(r"^stax_(\w+)\((\w+)\)$")  # nothing but a function of a value
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(slots=True)
class _Statement:
    text: str
    name: str  # the value it defines, or empty for a store
    c_type: str
    words: set[str]  # the values of the loop that it reads
    flops: int  # of its long functions
    plain: bool  # no division, no function that does any work, no array that the loop writes
    late: bool  # reads an array that the loop writes
    check: bool  # tests an address
    mapped: str = ""  # the function of one value that it is, if the machine has it as a routine


def _parsed(lines: Sequence[str], addresses: Mapping[str, int]) -> list[_Statement] | None:
    table = function_table()
    stored = {m.group(1) for m in map(_STORED.match, lines) if m is not None}
    found: list[_Statement] = []
    names: set[str] = set()
    types: dict[str, str] = {}
    for line in lines:
        defined = _DEFINED.match(line)
        check = defined is None and _CHECKED.match(line) is not None
        if defined is None and not check and _STORED.match(line) is None:
            return None
        calls = [table[name] for name in _CALL.findall(line) if name in table]
        if not all(function.vectorises for function in calls):
            return None
        flops = sum(f.flops for f in calls if f.flops >= LONG_FLOPS)
        plain = all(f.flops <= 1 for f in calls) and "/" not in line and "%" not in line
        text = defined.group(3) if defined else line
        late = "[" in text and not stored.isdisjoint(_LOADED.findall(text))
        words = names.intersection(_WORD.findall(text))
        name, c_type = (defined.group(2), defined.group(1)) if defined else ("", "")
        plain = plain and not late and name not in addresses
        alone = _ALONE.match(text)
        # Not of a value that is fixed along the loop, nor of another type.
        taken = alone is not None and types.get(alone.group(2)) == c_type
        mapped = alone.group(1) if alone and taken and alone.group(1) in ROUTINES else ""
        found.append(_Statement(line, name, c_type, words, flops, plain, late, check, mapped))
        if name:
            names.add(name)
            types[name] = c_type
    return found


@dataclass
class _Loop:
    """The statements of a loop over a block, and the routines that are called after it.

    `calls` are functions with their operands, as numbers of statements.
    """

    numbers: list[int]
    read: set[int]  # those of `numbers` whose values an earlier loop has made
    calls: list[tuple[int, int]] = field(default_factory=list)


class _Cut:
    """The statements of each loop in order, and the values that cross from loop to loop."""

    def __init__(
        self, statements: list[_Statement], addresses: Mapping[str, int], functions: bool
    ) -> None:
        self.statements = statements
        self.at = {s.name: k for k, s in enumerate(statements) if s.name}
        self.cheap = self._cheap()
        self.made: set[int] = set()  # by an earlier loop
        self.kept: set[int] = set()
        self.loops: list[_Loop] = []
        for roots in self._address_roots(addresses):
            self._add(roots)
        for roots, calls in self._steps() if functions else []:
            self._add(roots, calls)
        self._add([k for k, s in enumerate(statements) if not s.name and not s.check])

    def _cheap(self) -> set[int]:
        """Statements that take, with all that they need, at most `CHEAP_LINES`."""
        closures: dict[int, set[int]] = {}
        for k, s in enumerate(self.statements):
            needed = [self.at[w] for w in s.words]
            if s.name and s.plain and all(n in closures for n in needed):
                closure = {k}.union(*(closures[n] for n in needed))
                if len(closure) <= CHEAP_LINES:
                    closures[k] = closure
        return set(closures)

    def _address_roots(self, addresses: Mapping[str, int]) -> list[list[int]]:
        """The addresses that need none, then those that need these, ...; and their tests."""
        roots: list[list[int]] = []
        if not addresses and not any(s.check for s in self.statements):
            return roots
        steps: list[int] = []  # of each statement, how many addresses lie before it
        for s in self.statements:
            step = max((steps[self.at[w]] for w in s.words), default=0)
            if s.name in addresses or s.check:
                roots.extend([] for _ in range(step + 1 - len(roots)))
                roots[step].append(len(steps))
            steps.append(step + (s.name in addresses))
        return [r for r in roots if r]

    def _steps(self) -> list[tuple[list[int], list[tuple[int, int]]]]:
        """For each long function: it, and what leads on from it to another long function.

        Those that are routines are called together, as early as may be: a step has such calls, with
        the operands of each, or statements.
        """
        leading: set[int] = set()
        for k in range(len(self.statements) - 1, -1, -1):
            s = self.statements[k]
            if s.flops or k in leading:
                leading |= {self.at[w] for w in s.words}
        steps: list[tuple[list[int], list[tuple[int, int]]]] = []
        latest: list[int] = []  # of each statement, the last step that it depends on
        for k, s in enumerate(self.statements):
            before = max((latest[self.at[w]] for w in s.words), default=-1)
            if s.mapped:
                (operand,) = (self.at[w] for w in s.words)
                later = range(before + 1, len(steps))
                before = next((n for n in later if steps[n][1]), len(steps))
                if before == len(steps):
                    steps.append(([], []))
                steps[before][1].append((k, operand))
            elif s.flops:
                before = len(steps)
                steps.append(([k], []))
            elif before >= 0 and k in leading and not steps[before][1]:
                steps[before][0].append(k)
            latest.append(before)
        return steps

    def pays(self) -> bool:
        """Whether calling routines takes no more time than loops of our own.

        It does where several calls have one loop before them, and where the other statements of
        the loop take about as long as the functions, so that passing arrays on does not show.
        """
        calls = [len(loop.calls) for loop in self.loops if loop.calls]
        flops = sum(s.flops for s in self.statements if s.mapped)
        others = sum(not s.mapped for s in self.statements)
        return sum(calls) > len(calls) and others >= OTHERS * flops

    def given(self, function: int, operand: int) -> int:
        """The statement whose array holds the operand of a call: the result's where no other."""
        return operand if operand in self.kept else function

    def _add(self, roots: list[int], calls: Sequence[tuple[int, int]] = ()) -> None:
        """A loop that computes `roots` and what they and `calls` need that is not there yet."""
        calls = [(k, operand) for k, operand in calls if k not in self.made]
        operands = {operand for _, operand in calls}
        self.kept |= {k for k, _ in calls} | (operands & self.made)
        wanted = dict.fromkeys([*roots, *sorted(operands - self.made)])
        read: set[int] = set()
        pending = list(wanted)
        while pending:
            for word in self.statements[pending.pop()].words:
                k = self.at[word]
                if k in wanted:
                    continue
                wanted[k] = None
                if k in self.made:
                    read.add(k)
                else:
                    pending.append(k)
        self.kept |= read
        self.loops.append(_Loop(sorted(wanted), read, calls))
        self.made |= {k for k in wanted if k not in self.cheap} | {k for k, _ in calls}


def _block_length(
    length: int, fixed: bool, widths: Sequence[int], most: int = BLOCK
) -> tuple[int, bool]:
    """Elements of a block, `most` at most, and whether blocks fill the loop exactly."""
    while most > LEAST_LENGTH and most * sum(widths) > ARRAY_BYTES:
        most //= 2
    if fixed and length <= most:
        return length, True
    if fixed:
        sizes = [n for n in range(most, most // 2, -1) if n % 16 == 0 and length % n == 0]
        if sizes:
            return sizes[0], True
    return most, False


def blocked_loops(
    variable: str,
    start: str,
    stop: str,
    length: int,
    lines: Sequence[str],
    addresses: Mapping[str, int],
    streams: Sequence[Stream] = (),
    serial: bool = False,
    owners: Owners | None = None,
    nbytes: int = 0,
    plain: bool = False,
) -> list[str] | None:
    """Loops that do what one loop over `variable` in [start, stop) with body `lines` does.

    `addresses` are the values that come from data and index memory, each with its bound; blocks
    ask memory for the `streams` ahead; the stores of a `serial` loop are made in the order of its
    iterations, by their `owners` where there are any; `nbytes` is how much of arrays the loops of
    a kernel walk through; a `plain` one is cut where that saves the compiler's time, at calls of
    routines.  The first line is the header of the loop over blocks, whose iterations are
    independent unless it is serial.
    """
    functions = sum("stax_" in s for s in lines) >= 2
    asked = bool(addresses) or any(s.startswith("bad |=") for s in lines)
    if length < LEAST_LENGTH or not (functions or asked):
        return None
    statements = _parsed(lines, addresses)
    if statements is None:
        return None
    functions = not serial and sum(bool(s.flops) for s in statements) >= 2
    functions = functions and sum(s.flops for s in statements) >= LEAST_FLOPS
    if not functions and not any(s.name in addresses for s in statements):
        return None
    cut = _Cut(statements, addresses, functions)
    called = any(loop.calls for loop in cut.loops)
    pays = called and nbytes <= MOST_BYTES and cut.pays()
    if plain and not pays:
        return None
    if called and not pays:
        cut = _Cut([replace(s, mapped="") for s in statements], addresses, functions)
        statements = cut.statements
    if serial and any(statements[k].late for loop in cut.loops[:-1] for k in loop.numbers):
        return None
    types = {
        s.name: "int32_t" if addresses.get(s.name, 2**31) < 2**31 else s.c_type
        for k, s in enumerate(statements)
        if k in cut.kept
    }
    widths = [_WIDTHS.get(t, 4) for t in types.values()]
    most = BLOCK if functions else BLOCK_OF_LOOKUPS
    block, exact = _block_length(length, start == "0" and stop.isdigit(), widths, most)
    first, count = f"{variable}_first", f"{variable}_count"
    out = [f"for (int64_t {first} = {start}; {first} < {stop}; {first} += {block}) {{"]
    if not exact:
        out.append(f"    int64_t {count} = {stop} - {first};")
        out.append(f"    if ({count} > {block}) {count} = {block};")
    if streams and not (
        functions or plain
    ):  # beside long functions the processor's own fetching will do
        last = f"{first} + {block if exact else count}"
        out.append(f"    for (int64_t at = {first}; at < {last}; at += {LEAST_LENGTH}) {{")
        for stream in streams:
            fetches = stream.fetches("at", LEAST_LENGTH, AHEAD_OF_LOOKUPS)
            out += ["        " + s for s in fetches]
        out.append("    }")
    # In terms of the length, so that sizes differ in numbers that differ anyway (see `forms`).
    whole = str(block) if exact else count
    called = any(loop.calls for loop in cut.loops)
    room = f"({block} + {LANES - 1}) / {LANES} * {LANES}" if called and exact else str(block)
    for name, c_type in types.items():
        out.append(f"    {c_type} block_{name}[{room}] __attribute__((aligned(64)));")
    for number, loop in enumerate(cut.loops):
        head, ordered = [f"for (int64_t at = 0; at < {whole}; at++) {{"], False
        if number == len(cut.loops) - 1:
            head, ordered = owners.loop(whole) if owners else head, serial
        head.append(f"    int64_t {variable} = {first} + at;")
        out += ["    " + s for s in _block_loop(cut, number, head, ordered)]
        for k, operand in loop.calls:
            source, target = (f"block_{statements[n].name}" for n in (cut.given(k, operand), k))
            out.append("    " + f"stax_map_{statements[k].mapped}({source}, {target}, {whole});")
    return [*out, "}"]


def _block_loop(cut: _Cut, number: int, head: Sequence[str], ordered: bool) -> list[str]:
    """The loop of the given number over a block, begun by `head`."""
    statements, loop = cut.statements, cut.loops[number]
    if not loop.numbers:
        return []
    targets: dict[int, list[int]] = {k: [k] for k in loop.numbers if k in cut.kept}
    for k, operand in loop.calls:
        if cut.given(k, operand) == k:
            targets.setdefault(operand, []).append(k)
    tests = _Tests([statements[k].text for k in loop.numbers if statements[k].check], number)
    out = [*tests.declared, *([] if ordered else [f"#pragma omp simd{tests.clauses}"]), *head]
    for k in loop.numbers:
        s = statements[k]
        if k in loop.read:
            out.append(f"    {s.c_type} {s.name} = block_{s.name}[at];")
            continue
        out.append("    " + tests.loop.get(s.text, s.text))
        out += [f"    block_{statements[n].name}[at] = {s.name};" for n in targets.get(k, [])]
    return [*out, "}", *tests.after]


class _Tests:
    """The tests of a loop: what is declared before it, its clauses, what each is in it, and after.

    Of a value that is negative or over the bound, itself or the bound minus it is negative: vectors
    collect the signs in two operations, and only what is left of a block becomes a bit of `bad`.
    """

    def __init__(self, tests: Sequence[str], loop: int) -> None:
        self.declared: list[str] = []
        self.loop: dict[str, str] = {}
        self.after: list[str] = []
        names: list[str] = []
        for test in tests:
            found = _OUTSIDE.match(test)
            if found is None:
                names.append("bad")
                continue
            value, size, bit = found.groups()
            name = f"outside{loop}_{len(self.declared)}"
            names.append(name)
            self.declared.append(f"int64_t {name} = 0;")
            self.loop[test] = (
                f"{name} |= (int64_t){value} | ({int(size) - 1}LL - (int64_t){value});"
            )
            self.after.append(f"bad |= ({name} < 0) << {bit};")
        self.clauses = f" reduction(|:{', '.join(dict.fromkeys(names))})" if names else ""
