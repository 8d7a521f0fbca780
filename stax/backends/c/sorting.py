"""Sorting in C: stable, NaN last, several keys, any axis; and the search in a sorted vector.

Input: nothing.  Output: C text of `stax_sort`, `stax_searchsorted` and `stax_permutation`.

Every element type is sorted as an unsigned integer whose order is that of the values: the sign bit
is turned, negative floating numbers are complemented, both zeros become one key and every NaN the
largest.  A key of up to 32 bits travels in one word with its position, so that words are sorted and
ties keep their order by themselves; a longer one travels beside it, or alone where there is
nothing to move along and no zero or NaN that its key would not give back.  Short lines are merged,
branch-free, from sorted runs; long ones are distributed by 11 bits at a time, leaving out the
digits that all keys share.  Several keys are sorted from the last to the first.

A line of numbers alone, without the zeros and NaN by which stability shows, is sorted by NumPy's
own vector code where the program runs inside Python: 1e6 doubles in 8 ms instead of 47.
"""

from __future__ import annotations

import ctypes
from importlib import import_module

import numpy as np

from stax.loops.library import SORTED_DTYPES

_KEYS = """\
extern void *malloc(size_t);
extern void free(void *);
extern void *memcpy(void *, const void *, size_t);
static const int stax_key_bits[] = {8, 16, 32, 64, 8, 16, 32, 64, 16, 16, 32, 64};
static const int stax_key_bytes[] = {1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8};
#define STAX_FLOAT_KEY(b, bits, infinity) do { \\
        uint64_t sign = 1ull << (bits - 1), size = (b) & (sign - 1); \\
        if (size > (infinity)) return sign | (sign - 1); \\
        return size == 0 ? sign : (b) & sign ? ~(b) & (sign | (sign - 1)) : (b) | sign; \\
    } while (0)
/* The key of the element of type `code` at `x`. */
STAX_INLINE uint64_t stax_key(int code, const char *x) {
    switch (code) {
    case 0: return *(const uint8_t *)x;
    case 1: return *(const uint16_t *)x;
    case 2: return *(const uint32_t *)x;
    case 3: return *(const uint64_t *)x;
    case 4: return (uint8_t)(*(const uint8_t *)x ^ 0x80u);
    case 5: return (uint16_t)(*(const uint16_t *)x ^ 0x8000u);
    case 6: return *(const uint32_t *)x ^ 0x80000000u;
    case 7: return *(const uint64_t *)x ^ (1ull << 63);
    case 8: { uint64_t b = *(const uint16_t *)x; STAX_FLOAT_KEY(b, 16, 0x7c00ull); }
    case 9: { uint64_t b = *(const uint16_t *)x; STAX_FLOAT_KEY(b, 16, 0x7f80ull); }
    case 10: { uint64_t b = *(const uint32_t *)x; STAX_FLOAT_KEY(b, 32, 0x7f800000ull); }
    default: { uint64_t b = *(const uint64_t *)x; STAX_FLOAT_KEY(b, 64, 0x7ff0000000000000ull); }
    }
}
/* Writes the keys of `n` elements, `step` bytes apart, each code in a loop of its own. */
#define STAX_KEYS_OF(c) case c: \\
    for (int64_t i = 0; i < n; i++) to[i] = stax_key(c, x + i * step); break;
static void stax_keys(int code, const char *x, int64_t step, int64_t n, uint64_t *to) {
    switch (code) {
    STAX_KEYS_OF(0) STAX_KEYS_OF(1) STAX_KEYS_OF(2) STAX_KEYS_OF(3) STAX_KEYS_OF(4) STAX_KEYS_OF(5)
    STAX_KEYS_OF(6) STAX_KEYS_OF(7) STAX_KEYS_OF(8) STAX_KEYS_OF(9) STAX_KEYS_OF(10)
    STAX_KEYS_OF(11)
    }
}
/* Writes the double whose key is `key`. */
STAX_INLINE void stax_double_of_key(uint64_t key, char *to) {
    uint64_t sign = 1ull << 63, b = key & sign ? key ^ sign : ~key;
    *(uint64_t *)to = b;
}
typedef struct { uint64_t key, at; } stax_pair;
"""

