"""The C file of an exported function: compiled without Python, it computes the same numbers."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stax
from stax import errors
from stax.backends.c.gemm import find_blas
from stax.backends.c.lapack import _NAMINGS as lapack_namings
from stax.backends.c.lapack import lapack_table
from tests.programs import random_program

COMPILER = shutil.which("gcc") or shutil.which("clang") or shutil.which("cc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
WARNINGS = ("-Wall", "-Wextra", "-Werror")

MAIN = """\
#include <stdio.h>
#include "@name.h"
@arrays
int main(void) {
    FILE *in = fopen("in", "rb"), *out = fopen("out", "wb");
    static char space[@upper_WORKSPACE_BYTES + 1];
    const void *arguments[] = { @arguments };
    void *results[] = { @results };
    if (!in || !out) return 3;
@reads
    @name_set_threads(2);
    int code = @call;
    if (code) { puts(@name_message(code)); return 2; }
@writes
    return fclose(out);
}
"""


def compiled(
    exported: Any, folder: Path, flags: Sequence[str] = (), typed: bool = False, **write: Any
) -> Path:
    """A program that reads the arguments' bytes from `in` and writes the results' to `out`."""
    source, _ = exported.write_c(folder, **write)
    name = source.stem
    sizes = {
        "a": [a.nbytes for a in exported.in_avals],
        "r": [a.nbytes for a in exported.out_avals],
    }
    names = {k: [f"{k}{n}" for n in range(len(v))] for k, v in sizes.items()}
    every = [(f"{k}{n}", size) for k, v in sizes.items() for n, size in enumerate(v)]
    pointers = ["(void *)" + n for n in (*names["a"], *names["r"])]
    call = f"{name}({', '.join([*pointers, 'space'])})" if typed else ""
    text = {
        "name": name,
        "upper": name.upper(),
        "arrays": "\n".join(
            f"static char {n}[{s or 1}] __attribute__((aligned(16)));" for n, s in every
        ),
        "arguments": ", ".join(names["a"]) or "0",
        "results": ", ".join(names["r"]) or "0",
        "reads": "\n".join(
            f"    if (fread(a{k}, 1, {n}, in) != {n}) return 4;" for k, n in enumerate(sizes["a"])
        ),
        "writes": "\n".join(f"    fwrite(r{k}, 1, {n}, out);" for k, n in enumerate(sizes["r"])),
        "call": call or f"{name}_array(arguments, results, 0)",
    }
    main = re.sub(f"@({'|'.join(sorted(text, key=len, reverse=True))})", lambda m: text[m[1]], MAIN)
    (folder / "main.c").write_text(main)
    assert COMPILER is not None
    quiet = ("-Wno-unused-variable", "-Wno-unused-but-set-variable")
    command = [
        COMPILER,
        "-O1",
        *WARNINGS,
        *quiet,
        "main.c",
        source.name,
        *flags,
        "-o",
        "main",
        "-lm",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, "compilers have nothing to remark on"
    return folder


def ran(folder: Path, exported: Any, args: Any) -> list[np.ndarray] | str:
    """The results of the program, or what it said instead."""
    pairs = zip(stax.tree.leaves(args), exported.in_avals, strict=True)
    (folder / "in").write_bytes(b"".join(np.asarray(v, a.dtype).tobytes() for v, a in pairs))
    command = [str(folder / "main")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        return done.stdout
    raw, found = (folder / "out").read_bytes(), []
    for aval in exported.out_avals:
        found.append(np.frombuffer(raw[: aval.nbytes], aval.dtype).reshape(aval.shape))
        raw = raw[aval.nbytes :]
    assert not raw
    return found


def layer(params: Any, x: Any) -> Any:
    h = np.tanh(x @ params["w"] + params["b"])
    return stax.nn.softmax(h, axis=-1), {"total": h.sum()}


def bent(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(0.8 * (x + 0.04 * x * x * x)))


rng = np.random.default_rng(0)
LAYER = ({"w": rng.standard_normal((80, 40)), "b": np.zeros(40)}, rng.standard_normal((50, 80)))
SINGLE = (
    {"w": rng.standard_normal((33, 65)).astype("f"), "b": np.zeros(65, "f")},
    rng.standard_normal((70, 33)).astype("f"),
)
IMAGES = (
    rng.standard_normal((2, 3, 16, 16)).astype("f"),
    rng.standard_normal((8, 3, 3, 3)).astype("f"),
)
COMPLEX = rng.standard_normal((4, 5)) + 1j * rng.standard_normal((4, 5))
FUNCTIONS: dict[str, tuple[Any, Any]] = {
    "layer": (layer, LAYER),
    "layer in single precision": (layer, SINGLE),
    "gradient": (stax.grad(lambda p, x: layer(p, x)[0][:, 0].sum()), LAYER),
    "complex": (
        lambda z, w: (np.exp(z * w) / (z + COMPLEX), np.abs(z @ w).sum(), np.sort(z[0]), z.T**3),
        (COMPLEX * 1j, COMPLEX.astype("c8").conj()[0]),
    ),
    "vector product": (lambda a, v: (a @ v, v @ a.T), (LAYER[1], rng.standard_normal(80))),
    "convolution": (
        lambda x, w: stax.lax.conv_general_dilated(x, w, (1, 1), "SAME").sum((2, 3)),
        IMAGES,
    ),
    "convolution and product": (
        lambda x, w, v: stax.lax.conv_general_dilated(x, w, (1, 1), "SAME").reshape(2, -1) @ v,
        (*IMAGES, rng.standard_normal((8 * 256, 40)).astype("f") / 1000),
    ),
    "large product": (
        lambda a, b: (a @ b, a.T @ b[:101]),
        (rng.standard_normal((101, 260)), rng.standard_normal((260, 520))),
    ),
    "attention": (
        stax.value_and_grad(
            lambda q, k, v: (stax.nn.softmax(q @ k.transpose(0, 2, 1), axis=-1) @ v).sum(), (0, 1)
        ),
        tuple(rng.standard_normal((3, 160, 16)).astype("f") / 4 for _ in range(3)),
    ),
    "scan": (
        lambda x: stax.lax.scan(lambda c, v: (np.cos(c) + v, c * v), np.zeros(3), x),
        (rng.standard_normal((9, 3)),),
    ),
    "while": (
        lambda x: stax.lax.while_loop(lambda v: v.sum() < 100, lambda v: v * 1.5, x),
        (np.array([1.0, 2.0]),),
    ),
    "dtypes": (
        lambda h, n, m: (h * 2 + 1, n // 3, n.astype(np.uint8), ~m, np.where(m, h, -h), n.sum()),
        (np.linspace(-1, 1, 6, dtype=np.float16), np.arange(-3, 3), np.arange(6) % 2 == 0),
    ),
    "sums and indices": (
        lambda x, i: (np.cumsum(x), x[i], x.argmax(), x.max(), np.zeros(5).at[i].add(x[i])),
        (rng.standard_normal(5), np.array([4, -1, 0])),
    ),
    "long functions": (
        lambda x, t, s: (stax.jvp(stax.grad(lambda x: (bent(x) * t).sum()), (x,), (t,)), np.exp(s)),
        (*rng.standard_normal((2, 60, 100)).astype("f"), np.float32(0.7)),
    ),
    "special values": (lambda x: (np.exp(x), 1 / x), (np.array([0.0, -0.0, np.inf, np.nan, 800]),)),
    "constants": (lambda x: x + np.arange(700.0) @ np.ones((700, 2)), (np.float64(2),)),
    "sorting": (
        lambda x, n: (np.sort(x, 0), np.argsort(n), np.searchsorted(n.cumsum(), n)),
        (rng.standard_normal((5, 3)), np.array([3, 1, 2])),
    ),
    "sums of columns": (
        lambda x, y: ((x * 2).sum(0), (y * 2).sum(0)),
        (rng.random((4096, 24)), rng.random((4096, 24)).astype("f")),
    ),
    "empty": (lambda x: (x.sum(), x * 2), (np.zeros((0, 3)),)),
    "no arguments": (lambda: np.arange(3) * 2, ()),
}


@needs_compiler
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_program_gives_the_numbers_of_jit(name: str, tmp_path: Path) -> None:
    function, args = FUNCTIONS[name]
    expected = stax.tree.leaves(stax.jit(function)(*args))
    exported = stax.export.deserialize(stax.export(function)(*args).serialize())
    typed = len(expected) + len(exported.in_avals) < 10
    found = ran(compiled(exported, tmp_path, ["-march=native"], typed), exported, args)
    assert not isinstance(found, str), found
    for a, b in zip(found, expected, strict=True):
        tolerance = 1e-12 if a.dtype.itemsize == 8 else 1e-5
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@needs_compiler
@pytest.mark.parametrize("flags", [["-O3", "-march=native", "-fopenmp"], ["-O0"], ["-std=c11"]])
def test_flags_change_no_more_than_the_order_of_sums(flags: list[str], tmp_path: Path) -> None:
    exported = stax.export(layer)(*LAYER)
    found = ran(compiled(exported, tmp_path, flags), exported, LAYER)
    for a, b in zip(found, stax.tree.leaves(stax.jit(layer)(*LAYER)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@needs_compiler
@pytest.mark.parametrize("seed", range(4))
def test_random_programs_loaded_and_in_c(seed: int, tmp_path: Path) -> None:
    program = random_program(seed + 70_000, scalar=False)
    expected = stax.jit(program.fn)(*program.args)
    exported = stax.export(program.fn)(*program.args)
    loaded = stax.export.deserialize(exported.serialize()).call(*program.args)
    found = ran(compiled(exported, tmp_path), exported, program.args)
    for a, b, c in zip(found, loaded, expected, strict=True):
        assert np.asarray(b).tobytes() == np.asarray(c).tobytes()
        np.testing.assert_allclose(a, c, rtol=1e-9, atol=1e-9)


@needs_compiler
def test_an_index_out_of_bounds_is_a_code_with_a_message(tmp_path: Path) -> None:
    exported = stax.export(lambda x, i: x[i])(np.arange(5.0), np.arange(2))
    folder = compiled(exported, tmp_path)
    assert ran(folder, exported, (np.arange(5.0), np.array([0, 7]))).startswith(
        "gather: an index is out of bounds for an axis of size 5 (valid: -5 to 4) at test_c.py:"
    )
    assert ran(folder, exported, (np.arange(5.0), np.array([0, 4])))[0].tolist() == [0, 4]


@needs_compiler
def test_the_object_needs_the_c_library_alone_and_exports_its_functions(tmp_path: Path) -> None:
    tool = shutil.which("nm")
    if tool is None:
        pytest.skip("there is no nm")
    assert COMPILER is not None
    names, needed = set(), set()
    for name, exported in {
        "first": stax.export(layer)(*LAYER),
        "second": stax.export(FUNCTIONS["convolution"][0])(*IMAGES),
    }.items():
        exported.write_c(tmp_path, name)
        subprocess.run([COMPILER, "-O1", "-c", f"{name}.c"], cwd=tmp_path, check=True)
        for line in subprocess.run(
            [tool, "-g", f"{name}.o"], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout.splitlines():
            kind, symbol = line.split()[-2:]
            (needed if kind == "U" else names).add(symbol)
    functions = ("", "_array", "_message", "_set_threads")
    assert names == {name + end for name in ("first", "second") for end in functions}
    assert needed <= {
        "malloc",
        "free",
        "memcpy",
        "memset",
        "memmove",
        "fma",
        "fmaf",
        "sqrt",
        "sqrtf",
    }


@needs_compiler
def test_linear_algebra_is_that_of_the_lapack_it_is_linked_with(tmp_path: Path) -> None:
    def f(a: Any, b: Any) -> Any:
        q, r = np.linalg.qr(b)
        return np.linalg.cholesky(a), np.linalg.solve(a, b), np.linalg.eigvalsh(a), q, r

    b = rng.standard_normal((5, 3))
    a = b @ b.T + np.eye(5)
    exported = stax.export(f)(a, b)
    blas = find_blas()
    if blas is None or not lapack_table() or exported._unit.image.fallbacks:
        pytest.skip("there is no LAPACK beside NumPy's BLAS")
    (form,) = (
        f"{prefix}##x##{suffix}"
        for prefix, suffix, bits in lapack_namings
        if bits == blas.integer_bits and hasattr(blas.handle, f"{prefix}dpotrf{suffix}")
    )
    name = form.removeprefix("##").removesuffix("##")
    flags = [f"-DSTAX_LAPACK_INT=int{blas.integer_bits}_t", f"-DSTAX_LAPACK_NAME(x)={name}"]
    flags += [blas.path, f"-Wl,-rpath,{Path(blas.path).parent}"]
    folder = compiled(exported, tmp_path, flags, lapack=True)
    for found, expected in zip(ran(folder, exported, (a, b)), exported.call(a, b), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    said = ran(folder, exported, (-a, b))
    assert said.startswith("cholesky: Matrix is not positive definite at test_c.py:")
    assert "-llapack" in (folder / "f.h").read_text()


@needs_compiler
def test_a_blas_can_take_the_products(tmp_path: Path) -> None:
    (tmp_path / "cblas.h").write_text(
        "enum { CblasRowMajor = 101, CblasNoTrans = 111, CblasTrans = 112 };\n"
        "static int used;\n"
        "static void cblas_dgemm(int o, int ta, int tb, int m, int n, int k, double alpha,\n"
        "    const double *a, int lda, const double *b, int ldb, double beta, double *c,\n"
        "    int ldc) {\n"
        "    used += o == 101 && alpha == 1;\n"
        "    for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) {\n"
        "        double s = beta ? beta * c[i * ldc + j] : 0;\n"
        "        for (int p = 0; p < k; p++) s += a[ta == 111 ? i * lda + p : p * lda + i]\n"
        "            * b[tb == 111 ? p * ldb + j : j * ldb + p];\n"
        "        c[i * ldc + j] = s + 1000; } }\n"
    )
    exported = stax.export(lambda a, b: a.T @ b)(LAYER[1], LAYER[1])
    folder = compiled(exported, tmp_path, ["-DSTAX_CBLAS", "-I."])
    (found,) = ran(folder, exported, (LAYER[1], LAYER[1]))
    np.testing.assert_allclose(found - 1000, LAYER[1].T @ LAYER[1], rtol=1e-9, atol=1e-9)


def test_the_header_describes_every_argument(tmp_path: Path) -> None:
    def f(x: Any, x_0: Any, int: Any, n: str, *, linux: Any) -> Any:
        return {"a/b": x[0] + x_0 + int, "long": [linux]}

    exported = stax.export(f, static_argnums=3)([np.ones(2)], 1.0, np.ones((2, 2), np.float32),
                                                "*/ evil", linux=np.array([True]))  # fmt: skip
    source, header = exported.write_c(tmp_path / "new" / "folder", "model")
    assert (source.name, header.name) == ("model.c", "model.h")
    text = header.read_text()
    for line in (
        "x_0: float64 [2], x[0]",
        "x_0_: float64 [], x_0",
        "int_: float32 [2, 2], int",
        "linux_: bool [1], linux",
        "result_a_b: float64 [2, 2], result['a/b']",
        "Fixed when it was compiled: n='* / evil'",
        "#define MODEL_WORKSPACE_BYTES 0",
        "const float *int_,",
        "uint8_t *result_long_0,",
    ):
        assert line in text
    assert "/work" not in source.read_text() + text
    assert str(Path(__file__).parent) not in source.read_text() + text
    if COMPILER is not None:
        compiled(exported, tmp_path)


def test_workspace_is_what_the_arena_takes(tmp_path: Path) -> None:
    lowered = stax.jit(layer).lower(*LAYER)
    _, header = stax.export(layer)(*LAYER).write_c(tmp_path)
    size = int(re.search(r"LAYER_WORKSPACE_BYTES (\d+)", header.read_text())[1])
    assert size == math.ceil(lowered.source.plan.nbytes / 64) * 64 + 64


def test_what_only_python_can_run_is_named(tmp_path: Path) -> None:
    exported = stax.export(lambda a: (np.linalg.cholesky(a), np.fft.fft(a).real))(np.eye(2))
    with pytest.raises(errors.ExportError) as caught:
        exported.write_c(tmp_path)
    text = str(caught.value)
    assert re.search(r"cholesky at .*test_c\.py:\d+", text)
    assert re.search(r"fft at .*test_c\.py:\d+", text)
    assert "save()" in text
    assert not list(tmp_path.iterdir())
    with pytest.raises(errors.ExportError, match="name of a C function"):
        stax.export(np.sin)(1.0).write_c(tmp_path, "while")
