"""The C functions that generated kernels call, and the text of exactly those that are needed.

Input: names such as `exp_f32` or `floordiv_i64`. Output: C source that defines them as
`stax_exp_f32`, `stax_floordiv_i64`, with what they depend on before them, and nothing else, so
that a kernel's translation unit stays small. Nothing is included: not even standard headers.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from stax.backends.c import (
    folds,
    maps,
    owners,
    vecmath_basic,
    vecmath_complex,
    vecmath_contracted,
    vecmath_contracted_f64,
    vecmath_contracted_powers,
    vecmath_contracted_powers_f64,
    vecmath_f32,
    vecmath_f64,
    vecmath_special,
)
from stax.backends.c.transposed import TRANSPOSED_BITS, transposing_function
from stax.forked import cached_attribute

__all__ = [
    "LINKED",
    "PREAMBLE",
    "Function",
    "call_definitions",
    "called_names",
    "definitions",
    "function_table",
    "linked_names",
    "linked_source",
    "names_in",
    "with_calls",
    "with_linked",
]

PREAMBLE = """\
#ifndef STAX_PREAMBLE
#define STAX_PREAMBLE
typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __INTPTR_TYPE__ intptr_t;
typedef __UINTPTR_TYPE__ uintptr_t;
typedef __SIZE_TYPE__ size_t;
typedef float _Complex complex64_t;
typedef double _Complex complex128_t;
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define STAX_FMA 1  /* __builtin_fma is one instruction */
#else
#define STAX_FMA 0
#endif
#define STAX_INLINE static inline __attribute__((always_inline, unused))
#if !defined(__clang__) && __GNUC__ >= 12  /* before, other options are lost */
#define STAX_BRIEF __attribute__((noinline, optimize("Og")))
#else
#define STAX_BRIEF __attribute__((noinline))
#endif
/* Before code that is not ours: what is compiled for any x86 takes up to twenty times as long while
   the upper halves of vector registers hold something, and GCC clears them from -O2 on only. */
#if defined(__AVX__) && defined(__x86_64__)
#define STAX_CLEAN __asm__ volatile("vzeroupper" ::: "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", \\
    "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", \\
    "memory")
#else
#define STAX_CLEAN (void)0
#endif
/* A function of the C library under a name of ours, with one argument or two.  By its own name the
   compiler would know it, compute calls with constants itself and round some otherwise. */
