"""Direct convolutions in C: results stay in registers while the kernel goes by.

Input: the routines that a program calls, by name: `conv_f32_28` for rows of 28 results,
`conv_swapped_f64_9` for 9 taps.  Output: C text of `stax_conv_<t>` and `stax_conv_swapped_<t>` for
float and double, and the statements that call them.  Both multiply a block of output features, one
cache line wide, by several image elements at a time: `conv` takes positions along a row of the
result and runs over the taps of the kernel; `conv_swapped`, for results smaller than the kernel,
takes taps and runs over the kernel's positions.  How many at a time follows from the size and the
machine's registers; only those few blocks are compiled.  The order of each sum is fixed, whatever
the number of threads.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence

from stax.backends.c.toolchain import VECTOR_FLAGS, Library, require_toolchain
from stax.backends.c.vecmath import PREAMBLE
from stax.loops.buffers import ExternBuffer

KINDS = ("conv", "conv_swapped")
TAGS = ("f32", "f64")
_NAME = re.compile(rf"({'|'.join(KINDS)})_({'|'.join(TAGS)})_(\d+)")
_MOST_HELD = 12  # the most that any machine holds

# The integers that describe a convolution, in the order of the C structure below.
_SIZES = ("groups", "images", "channels", "taken", "filters")
_SPATIAL = ("extents", "window", "strides", "holes", "framed")

_HEADER = """\
#if defined(_OPENMP)
#include <omp.h>
#endif
extern void *malloc(size_t);
extern void free(void *);
typedef struct {
    int64_t groups, images, channels, taken, filters;
    int64_t e[3], k[3], s[3], d[3], f[3], threads;
} stax_conv_sizes;
#if defined(__AVX512F__)
#define STAX_VECTOR 64
#define STAX_HELD 12
#elif defined(__AVX__)
#define STAX_VECTOR 32
#define STAX_HELD 6
#elif defined(__aarch64__)
#define STAX_VECTOR 16
#define STAX_HELD 5
#else
#define STAX_VECTOR 16
#define STAX_HELD 2
#endif
#if STAX_VECTOR == 64
#define STAX_PARTS(M, p) M(p, 0)
#elif STAX_VECTOR == 32
#define STAX_PARTS(M, p) M(p, 0) M(p, 1)
#else
#define STAX_PARTS(M, p) M(p, 0) M(p, 1) M(p, 2) M(p, 3)
#endif
"""

_TYPED = """\
typedef @ct stax_part_@t __attribute__((vector_size(STAX_VECTOR), aligned(sizeof(@ct))));
enum { stax_line_@t = 64 / (int)sizeof(@ct), stax_conv_lanes_@t = STAX_VECTOR / (int)sizeof(@ct) };
#define STAX_AT_@t(at, v) (*(stax_part_@t *)((at) + v * stax_conv_lanes_@t))
#define STAX_CLEAR_@t(p, v) stax_part_@t a##p##_##v = {0};
#define STAX_FETCH_@t(p, v) a##p##_##v = STAX_AT_@t(out + p * line, v);
#define STAX_STORE_@t(p, v) STAX_AT_@t(out + p * line, v) = a##p##_##v;
#define STAX_WEIGHT_@t(p, v) const stax_part_@t b##v = STAX_AT_@t(w, v);
#define STAX_STEP_@t(p, v) a##p##_##v += b##v * at[p * step];
#define STAX_TAP_@t(p, v) a##p##_##v += b##v * at[o##p];
"""

# What is done with each element, and with each part of a line, is written out: compilers need not
# unroll loops.

# `P` image elements, `step` apart, against one line of features for every tap.
_BLOCK = """\
static void stax_conv_block_@t_@p(const @ct *restrict x, int64_t step,
        const int64_t *restrict off, int64_t taps, const @ct *restrict w, @ct *restrict out,
        int64_t line) {
    @each(CLEAR)
    for (int64_t i = 0; i < taps; i++, w += stax_line_@t) {
        const @ct *at = x + off[i];
        STAX_PARTS(STAX_WEIGHT_@t, 0)
        @each(STEP)
    }
    @each(STORE)
}
"""

# `P` taps against one line of features for every position of the kernel, added to `out`.
_SWAPPED = """\
static void stax_conv_sum_@t_@p(const @ct *restrict x, const int64_t *restrict places,
        int64_t count, const int64_t *restrict off, const @ct *restrict w, int64_t line,
        @ct *restrict out, int first) {
    @each(CLEAR)
    @offsets
    if (!first) {
        @each(FETCH)
    }
    for (int64_t i = 0; i < count; i++, w += line) {
        const @ct *at = x + places[i];
        STAX_PARTS(STAX_WEIGHT_@t, 0)
        @each(TAP)
    }
    @each(STORE)
}
"""

_CONV = """\
typedef void (*stax_conv_block_@t)(const @ct *restrict, int64_t, const int64_t *restrict, int64_t,
    const @ct *restrict, @ct *restrict, int64_t);
