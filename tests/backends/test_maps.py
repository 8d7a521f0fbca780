"""Long functions as routines of the machine: the bits of inlined ones, called where it pays."""

from __future__ import annotations

import ctypes
import re
from typing import Any

import numpy as np
import pytest

import stax
import stax.compile as driver
import stax.numpy as snp
from stax import nn
from stax.backends.c import fission, maps, program, vecmath
from stax.backends.c.fission import blocked_loops
from stax.backends.c.routines import linked_address
from stax.backends.c.toolchain import find_toolchain
from stax.tree_util import tree_leaves

pytestmark = pytest.mark.skipif(find_toolchain() is None, reason="no C compiler on this machine")

RNG = np.random.default_rng(3)
SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-45, -1e-45, 1.1e-38, -1.1e-38, 88.7, 89.1],
    np.float32,
)


def sample() -> np.ndarray:
    """Float32 numbers from everywhere, most where functions bend: a multiple of 256."""
    anywhere = RNG.integers(0, 2**32, 200_000, np.uint64).astype(np.uint32).view(np.float32)
    near = np.linspace(-104, 104, 60_001).astype(np.float32)
    found = np.concatenate([SPECIAL, np.nextafter(SPECIAL[6:], 1), anywhere, near, near / 50])
    return np.resize(found, -(-len(found) // 256) * 256)


def called(text: str) -> tuple[str, ...]:
    """The routines of many elements that a text calls."""
    return tuple(dict.fromkeys(re.findall(r"stax_(map_\w+)\(", text)))


def pointer(a: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(a.ctypes.data)


@pytest.mark.parametrize("name", maps.ROUTINES)
def test_routines_have_the_bits_of_the_inlined_function(name: str) -> None:
    x = sample()
    text = vecmath.definitions([name])
    head = "(const float *x, float *y, int64_t n) {\n"
    for kind, pragma in (("alone", ""), ("vectors", "    #pragma omp simd\n")):
        loop = f"    for (int64_t i = 0; i < n; i++) y[i] = stax_{name}(x[i]);\n"
        text += f"void {kind}{head}{pragma}{loop}}}\n"
    toolchain = find_toolchain()
    assert toolchain is not None
    handle = toolchain.load(text).handle
    inlined = []
    for kind in ("alone", "vectors"):
        inlined.append(np.empty_like(x))
        getattr(handle, kind)(pointer(x), pointer(inlined[-1]), ctypes.c_int64(len(x)))
    routine = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    many, blocks = routine(linked_address(f"map_{name}")), np.empty_like(x)
    for at in range(0, len(x), 256):
        many(pointer(x[at:]), pointer(blocks[at:]), 256)
    one = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(linked_address(f"one_{name}"))
    single = np.array([one(v) for v in x[:5000].tolist()], np.float32)
    for found in (inlined[1], blocks):
        np.testing.assert_array_equal(found.view(np.uint32), inlined[0].view(np.uint32))
    known = ~np.isnan(x[:5000])  # Python gives a NaN a payload of its own
    np.testing.assert_array_equal(single[known], inlined[0][:5000][known])
    assert np.isnan(single[~known]).all()
    for count in (1, 15, 16, 17, 100, 255):
        own = np.resize(x, 256)
        many(pointer(own), pointer(own), count)  # from an array into itself
        assert own[:count].tobytes() == inlined[0][:count].tobytes()
        whole = -(-count // maps.LANES) * maps.LANES
        assert own[whole:].tobytes() == x[whole:256].tobytes()


def test_what_the_library_is_made_of_is_what_programs_inline() -> None:
    rest = vecmath.definitions([*maps.ROUTINES, "pow_f64"])
    own = vecmath.definitions(maps.NAMES, preamble=False, before=rest)
    assert own.count("stax_map_") == own.count("stax_one_") == own.count("static ") / 2
    # What they need is found among the functions that stand in modules, and is all there is.
    other = vecmath.definitions(["sqrt_f32"])
    found = vecmath.definitions([*maps.NAMES, "sqrt_f32"]).splitlines()
    assert {*vecmath.definitions(maps.NAMES).splitlines(), *other.splitlines()} == {*found}


def test_pointers_come_last_and_can_be_replaced_by_functions() -> None:
    names = ["map_tanh_f32", "one_tanh_f32", "log_f32", "one_log_f32", "sqrt_f32"]
    text = vecmath.definitions(names, linked=vecmath.LINKED)
    assert vecmath.linked_names(text) == ["map_tanh_f32", "one_log_f32", "one_tanh_f32"]
    assert "stax_signed_f32" not in text
    whole = vecmath.with_linked(text)
    assert whole.count("float stax_tanh_f32(float x)") == 1
    assert whole.count("float stax_log_f32(float x)") == 1
    toolchain = find_toolchain()
    assert toolchain is not None
    toolchain.compile(whole)


# ------------------------------------------------------------------------------ cut loops

COMMON = [f"float v{k} = (v{k - 1} * 0.5f + v1);" for k in range(10, 70)]
BODY = [
    "float v1 = p0[i];",
    "float v2 = p1[i];",
    "float v3 = (v1 * v2);",
    "float v4 = stax_tanh_f32(v3);",
    "float v5 = stax_exp_f32(v3);",
    "float v6 = (v4 + v5);",
    "float v7 = stax_erf_f32(v6);",
    "float v8 = stax_pow_f32(v5, v7);",
    "float v9 = (v8 + v7);",
    *COMMON,
    "p2[i] = v69;",
    "float v70 = stax_exp_f32(v8);",
    "float v71 = (v70 - v4);",
    "p1[i] = v71;",
]


@pytest.mark.parametrize("n", [64, 100, 112, 640, 1000, 4099])
def test_a_loop_with_calls_has_the_bits_of_the_whole_loop(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fission, "OTHERS", 0.0)
    cut = blocked_loops("i", "0", str(n), n, BODY, {})
    assert cut is not None
    assert called("\n".join(cut)) == ("map_tanh_f32", "map_exp_f32", "map_erf_f32")
    assert "stax_pow_f32" in "\n".join(cut)  # no routine: a loop of its own
    whole = [f"for (int64_t i = 0; i < {n}; i++) {{", *BODY, "}"]
    text = vecmath.definitions(vecmath.names_in("\n".join([*BODY, *cut])))
    for name, lines in (("whole", whole), ("cut", cut)):
        body = "\n".join(lines)
        text += f"void {name}(const float *p0, float *p1, float *p2) {{\n{body}\n}}\n"
    toolchain = find_toolchain()
    assert toolchain is not None
    handle = toolchain.load(text).handle
    results = []
    for name in ("whole", "cut"):
        rng = np.random.default_rng(0)
        arrays = [rng.standard_normal(n).astype(np.float32) for _ in range(3)]
        getattr(handle, name)(*map(pointer, arrays))
        results.append([a.tobytes() for a in arrays])
    assert results[0] == results[1]


def test_calls_of_a_level_share_a_loop_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fission, "OTHERS", 0.0)
    body = [s for s in BODY if "pow" not in s and "v8" not in s and "v9 " not in s]
    body = [s for s in body if not s.startswith("float v1") or s.startswith("float v1 ")]
    body = [*body[:7], "float v8 = stax_exp_f32(v2);", "p2[i] = v7 + v8;", "p1[i] = v4;"]
    lines = blocked_loops("i", "0", "1024", 1024, body, {})
    assert lines is not None
    text = "\n".join(s.strip() for s in lines)
    loops = text.split("#pragma omp simd")[1:]
    assert [called(s) for s in loops] == [
        ("map_tanh_f32", "map_exp_f32"),
        ("map_erf_f32",),
        (),
    ]
    # An operand that only a call needs is put where the result will be; v3 goes to both.
    assert "map_exp_f32(block_v8, block_v8, 256);" in text
    assert "block_v4[at] = v3;\nblock_v5[at] = v3;" in text
    assert "block_v3[" not in text
    assert "stax_" not in text.replace("stax_map_", "")


def test_a_call_is_of_a_value_of_the_loop_and_of_its_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fission, "OTHERS", 0.0)
    for operand in ("a3", "p0[i]", "v9 + v2", "v8"):
        body = [
            "float v1 = p0[i];",
            "double v8 = (double)v1;",
            "float v9 = (v1 + 1.0f);",
            "float v2 = stax_tanh_f32(v9);",
            "float v4 = stax_exp_f32(v1);",
            f"float v5 = stax_log_f32({operand});",
            "p1[i] = v5 + v4 + v2;",
        ]
        lines = blocked_loops("i", "0", "1024", 1024, body, {})
        assert lines is not None
        text = "\n".join(lines)
        assert f"stax_log_f32({operand})" in text
        assert called(text) == ("map_tanh_f32", "map_exp_f32")


# ------------------------------------------------------------------------------- programs


def gelu(x: Any) -> Any:
    return 0.5 * x * (1 + snp.tanh(0.7978846 * (x + 0.044715 * x * x * x)))


def bend(x: Any, t: Any, b: Any) -> Any:
    """The second derivative of a layer along `t`: two long functions among many operations."""
    return stax.jvp(stax.grad(lambda x: snp.sum(gelu(x + b) * t)), (x,), (t,))


def text_of(f: Any, *args: Any) -> str:
    return str(stax.jit(f).lower(*args).as_text("source"))


def both(monkeypatch: pytest.MonkeyPatch, f: Any, args: Any) -> None:
    """The same bits with routines and with everything inlined."""
    found = []
    for names in (maps.ROUTINES, ()):
        with monkeypatch.context() as patch:
            patch.setattr(maps, "ROUTINES", names)
            patch.setattr(fission, "ROUTINES", names)
            compiled = stax.jit(lambda *a: f(*a))
            text = compiled.lower(*args).as_text("source")
            assert bool(re.search(r"stax_(map|one)_\w+\(", text)) == bool(names)
            found.append([np.asarray(leaf).tobytes() for leaf in tree_leaves(compiled(*args))])
    assert found[0] == found[1]


@pytest.mark.parametrize("shape", [(7, 64), (5, 100), (3, 512), (2, 1001), (70, 33, 80)])
def test_programs_have_the_bits_of_inlined_ones(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    x, t = RNG.standard_normal((2, *shape)).astype(np.float32)
    x.flat[: len(SPECIAL)] = SPECIAL
    both(monkeypatch, bend, (x, t, RNG.standard_normal(shape[-1]).astype(np.float32)))


def test_one_library_for_many_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    general = stax.jit(bend, dynamic_batch=True)
    sizes = (70, 77, 84, 96, 100, 129, 240, 255)
    cases = [RNG.standard_normal((3, n)).astype(np.float32) for n in sizes]
    found = [[a.tobytes() for a in general(*case)] for case in cases]
    monkeypatch.setattr(driver, "shared", lambda text, static: None)
    for case, own in zip(cases, found, strict=True):
        static = stax.jit(lambda x, t, b: bend(x, t, b))
        assert "map_tanh_f32(" in static.lower(*case).as_text("source")
        assert [a.tobytes() for a in static(*case)] == own


def test_masks_strides_and_looked_up_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    x, t = RNG.standard_normal((2, 90, 300)).astype(np.float32)
    places = RNG.integers(0, 300, 300)

    def f(x: Any, t: Any, places: Any) -> Any:
        one, two = bend(x[:, places], snp.where(x > 0.3, t, 0), x[0])
        turned = bend(x[::2, ::-1][:, 40:].T, t[::2, 40:].T, x[:45, 0])
        return one, two * snp.tril(x), turned, one.at[:, places].add(two)

    both(monkeypatch, f, (x, t, places))
    with pytest.raises(IndexError):
        stax.jit(f)(x, t, np.where(places == places[7], 300, places))


def test_a_brief_loss_and_scalars_call_the_functions_of_one_element(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def loss(w: Any, b: Any, x: Any, y: Any) -> Any:
        return -snp.mean(snp.sum(y * nn.log_softmax(x @ w + b), -1))

    monkeypatch.setattr(program, "light", lambda weights: {w.function: True for w in weights})
    w, b = RNG.standard_normal((1000, 10)), RNG.standard_normal(10)
    x, y = RNG.standard_normal((64, 1000)), RNG.standard_normal((64, 10))
    args = tuple(a.astype(np.float32) for a in (w, b, x, y))
    text = text_of(stax.grad(loss), *args)
    assert "one_exp_f32(" in text
    assert "stax_exp_f32(" not in text
    both(monkeypatch, stax.grad(loss), args)

    def scalar(x: Any, y: Any) -> Any:
        return snp.exp(x) * snp.log1p(y) + snp.sin(x) ** y

    both(monkeypatch, scalar, (np.float32(0.7), np.float32(1.3)))
    text = text_of(scalar, np.float32(0.7), np.float32(1.3))
    # A function without a routine is one of the program, of one element as well.
    assert "lone_pow_f32(" in text
    assert "declare simd" not in text
    for value in SPECIAL:
        np.testing.assert_array_equal(
            stax.jit(snp.exp)(value), stax.jit(snp.exp)(np.full(64, value))[0]
        )


def test_plain_loops_are_cut_at_calls_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for others, expected in ((0.0, True), (9.0, False)):
        monkeypatch.setattr(fission, "OTHERS", others)
        lines = blocked_loops("i", "0", "1024", 1024, BODY, {}, plain=True)
        assert (lines is not None) == expected
        assert blocked_loops("i", "0", "1024", 1024, BODY, {}) is not None


def test_calls_where_they_take_no_longer() -> None:
    x, t = RNG.standard_normal((2, 64, 512)).astype(np.float32)
    b = x[0]
    assert "map_tanh_f32(" in text_of(bend, x, t, b)
    # Functions that take more time than all else; one function; arrays that come from memory.
    assert "map_" not in text_of(lambda x: snp.tanh(x + 1) * snp.exp(x), x)
    assert "map_" not in text_of(lambda x: gelu(x), x)
    large = stax.ShapeDtypeStruct((8192, 512), np.float32)
    assert "map_" not in text_of(bend, large, large, b)
