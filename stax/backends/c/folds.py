"""C text of the folds that end reductions in lanes, as rows for `vecmath`.

One function for each merge and type takes the 64 lanes and returns what is left when the halves
have been merged.  It is not inlined: the loops over 32, 16, ..., 1 lanes are a large part of what
a compiler reads of a short kernel, and the same everywhere.  The lanes come by value, as vectors:
they go over in the registers that hold them, and their array never has its address taken where
they are accumulated.
"""

from __future__ import annotations

from collections.abc import Iterable

from stax.backends.c.reductions import SIMPLE

__all__ = [
    "BYTES",
    "COLUMN_TYPES",
    "LANES",
    "MERGED_COLUMNS",
    "SHARE",
    "columns_source",
    "fold_call",
    "halved",
    "rows",
]

LANES = 64
BYTES = 64  # of a vector
_TYPES = {"f32": "float", "f64": "double", "b8": "uint8_t"}
_TYPES |= {f"i{n}": f"int{n}_t" for n in (8, 16, 32, 64)}
_TYPES |= {f"u{n}": f"uint{n}_t" for n in (8, 16, 32, 64)}
_BITWISE = {"any", "all", "xor"}
# C has these operators on vectors: compilers need no loop for the first halves.
_OPERATORS = {"sum": "+", "prod": "*", "any": "|", "all": "&", "xor": "^"}

# Compilers remark on parameters that are aligned to more than the stack is.
_LINE = """\
//: vector_{t} 0
typedef {ct} stax_vector_{t} __attribute__((vector_size({bytes}), aligned(16), may_alias));
"""
_FOLD = """\
//: fold_{name}_{t} 0
static __attribute__((noinline)) {result} stax_fold_{name}_{t}({parameters}) {{
{merged}    {ct} lane[{n}] __attribute__((aligned({bytes})));
{stores}
{tail}
}}
"""
# What blocks of rows have summed up for each column, merged as a tree, so that the error grows with
# the logarithm of their number; so many columns at a time that all blocks stay in the second cache.
# Written in vectors, it needs nothing of the compiler: a third of its time for a loop.
_COLUMNS = """\
//: columns_sum_{t} 0
typedef {ct} stax_columns_{t}
    __attribute__((vector_size({bytes}), aligned(sizeof({ct})), may_alias));
STAX_BRIEF static void stax_columns_sum_{t}({ct} *c, int64_t blocks, int64_t n) {{
    for (int64_t part = 0; part < n; part += {merged}) {{
        int64_t upto = part + {merged} < n ? part + {merged} : n;
        for (int64_t half = 1; half < blocks; half *= 2)
        for (int64_t b = 0; b + half < blocks; b += 2 * half) {{
            {ct} *to = c + b * n + part, *end = c + b * n + upto;
            const {ct} *from = to + half * n;
            for (; to + {width} <= end; to += {width}, from += {width})
                *(stax_columns_{t} *)to += *(const stax_columns_{t} *)from;
            for (; to < end; to++, from++) *to += *from;
        }}
    }}
}}
"""
COLUMN_TYPES = ("f32", "f64", "i32", "i64")
MERGED_COLUMNS = 512
SHARE = 4  # blocks that one thread takes one after the other and merges
_WIDENED = f"""\
    double wide[{LANES}];
    #pragma omp simd
    for (int64_t k = 0; k < {LANES}; k++) {{ wide[k] = lane[k]; }}
"""


def halved(merge: str, lanes: int = LANES) -> list[str]:
    """Loops that apply `merge`, of lanes `k` and `k + @`, until everything is in the first."""
    out: list[str] = []
    half = lanes // 2
    while half:
        out.append("#pragma omp simd" if half > 8 else f"#pragma GCC unroll {half}")
        out.append(f"for (int64_t k = 0; k < {half}; k++) {{ {merge.replace('@', str(half))} }}")
        half //= 2
    return out


def fold_call(name: str, tag: str, lanes: str) -> str:
    """The fold of an array of lanes by a merge of the table (or "wide", a sum of doubles)."""
    line = f"stax_vector_{tag}"
    parts = ", ".join(f"(({line} *){lanes})[{k}]" for k in range(_lines(tag)))
    return f"stax_fold_{name}_{tag}({parts})"


def rows() -> str:
    """Return the rows of all folds, for every type."""
    wide = _WIDENED + _indented("wide[k] += wide[k + @];", LANES) + "\n    return wide[0];"
    parts = [_fold("wide", "f32", "double", _lines("f32"), [], wide)]
    parts += map(_columns, COLUMN_TYPES)
    for tag, ct in _TYPES.items():
        parts.append(_LINE.format(t=tag, ct=ct, bytes=BYTES))
        for name, simple in SIMPLE.items():
            if name in _BITWISE and tag[0] == "f":
                continue
            left, merged = _lines(tag), []
            while name in _OPERATORS and left > 1:
                left //= 2
                merged += [f"    l{k} = l{k} {_OPERATORS[name]} l{k + left};" for k in range(left)]
            update = simple.update.format(a="lane[k]", v="lane[k + @]")
            tail = _indented(update, LANES * left // _lines(tag)) + "\n    return lane[0];"
            parts.append(_fold(name, tag, ct, left, merged, tail))
    return "".join(parts)


def _columns(t: str) -> str:
    width = BYTES // (int(t[1:]) // 8)
    return _COLUMNS.format(t=t, ct=_TYPES[t], bytes=BYTES, merged=MERGED_COLUMNS, width=width)


def columns_source(types: Iterable[str]) -> str:
    """C text of the merges of columns, exported; every process asks for it, so no table is read."""
    return "".join(map(_columns, types)).replace("STAX_BRIEF static", "STAX_BRIEF")


def _lines(tag: str) -> int:
    """How many vectors the lanes are."""
    return LANES * int(tag[1:]) // 8 // BYTES


def _fold(name: str, tag: str, result: str, kept: int, merged: list[str], tail: str) -> str:
    """A fold: `merged` leaves `kept` vectors, of whose lanes `tail` makes one."""
    line, lines = f"stax_vector_{tag}", _lines(tag)
    stores = [f"    (({line} *)lane)[{k}] = l{k};" for k in range(kept)]
    return _FOLD.format(
        name=name,
        t=tag,
        ct=_TYPES[tag],
        result=result,
        n=LANES * kept // lines,
        bytes=BYTES,
        parameters=", ".join(f"{line} l{k}" for k in range(lines)),
        merged="".join(s + "\n" for s in merged),
        stores="\n".join(stores),
        tail=tail,
    )


def _indented(merge: str, lanes: int) -> str:
    return "\n".join("    " + s for s in halved(merge, lanes))