# @e is the element type; @key(x) its key, of which bits `low` to `high` differ between elements.
_ENGINE = """\
static void stax_runs_@n(@e *x, int64_t n) {
    for (int64_t first = 0; first < n; first += 16) {
        int64_t last = first + 16 < n ? first + 16 : n;
        for (int64_t i = first + 1; i < last; i++) {
            @e item = x[i];
            int64_t j = i;
            for (; j > first && @key(x[j - 1]) > @key(item); j--) x[j] = x[j - 1];
            x[j] = item;
        }
    }
}
/* Sorts x, with room for n more elements at y; returns where the result is. */
static @e *stax_merged_@n(@e *x, @e *y, int64_t n) {
    stax_runs_@n(x, n);
    for (int64_t width = 16; width < n; width *= 2) {
        for (int64_t first = 0; first < n; first += 2 * width) {
            int64_t middle = first + width < n ? first + width : n;
            int64_t last = first + 2 * width < n ? first + 2 * width : n;
            const @e *a = x + first, *ae = x + middle, *b = ae, *be = x + last;
            @e *to = y + first;
            while (a < ae && b < be) {
                int right = @key(*b) < @key(*a);
                *to++ = right ? *b : *a;
                b += right;
                a += !right;
            }
            while (a < ae) *to++ = *a++;
            while (b < be) *to++ = *b++;
        }
        @e *other = x;
        x = y;
        y = other;
    }
    return x;
}
static @e *stax_distributed_@n(@e *x, @e *y, int64_t n, int low, int high, int64_t *count) {
    uint64_t same = ~0ull, any = 0;
    for (int64_t i = 0; i < n; i++) { same &= @key(x[i]); any |= @key(x[i]); }
    uint64_t differs = same ^ any;
    for (int shift = low; shift < high; shift += 11) {
        int bits = high - shift < 11 ? high - shift : 11;
        int64_t digits = 1ll << bits, at = 0;
        if (!((differs >> shift) & (digits - 1))) continue;
        for (int64_t d = 0; d < digits; d++) count[d] = 0;
        for (int64_t i = 0; i < n; i++) count[(@key(x[i]) >> shift) & (digits - 1)]++;
        for (int64_t d = 0; d < digits; d++) { int64_t c = count[d]; count[d] = at; at += c; }
        for (int64_t i = 0; i < n; i++) y[count[(@key(x[i]) >> shift) & (digits - 1)]++] = x[i];
        @e *other = x;
        x = y;
        y = other;
    }
    return x;
}
static @e *stax_sorted_@n(@e *x, @e *y, int64_t n, int low, int high, int64_t *count) {
    if (n < 1500) return stax_merged_@n(x, y, n);
    return stax_distributed_@n(x, y, n, low, high, count);
}
"""