static const stax_conv_block_@t stax_conv_blocks_@t[] = { @blocks };
STAX_BRIEF
int32_t stax_conv_@t(const stax_conv_sizes *c, const @ct *x, const @ct *w, @ct *out) {
    int64_t taps = c->k[0] * c->k[1] * c->k[2] * c->taken, t = 0;
    int64_t *off = malloc(sizeof(int64_t) * (taps ? taps : 1));
    if (!off) return -1;
    for (int64_t i = 0; i < c->k[0]; i++)
        for (int64_t j = 0; j < c->k[1]; j++)
            for (int64_t k = 0; k < c->k[2]; k++)
                for (int64_t f = 0; f < c->taken; f++)
                    off[t++] = ((i * c->d[0] * c->f[1] + j * c->d[1]) * c->f[2] + k * c->d[2])
                        * c->channels + f;
    int64_t lines = (c->filters + stax_line_@t - 1) / stax_line_@t;
    int64_t rows = c->images * c->e[0] * c->e[1], width = c->e[2];
    int64_t parts = (width + STAX_HELD - 1) / STAX_HELD;
    int64_t all = c->groups * c->filters, step = c->s[2] * c->channels;
    /* A few rows share a line of features before the next line is read. */
    int64_t tile = 8, tiles = (rows + tile - 1) / tile;
    int parallel = c->threads > 1 && rows * width * all * taps > 400000;
#pragma omp parallel for num_threads(c->threads) if (parallel) schedule(static)
    for (int64_t block = 0; block < tiles; block++) {
        int64_t last = block * tile + tile < rows ? block * tile + tile : rows;
        for (int64_t g = 0; g < c->groups; g++)
            for (int64_t l = 0; l < lines; l++) {
                const @ct *from = w + (g * lines + l) * taps * stax_line_@t;
                int64_t lanes = c->filters - l * stax_line_@t;
                if (lanes > stax_line_@t) lanes = stax_line_@t;
                for (int64_t row = block * tile; row < last; row++) {
                    int64_t n = row / (c->e[0] * c->e[1]), r = row % (c->e[0] * c->e[1]);
                    const @ct *at = x + g * c->taken
                        + ((n * c->f[0] + r / c->e[1] * c->s[0]) * c->f[1]
                           + r % c->e[1] * c->s[1]) * c->f[2] * c->channels;
                    @ct *to = out + row * width * all + g * c->filters + l * stax_line_@t;
                    int64_t q = 0;
                    for (int64_t part = 0; part < parts; part++) {
                        int64_t p = (width - q + parts - part - 1) / (parts - part);
                        @ct held[STAX_HELD * stax_line_@t], *into = to + q * all;
                        int whole = lanes == stax_line_@t;
                        stax_conv_blocks_@t[p - 1](at + q * step, step, off, taps, from,
                                                   whole ? into : held,
                                                   whole ? all : stax_line_@t);
                        for (int64_t i = 0; i < p && !whole; i++)
                            for (int64_t v = 0; v < lanes; v++)
                                into[i * all + v] = held[i * stax_line_@t + v];
                        q += p;
                    }
                }
            }
    }
    free(off);
    return 0;
}
"""

_CONV_SWAPPED = """\
typedef void (*stax_conv_sum_@t)(const @ct *restrict, const int64_t *restrict, int64_t,
    const int64_t *restrict, const @ct *restrict, int64_t, @ct *restrict, int);
