"""A program as a C file of its own and a header: no Python, no library but the C compiler's.

Input: an `Image`, a name, and names for its arguments and results.  Output: the text of both files.
The kernels are the ones that run under Python; what they are given there, matrix products and the
captured arrays, stands in the file.  The work space is the caller's, or comes from malloc.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from stax.backends.c import lapack, panels, sorting
from stax.backends.c.convolution import convolution_source, is_convolution, symbol
from stax.backends.c.gemm import standalone_gemm_source
from stax.backends.c.image import BITS, ROUTINE_FAILED, Image, Type
from stax.backends.c.routines import PRODUCTS, failure
from stax.backends.c.support import EXPORT
from stax.backends.c.toolchain import NUMERIC_FLAGS
from stax.backends.c.vecmath import with_linked
from stax.core.text import array_bytes, short_source
from stax.schedule.memory import aligned

_ALIGNMENT = 64
_WORDS_A_LINE = 8
_BYTES_A_LINE = 64
_LONG = 1024  # bytes of a constant from which it is spelled as text
# A question mark could begin a trigraph; an octal escape ends after three digits.
_SPELLED = tuple(
    chr(k) if 32 <= k < 127 and chr(k) not in '"\\?' else f"\\{k:03o}" for k in range(256)
)

# The C type by which the caller sees an element: half precision as its bits, complex numbers as
# pairs.
_SHOWN = {
    "float32": "float",
    "float64": "double",
    "bool": "uint8_t",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    "float8_e4m3fn": "uint8_t",
    "complex64": "float",
    "complex128": "double",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
_KEYWORDS = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if "
    "inline int long register restrict return short signed sizeof static struct switch typedef "
    "union unsigned void volatile while asm typeof linux unix bool true false nullptr alignas "
    "alignof class delete explicit export friend mutable namespace new operator private "
    "protected public template this throw try catch typename using virtual and or not xor "
    "workspace main".split()
)

_HEADER = """\
/* @name: compiled ahead of time by stax @version. The file is made by stax: do not edit it.
 *
 * Arguments, in this order:
@arguments * Results, in this order, written by the call into memory of the caller's:
@results@fixed *
 * An array is dense and row-major (C order); one without dimensions is a pointer to its value.
 * A bool is a byte, 0 or 1; float16 and bfloat16 are given as their 16 bits, a complex number
 * as its real and its imaginary part. Results may not overlap anything else. Calls from several
 * threads may run at once, each with a work space of its own.
 *
 * Compile @name.c with gcc or clang, and link with -lm:
 *
 *     cc -O2 -march=native -fopenmp @flags -c @name.c
 *
 * Any flags but -ffast-math keep the results right; those above keep them fast. Without
 * -fno-math-errno a square root is a call of libm, and on x86 without -march=native or -mfma so is
 * a multiply-add. -fopenmp-simd in the place of -fopenmp gives vector code without threads. With
 * -DSTAX_CBLAS large matrix products are those of the library whose <cblas.h> is found.
@linking */
#ifndef @guard
#define @guard

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The size of the work space, in bytes. */
#define @upper_WORKSPACE_BYTES @bytes

/* Runs the function. The work space may be NULL: then the call allocates one and frees it.
 * Returns 0; -1 when there is no memory; another number when an index is out of bounds (the
 * results are then not to be used): @name_message(code) says which. */
int32_t @name(
@parameters);

/* The same, with the pointers in two arrays. */
int32_t @name_array(const void *const *arguments, void *const *results, void *workspace);

/* What a return code stands for. */
const char *@name_message(int32_t code);

/* How many threads a call may use; at first as many as OpenMP gives, 1 without OpenMP. The
 * results are the same bits for every number. */
void @name_set_threads(int32_t count);