#define STAX_LIBRARY(type, name, known) \\
    extern type name##_(type) __asm__(STAX_QUOTED(__USER_LABEL_PREFIX__) known) \\
        __attribute__((const)); \\
    STAX_INLINE type name(type x) { STAX_CLEAN; return name##_(x); }
#define STAX_LIBRARY2(type, name, known) \\
    extern type name##_(type, type) __asm__(STAX_QUOTED(__USER_LABEL_PREFIX__) known) \\
        __attribute__((const)); \\
    STAX_INLINE type name(type x, type y) { STAX_CLEAN; return name##_(x, y); }
#define STAX_QUOTED(x) STAX_QUOTED_(x)
#define STAX_QUOTED_(x) #x
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi"  /* only static functions take vectors */
#endif
#endif
"""

_ROW = "//: "  # begins the line above each function: name, flops, and "scalar" where it is
_NAME = re.compile(r"stax_(\w+)")  # begun by letters, not by \b, it is found thirty times as fast


# Types and second functions that are defined inside a row.
_INNER_FUNCTION = re.compile(r"STAX_INLINE [^(]*?\bstax_(\w+)\(")
_INNER_TYPE = re.compile(r"\} stax_(\w+);")


@dataclass(frozen=True)
class Function:
    """One C function: its name without `stax_`, text, cost and what it needs first.

    A program needs few of them: what takes time to print or to find is made when it is asked for.
    """

    name: str
    row: str | Callable[[], str]
    flops: int
    vectorises: bool

    @cached_attribute
    def text(self) -> str:
        """The C text."""
        return self.row if isinstance(self.row, str) else self.row()


def _functions(rows: str) -> dict[str, Function]:
    """The functions of a text of rows."""
    table: dict[str, Function] = {}
    for row in rows.split(_ROW)[1:]:
        head, _, body = row.partition("\n")
        name, flops, *scalar = head.split()
        if name in table:
            raise ValueError(f"C function stax_{name} is defined twice")
        table[name] = Function(name, body, int(flops), not scalar)
    return table


@functools.cache
def _written() -> dict[str, Function]:
    """The functions that stand in a module as they are, and the routines made of them."""
    written = (vecmath_f64.ROWS, vecmath_special.ROWS, vecmath_f32.ROWS, maps.rows())
    return _functions("".join(written))


@functools.cache
def function_table() -> dict[str, Function]:
    """Return every function by name; a name without `stax_`, such as `exp_f32`."""
    made = _functions(
        "".join(
            (
                vecmath_f32.through_f64(),
                vecmath_contracted.rows(),
                vecmath_contracted_f64.rows(),
                vecmath_contracted_powers.rows(),
                vecmath_contracted_powers_f64.rows(),
                vecmath_basic.rows(),
                vecmath_complex.rows(),
                folds.rows(),
                owners.ROWS,
            )
        )
    )
    table = _written() | made
    if len(table) < len(_written()) + len(made):
        raise ValueError(f"C functions are defined twice: {sorted(_written().keys() & made)}")
    for name, printed in vecmath_contracted_powers_f64.TABLES.items():
        table[name] = Function(name, printed, 0, True)
    name = "two_over_pi_f64"
    table[name] = Function(name, vecmath_special.two_over_pi_table, 0, True)
    for bits in TRANSPOSED_BITS:
        name = f"transpose_b{bits}"
        table[name] = Function(name, functools.partial(transposing_function, bits), 0, False)
    return table


@functools.cache
def _owners(written: bool) -> dict[str, str]:
    """The row of each type and function that is defined inside one under another name."""
    found: dict[str, str] = {}
    for name, function in _table(written).items():
        row = function.row
        if isinstance(row, str) and ("} stax_" in row or row.count("STAX_INLINE ") > 1):
            inside = (*_INNER_FUNCTION.findall(row), *_INNER_TYPE.findall(row))
            found.update((word, name) for word in inside if word != name)
    return found


def _table(written: bool) -> dict[str, Function]:
    return _written() if written else function_table()


@functools.cache
def _needs(name: str, written: bool) -> tuple[str, ...]:
    """The functions that have to be defined before a function."""
    table = _table(written)
    words = set(_NAME.findall(table[name].text))
    used = {word for word in words if word in table}
    # Functions of the C library are declared where they are called.
    if any(not word.startswith("libm_") for word in words - used):
        used.update(_owners(written)[word] for word in words if word in _owners(written))
    return tuple(sorted(used - {name}))


def names_in(text: str) -> list[str]:
    """Return the names of the table's functions that a C text calls, in order of appearance."""
    table = function_table()
    return [name for name in dict.fromkeys(_NAME.findall(text)) if name in table]


# What many programs have and call once a kernel: the support library has it, compiled once.  Folds
# are called for every row: through a pointer, a softmax takes a quarter longer (registers to save).
SUPPORTED = ("columns_sum_f32", "columns_sum_f64")
LINKED = frozenset({*SUPPORTED, *maps.NAMES})
_DEFINED = re.compile(
    r"^(?P<brief>STAX_BRIEF |)static (?P<type>\w+) (?P<name>stax_\w+)(?P<parameters>\([^)]*\)) \{$",
    re.MULTILINE,
)
_POINTER = re.compile(rf"\(\*stax_({'|'.join(sorted(LINKED))})\)\(")


def _pointer(function: Function) -> str:
    """C text of a pointer in the function's place, which is called alike."""
    head = _DEFINED.search(function.text)
    assert head is not None
    return f"{head['type']} (*{head['name']}){head['parameters']};\n"


def linked_source(names: Iterable[str]) -> str:
    """C text of functions of `LINKED`, exported; it needs `PREAMBLE` before it."""
    text = definitions(names, preamble=False)
    return _DEFINED.sub(r"\g<brief>\g<type> \g<name>\g<parameters> {", text)


def linked_names(text: str) -> list[str]:
    """The functions that a program's text has a pointer to, to be set before it runs."""
    return _POINTER.findall(text)


def with_linked(text: str) -> str:
    """A program's text with the functions themselves in place of pointers to them."""
    table = function_table()
    for name in linked_names(text):
        own = definitions([name], preamble=False, before=text)
        text = text.replace(_pointer(table[name]), own)
    return text


def definitions(
    names: Iterable[str],
    *,
    preamble: bool = True,
    linked: Collection[str] = (),
    before: str = "",
) -> str:
    """Return C text that defines the named functions and whatever they depend on, in order.

    Args:
      names: names such as `exp_f32`; duplicates are harmless.
      preamble: whether the integer types and `STAX_INLINE` come first.
      linked: functions in whose place pointers of the same names are defined, after all others.
      before: text of the same file, whose functions are not defined again.

    Raises:
      KeyError: a name is not in `function_table()`.
    """
    names = set(names)
    written = names.issubset(maps.NAMES)
    table = _table(written)
    order: dict[str, None] = {}
    pending = [(name, False) for name in sorted(names, reverse=True)]
    while pending:
        name, ready = pending.pop()
        if name in order:
            continue
        if ready:
            order[name] = None
            continue
        pending.append((name, True))
        if name not in linked:
            pending.extend((word, False) for word in _needs(name, written) if word not in order)
    known = sorted(order, key=lambda name: name in linked)
    texts = (_pointer(table[n]) if n in linked else table[n].text for n in known)
    return (PREAMBLE if preamble else "") + "".join(t for t in texts if t not in before)


CALL_FLOPS = 10  # operations from which a function is called, not inlined, in scalar code
INLINED_FLOPS = 400  # operations of one function inlined into one kernel, at all places together
# Whole divisions by a number in the text: the compiler makes a shift or a product of them.
_DIVISION = re.compile(r"(?:floordiv|mod|fmod)_[iu]\d+")
_BY_NUMBER = r"(?!\w+, -?\d+[UL]*\))"
_PROTOTYPE = r"^(?:STAX_INLINE|static) (?P<result>[\w ]*?)\bstax_{name}\((?P<parameters>[^)]*)\)"


def with_calls(text: str, loops: bool = False) -> str:
    """`text` with calls in place of the inlined bodies of long functions.

    A body inlined at hundreds of places makes the compiler slow and the code large, and gains
    nothing. In code without `loops` every long function is called, of the machine if that has it
    (`maps`); in vectorised loops those that would be inlined too often, which keep their vector
    form. A whole division by a number stays.
    """
    table = function_table()
    counts = Counter(_NAME.findall(text))
    for name, count in counts.items():
        flops = table[name].flops if name in table else 0
        often = flops and table[name].vectorises and flops * count > INLINED_FLOPS
        if flops >= CALL_FLOPS and (often or not loops):
            kept = _BY_NUMBER if _DIVISION.fullmatch(name) else ""
            kind = "call" if loops else "stax_one" if name in maps.ROUTINES else "lone"
            text = re.sub(rf"\bstax_{name}\({kept}", f"{kind}_{name}(", text)
    return text


def call_definitions(text: str) -> str:
    """Definitions of the functions that `with_calls` introduced into `text`."""
    parts = []
    for kind, name in _called(text):
        function = function_table()[name]
        found = re.search(_PROTOTYPE.format(name=name), function.text, re.MULTILINE)
        assert found is not None, name
        arguments = ", ".join(p.split()[-1] for p in found["parameters"].split(","))
        # Vector forms take the compiler as long as all else of a function.
        vectors = kind == "call" and function.vectorises
        if vectors and "complex" not in found["parameters"]:
            parts.append("#pragma omp declare simd notinbranch\n")
        parts.append(
            f"static __attribute__((noinline)) {found['result']}{kind}_{name}"
            f"({found['parameters']}) {{ return stax_{name}({arguments}); }}\n"
        )
    return "".join(parts)


def called_names(text: str) -> list[str]:
    """The names of the functions that `text` calls out of line."""
    return [name for _, name in _called(text)]


def _called(text: str) -> list[tuple[str, str]]:
    """How functions are called out of line, and their names."""
    return list(dict.fromkeys(re.findall(r"\b(call|lone)_(\w+)\(", text)))
