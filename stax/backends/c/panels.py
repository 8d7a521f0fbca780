"""Products of small blocks of rows with packed operands, for kernels that run on such blocks.

Input: the element types.  Output: C text of three routines for each.  `stax_panels_<t>` packs an
operand [k, n], however it lies, into panels as wide as the vectors of a tile, the last one filled
up with zeros.  `stax_tiles_<t>` multiplies rows, read where they lie, with the panels: a tile of
the result stays in registers while k goes by.  Whoever takes a block of rows at a time packs once
and multiplies often; a library's call would pack both operands for each block.  `stax_reach_<t>`
says from which column on a block holds zeros alone, behind a mask: a product with finite numbers
need not go further.
"""

from __future__ import annotations

from collections.abc import Iterable

from stax.backends.c.transposed import transposing_function

ROUTINES = tuple(f"{name}_{t}" for t in ("f32", "f64") for name in ("panels", "tiles", "reach"))

_SIZES = """\
#if defined(__AVX512F__)
#define STAX_PANEL_BYTES 64
#define STAX_PANEL_ROWS 12
#elif defined(__AVX__)
#define STAX_PANEL_BYTES 32
#define STAX_PANEL_ROWS 6
#else
#define STAX_PANEL_BYTES 16
#define STAX_PANEL_ROWS 6
#endif
#define STAX_PANEL_DEPTH 256
"""