#ifdef __cplusplus
}
#endif
#endif
"""

_FRONT = """\
/* @name: made by stax @version; @name.h describes it. */
#if !defined(__GNUC__)
#error "this file needs gcc, clang, or a compiler with their extensions"
#endif
#if defined(__FAST_MATH__)
#error "not to be compiled with -ffast-math: NaN and infinity have to keep their meaning"
#endif
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wunknown-pragmas"
#pragma STDC FP_CONTRACT OFF
#else
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wmisleading-indentation"
#pragma GCC optimize("no-strict-aliasing", "wrapv", "fp-contract=off", "no-math-errno", \\
                     "no-trapping-math")
#endif
#if defined(_OPENMP)
#include <omp.h>
#endif
#include "@name.h"

"""

# Matrix products and convolutions, unlike the kernels, multiply and add in one instruction.
_CONTRACTED = (
    """
#if defined(__clang__)
#pragma STDC FP_CONTRACT ON
#else
#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast")
#endif
""",
    """
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#else
#pragma GCC pop_options
#endif
""",
)
_LAPACK_NOTE = """\
 *
 * Linear algebra is that of a LAPACK: link one (-llapack). If its integers have 64 bits, or its
 * names another form than dgesv_, compile with, for example, -DSTAX_LAPACK_INT=int64_t
 * "-DSTAX_LAPACK_NAME(name)=name##_64_".
"""
_LAPACK_CHOICES = """
#if !defined(STAX_LAPACK_INT)
#define STAX_LAPACK_INT int32_t
#endif
#if !defined(STAX_LAPACK_NAME)
#define STAX_LAPACK_NAME(name) name##_
#endif
"""
_BYTE_ORDER = """
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the constants are spelled for little-endian machines"
#endif
"""
_THREADS = """
static int32_t stax_threads;
void @name_set_threads(int32_t count) { stax_threads = count; }
static int32_t stax_thread_count(void) {
    if (stax_threads > 0) return stax_threads;
#if defined(_OPENMP)
    return omp_get_max_threads();
#else
    return 1;
#endif
}
#define stax_product_threads (stax_thread_count())
"""

_RUN = """
extern void *malloc(size_t);
static int32_t stax_run(void *const *in, void *const *out, stax_context *ctx) {
    int32_t code = 0, bad = 0;
    char *arena = ctx->arena;
    (void)bad; (void)in; (void)out; (void)arena;
@body
    goto done;
done:;
    return code;
}

int32_t @name_array(const void *const *arguments, void *const *results, void *workspace) {
    static void *const products[] = { @products };
    static const void *const constants[] = { @constants };
    void *own = 0;
    if (@size > 0 && !workspace) {
        own = malloc(@upper_WORKSPACE_BYTES);
        if (!own) return -1;
        workspace = own;
    }
    stax_context ctx = { (void *)(((uintptr_t)workspace + 63) & ~(uintptr_t)63),
        (void **)constants, (void **)products, 0, stax_thread_count(), 0, 0 };
    int32_t code = stax_run((void *const *)arguments, results, &ctx);
    if (own) free(own);
    return code;
}

int32_t @name(
@parameters) {
    const void *arguments[] = { @given };
    void *results[] = { @taken };
    return @name_array(arguments, results, workspace);
}