_SORT = """\
#define STAX_WORD(x) (x)
#define STAX_PAIR(x) ((x).key)
@engines
#define STAX_MOVE(type) \\
    for (int64_t i = 0; i < n; i++) *(type *)(to + i * step) = *(const type *)(from + at[i] * step)
static void stax_move(int bytes, const char *from, char *to, int64_t step, int64_t n,
        const int64_t *at) {
    switch (bytes) {
    case 1: STAX_MOVE(uint8_t); break;
    case 2: STAX_MOVE(uint16_t); break;
    case 4: STAX_MOVE(uint32_t); break;
    default: STAX_MOVE(uint64_t); break;
    }
}
/* Sorts of NumPy in place, by element type; none where the table or an entry is 0. */
typedef int (*stax_sorter)(void *, intptr_t, void *);
static const stax_sorter *stax_sorters;
void stax_bind_sorters(const stax_sorter *table) { stax_sorters = table; }
/* Copies a line of elements without zeros of a sign and NaN, which such a sort would exchange. */
#define STAX_AS_BITS(type, sign, infinity) do { \
        type *out = to; \
        for (int64_t i = 0; i < n; i++) { \
            type b = *(const type *)(from + i * step); \
            odd |= (b == sign) | ((b & (type)~sign) > infinity); \
            out[i] = b; \
        } \
    } while (0)
static int stax_plain(int code, const char *from, int64_t step, int64_t n, void *to) {
    int odd = 0;
    if (code == 10) STAX_AS_BITS(uint32_t, 0x80000000u, 0x7f800000u);
    else if (code == 11) STAX_AS_BITS(uint64_t, (1ull << 63), 0x7ff0000000000000ull);
    else if (stax_key_bytes[code] == 4)
        for (int64_t i = 0; i < n; i++) ((uint32_t *)to)[i] = *(const uint32_t *)(from + i * step);
    else
        for (int64_t i = 0; i < n; i++) ((uint64_t *)to)[i] = *(const uint64_t *)(from + i * step);
    return !odd;
}
static int stax_sort_by_numpy(int code, const char *from, char *to, int64_t step, int64_t n,
        void *work) {
    int64_t bytes = stax_key_bytes[code];
    if (!stax_sorters || !stax_sorters[code]) return 0;
    void *line = step == bytes ? (void *)to : work;
    if (!stax_plain(code, from, step, n, line) || stax_sorters[code](line, n, 0)) return 0;
    if (line == work)
        for (int64_t i = 0; i < n; i++) memcpy(to + i * step, (char *)work + i * bytes, bytes);
    return 1;
}
/* One operand of eight-byte keys alone: the values come back from the keys. */
static int stax_sort_alone(int code, const char *from, char *to, int64_t step, int64_t n,
        uint64_t *x, uint64_t *y, int64_t *count) {
    if (stax_sort_by_numpy(code, from, to, step, n, x)) return 1;
    if (stax_key_bits[code] != 64) return 0;
    stax_keys(code, from, step, n, x);
    if (code == 11) {
        uint64_t odd = 0;
        for (int64_t i = 0; i < n; i++) {
            uint64_t b = *(const uint64_t *)(from + i * step);
            odd |= (b == 1ull << 63) | (x[i] == ~0ull);
        }
        if (odd) return 0;
    }
    x = stax_sorted_word(x, y, n, 0, 64, count);
    for (int64_t i = 0; i < n; i++) {
        if (code == 11) stax_double_of_key(x[i], to + i * step);
        else *(uint64_t *)(to + i * step) = code == 7 ? x[i] ^ (1ull << 63) : x[i];
    }
    return 1;
}
/* The order of a line by one key, given the order by the keys behind it. */
static void stax_order(int code, const char *from, int64_t step, int64_t n, int first,
        int64_t *order, char *work, int64_t *count) {
    uint64_t *keys = (uint64_t *)work;
    stax_keys(code, from, step, n, keys);
    int bits = stax_key_bits[code];
    if (bits <= 32 && n <= 0xffffffffll) {
        uint64_t *x = keys + n, *y = x + n;
        for (int64_t i = 0; i < n; i++) x[i] = keys[first ? i : order[i]] << 32 | (uint64_t)i;
        x = stax_sorted_word(x, y, n, 32, 32 + bits, count);
        for (int64_t i = 0; i < n; i++) {
            int64_t at = (int64_t)(x[i] & 0xffffffffull);
            keys[i] = (uint64_t)(first ? at : order[at]);
        }
    } else {
        stax_pair *x = (stax_pair *)(keys + n), *y = x + n;
        for (int64_t i = 0; i < n; i++) {
            int64_t at = first ? i : order[i];
            x[i] = (stax_pair){keys[at], (uint64_t)at};
        }
        x = stax_sorted_pair(x, y, n, 0, bits, count);
        for (int64_t i = 0; i < n; i++) keys[i] = x[i].at;
    }
    memcpy(order, keys, (size_t)n * 8);
}
/* sizes: lines before the axis, its extent, lines behind it, keys, operands, the operands' types */
int32_t stax_sort(const int64_t *s, int32_t threads, void *const *p) {
    int64_t outer = s[0], n = s[1], inner = s[2], keys = s[3], operands = s[4];
    const int64_t *codes = s + 5;
    int64_t lines = outer * inner;
    int32_t failed = 0;
    if (n == 0 || lines == 0) return 0;
    int alone = operands == 1 && stax_key_bits[codes[0]] >= 32;
#pragma omp parallel num_threads(threads) if (threads > 1 && lines > 1 && lines * n > 20000)
    {
        /* order, keys, two lines of pairs, and the counters */
        int64_t *order = malloc((size_t)(n * 48 + 2048 * 8));
        if (!order) failed = -1;
        else {
            char *work = (char *)(order + n);
            int64_t *count = (int64_t *)(work + n * 40);
#pragma omp for schedule(static)
            for (int64_t line = 0; line < lines; line++) {
                int64_t start = line / inner * n * inner + line % inner;
                const char *first = (const char *)p[0] + start * stax_key_bytes[codes[0]];
                if (alone && stax_sort_alone((int)codes[0], first,
                        (char *)p[1] + start * stax_key_bytes[codes[0]],
                        inner * stax_key_bytes[codes[0]], n,
                        (uint64_t *)work, (uint64_t *)work + n, count)) continue;
                for (int64_t k = keys - 1; k >= 0; k--) {
                    int64_t bytes = stax_key_bytes[codes[k]];
                    stax_order((int)codes[k], (const char *)p[k] + start * bytes, inner * bytes, n,
                               k == keys - 1, order, work, count);
                }
                for (int64_t k = 0; k < operands; k++) {
                    int bytes = stax_key_bytes[codes[k]];
                    stax_move(bytes, (const char *)p[k] + start * bytes,
                              (char *)p[operands + k] + start * bytes, inner * bytes, n, order);
                }
            }
            free(order);
        }
    }
    return failed;
}
#define STAX_SEARCH(c) case c: \\
    for (int64_t i = 0; i < m; i++) { \\
        uint64_t key = stax_key(c, v + i * bytes); \\
        int64_t low = 0, span = n; \\
        while (span > 0) { \\
            int64_t half = span >> 1; \\
            uint64_t other = stax_key(c, a + (low + half) * bytes); \\
            int after = right ? other <= key : other < key; \\
            low = after ? low + half + 1 : low; \\
            span = after ? span - half - 1 : half; \\
        } \\
        out[i] = low; \\
    } break;
/* Whether one complex number lies before another: by NaN in the parts, then by the parts. */
static int stax_pair_before(int code, const char *x, const char *y) {
    int64_t part = stax_key_bytes[code];
    uint64_t none = code == 10 ? 0xffffffffull : ~0ull;
    uint64_t a = stax_key(code, x), b = stax_key(code, x + part);
    uint64_t c = stax_key(code, y), d = stax_key(code, y + part);
    int p = 2 * (a == none) + (b == none), q = 2 * (c == none) + (d == none);
    return p != q ? p < q : a != c ? a < c : b < d;
}
static void stax_search_pairs(int code, const char *a, int64_t n, const char *v, int64_t m,
        int right, int64_t *out) {
    int64_t bytes = 2 * stax_key_bytes[code];
    for (int64_t i = 0; i < m; i++, v += bytes) {
        int64_t low = 0, span = n;
        while (span > 0) {
            int64_t half = span >> 1;
            const char *other = a + (low + half) * bytes;
            int after = right ? !stax_pair_before(code, v, other)
                              : stax_pair_before(code, other, v);
            low = after ? low + half + 1 : low;
            span = after ? span - half - 1 : half;
        }
        out[i] = low;
    }
}
/* sizes: the extent of the sorted vector, the number of values, 1 for the right side, the type of
   a number or of its parts, 1 for complex numbers */
int32_t stax_searchsorted(const int64_t *s, int32_t threads, void *const *p) {
    const char *a = p[0], *v = p[1];
    int64_t *out = p[2], n = s[0], m = s[1], right = s[2], bytes = stax_key_bytes[s[3]];
    (void)threads;
    if (s[4]) {
        stax_search_pairs((int)s[3], a, n, v, m, (int)right, out);
        return 0;
    }
    switch (s[3]) {
    STAX_SEARCH(0) STAX_SEARCH(1) STAX_SEARCH(2) STAX_SEARCH(3) STAX_SEARCH(4) STAX_SEARCH(5)
    STAX_SEARCH(6) STAX_SEARCH(7) STAX_SEARCH(8) STAX_SEARCH(9) STAX_SEARCH(10) STAX_SEARCH(11)
    }
    return 0;
}
/* sizes: the stack, the number of exchanges, the number of rows */
int32_t stax_permutation(const int64_t *s, int32_t threads, void *const *p) {
    const int32_t *pivots = p[0];
    int32_t *out = p[1];
    (void)threads;
    for (int64_t b = 0; b < s[0]; b++, pivots += s[1], out += s[2]) {
        for (int64_t k = 0; k < s[2]; k++) out[k] = (int32_t)k;
        for (int64_t k = 0; k < s[1]; k++) {
            int64_t other = pivots[k] < 0 ? pivots[k] + s[2] : pivots[k];
            if (other < 0 || other >= s[2]) return 1;
            int32_t here = out[k];
            out[k] = out[other];
            out[other] = here;
        }
    }
    return 0;
}
"""

