"""Reductions along a row, accumulated in the lanes of vectors.

Input: a loop, the statements of one element and the accumulators they update.  Output: lines of C
before, in and after the loop.  An accumulator becomes arrays of one vector each, which the compiler
keeps in registers: element `i` goes to lane `i % lanes` of array `i / lanes % streams`.  Several
streams hide the latency of an addition, and neighbouring vectors go to different streams, so that
memory is read in one direction.  The arrays are merged at the end by halving.  Which lane an
element goes to follows from its place and its type alone, so the bits depend neither on the
processor nor on the number of threads.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from stax.backends.c.reductions import Accumulator
from stax.backends.c.vecmath import function_table
from stax.loops.scalar_ops import c_type

LANE_BYTES = 64
STREAMS = 4
FEW_LINES = 14  # statements of one element up to which there are all streams
MORE_LINES = 28  # ... and up to which there are two
LONG_FLOPS = 15  # operations of a function beside which an addition's latency does not show
_ASSIGNED = re.compile(r"^\w+ (\w+) = (.*);$")
_CALL = re.compile(r"\bstax_(\w+)\(")
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass
class Loop:
    """A loop over `variable` in [start, stop), given as C expressions; `length` bounds it."""

    variable: str
    start: str
    stop: str
    length: int

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
    return _WORD.sub(lambda m: names.get(m.group(), m.group()), text) if names else text


def lanes_of(accumulators: Sequence[Accumulator]) -> int:
    """The lanes of an array: the widest accumulator fills a vector."""
    return LANE_BYTES // max(d.itemsize for a in accumulators for d in a.dtypes)


def streams_of(lines: Sequence[str], length: int, lanes: int) -> int:
    """How many arrays each accumulator is worth."""
    table = function_table()
    names = [name for s in lines for name in _CALL.findall(s) if name in table]
    if any(table[name].flops >= LONG_FLOPS for name in names) or len(lines) > MORE_LINES:
        return 1
    streams = STREAMS if len(lines) <= FEW_LINES else 2
    while streams > 1 and length < streams * lanes:
        streams //= 2
    return streams


def lane_loop(
    loop: Loop,
    lines: Sequence[str],
    accumulators: Sequence[Accumulator],
    ahead: Sequence[Ahead] = (),
) -> Pieces:
    """The loop over `lines`, which update the (simple) accumulators by their scalar names."""
    lanes = lanes_of(accumulators)
    streams = streams_of(lines, loop.length, lanes)
    lines = [s for s in lines if all(s != a.nan_line for a in accumulators)]
    pieces = Pieces()
    for a in accumulators:
        _declare(a, lanes, streams, pieces.before)
    v, fixed = loop.variable, loop.fixed
    step = lanes * streams
    whole = _body(v, lines, accumulators, lanes, streams)
    single = _body(v, lines, accumulators, lanes, 1)
    fetch = [
        f"    __builtin_prefetch({a.address.format(t=f't + {n}' if n else 't')});"
        for a in ahead
        for n in range(0, step, a.per_line)
    ]
    out = pieces.inside
    if fixed is None:
        out.append(f"int64_t t = {loop.start};")
        out += [f"for (; t + {step} <= {loop.stop}; t += {step}) {{", *fetch, *whole, "}"]
        if streams > 1:
            out += [f"for (; t + {lanes} <= {loop.stop}; t += {lanes}) {{", *single, "}"]
        rest, left = "t", f"{loop.stop} - t"
    else:
        start, stop = int(loop.start), int(loop.stop)
        at = start + fixed // step * step
        if at > start:
            out += [f"for (int64_t t = {start}; t < {at}; t += {step}) {{", *fetch, *whole, "}"]
        end = start + fixed // lanes * lanes
        if end > at:
            out += [f"for (int64_t t = {at}; t < {end}; t += {lanes}) {{", *single, "}"]
        rest, left = str(end), str(stop - end) if stop > end else ""
    if left:
        out += _body(v, lines, accumulators, lanes, 1, rest, left, "")
    if fixed is None:
        out[:] = ["{", *("    " + s for s in out), "}"]
    for a in accumulators:
        _fold(a, lanes, streams, pieces.after)
    return pieces


def _body(
    v: str,
    lines: Sequence[str],
    accumulators: Sequence[Accumulator],
    lanes: int,
    streams: int,
    first: str = "t",
    count: str = "",
    indent: str = "    ",
) -> list[str]:
    """One vector for each stream, from `first` on: a loop that is a single vector operation."""
    own = [m.group(1) for m in map(_ASSIGNED.match, lines) if m is not None]
    out: list[str] = []
    seen: list[dict[str, str]] = []
    for k in range(streams):
        names = {n: f"{n}_{k}" for n in (*own, v)} if k else {}
        seen.append(names)
        out.append(f"int64_t {names.get(v, v)} = {first} + {f'{k * lanes} + ' if k else ''}k;")
        accumulated = {n: f"{n}_{k}[k]" for a in accumulators for n in a.names}
        out += [renamed(s, names | accumulated) for s in lines]
    for a in accumulators:
        if a.nan is not None:
            # One comparison sees a NaN in either of two values.
            for k in range(0, streams, 2):
                one = renamed(a.watched, seen[k])
                other = renamed(a.watched, seen[min(k + 1, streams - 1)])
                n = f"{a.nan}_{k // 2}[k]"
                out.append(f"{n} = __builtin_isunordered({one}, {other}) ? -1 : {n};")
    head = f"for (int64_t k = 0; k < {count or lanes}; k++) {{"
    text = ["#pragma omp simd", head, *("    " + s for s in out), "}"]
    return [indent + s for s in text]


def _nan_type(a: Accumulator) -> str:
    return f"int{8 * a.dtypes[0].itemsize}_t"


def _nan_arrays(a: Accumulator, streams: int) -> list[str]:
    return [f"{a.nan}_{k}" for k in range(-(-streams // 2))] if a.nan else []


def _declare(a: Accumulator, lanes: int, streams: int, out: list[str]) -> None:
    assert a.simple is not None
    arrays = [f"{a.names[0]}_{k}" for k in range(streams)]
    flags = _nan_arrays(a, streams)
    aligned = f"[{lanes}] __attribute__((aligned({LANE_BYTES})))"
    out.append(f"{c_type(a.dtypes[0])} {', '.join(n + aligned for n in arrays)};")
    cleared = [f"{n}[k] = {a.identity};" for n in arrays]
    if flags:
        out.append(f"{_nan_type(a)} {', '.join(n + aligned for n in flags)};")
        cleared += [f"{n}[k] = 0;" for n in flags]
    out.append("#pragma omp simd")
    out.append(f"for (int64_t k = 0; k < {lanes}; k++) {{ {' '.join(cleared)} }}")


def _fold(a: Accumulator, lanes: int, streams: int, out: list[str]) -> None:
    """Merge the arrays of all streams, then halves of the first, then that with the scalar."""
    assert a.simple is not None
    update = a.simple.update
    flags = _nan_arrays(a, streams)
    width = streams
    while width > 1:
        width //= 2
        merges = [
            update.format(a=f"{a.names[0]}_{k}[k]", v=f"{a.names[0]}_{k + width}[k]")
            for k in range(width)
        ]
        if width == 1 and len(flags) == 2:
            merges.append(f"{flags[0]}[k] |= {flags[1]}[k];")
        out.append("#pragma omp simd")
        out.append(f"for (int64_t k = 0; k < {lanes}; k++) {{ {' '.join(merges)} }}")
    half = lanes // 2
    first = f"{a.names[0]}_0"
    while half:
        merges = [update.format(a=f"{first}[k]", v=f"{first}[k + {half}]")]
        if flags:
            merges.append(f"{flags[0]}[k] |= {flags[0]}[k + {half}];")
        out.append("#pragma omp simd" if half > 8 else f"#pragma GCC unroll {half}")
        out.append(f"for (int64_t k = 0; k < {half}; k++) {{ {' '.join(merges)} }}")
        half //= 2
    out.append(update.format(a=a.names[0], v=f"{first}[0]"))
    if flags:
        out.append(f"{a.nan} |= {flags[0]}[0] != 0;")