const char *@name_message(int32_t code) {
    switch (code) {
        case 0: return "no error";
        case -1: return "out of memory";
@messages    }
    return "unknown code";
}
"""


@dataclass(frozen=True)
class Described:
    """What a header says of a function.

    Attributes:
      name: the C function.
      arguments, results: what each is called where it comes from, such as `params['w']`.
      statics: values fixed when it was compiled.
      version: of stax.
    """

    name: str
    arguments: Sequence[str]
    results: Sequence[str]
    statics: Sequence[str]
    version: str


def is_c_name(name: str) -> bool:
    """Whether a C function can have the name."""
    return bool(re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII)) and name not in _KEYWORDS


def foreign_steps(image: Image, with_lapack: bool) -> list[str]:
    """The steps that take Python, or a library that it loaded, as `name at file:line`."""
    own = {*PRODUCTS, *sorting.ROUTINES, *(lapack.ROUTINES if with_lapack else ())}
    steps = [(f.eqn.prim.name, f.eqn.source) for f in image.fallbacks]
    steps += [(call.op, call.source) for call in image.calls if call.routine not in own]
    return list(dict.fromkeys(f"{op} at {source or '?'}" for op, source in steps))


def standalone(image: Image, what: Described) -> tuple[str, str]:
    """The texts of the C file and its header."""
    identifiers = _identifiers([*what.arguments, *what.results])
    count = len(image.inputs)
    taken = list(zip(identifiers[:count], image.inputs, strict=True))
    given = list(zip(identifiers[count:], image.outputs, strict=True))
    lines = [f"const {_shown(t)} *{name}" for name, t in taken]
    lines += [f"{_shown(t)} *{name}" for name, t in given]
    parameters = ",\n".join(f"    {line}" for line in [*lines, "void *workspace"])
    size = aligned(image.arena)
    values = {
        "name": what.name,
        "version": what.version,
        "upper": what.name.upper(),
        "guard": f"{what.name.upper()}_H",
        "bytes": str(size + _ALIGNMENT if size else 0),
        "size": str(size),
        "parameters": parameters,
        "arguments": _table(taken, what.arguments),
        "results": _table(given, what.results),
        "flags": "\n *         ".join(" ".join(f) for f in (NUMERIC_FLAGS[:3], NUMERIC_FLAGS[3:])),
        "linking": _LAPACK_NOTE if {*_names(image)} & {*lapack.ROUTINES} else "",
        "fixed": "".join(
            f" * Fixed when it was compiled: {s}\n" for s in map(_plain, what.statics)
        ),
        "body": image.body,
        "products": ", ".join(_products(image)) or "0",
        "constants": ", ".join(f"&stax_constant_{k}" for k in range(len(image.constants))) or "0",
        "given": ", ".join(name for name, _ in taken) or "0",
        "taken": ", ".join(name for name, _ in given) or "0",
        "messages": "".join(_messages(image)),
    }
    source = "".join(
        (
            _filled(_FRONT, values),
            with_linked(image.functions),
            _filled(_THREADS, values),
            _CONTRACTED[0],
            _private(_library(image)),
            _CONTRACTED[1],
            *(_constant(k, value) for k, value in enumerate(image.constants)),
            _filled(_RUN, values),
        )
    )
    return source, _filled(_HEADER, values)


def _filled(template: str, values: dict[str, str]) -> str:
    """The template with every `@word` replaced, once: values are not looked at again."""
    words = "|".join(sorted(values, key=len, reverse=True))
    return re.sub(f"@({words})", lambda match: values[match[1]], template)


def _identifiers(names: Sequence[str]) -> list[str]:
    """A C identifier for each name, all different."""
    found: dict[str, None] = {}
    for name in names:
        word = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "x"
        if word[0].isdigit():
            word = f"x{word}"
        while word in _KEYWORDS or word in found:
            word += "_"
        found[word] = None
    return list(found)


def _shown(kind: Type) -> str:
    return _SHOWN[kind[1].name]


def _plain(text: str) -> str:
    """Text that ends no comment and no line of one."""
    return text.replace("*/", "* /").replace("\n", " ")[:200]


def _table(rows: Sequence[tuple[str, Type]], paths: Sequence[str]) -> str:
    lines = []
    for (name, (shape, dtype)), path in zip(rows, paths, strict=True):
        lines.append(f" *   {name}: {dtype} {list(shape)}" + f", {_plain(path)}" * (path != name))
    return "".join(line + "\n" for line in lines) or " *   none\n"


def _names(image: Image) -> list[str]:
    """The routines that the program calls through its context, by slot; empty where it does not."""
    text = image.body + image.functions
    used = {int(k) for k in re.findall(r"ctx->products\[(\d+)\]", text)}
    return [routine if k in used else "" for k, routine in enumerate(image.routines)]


def _products(image: Image) -> list[str]:
    """The C functions that the program calls through its context, by slot."""

    def function(name: str) -> str:
        if name in PRODUCTS:  # a matrix product's own name is that of its type
            return f"stax_multiply_{name[-3:]}"
        return symbol(name) if is_convolution(name) else f"stax_{name}" if name else "0"

    return [function(name) for name in _names(image)]


def _library(image: Image) -> str:
    """The routines that the program calls."""
    used = {*_names(image)}
    tags = [name[-3:] for name in PRODUCTS if name in used]
    text = standalone_gemm_source(tags) if tags else ""
    for tag in tags:
        exported = EXPORT.format(t=tag, ct=_SHOWN[f"float{tag[1:]}"])
        text += exported.replace("stax_product_", "stax_multiply_")
    images = sorted(filter(is_convolution, used))
    if images:
        text += convolution_source(images)
    blocks = dict.fromkeys(name[-3:] for name in panels.ROUTINES if name in used)
    text += panels.panels_source(blocks, image.functions) if blocks else ""
    if used & {*sorting.ROUTINES}:
        text += sorting.sorting_source()
    if used & {*lapack.ROUTINES}:
        text += _lapack_library()
    return text


def _lapack_library() -> str:
    """The routines on top of LAPACK, bound to the symbols that a linker finds."""
    names = [f"{letter}{f}" for _, letter in lapack.TAGS.values() for f in lapack.FUNCTIONS]
    declared = "".join(f"extern void STAX_LAPACK_NAME({name})(void);\n" for name in names)
    entries = ",\n    ".join(f"(void *)STAX_LAPACK_NAME({name})" for name in names)
    integer = "typedef {} stax_int"
    text = lapack.lapack_source(32)
    text = text.replace(integer.format("int32_t"), integer.format("STAX_LAPACK_INT"))
    table = f"static void *const stax_lapack_table[] = {{\n    {entries}\n}};\n"
    bound = "static void *const *stax_lapack = stax_lapack_table;\n"
    return f"{_LAPACK_CHOICES}{text}{declared}{table}{bound}"


def _private(text: str) -> str:
    """The text with its exported functions made local to the file."""
    return re.sub(
        r"^(void|int32_t|int64_t) (stax_\w+\()", r"static \1 \2", text, flags=re.MULTILINE
    )


def _constant(number: int, value: np.ndarray) -> str:
    """An array: words that hold its bits, or text with its bytes, which compiles sooner."""
    raw, name = array_bytes(value), f"stax_constant_{number}"
    if len(raw) > _LONG:
        lines = [
            '"' + "".join(map(_SPELLED.__getitem__, raw[k : k + _BYTES_A_LINE])) + '"'
            for k in range(0, len(raw), _BYTES_A_LINE)
        ]
        declared = f"static const char {name}[{len(raw) + 1}] __attribute__((aligned(64)))"
        return f"{_BYTE_ORDER}{declared} =\n    " + "\n    ".join(lines) + ";\n"
    size = min(value.dtype.itemsize, 8)
    words = np.frombuffer(raw, f"<u{size}").tolist() or [0]
    suffix = "ull" if size == 8 else ""
    lines = [
        ", ".join(f"0x{word:0{2 * size}x}{suffix}" for word in words[k : k + _WORDS_A_LINE])
        for k in range(0, len(words), _WORDS_A_LINE)
    ]
    declared = f"static const uint{8 * size}_t {name}[{len(words)}] __attribute__((aligned(64)))"
    return f"{declared} = {{\n    " + ",\n    ".join(lines) + "\n};\n"


def _messages(image: Image) -> Iterator[str]:
    for k, call in enumerate(image.calls):
        reason = str(failure(call)).partition("\n")[0]
        yield _message(ROUTINE_FAILED - k, f"{call.op}: {reason}", call.source)
    for kernel, (_, extents) in enumerate(image.checks):
        for k in range(len(extents)):
            code = kernel * BITS + 1 + k
            message, op, where = image.failure(code)
            yield _message(code, f"{op}: {message}", where)


def _message(code: int, text: str, where: str | None) -> str:
    text = _plain(text + (f" at {short_source(where)}" if where else ""))
    escaped = re.sub(r'(["\\])', r"\\\1", text)
    return f'        case {code}: return "{escaped}";\n'