static const stax_conv_sum_@t stax_conv_sums_@t[] = { @sums };

STAX_BRIEF
int32_t stax_conv_swapped_@t(const stax_conv_sizes *c, const @ct *x, const @ct *w, @ct *out) {
    int64_t taps = c->e[0] * c->e[1] * c->e[2] * c->images, t = 0;
    int64_t places = c->k[0] * c->k[1] * c->k[2];
    int64_t *off = malloc(sizeof(int64_t) * (taps + places + 1));
    if (!off) return -1;
    for (int64_t i = 0; i < c->e[0]; i++)
        for (int64_t j = 0; j < c->e[1]; j++)
            for (int64_t k = 0; k < c->e[2]; k++)
                for (int64_t b = 0; b < c->images; b++)
                    off[t++] = ((i * c->s[0] * c->f[1] + j * c->s[1]) * c->f[2] + k * c->s[2])
                        * c->images + b;
    int64_t *place = off + taps;
    for (int64_t i = 0; i < c->k[0]; i++)
        for (int64_t j = 0; j < c->k[1]; j++)
            for (int64_t k = 0; k < c->k[2]; k++)
                *place++ = ((i * c->d[0] * c->f[1] + j * c->d[1]) * c->f[2] + k * c->d[2])
                    * c->images;
    int64_t lines = c->filters / stax_line_@t, parts = (taps + STAX_HELD - 1) / STAX_HELD;
    int64_t image = c->f[0] * c->f[1] * c->f[2] * c->images, kernel = places * c->filters;
    int64_t share = taps * c->filters;
    int64_t units = c->groups * parts;
    int parallel = c->threads > 1 && units * c->taken * places * c->filters > 100000;
#pragma omp parallel num_threads(c->threads) if (parallel)
    {
#if defined(_OPENMP)
        int64_t me = omp_get_thread_num(), crew = omp_get_num_threads();
#else
        int64_t me = 0, crew = 1;
#endif
        for (int64_t f = 0; f < c->taken; f++)
            for (int64_t u = units * me / crew; u < units * (me + 1) / crew; u++) {
                int64_t g = u / parts, part = u % parts;
                int64_t start = part * taps / parts, stop = (part + 1) * taps / parts;
                if (stop == start) continue;
                int64_t feature = g * c->taken + f;
                for (int64_t l = 0; l < lines; l++)
                    stax_conv_sums_@t[stop - start - 1](
                        x + feature * image, off + taps, places, off + start,
                        w + feature * kernel + l * stax_line_@t, c->filters,
                        out + g * share + start * c->filters + l * stax_line_@t, f == 0);
            }
    }
    free(off);
    return 0;
}
"""


def is_convolution(routine: str) -> bool:
    """Whether the name is that of a convolution."""
    return _NAME.fullmatch(routine) is not None


def symbol(routine: str) -> str:
    """The C function behind a routine's name; sizes share it."""
    return f"stax_{routine.rpartition('_')[0]}"


def convolution_source(routines: Sequence[str]) -> str:
    """C text of the routines; it needs `vecmath.PREAMBLE` before it."""
    sizes: dict[str, dict[str, set[int]]] = {}
    for match in filter(None, map(_NAME.fullmatch, routines)):
        sizes.setdefault(match[2], {}).setdefault(match[1], set()).add(int(match[3]))
    parts = [_HEADER]
    for tag, kinds in sorted(sizes.items()):
        used = {kind: functools.partial(_is_used, sizes=kinds[kind]) for kind in sorted(kinds)}
        parts.append(_typed_source(tag, used))
    return "".join(parts)


