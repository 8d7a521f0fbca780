"""Convolutions against their definition: every parameter, eager and compiled, with derivatives."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import stax
import stax.numpy as snp
from stax import lax
from stax.errors import ShapeError
from stax.testing import check_grads

RNG = np.random.default_rng(11)


def by_definition(
    x: Any,
    w: Any,
    strides: Any,
    pads: Any,
    ld: Any = None,
    rd: Any = None,
    groups: int = 1,
    batches: int = 1,
) -> Any:
    """The convolution of [N, C, S...] with [O, I, S...], term by term."""
    rank = x.ndim - 2
    ld, rd = ld or (1,) * rank, rd or (1,) * rank
    n, _, *extents = x.shape
    filters, taken, *window = w.shape
    out_extents = []
    for e, k, s, (a, b), u, v in zip(extents, window, strides, pads, ld, rd, strict=True):
        room = (e - 1) * u + 1 + a + b - ((k - 1) * v + 1)
        out_extents.append(max(0, room // s + 1))
    out = np.zeros((n // batches, filters, *out_extents))
    for f in range(filters):
        group, block = f // (filters // groups), f // (filters // batches)
        for place in itertools.product(*map(range, out_extents)):
            for tap in itertools.product(*map(range, window)):
                at = []
                for p, t, e, s, (a, _), u, v in zip(
                    place, tap, extents, strides, pads, ld, rd, strict=True
                ):
                    q, r = divmod(p * s + t * v - a, u)
                    at.append(q if r == 0 and 0 <= q < e else None)
                if None in at:
                    continue
                rows = x[block * out.shape[0] : (block + 1) * out.shape[0]]
                seen = rows[(slice(None), slice(group * taken, (group + 1) * taken), *at)]
                out[(slice(None), f, *place)] += seen @ w[(f, slice(None), *tap)]
    return out


def case(rank: int, n: int, c: int, o: int, extents: Any, window: Any, **options: Any) -> Any:
    groups = options.get("groups", 1)
    x = RNG.standard_normal((n, c, *extents))
    w = RNG.standard_normal((o, c // groups, *window))
    settings = {
        "strides": (1,) * rank,
        "pads": ((0, 0),) * rank,
        "ld": (1,) * rank,
        "rd": (1,) * rank,
        "groups": 1,
        "batches": 1,
        **options,
    }
    return x, w, settings


CASES = {
    "plain": case(2, 2, 3, 4, (5, 6), (3, 2)),
    "wide_output": case(2, 2, 3, 20, (7, 9), (3, 3), pads=((1, 1), (1, 1))),
    "strides": case(2, 1, 2, 3, (7, 8), (3, 3), strides=(2, 3), pads=((1, 0), (2, 1))),
    "no_fit": case(2, 1, 2, 3, (16, 16), (7, 7), strides=(3, 3), pads=((2, 2), (2, 2))),
    "one_place": case(2, 1, 2, 3, (5, 5), (5, 5), strides=(2, 2)),
    "gaps": case(2, 1, 2, 3, (6, 6), (2, 2), strides=(4, 4), pads=((1, 1), (1, 1))),
    "dilated_kernel": case(2, 2, 2, 17, (9, 8), (3, 2), rd=(2, 3), pads=((2, 1), (0, 3))),
    "dilated_image": case(2, 2, 2, 5, (4, 3), (3, 3), ld=(2, 3), pads=((2, 2), (1, 1))),
    "cut": case(2, 1, 2, 3, (7, 7), (2, 2), pads=((-1, -2), (2, -1))),
    "all_of_it": case(
        2,
        2,
        4,
        6,
        (6, 7),
        (3, 2),
        ld=(2, 1),
        rd=(1, 2),
        strides=(2, 2),
        pads=((1, 2), (0, 1)),
        groups=2,
    ),
    "groups": case(2, 3, 6, 12, (6, 6), (3, 3), groups=3, pads=((1, 1), (1, 1))),
    "depthwise": case(2, 2, 4, 4, (6, 6), (3, 3), groups=4, pads=((1, 1), (1, 1))),
    "batch_groups": case(2, 6, 3, 9, (5, 5), (2, 2), batches=3),
    "line": case(1, 2, 3, 18, (40,), (5,), pads=((2, 2),), strides=(2,)),
    "line_long_window": case(1, 3, 2, 4, (40,), (33,)),
    "volume": case(3, 2, 2, 8, (5, 4, 6), (2, 3, 2), pads=((1, 0), (1, 1), (0, 1))),
    "point": case(0, 3, 4, 5, (), ()),
    "one_by_one": case(2, 2, 8, 24, (9, 9), (1, 1)),
    "nothing": case(2, 2, 3, 4, (2, 2), (3, 3)),
}
LAYOUTS = {
    0: [("NC", "OI", "NC"), ("CN", "IO", "NC")],
    1: [("NCH", "OIH", "NCH"), ("NHC", "HIO", "NHC")],
    2: [("NCHW", "OIHW", "NCHW"), ("NHWC", "HWIO", "NHWC"), ("CHNW", "IWOH", "WNHC")],
    3: [("NCHWD", "OIHWD", "NCHWD"), ("NHWDC", "HWDIO", "NHWDC")],
}


def runner(settings: Any, layout: Any) -> Any:
    """The convolution of [N, C, S...] and [O, I, S...] computed in another layout."""
    lhs, rhs, out = layout

    def fun(x: Any, w: Any) -> Any:
        spatial = [s for s in rhs if s not in "OI"]
        x = snp.transpose(x, [["N", "C", *spatial].index(s) for s in lhs])
        w = snp.transpose(w, [["O", "I", *spatial].index(s) for s in rhs])
        found = lax.conv_general_dilated(
            x,
            w,
            settings["strides"],
            settings["pads"],
            settings["ld"],
            settings["rd"],
            layout,
            settings["groups"],
            settings["batches"],
        )
        return snp.transpose(found, [out.index(s) for s in ["N", "C", *spatial]])

    return fun


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str) -> None:
    x, w, settings = CASES[name]
    want = by_definition(x, w, **settings)
    ct = RNG.standard_normal(want.shape)
    for layout in LAYOUTS[x.ndim - 2]:
        fun = runner(settings, layout)
        np.testing.assert_allclose(fun(x, w), want, atol=1e-10)
        np.testing.assert_allclose(stax.jit(fun)(x, w), want, atol=1e-10)
        eager = stax.vjp(fun, x, w)[1](ct)
        for got, exact in zip(
            stax.jit(lambda a, b, c, f=fun: stax.vjp(f, a, b)[1](c))(x, w, ct), eager, strict=True
        ):
            np.testing.assert_allclose(got, exact, atol=1e-10)


@pytest.mark.parametrize("name", CASES)
def test_derivatives(name: str) -> None:
    x, w, settings = CASES[name]
    check_grads(runner(settings, LAYOUTS[x.ndim - 2][-1]), (x, w), order=2)


@pytest.mark.parametrize("name", ["plain", "groups", "batch_groups", "line", "dilated_image"])
@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0), (1, 2), (3, None), (None, -1)])
def test_batches(name: str, axes: Any) -> None:
    x, w, settings = CASES[name]
    fun = runner(settings, LAYOUTS[x.ndim - 2][-1])
    size, args, slices = 3, [], []
    for value, axis in zip((x, w), axes, strict=True):
        if axis is None:
            args.append(value)
            slices.append([value] * size)
            continue
        axis = min(axis, value.ndim) if axis >= 0 else value.ndim
        each = [value * (k + 1) for k in range(size)]
        args.append(np.stack(each, axis=axis))
        slices.append(each)
    places = tuple(
        None if a is None else (min(a, v.ndim) if a >= 0 else -1)
        for a, v in zip(axes, (x, w), strict=True)
    )
    want = np.stack([fun(a, b) for a, b in zip(*slices, strict=True)])
    np.testing.assert_allclose(stax.vmap(fun, places)(*args), want, atol=1e-9)
    np.testing.assert_allclose(stax.jit(stax.vmap(fun, places))(*args), want, atol=1e-9)


def test_gradients_of_each_example() -> None:
    x, w, settings = CASES["wide_output"]
    fun = runner(settings, LAYOUTS[2][1])
    loss = lambda w, image: snp.sum(fun(image[None], w) ** 2)
    got = stax.jit(stax.vmap(stax.grad(loss), (None, 0)))(w, x)
    want = np.stack([stax.grad(loss)(w, image) for image in x])
    np.testing.assert_allclose(got, want, atol=1e-9)


def test_compiled_programs_call_no_python() -> None:
    x, w, settings = CASES["wide_output"]
    fun = runner(settings, LAYOUTS[2][1])
    for f in (fun, stax.grad(lambda a, b: snp.sum(fun(a, b) ** 2), argnums=(0, 1))):
        assert not stax.jit(f).lower(x, w).fallbacks
        assert not stax.jit(f).lower(x.astype("f4"), w.astype("f4")).fallbacks


@pytest.mark.parametrize("dtype", ["f4", "f2", "i4", "c16"])
def test_dtypes(dtype: str) -> None:
    x, w, settings = CASES["plain"]
    x, w = (np.round(3 * v).astype(dtype) for v in (x, w))
    want = by_definition(x.astype("c16").real, w.astype("c16").real, **settings)
    got = stax.jit(runner(settings, LAYOUTS[2][1]))(x, w)
    assert got.dtype == np.dtype(dtype)
    np.testing.assert_allclose(got, want, rtol=1e-2 if dtype == "f2" else 1e-6)


def test_padding_by_name() -> None:
    x, w = RNG.standard_normal((1, 2, 7, 8)), RNG.standard_normal((3, 2, 3, 4))
    for strides in ((1, 1), (2, 3)):
        same = lax.conv(x, w, strides, "SAME")
        assert same.shape[2:] == tuple(-(-n // s) for n, s in zip((7, 8), strides, strict=True))
        assert lax.conv(x, w, strides, "VALID").shape[2:] == (
            (7 - 3) // strides[0] + 1,
            (8 - 4) // strides[1] + 1,
        )
    assert lax.padtype_to_pads((8,), (4,), (1,), "SAME") == [(1, 2)]
    assert lax.padtype_to_pads((8,), (4,), (1,), "SAME_LOWER") == [(2, 1)]
    pads = [(1, 1), (0, 3)]
    np.testing.assert_array_equal(
        lax.conv_with_general_padding(x, w, (1, 1), pads, None, (2, 1)),
        lax.conv_general_dilated(x, w, (1, 1), pads, rhs_dilation=(2, 1)),
    )


def test_transposed_convolution_is_the_transpose() -> None:
    layout = ("NHWC", "HWIO", "NHWC")
    x, w = RNG.standard_normal((2, 8, 8, 3)), RNG.standard_normal((3, 3, 3, 5))
    for padding, strides in itertools.product(("SAME", "VALID"), ((1, 1), (2, 2))):
        forward = lambda v, p=padding, s=strides: lax.conv_general_dilated(
            v, w, s, p, dimension_numbers=layout
        )
        y, pull = stax.vjp(forward, x)
        ct = RNG.standard_normal(y.shape)
        got = lax.conv_transpose(ct, w, strides, padding, transpose_kernel=True)
        if padding == "SAME":
            assert got.shape == x.shape
        if got.shape == x.shape:
            np.testing.assert_allclose(got, pull(ct)[0], atol=1e-10)


def test_patches() -> None:
    x = RNG.standard_normal((2, 3, 6, 5))
    got = stax.jit(lambda v: lax.conv_general_dilated_patches(v, (2, 3), (1, 1), "VALID"))(x)
    windows = np.lib.stride_tricks.sliding_window_view(x, (2, 3), axis=(2, 3))
    want = np.moveaxis(windows.reshape(2, 3, 5, 3, 6), -1, 2).reshape(2, 18, 5, 3)
    np.testing.assert_allclose(got, want)


def test_errors() -> None:
    x, w = np.ones((1, 3, 5, 5)), np.ones((4, 2, 3, 3))
    with pytest.raises(ShapeError, match="3 features"):
        stax.jit(lambda a, b: lax.conv(a, b, (1, 1), "SAME"))(x, w)
    w = np.ones((4, 3, 3, 3))
    with pytest.raises(ShapeError, match="window_strides"):
        stax.jit(lambda a, b: lax.conv(a, b, (1,), [(0, 0)] * 2))(x, w)
    with pytest.raises(ShapeError, match="layout"):
        lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHW", "OIHW", "NCHW"))
    with pytest.raises(ValueError, match="padding must be"):
        lax.conv(x, w, (1, 1), "FULL")
    with pytest.raises(ValueError, match="lhs_dilation"):
        lax.conv_general_dilated(x, w, (1, 1), "SAME", lhs_dilation=(2, 2))
