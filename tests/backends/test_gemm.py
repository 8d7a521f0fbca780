"""Matrix products called from C: shapes, transpositions and types, with and without BLAS."""

from __future__ import annotations

import ctypes
import functools
import itertools

import numpy as np
import pytest

import stax
from stax.backends.c import gemm, vecmath
from stax.backends.c.toolchain import find_toolchain

if find_toolchain() is None:
    pytest.skip("the wrappers exist only where there is a C compiler", allow_module_level=True)

TYPES = {"f32": "f4", "f64": "f8", "c64": "c8", "c128": "c16", "i32": "i4", "u8": "u1", "i64": "i8"}


@functools.cache
def _library(with_blas: bool) -> ctypes.CDLL:
    source = vecmath.PREAMBLE + gemm.gemm_source(TYPES, use_blas=with_blas)
    for tag in TYPES:
        c = gemm._C_TYPES[tag]
        source += (
            f"void product_{tag}(int64_t *s, const {c} *a, const {c} *b, {c} *c) {{\n"
            f"  stax_gemm_batch_{tag}(s[0], s[1], s[2], s[3], s[4], s[5], a, s[6], s[7], b, s[8],"
            f" s[9], s[10], c, s[11], s[12]);\n}}\n"
        )
    toolchain = find_toolchain()
    assert toolchain is not None
    handle = toolchain.load(source).handle
    blas = gemm.find_blas()
    if with_blas and blas is not None:
        handle.table = blas.pointer_table()
        handle.stax_bind_blas(handle.table)
    return handle


def product(tag, a, b, ta, tb, c=None, with_blas=True):
    """Multiply stacks of matrices through the C wrapper."""
    batch = a.shape[0]
    m, k = a.shape[1:][::-1] if ta else a.shape[1:]
    n = b.shape[1] if tb else b.shape[2]
    out = np.full((batch, m, n), 77, a.dtype) if c is None else c.copy()
    strides = [a.shape[1] * a.shape[2], b.shape[1] * b.shape[2], m * n]
    numbers = [batch, ta, tb, m, n, k, a.shape[2], strides[0], b.shape[2], strides[1]]
    numbers += [int(c is not None), n, strides[2]]
    sizes = (ctypes.c_int64 * 13)(*numbers)
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in (a, b, out)]
    getattr(_library(with_blas), f"product_{tag}")(sizes, *pointers)
    return out


def _random(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    if dtype.kind == "u":
        return rng.integers(0, 200, shape).astype(dtype)
    return (rng.standard_normal(shape) * 8 + (1j if dtype.kind == "c" else 0)).astype(dtype)


SHAPES = [(3, 4, 5), (1, 40, 33), (40, 1, 33), (1, 1, 100), (50, 60, 70), (33, 129, 2), (5, 300, 1)]
SHAPES += [(4, 4, 0), (20, 20, 0), (1, 300, 1), (300, 1, 1)]
SHAPES += [(100, 530, 270)]  # more than one block in each direction


@pytest.mark.parametrize("with_blas", [True, False])
@pytest.mark.parametrize("tag", TYPES)
def test_products_are_those_of_numpy(tag: str, with_blas: bool) -> None:
    rng = np.random.default_rng(5)
    for (m, n, k), ta, tb, batch in itertools.product(SHAPES, (0, 1), (0, 1), (1, 3)):
        dtype = np.dtype(TYPES[tag])
        shapes = [(batch, k, m) if ta else (batch, m, k), (batch, n, k) if tb else (batch, k, n)]
        a, b, c = (_random(rng, shape, dtype) for shape in (*shapes, (batch, m, n)))
        expected = np.matmul(a.swapaxes(1, 2) if ta else a, b.swapaxes(1, 2) if tb else b)
        tolerance = {"f": 1e-3, "c": 1e-3}.get(dtype.kind, 0) if dtype.itemsize <= 8 else 1e-9
        for start in (None, c):
            want = expected if start is None else (expected + c).astype(dtype)
            got = product(tag, a, b, ta, tb, start, with_blas)
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * 10)


@pytest.mark.parametrize("with_blas", [True, False])
@pytest.mark.parametrize("tag", ["f32", "f64"])
def test_bits_do_not_depend_on_the_number_of_threads(tag: str, with_blas: bool) -> None:
    rng = np.random.default_rng(2)
    blas = gemm.find_blas()
    library = _library(with_blas)
    shapes = [(1437, 64, 128), (128, 1437, 64), (600, 700, 50), (64, 784, 128), (2, 900, 3000)]
    shapes += [(700, 64, 1500), (1, 3000, 800), (900, 3000, 1), (33, 500, 17)]
    shapes += [(257, 512, 10), (1000, 600, 4), (10, 256, 515)]  # narrow, in blocks
    shapes += [(784, 256, 512), (256, 784, 512), (300, 530, 1100)]  # cut for threads alone
    for m, k, n in shapes:
        a = _random(rng, (2, m, k), np.dtype(TYPES[tag]))
        b = _random(rng, (2, k, n), a.dtype)
        results = []
        for threads in (1, 2, 3):
            library.stax_set_product_threads(threads)
            if blas is not None:
                blas.set_num_threads(threads)
            results.append(product(tag, a, b, 0, 0, with_blas=with_blas).tobytes())
        found = np.frombuffer(results[0], a.dtype).reshape(2, m, n)
        np.testing.assert_allclose(found, a @ b, rtol=1e-3, atol=1e-2)
        assert results[0] == results[1] == results[2], (m, k, n)
    library.stax_set_product_threads(1)


def test_the_library_keeps_its_own_number_of_threads() -> None:
    blas = gemm.find_blas()
    name = "" if blas is None else blas.set_threads_name.replace("_set_", "_get_")
    if blas is None or not name:
        return
    count = getattr(blas.handle, name)
    blas.set_num_threads(2)
    a = np.ones((3, 200, 300))
    product("f64", a, a, 0, 1)
    assert count() == 2


def test_nan_in_the_result_buffer_does_not_survive() -> None:
    a = np.ones((1, 50, 60))
    out = product("f64", a, np.ones((1, 60, 1)), 0, 0)
    assert (out == 60).all()
    assert np.isnan(product("f64", a * np.nan, np.zeros((1, 60, 40)), 0, 0)).all()


def test_blas_is_the_one_inside_numpy_where_there_is_one() -> None:
    blas = gemm.find_blas()
    if blas is None:
        assert (
            "blas" not in str(np.show_config("dicts")["Build Dependencies"]["blas"]["name"]).lower()
        )
        return
    assert blas.integer_bits in (32, 64)
    assert all(
        blas.address(name) for name in ("sgemm", "dgemm", "cgemm", "zgemm", "sgemv", "dgemv")
    )


@pytest.mark.parametrize(
    ("m", "n", "k", "calls"),
    [(16, 16, 16, 1), (8, 8, 8, 1), (3, 3, 16, 1), (5, 5, 5, 0), (32, 32, 4, 0), (64, 64, 4, 1),
     (64, 1, 64, 0), (1, 64, 64, 0)],
)  # fmt: skip
def test_which_products_are_calls_of_the_library(m: int, n: int, k: int, calls: int) -> None:
    x, y = numbers(m, k), numbers(k, n)
    f = stax.jit(lambda x, y: x @ y)
    assert f.lower(x, y).source.body.count("stax_product_f64") == calls
    np.testing.assert_allclose(f(x, y), x @ y, rtol=1e-13, atol=1e-14)


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape)