def whole_source(tag: str) -> str:
    """C text of both routines of a type, for results and kernels of any size."""
    return _HEADER + _typed_source(tag, dict.fromkeys(KINDS, "{} <= STAX_HELD".format))


def _typed_source(tag: str, kinds: Mapping[str, Callable[[int], str]]) -> str:
    """The routines of a type, with the blocks that the preprocessor's conditions let through."""
    text = _TYPED
    for kind, used in kinds.items():
        block, entry, name = (
            (_BLOCK, _CONV, "block") if kind == "conv" else (_SWAPPED, _CONV_SWAPPED, "sum")
        )
        entries = ""
        for p in range(1, _MOST_HELD + 1):
            guard = f"#if {used(p)}\n"
            text += f"{guard}{_written_out(block, p)}#endif\n"
            entries += f"\n{guard}stax_conv_{name}_{tag}_{p},\n#else\n0,\n#endif\n"
        text += entry.replace("@blocks", entries).replace("@sums", entries)
    return text.replace("@ct", "float" if tag == "f32" else "double").replace("@t", tag)


def _written_out(block: str, size: int) -> str:
    """The text of a block for so many image elements."""
    each = r"\n    ".join(rf"STAX_PARTS(STAX_\1_@t, {p})" for p in range(size))
    offsets = "int64_t " + ", ".join(f"o{p} = off[{p}]" for p in range(size)) + ";"
    return (
        re.sub(r"@each\((\w+)\)", each, block).replace("@offsets", offsets).replace("@p", str(size))
    )


def _is_used(p: int, sizes: set[int]) -> str:
    """The preprocessor's condition that one of the sizes is cut into pieces some of which are `p`.

    Pieces are as equal as they can be, and none is larger than the machine's registers hold.
    """
    conditions = []
    for size in sorted(sizes):
        pieces = f"(({size} + STAX_HELD - 1) / STAX_HELD)"
        conditions += [f"{size} / {pieces} == {p}", f"({size} + {pieces} - 1) / {pieces} == {p}"]
    return " || ".join(conditions)


@functools.cache
def convolutions(routines: frozenset[str], threads: int) -> Library:
    """The loaded routines and no others, for programs of one thread or of several.

    Raises:
      CompilerNotFoundError: there is no working compiler.
    """
    text = PREAMBLE + convolution_source(sorted(routines))
    toolchain = require_toolchain().for_threads(text, threads, extra=VECTOR_FLAGS)
    return toolchain.load(text, extra=VECTOR_FLAGS)


def routine_of(buffer: ExternBuffer) -> str:
    """The name of the routine that computes a result."""
    kind, p = buffer.extern_kind, buffer.params
    size = p["extents"][2]
    if kind == "conv_swapped":
        size *= p["extents"][0] * p["extents"][1] * p["images"]
    return f"{kind}_{'f32' if buffer.dtype.itemsize == 4 else 'f64'}_{max(size, 1)}"


def call_statement(buffer: ExternBuffer, names: dict[str, str], slot: int, code: int) -> str:
    """The statement of a program that calls the routine at a slot of its table.

    The program returns `code` when memory is short.
    """
    p = buffer.params
    ct = "float" if buffer.dtype.itemsize == 4 else "double"
    sizes = [str(p.get(k, 0)) for k in _SIZES]
    sizes += ["{" + ", ".join(map(str, p[k])) + "}" for k in _SPATIAL]
    image, kernel = (f"{names[i.buffer]} + {i.layout.offset}" for i in buffer.inputs)
    signature = f"int32_t (*)(const void *, const {ct} *, const {ct} *, {ct} *)"
    return (
        "{ struct { int64_t n[5], e[3], k[3], s[3], d[3], f[3], threads; } sizes = {\n"
        f"        {{{', '.join(sizes[:5])}}}, {', '.join(sizes[5:])}, ctx->threads }};\n"
        f"      if ((({signature})ctx->products[{slot}])(&sizes, {image}, {kernel}, "
        f"{names[buffer.name]})) {{ code = {code}; goto done; }} }}"
    )
