"""Fourier transforms in C: the loops of NumPy's own transforms, called axis by axis.

Input: nothing.  Output: C text of `stax_fft_<t>`, `stax_rfft_<t>` and `stax_irfft_<t>`, and the
table of NumPy's loops that it is bound to.  A loop transforms lines of one length and makes its
plan anew at every call, so that lines go to it together: all of a thread's where the axis is the
last, and else as many columns as fit the second cache, laid side by side.  What a line becomes does
not depend on where it lies, so results have NumPy's bits.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

TAGS = {"f32": ("float", "Ff->F", "ff->F", "Ff->f"), "f64": ("double", "Dd->D", "dd->D", "Dd->d")}
ROUTINES = tuple(f"{kind}_{tag}" for kind in ("fft", "rfft", "irfft") for tag in TAGS)
_LOOPS = (("fft", 1), ("ifft", 1), ("rfft_n_even", 2), ("rfft_n_odd", 2), ("irfft", 3))

_HEADER = """\
extern void *malloc(size_t);
extern void free(void *);
extern void *memcpy(void *, const void *, size_t);
typedef void (*stax_transform)(char **, const intptr_t *, const intptr_t *, void *);
enum { STAX_FFT, STAX_IFFT, STAX_RFFT_EVEN, STAX_RFFT_ODD, STAX_IRFFT, STAX_TRANSFORMS };
static void *const *stax_transforms;
void stax_bind_transforms(void *const *table) { stax_transforms = table; }
typedef struct { uint64_t re, im; } stax_two_words;
static int64_t stax_product_of(const int64_t *shape, int64_t first, int64_t last) {
    int64_t product = 1;
    for (int64_t k = first; k < last; k++) product *= shape[k];
    return product;
}
/* Columns [first, last) of blocks [n][after], counted over all blocks, as lines of n; and back. */
#define STAX_TURN(type) \\
    for (int64_t c = first; c < last;) { \\
        int64_t at = c % after, run = after - at < last - c ? after - at : last - c; \\
        type *block = (type *)(blocks + (c / after * n * after + at) * sizeof(type)); \\
        type *line = (type *)lines + (c - first) * n; \\
        if (back) \\
            for (int64_t i = 0; i < n; i++) \\
                for (int64_t r = 0; r < run; r++) block[i * after + r] = line[r * n + i]; \\
        else \\
            for (int64_t i = 0; i < n; i++) \\
                for (int64_t r = 0; r < run; r++) line[r * n + i] = block[i * after + r]; \\
        c += run; \\
    }
