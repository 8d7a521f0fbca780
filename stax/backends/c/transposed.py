"""The C function that transposes a tile, in vector registers where the processor has them.

Input: the size of an element.  Output: the text of `stax_transpose_b32` or `stax_transpose_b64`.  A
square of as many rows as a vector has elements takes one load and one store for each row, and
between them steps that exchange the off-diagonal halves of ever smaller squares: two thirds of an
instruction for an element, where moving one at a time takes a load and a store.
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["TRANSPOSED_BITS", "transposing_function"]

TRANSPOSED_BITS = (32, 64)
_WIDTHS = (("__AVX512F__", 512), ("__AVX2__", 256))

_TEXT = """\
static __attribute__((noinline, unused)) void stax_transpose_b@(
    const void *source, int64_t step, void *target, int64_t to, int64_t rows, int64_t columns) {
    /* target[i * to + j] = source[i + j * step] */
    const uint@_t *from = source;
    uint@_t *into = target;
    int64_t whole = 0, full = 0;
#ifdef STAX_SQUARE_b@
    whole = rows - rows % STAX_SQUARE_b@, full = columns - columns % STAX_SQUARE_b@;
    for (int64_t i = 0; i < whole; i += STAX_SQUARE_b@)
        for (int64_t j = 0; j < full; j += STAX_SQUARE_b@)
            stax_square_b@(from + i + j * step, step, into + i * to + j, to);
#endif
    for (int64_t j = 0; j < columns; j++)
        for (int64_t i = j < full ? whole : 0; i < rows; i++)
            into[i * to + j] = from[i + j * step];
}
"""


def transposing_function(bits: int) -> str:
    """The definition of `stax_transpose_b<bits>`, with the squares it works on."""
    parts = ["#if defined(__has_builtin)\n#if __has_builtin(__builtin_shufflevector)\n"]
    for n, (feature, width) in enumerate(_WIDTHS):
        parts.append(f"#{'el' if n else ''}if defined({feature})\n")
        parts.append(f"#define STAX_SQUARE_b{bits} {width // bits}\n")
        parts += (line + "\n" for line in _square(bits, width // bits))
    parts.append("#endif\n#endif\n#endif\n")
    return "".join(parts) + _TEXT.replace("@", str(bits))


def _square(bits: int, n: int) -> Iterator[str]:
    """The function that transposes a square of `n` rows, each one vector."""
    size = n * bits // 8
    yield (
        f"typedef uint{bits}_t stax_row_b{bits} "
        f"__attribute__((vector_size({size}), aligned({bits // 8}), may_alias));"
    )
    yield (
        f"STAX_INLINE void stax_square_b{bits}"
        f"(const uint{bits}_t *from, int64_t step, uint{bits}_t *into, int64_t to) {{"
    )
    rows = [f"a{k}" for k in range(n)]
    for k, name in enumerate(rows):
        yield f"    stax_row_b{bits} {name} = *(const stax_row_b{bits} *)(from + {k} * step);"
    half = n // 2
    while half:
        upper = ", ".join(str(k if not k & half else n + k - half) for k in range(n))
        lower = ", ".join(str(k + half if not k & half else n + k) for k in range(n))
        for k in (k for k in range(n) if not k & half):
            one, other = rows[k], rows[k + half]
            rows[k], rows[k + half] = f"s{half}_{k}", f"s{half}_{k + half}"
            for name, order in ((rows[k], upper), (rows[k + half], lower)):
                shuffled = f"__builtin_shufflevector({one}, {other}, {order})"
                yield f"    stax_row_b{bits} {name} = {shuffled};"
        half //= 2
    for k, name in enumerate(rows):
        yield f"    *(stax_row_b{bits} *)(into + {k} * to) = {name};"
    yield "}"
