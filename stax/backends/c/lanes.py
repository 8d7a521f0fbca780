"""Reductions along a row, accumulated in lanes.

Input: a loop, the statements of one element and the accumulators they update.  Output: lines of C
before, in and after the loop.  Element `i` of a row goes to lane `i % 64` of an array beside the
accumulator; at the end the halves of that array are merged until one element is left.  So the bits
follow from the length of the row alone: not from the processor, the number of threads, or what else
runs in the loop.  Where an element takes few statements, those of several vectors are written side
by side, each with a piece of the array that the compiler keeps in a register: that hides the
latency of an addition, and memory is read in one direction.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from stax.backends.c.folds import BYTES, LANES, fold_call, halved
from stax.backends.c.reductions import Accumulator
from stax.backends.c.vecmath import function_table
from stax.loops.scalar_ops import c_type, type_tag

LEAST_LENGTH = 16  # elements from which lanes pay
FEW_LINES = 64  # statements of all vectors up to which they stand side by side
CHUNK = 256  # elements that are searched for an extreme, once it is known to be among them
LONG_FLOPS = 15  # operations of a function beside which an addition's latency does not show
NOWHERE = 2**31 - 1
LONG_SUM = 4096  # elements from which on the lanes of a single-precision sum are added as doubles
_ASSIGNED = re.compile(r"^\w+ (\w+) = (.*);$")
_CALL = re.compile(r"stax_(\w+)\(")
_WORD = re.compile(r"([A-Za-z_]\w*)")
_ZERO = re.compile(r"\(*(\(\w+\))?0(\.0)?f?\)*")


@dataclass
class Loop:
    """A loop over `variable` in [start, stop), given as C expressions; `length` bounds it.

    `whole` says that both are multiples of the number of lanes.
    """

    variable: str
    start: str
    stop: str
    length: int
    whole: bool = False

    @property
    def header(self) -> str:
        """The `for` line."""
        v = self.variable
        return f"for (int64_t {v} = {self.start}; {v} < {self.stop}; {v}++) {{"

    @property
    def fixed(self) -> int | None:
        """The number of iterations where the bounds are numbers."""
        known = self.start.isdigit() and self.stop.isdigit()
        return int(self.stop) - int(self.start) if known else None


@dataclass
class Ahead:
    """An array that is read again at the next row: the C address at `{t}`, elements of a line."""

    address: str
    per_line: int


@dataclass
class Pieces:
    """A loop in three parts; the outer two stand around all loops along the row."""

    before: list[str] = field(default_factory=list)
    inside: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)


def renamed(text: str, names: dict[str, str]) -> str:
    """`text` with its identifiers replaced."""
    return "".join([names.get(part, part) for part in _WORD.split(text)]) if names else text


def streams_of(lines: Sequence[str], accumulators: Sequence[Accumulator]) -> int:
    """How many vectors stand side by side: all lanes, or all in one loop."""
    table = function_table()
    names = [name for s in lines for name in _CALL.findall(s) if name in table]
    widest = max(d.itemsize for a in accumulators for d in a.dtypes)
    streams = LANES * widest // BYTES
    few = streams * len(lines) <= FEW_LINES
    return streams if few and all(table[n].flops < LONG_FLOPS for n in names) else 1


def lane_loop(
    loop: Loop,
    lines: Sequence[str],
    accumulators: Sequence[Accumulator],
    ahead: Sequence[Ahead] = (),
    plain: bool = False,
) -> Pieces:
    """The loop over `lines`, which update the (simple) accumulators by their scalar names.

    A `plain` one takes one vector at a time.
    """
    streams = 1 if plain else streams_of(lines, accumulators)
    lines = [s for s in lines if all(s != a.nan_line for a in accumulators)]
    pieces = Pieces()
    for a in accumulators:
        _declare(a, loop, pieces.before)
    fetch = [
        f"    __builtin_prefetch({a.address.format(t=f't + {n}' if n else 't')});"
        for a in ahead
        for n in range(0, LANES, a.per_line)
    ]
    whole = _body(loop.variable, lines, accumulators, streams, "t", f"{LANES // streams}")
    whole = [*fetch, *("    " + s for s in whole), "}"]
    start, stop, fixed = loop.start, loop.stop, loop.fixed
    end, count = f"({stop} - ({stop} - {start}) % {LANES})", f"({stop} - {start}) % {LANES}"
    if fixed is not None:
        end, count = f"{int(stop) - fixed % LANES}", f"{fixed % LANES}"
    elif loop.whole:
        end, count = stop, "0"
    out = pieces.inside
    tracked = [a for a in accumulators if a.place]
    if tracked:
        out += [f"for (int64_t at = {start}; at < {end}; at += {CHUNK}) {{"]
        out += [f"    int64_t to = at + {CHUNK} < {end} ? at + {CHUNK} : {end};"]
        out += [f"    for (int64_t t = at; t < to; t += {LANES}) {{", *("    " + s for s in whole)]
        out += ["    " + s for a in tracked for s in _track(a, "at")]
        out.append("}")
    elif end != start:
        out += [f"for (int64_t t = {start}; t < {end}; t += {LANES}) {{", *whole]
    if count != "0":
        out += _body(loop.variable, lines, accumulators, 1, end, count)
        last = f"({end} - ({end} - {start}) % {CHUNK})"
        out += [s for a in tracked for s in _track(a, last)]
    pieces.after = [s for a in accumulators for s in fold_lines(a, loop.length)]
    return pieces


def _body(
    v: str,
    lines: Sequence[str],
    accumulators: Sequence[Accumulator],
    streams: int,
    first: str,
    count: str,
) -> list[str]:
    """A loop over `count` elements from `first` on, and as many again for each further stream."""
    own = [m.group(1) for m in map(_ASSIGNED.match, lines) if m is not None]
    out: list[str] = []
    seen: list[dict[str, str]] = []
    places = [f"{k * LANES // streams} + k" if k else "k" for k in range(streams)]
    for k, place in enumerate(places):
        names = {n: f"{n}_{k}" for n in (*own, v)} if k else {}
        seen.append(names)
        out.append(f"int64_t {names.get(v, v)} = {first} + {place};")
        accumulated = {n: f"{lane(n)}[{place}]" for a in accumulators for n in a.names}
        out += [renamed(s, names | accumulated) for s in lines]
    for a in accumulators:
        if a.nan is not None:
            # One comparison sees a NaN in either of two values.
            for k in range(0, streams, 2):
                one, other = (renamed(a.watched, seen[min(n, streams - 1)]) for n in (k, k + 1))
                n = f"{lane(a.nan)}[{places[k]}]"
                out.append(f"{n} = __builtin_isunordered({one}, {other}) ? -1 : {n};")
    head = f"for (int64_t k = 0; k < {count}; k++) {{"
    checks = " reduction(|:bad)" if has_checks(lines) else ""
    return [f"#pragma omp simd{checks}", head, *("    " + s for s in out), "}"]


def has_checks(lines: Sequence[str]) -> bool:
    """Whether the statements note indices that are out of bounds."""
    return any("bad |=" in s for s in lines)


def lane(name: str) -> str:
    """The array of lanes of an accumulator."""
    return f"{name}_lane"


def _track(a: Accumulator, at: str) -> list[str]:
    """Note in which lanes the chunk at `at` has changed the extreme."""
    chunk, best, now = lane(a.chunk), lane(a.place), lane(a.names[0])
    sign = ">" if a.monoid.name == "max" else "<"
    text = f"{chunk}[k] = {now}[k] {sign} {best}[k] ? (int32_t){at} : {chunk}[k]; "
    text += f"{best}[k] = {now}[k];"
    return ["#pragma omp simd", f"for (int64_t k = 0; k < {LANES}; k++) {{ {text} }}"]


def _declare(a: Accumulator, loop: Loop, out: list[str]) -> None:
    rest = f"[{LANES}] __attribute__((aligned({BYTES})));"
    out.append(f"{c_type(a.dtypes[0])} {lane(a.names[0])}{rest}")
    tag = type_tag(a.dtypes[0])
    cleared = [(lane(a.names[0]), tag, str(a.identity))]
    if a.nan:
        out.append(f"int{8 * a.dtypes[0].itemsize}_t {lane(a.nan)}{rest}")
        cleared.append((lane(a.nan), f"i{8 * a.dtypes[0].itemsize}", "0"))
    if a.place:
        a.chunk = f"{a.place}_at"
        out.append(f"{c_type(a.dtypes[0])} {lane(a.place)}{rest}")
        out.append(f"int32_t {lane(a.chunk)}{rest}")
        cleared.append((lane(a.place), tag, str(a.identity)))
        cleared.append((lane(a.chunk), "i32", str(loop.start)))
    looped = []
    for name, kind, value in cleared:
        if _ZERO.fullmatch(value) and kind[0] in "fi":
            # Vectors at once: compilers have no loop to vectorise and to unroll.
            line, count = f"stax_vector_{kind}", LANES * int(kind[1:]) // 8 // BYTES
            all_lines = " = ".join(f"(({line} *){name})[{k}]" for k in range(count))
            out.append(f"{all_lines} = ({line}){{0}};")
        else:
            looped.append(f"{name}[k] = {value};")
    if looped:
        text = " ".join(looped)
        out += ["#pragma omp simd", f"for (int64_t k = 0; k < {LANES}; k++) {{ {text} }}"]


def fold_lines(a: Accumulator, length: int) -> list[str]:
    """The statements that merge halves of the lanes, and what is left with the accumulator."""
    assert a.simple is not None
    lanes = lane(a.names[0])
    name, tag = a.names[0], type_tag(a.dtypes[0])
    if a.adds_singles and length >= LONG_SUM:
        return [f"{name} += {fold_call('wide', tag, lanes)};"]
    if a.dtypes[0].kind == "c":  # there are no vectors of complex numbers
        return [
            *halved(a.merged(f"{lanes}[k]", f"{lanes}[k + @]")),
            a.merged(name, f"{lanes}[0]"),
        ]
    merged = f"{name}_all"
    out = [
        f"{c_type(a.dtypes[0])} {merged} = {fold_call(a.monoid.name, tag, lanes)};",
        a.merged(name, merged),
    ]
    if a.nan:
        seen = fold_call("any", f"i{8 * a.dtypes[0].itemsize}", lane(a.nan))
        out.append(f"{a.nan} |= {seen} != 0;")
    if a.place:
        # The first chunk that has the extreme: a lane that ended with it noted when it came.
        chunk, best = lane(a.chunk), lane(a.place)
        kept = f"{chunk}[k] = {best}[k] == {a.names[0]} ? {chunk}[k] : {NOWHERE};"
        out += ["#pragma omp simd", f"for (int64_t k = 0; k < {LANES}; k++) {{ {kept} }}"]
        out.append(f"int64_t {a.chunk} = {fold_call('min', 'i32', chunk)};")
    return out


def nearest(place: str, other: str) -> str:
    """The statement that keeps the smaller of two places."""
    return f"{place} = {other} < {place} ? {other} : {place};"