static void stax_turn_columns(int64_t bytes, char *blocks, char *lines, int64_t n, int64_t after,
        int64_t first, int64_t last, int back) {
    if (bytes == 4) STAX_TURN(uint32_t)
    else if (bytes == 8) STAX_TURN(uint64_t)
    else STAX_TURN(stax_two_words)
}
"""

_TYPED = """\
/* Transforms the middle axis of [before][n][after]; `made` points a line come of n. */
static int32_t stax_axis_@t(int which, int32_t threads, const char *from, char *to, int64_t before,
        int64_t n, int64_t made, int64_t after) {
    int64_t in = (which == STAX_RFFT_EVEN || which == STAX_RFFT_ODD ? 1 : 2) * sizeof(@ct);
    int64_t out = (which == STAX_IRFFT ? 1 : 2) * sizeof(@ct), lines = before * after;
    void *const *loop = stax_transforms + 2 * (@slot + which);
    int64_t most = (1 << 19) / (n * in + made * out), size = lines;
    int32_t failed = 0;
    if (lines * n < 32768) threads = 1;
    if (after > 1 && most < 32) most = 32;
    if (threads > 1 && size * threads > lines) size = (lines + threads - 1) / threads;
    if (after > 1 && size > most) size = most;
    int64_t chunks = (lines + size - 1) / size;
#pragma omp parallel for num_threads(threads) if (threads > 1 && chunks > 1)
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
        @ct one = 1;
        int64_t first = chunk * size, last = first + size < lines ? first + size : lines;
        char *room = 0, *source = (char *)from + first * n * in, *target = to + first * made * out;
        if (after > 1) {
            room = malloc((size_t)((last - first) * (n * in + made * out)));
            if (!room) { failed = -1; continue; }
            source = room;
            target = room + (last - first) * n * in;
            stax_turn_columns(in, (char *)from, source, n, after, first, last, 0);
        }
        char *arguments[] = {source, (char *)&one, target};
        intptr_t counts[] = {last - first, n, made}, steps[] = {n * in, 0, made * out, in, out};
        ((stax_transform)loop[0])(arguments, counts, steps, loop[1]);
        if (after > 1) {
            stax_turn_columns(out, to, target, made, after, first, last, 1);
            free(room);
        }
    }
    return failed;
}
/* sizes: inverse, points along the last axis, number of axes, extents, transforms, their axes */
int32_t stax_fft_@t(const int64_t *s, int32_t threads, void *const *p) {
    const int64_t ndim = s[2], *shape = s + 3, count = shape[ndim], *axes = shape + ndim + 1;
    const char *from = p[0];
    int32_t bad = 0;
    for (int64_t k = count - 1; k >= 0 && !bad; k--) {
        int64_t axis = axes[k], n = shape[axis];
        bad = stax_axis_@t(s[0] ? STAX_IFFT : STAX_FFT, threads, from, p[1],
            stax_product_of(shape, 0, axis), n, n, stax_product_of(shape, axis + 1, ndim));
        from = p[1];
    }
    return bad;
}
int32_t stax_rfft_@t(const int64_t *s, int32_t threads, void *const *p) {
    const int64_t ndim = s[2], *given = s + 3, count = given[ndim], *axes = given + ndim + 1;
    int64_t last = axes[count - 1], n = given[last], shape[64];
    memcpy(shape, given, (size_t)ndim * sizeof(int64_t));
    shape[last] = n / 2 + 1;
    int32_t bad = stax_axis_@t(n % 2 ? STAX_RFFT_ODD : STAX_RFFT_EVEN, threads, p[0], p[1],
        stax_product_of(shape, 0, last), n, n / 2 + 1, stax_product_of(shape, last + 1, ndim));
    for (int64_t k = count - 2; k >= 0 && !bad; k--)
        bad = stax_axis_@t(STAX_FFT, threads, p[1], p[1], stax_product_of(shape, 0, axes[k]),
            shape[axes[k]], shape[axes[k]], stax_product_of(shape, axes[k] + 1, ndim));
    return bad;
}
int32_t stax_irfft_@t(const int64_t *s, int32_t threads, void *const *p) {
    const int64_t ndim = s[2], *shape = s + 3, count = shape[ndim], *axes = shape + ndim + 1;
    const char *from = p[0];
    char *room = 0;
    int32_t bad = 0;
    if (count > 1) {
        room = malloc((size_t)(stax_product_of(shape, 0, ndim) * 2 * (int64_t)sizeof(@ct)));
        if (!room) return -1;
    }
    for (int64_t k = 0; k < count - 1 && !bad; k++) {
        int64_t axis = axes[k], n = shape[axis];
        bad = stax_axis_@t(STAX_IFFT, threads, from, room, stax_product_of(shape, 0, axis), n, n,
                           stax_product_of(shape, axis + 1, ndim));
        from = room;
    }
    int64_t last = axes[count - 1];
    if (!bad)
        bad = stax_axis_@t(STAX_IRFFT, threads, from, p[1], stax_product_of(shape, 0, last),
            shape[last], s[1], stax_product_of(shape, last + 1, ndim));
    free(room);
    return bad;
}
"""


def transforms(loop_of: Callable[[Any, str], tuple[int, int] | None]) -> list[int] | None:
    """The pairs (loop, data) of NumPy's transforms, single precision first; None without them."""
    try:
        space = import_module("numpy.fft._pocketfft_umath")
    except ImportError:
        return None
    table: list[int] = []
    for types in TAGS.values():
        for name, form in _LOOPS:
            pair = loop_of(getattr(space, name, None), types[form])
            if pair is None:
                return None
            table += pair
    return table


def fourier_source() -> str:
    """C text of the routines.

    It needs `vecmath.PREAMBLE` before it and exports `stax_bind_transforms(void *const *table)`, to
    be called once with `transforms`.
    """
    parts = [_HEADER]
    for number, (tag, (ct, *_)) in enumerate(TAGS.items()):
        slot = f"{number} * STAX_TRANSFORMS"
        parts.append(_TYPED.replace("@slot", slot).replace("@ct", ct).replace("@t", tag))
    return "".join(parts)