_TEXT = """\
typedef @ct stax_panel_@t __attribute__((vector_size(STAX_PANEL_BYTES), aligned(sizeof(@ct))));
enum { stax_panel_lanes_@t = STAX_PANEL_BYTES / (int)sizeof(@ct),
       stax_panel_width_@t = 2 * stax_panel_lanes_@t };
/* Returns whether all numbers are finite. */
STAX_BRIEF
int32_t stax_panels_@t(int64_t k, int64_t n, const @ct *restrict b, int64_t row, int64_t column,
        @ct *restrict to) {
    const int64_t w = stax_panel_width_@t;
    stax_panel_@t rest = {0};
    @ct left = 0;
    for (int64_t j0 = 0; j0 < n; j0 += w, to += k * w) {
        int64_t width = n - j0 < w ? n - j0 : w;
        const @ct *from = b + j0 * column;
        if (column == 1 && width == w)
            for (int64_t p = 0; p < k; p++)
                for (int h = 0; h < 2; h++)
                    *(stax_panel_@t *)(to + p * w + h * stax_panel_lanes_@t) =
                        *(const stax_panel_@t *)(from + p * row + h * stax_panel_lanes_@t);
        else if (row == 1) {
            stax_transpose_b@bits(from, column, to, w, k, width);
            for (int64_t p = 0; p < k; p++)
                for (int64_t j = width; j < w; j++) to[p * w + j] = 0;
        } else
            for (int64_t p = 0; p < k; p++)
                for (int64_t j = 0; j < w; j++)
                    to[p * w + j] = j < width ? from[p * row + j * column] : 0;
        for (int64_t p = 0; p < 2 * k; p++)
            rest += *(const stax_panel_@t *)(to + p * stax_panel_lanes_@t) * 0;
    }
    for (int l = 0; l < stax_panel_lanes_@t; l++) left += rest[l];
    return left == 0;
}
STAX_BRIEF
int64_t stax_reach_@t(int64_t m, int64_t n, const @ct *c, int64_t ldc) {
    int64_t reach = 0;
    for (int64_t i = 0; i < m && reach < n; i++) {
        const uint@bits_t *row = (const void *)(c + i * ldc);
        int64_t last = n;
        for (; last - reach >= 64; last -= 64) {
            uint@bits_t any = 0;
            for (int64_t j = last - 64; j < last; j++) any |= row[j] << 1;
            if (any) break;
        }
        while (last > reach && !(uint@bits_t)(row[last - 1] << 1)) last--;
        if (last > reach) reach = last;
    }
    return reach;
}
static void stax_panel_tile_@t(int64_t k, const @ct *restrict a, int64_t row, int64_t column,
        const @ct *restrict b, @ct *restrict c, int64_t ldc, int accumulate) {
    stax_panel_@t sums[STAX_PANEL_ROWS][2];
    const @ct *from[STAX_PANEL_ROWS / 3];
#pragma GCC unroll 16
    for (int i = 0; i < STAX_PANEL_ROWS / 3; i++) from[i] = a + 3 * i * row;
#pragma GCC unroll 16
    for (int i = 0; i < STAX_PANEL_ROWS; i++) sums[i][0] = sums[i][1] = (stax_panel_@t){0};
    for (int64_t p = 0; p < k; p++) {
        stax_panel_@t b0 = *(const stax_panel_@t *)b;
        stax_panel_@t b1 = *(const stax_panel_@t *)(b + stax_panel_lanes_@t);
        b += stax_panel_width_@t;
#pragma GCC unroll 16
        for (int i = 0; i < STAX_PANEL_ROWS / 3; i++) {
#pragma GCC unroll 4
            for (int r = 0; r < 3; r++) {
                sums[3 * i + r][0] += b0 * from[i][r * row];
                sums[3 * i + r][1] += b1 * from[i][r * row];
            }
            from[i] += column;
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < STAX_PANEL_ROWS; i++)
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++) {
            stax_panel_@t *to = (stax_panel_@t *)(c + i * ldc + h * stax_panel_lanes_@t);
            *to = accumulate ? *to + sums[i][h] : sums[i][h];
        }
}
/* The panels have `deep` rows, of which the first k are multiplied. */
STAX_BRIEF
void stax_tiles_@t(int64_t m, int64_t n, int64_t k, const @ct *a, int64_t row, int64_t column,
        const @ct *panels, int64_t deep, @ct *c, int64_t ldc, int32_t accumulate) {
    const int64_t w = stax_panel_width_@t, h = STAX_PANEL_ROWS;
    @ct own[STAX_PANEL_ROWS * STAX_PANEL_DEPTH], all[STAX_PANEL_ROWS * stax_panel_width_@t];
    for (int64_t i = 0; i < m && k == 0 && !accumulate; i++)
        for (int64_t j = 0; j < n; j++) c[i * ldc + j] = 0;
    for (int64_t p0 = 0; p0 < k; p0 += STAX_PANEL_DEPTH) {
        int64_t depth = k - p0 < STAX_PANEL_DEPTH ? k - p0 : STAX_PANEL_DEPTH;
        int add = accumulate || p0;
        for (int64_t j = 0; j < n; j += w) {
            int64_t width = n - j < w ? n - j : w;
            for (int64_t i = 0; i < m; i += h) {
                int64_t rows = m - i < h ? m - i : h, next = row, step = column;
                const @ct *from = a + i * row + p0 * column, *b = panels + j * deep + p0 * w;
                @ct *to = c + i * ldc + j;
                if (rows < h) {
                    for (int64_t p = 0; p < depth; p++)
                        for (int64_t r = 0; r < h; r++)
                            own[p * h + r] = r < rows ? from[r * row + p * column] : 0;
                    from = own, next = 1, step = h;
                }
                if (rows == h && width == w) {
                    stax_panel_tile_@t(depth, from, next, step, b, to, ldc, add);
                    continue;
                }
                stax_panel_tile_@t(depth, from, next, step, b, all, w, 0);
                for (int64_t r = 0; r < rows; r++)
                    for (int64_t q = 0; q < width; q++)
                        to[r * ldc + q] = add ? to[r * ldc + q] + all[r * w + q] : all[r * w + q];
            }
        }
    }
}
"""

_TYPES = {"f32": ("float", 32), "f64": ("double", 64)}


def panels_source(types: Iterable[str], before: str = "") -> str:
    """The routines of the types, after the text `before` of the same file.

    They are to be compiled with products and sums contracted.
    """
    parts = [_SIZES]
    for t in types:
        ct, bits = _TYPES[t]
        if f"stax_transpose_b{bits}(\n" not in before:
            parts.append(transposing_function(bits))
        parts.append(_TEXT.replace("@ct", ct).replace("@bits", str(bits)).replace("@t", t))
    return "".join(parts)
