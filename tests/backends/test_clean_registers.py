"""The upper halves of vector registers are empty where code runs that is not a program's own."""

from __future__ import annotations

import ctypes
import platform
from pathlib import Path

import numpy as np
import pytest

import stax
import stax.numpy as snp
import stax.scipy.special as special
from stax.backends.c import run, support, vecmath
from stax.backends.c.toolchain import find_toolchain

CPUINFO = Path("/proc/cpuinfo")
if (
    find_toolchain() is None
    or platform.machine() != "x86_64"
    or not CPUINFO.is_file()
    or not {"avx", "xgetbv1"} <= {*CPUINFO.read_text().split()}
):
    pytest.skip("this processor does not say what is in use", allow_module_level=True)

# In the place of a routine, of a universal function's loop, or of a function of the C library, it
# asks the processor whether the upper halves hold anything: 1, or 0; -1 when it was not called.
PROBE = """
int stax_seen = -1;
int stax_probe(void) {
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1) : "memory");
    stax_seen = (low >> 2 & 1) | (stax_seen > 0);
    return 0;
}
double stax_probed(double x) { stax_probe(); return x; }
int stax_taken(void) { int seen = stax_seen; stax_seen = -1; return seen; }
int stax_after(int (*run)(void **, void **, void *), void **in, void **out, void *context) {
    int code = run(in, out, context);
    stax_probe();
    return code;
}
"""
X = np.linspace(0.5, 2.0, 64)
SPD = np.eye(8) * 4 + 1


@pytest.fixture
def probe():
    toolchain = find_toolchain()
    assert toolchain is not None
    library = toolchain.load(PROBE)
    library.handle.stax_taken()
    return library


def in_vectors(x):
    """A loop in vectors, and another that needs all of its results."""
    y = snp.exp(x * 1.5)
    return y / snp.sum(y)


def table(arrays):
    return (ctypes.c_void_p * 8)(*(a.ctypes.data for a in arrays))


def seen_after(probe, f, *args):
    """Whether the program of `f` leaves anything."""
    program = stax.jit(f).lower(*args).compile().program
    outs = [np.empty(shape, dtype) for dtype, shape in program.results]
    entry, context = ctypes.c_void_p(program.entry), ctypes.c_void_p(program.context_address)
    probe.handle.stax_after(entry, table(args), table(outs), context)
    return probe.handle.stax_taken()


def seen_at_routines(probe, monkeypatch, f, *args):
    """Whether anything is left when the program of `f` calls routines."""
    place = probe.address("stax_probe")
    pair = (ctypes.c_void_p * 2)(place, None)

    def addresses(names):
        loops = [name.startswith("ufunc:") for name in names]
        return [ctypes.addressof(pair) if loop else place for loop in loops]

    with monkeypatch.context() as patch:
        patch.setattr(run, "addresses", addresses)
        program = stax.jit(f).lower(*args).compile().program
        program.run(args)
    return probe.handle.stax_taken()


def test_the_probe_sees_what_vectors_leave(probe):
    toolchain = find_toolchain()
    text = """
    int stax_left(double *restrict x, int (*probe)(void)) {
        #pragma omp simd
        for (int k = 0; k < 64; k++) x[k] *= 1.5;
        return probe();
    }
    """
    x = X.copy()
    left = toolchain.load(text).handle.stax_left
    left(ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(probe.address("stax_probe")))
    cleans = toolchain.kind != "gcc"  # others clear them at every level of optimisation
    assert probe.handle.stax_taken() == (0 if cleans else 1)
    assert np.array_equal(x, X * 1.5)


@pytest.mark.parametrize(
    "f",
    [
        pytest.param(lambda x: snp.sin(x) * x + 1, id="one loop"),
        pytest.param(in_vectors, id="sums"),
        pytest.param(lambda x: in_vectors(x).reshape(8, 8) @ x.reshape(8, 8), id="a product"),
        pytest.param(
            lambda x: stax.lax.scan(lambda c, y: (snp.exp(c * y), snp.sum(c)), x, x), id="a scan"
        ),
        pytest.param(lambda x: snp.sort(in_vectors(x)) * 2, id="a routine"),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_program_leaves_nothing(probe, f, dtype):
    assert seen_after(probe, f, X.astype(dtype)) == 0


def test_an_error_leaves_nothing(probe):
    def f(x, k):
        return in_vectors(x)[k]

    assert seen_after(probe, f, X, np.array(64)) == 0


@pytest.mark.parametrize(
    "f",
    [
        pytest.param(lambda x: snp.sort(in_vectors(x)), id="sort"),
        pytest.param(lambda x: snp.fft.fft(in_vectors(x)), id="fft"),
        pytest.param(
            lambda x: snp.linalg.cholesky(in_vectors(x)[:, None] * snp.ones(64)), id="cholesky"
        ),
        pytest.param(lambda x: special.gammainc(in_vectors(x), x), id="a universal function"),
    ],
)
def test_routines_begin_with_nothing_left(probe, monkeypatch, f):
    pytest.importorskip("scipy")
    assert seen_at_routines(probe, monkeypatch, f, X) == 0


def test_products_begin_with_nothing_left(probe, monkeypatch):
    toolchain = find_toolchain()
    text = vecmath.PREAMBLE + PROBE + "#define probed(...) stax_probe()\n"
    for tag, ct in support.PRODUCT_TYPES.items():
        export = support.EXPORT.format(t=tag, ct=ct)
        text += export.replace(f"stax_gemm_batch_{tag}(", "probed(")
    library = toolchain.load(text)
    with monkeypatch.context() as patch:
        patch.setattr(run, "addresses", lambda names: [library.address(f"stax_{n}") for n in names])
        for dtype in (np.float32, np.float64, np.complex64, np.complex128):
            x = np.ones((48, 48), dtype)
            program = stax.jit(lambda x: snp.exp(x * 1.5) @ x).lower(x).compile().program
            program.run([x])
            assert library.handle.stax_taken() == 0, dtype


@pytest.mark.parametrize("name", ["lgamma", "erf", "tan"])
def test_the_c_library_is_called_with_nothing_left(probe, name):
    row = {"lgamma": "lgamma_f64", "erf": "contracted_erf_f64", "tan": "contracted_tan_f64"}[name]
    text = vecmath.definitions([row])
    assert f'"{name}"' in text
    probed = text.replace(f'"{name}"', '"stax_probed"') + PROBE
    probed += f"""
    int stax_left(double *restrict x) {{
        for (int row = 0; row < 2; row++) {{
            #pragma omp simd
            for (int k = 0; k < 64; k++) x[k] *= 1.5;
            for (int k = 0; k < 64; k++) x[k] = stax_{row}(x[k]);
        }}
        return stax_taken();
    }}
    """
    x = X.copy()
    left = find_toolchain().load(probed).handle.stax_left
    assert left(ctypes.c_void_p(x.ctypes.data)) == 0
    assert np.array_equal(x, X * 1.5 * 1.5)


def test_python_is_called_with_nothing_left(probe):
    def f(x):
        shape = stax.ShapeDtypeStruct(x.shape, x.dtype)
        return stax.pure_callback(np.sin, shape, in_vectors(x))

    program = stax.jit(f).lower(X).compile().program
    program.context.fallback = probe.address("stax_probe")
    program.run([X])
    assert probe.handle.stax_taken() == 0