# The element types, by their numbers, that NumPy's sorts are asked for.
NUMPY_SORTED = {2: "u4", 3: "u8", 6: "i4", 7: "i8", 10: "f4", 11: "f8"}
# Where PyArray_ArrFuncs keeps its sorts, and the table of NumPy 2's interface that function.
_SORTS = 33
_GET_FUNCTIONS = 365


def numpy_sorters() -> list[int]:
    """The addresses of NumPy's sorts by the number of the element type, 0 where there is none."""
    found = [0] * len(SORTED_DTYPES)
    capsule = getattr(import_module("numpy._core._multiarray_umath"), "_ARRAY_API", None)
    if int(np.__version__.partition(".")[0]) != 2 or capsule is None:
        return found
    prototype = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    pointer = prototype(("PyCapsule_GetPointer", ctypes.pythonapi))(capsule, None)
    interface = ctypes.cast(pointer, ctypes.POINTER(ctypes.c_void_p))
    functions = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(interface[_GET_FUNCTIONS] or 0)
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_void_p)
    for code, dtype in NUMPY_SORTED.items():
        table = ctypes.cast(functions(np.dtype(dtype)), ctypes.POINTER(ctypes.c_void_p))
        address = table[_SORTS] or 0
        shown = (np.arange(300) * 7919 % 311).astype(dtype)
        wanted = np.sort(shown)
        if address and kind(address)(shown.ctypes.data, shown.size, None) == 0:
            found[code] = address if np.array_equal(shown, wanted) else 0
    return found


ROUTINES = ("sort", "searchsorted", "permutation")


def sorting_source() -> str:
    """C text of the routines; it needs `vecmath.PREAMBLE` before it."""
    engines = ""
    for name, element, key in (
        ("word", "uint64_t", "STAX_WORD"),
        ("pair", "stax_pair", "STAX_PAIR"),
    ):
        text = _ENGINE.replace("@key", key).replace("@n", name).replace("@e", element)
        engines += text
    return _KEYS + _SORT.replace("@engines", engines)
