"""The support library: what programs share, compiled once for a machine.

Input: the toolchain.  Output: addresses of the matrix products, bound to the BLAS that NumPy
loaded, and of functions that most programs with reductions call.  A program calls the products
through the pointers in its context, the functions through pointers of its own, so its translation
unit holds nothing but its kernels.  Products of complex matrices are a library of their own, which
only programs that have some load.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from stax.backends.c import forks
from stax.backends.c.ahead import Unit, built_ahead, load
from stax.backends.c.folds import columns_source
from stax.backends.c.gemm import find_blas, gemm_source
from stax.backends.c.toolchain import Library
from stax.backends.c.vecmath import PREAMBLE

GEMM_TAGS = ("f32", "f64")
COMPLEX_TAGS = ("c64", "c128")
# Of each product, the C type of an element.
PRODUCT_TYPES = {
    "f32": "float",
    "f64": "double",
    "c64": "complex64_t",
    "c128": "complex128_t",
}

EXPORT = """
void stax_product_{t}(int64_t batch, int ta, int tb, int64_t m, int64_t n, int64_t k,
        const {ct} *a, int64_t lda, int64_t sa, const {ct} *b, int64_t ldb, int64_t sb,
        {ct} *c, int64_t ldc, int64_t sc) {{
    STAX_CLEAN;
    stax_gemm_batch_{t}(batch, ta, tb, m, n, k, a, lda, sa, b, ldb, sb, 0, c, ldc, sc);
}}
"""


class Support:
    """A loaded library of matrix products."""

    def __init__(self, library: Library, tags: tuple[str, ...], keep: Any) -> None:
        self.library = library
        self._keep = keep
        self.products = {f"product_{t}": library.address(f"stax_product_{t}") for t in tags}
        self._set_threads(forks.available_threads())
        forks.follow(self)

    def _set_threads(self, count: int) -> None:
        self.library.handle.stax_set_product_threads(ctypes.c_int32(count))

    def use_one_thread(self) -> None:
        """Multiply on one thread from now on; the bits stay the same."""
        self._set_threads(1)


def _unit(tags: tuple[str, ...]) -> Unit:
    source = PREAMBLE + gemm_source(tags)
    for tag in tags:
        source += EXPORT.format(t=tag, ct=PRODUCT_TYPES[tag])
    if tags == GEMM_TAGS:
        source += columns_source(GEMM_TAGS)
    # Our own products are made for multiply-add instructions; BLAS has what it needs.
    extra = () if find_blas() is not None else ("-ffp-contract=fast",)
    return Unit(source, "-O2", extra)


built_ahead(lambda: _unit(GEMM_TAGS))


@functools.cache
def support(tags: tuple[str, ...] = GEMM_TAGS) -> Support:
    """The support library, built or taken from the cache; that of `COMPLEX_TAGS` is another.

    Raises:
      CompilerNotFoundError: there is no working compiler.
    """
    library, blas = load(_unit(tags)), find_blas()
    table = None
    if blas is not None:
        table = blas.pointer_table()
        library.handle.stax_bind_blas(ctypes.cast(table, ctypes.c_void_p))
    return Support(library, tags, (blas, table))
