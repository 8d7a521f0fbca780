"""Every operation on arrays as they come: strided, byte-swapped, unaligned, read-only, empty.

A layout never changes a result: the samples of all operations are run on each, eager and compiled
(one program for a group of samples, called again for each layout), against contiguous arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import stax
import stax.numpy as snp
from tests.op_samples import SAMPLES as ELEMENTWISE
from tests.op_samples import Sample
from tests.op_samples_arrays import SAMPLES as ARRAYS
from tests.op_samples_numpy import SAMPLES as RARER

Array = Any
GROUP = 24


def strided(x: Array) -> Array:
    """Every second element of a larger array, along every axis."""
    if not x.ndim:
        return x
    wide = np.zeros(tuple(2 * n for n in x.shape), x.dtype)
    inner = wide[tuple(slice(None, None, 2) for _ in x.shape)]
    inner[...] = x
    return inner


def reversed_(x: Array) -> Array:
    """The same elements with negative strides."""
    flip = tuple(slice(None, None, -1) for _ in x.shape)
    return x[flip].copy()[flip]


def byte_swapped(x: Array) -> Array:
    """The same values in the other byte order."""
    return x.astype(x.dtype.newbyteorder())


def unaligned(x: Array) -> Array:
    """The same values at an odd address."""
    raw = np.zeros(x.nbytes + 1, np.uint8)
    out = raw[1:].view(x.dtype).reshape(x.shape)
    out[...] = x
    return out


def read_only(x: Array) -> Array:
    """The same values, not writable."""
    out = x.copy()
    out.flags.writeable = False
    return out


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "strided": strided,
    "reversed": reversed_,
    "column_major": lambda x: np.asfortranarray(x),
    "byte_swapped": byte_swapped,
    "unaligned": unaligned,
    "read_only": read_only,
}


def arguments(sample: Sample) -> list[Array]:
    dtype = "f8" if "f8" in sample.dtypes else sample.dtypes[0]
    made = sample.make(np.random.default_rng(7), np.dtype(dtype))
    return [np.asarray(v) for v in made]


def groups(samples: list[Sample]) -> list[list[Sample]]:
    return [samples[k : k + GROUP] for k in range(0, len(samples), GROUP)]


def everything(group: list[Sample]) -> Callable[..., Any]:
    return lambda arguments: [s.fn(*a) for s, a in zip(group, arguments, strict=True)]


def same(found: Any, expected: Any, what: str) -> None:
    pairs = zip(stax.tree.leaves(found), stax.tree.leaves(expected), strict=True)
    for a, b in pairs:
        a, b = np.asarray(a), np.asarray(b)
        # NumPy itself keeps a foreign byte order where it moves elements only.
        assert a.dtype.newbyteorder("=") == b.dtype, what
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14, err_msg=what)


@pytest.mark.parametrize(
    "group", groups([*ELEMENTWISE, *ARRAYS, *RARER]), ids=lambda g: f"{g[0]}-{g[-1]}"
)
def test_the_layout_of_the_arguments_changes_no_result(group: list[Sample]) -> None:
    run = everything(group)
    plain = [arguments(s) for s in group]
    with np.errstate(all="ignore"):
        expected = run(plain)
        compiled = stax.jit(run)
        same(compiled(plain), expected, "contiguous")
        for layout, change in LAYOUTS.items():
            changed = [[change(a) for a in args] for args in plain]
            same(run(changed), expected, f"{layout}, eager")
            same(compiled(changed), expected, f"{layout}, compiled")


@pytest.mark.parametrize("group", groups(ELEMENTWISE), ids=lambda g: f"{g[0]}-{g[-1]}")
@pytest.mark.parametrize("kind", ["scalar", "empty"])
def test_elementwise_operations_take_scalars_and_empty_arrays(
    group: list[Sample], kind: str
) -> None:
    run = everything(group)
    full = [arguments(s) for s in group]
    if kind == "scalar":
        changed = [[a.reshape(-1)[0].reshape(()) for a in args] for args in full]
    else:
        changed = [[np.zeros((0, 3), a.dtype) for a in args] for args in full]
    with np.errstate(all="ignore"):
        expected = run(changed)
        assert all(np.shape(v) in ((), (0, 3)) for v in stax.tree.leaves(expected))
        same(stax.jit(run)(changed), expected, kind)
        if kind == "scalar":
            one = [
                [a.item() if a.dtype in (np.float64, np.complex128) else a for a in args]
                for args in changed
            ]
            same(stax.jit(run)(one), expected, "Python numbers")


def test_reductions_of_nothing_have_the_value_of_numpy() -> None:
    x = np.zeros((0, 3))
    names = {
        "sum": lambda m: m.sum(x, axis=0),
        "prod": lambda m: m.prod(x, axis=0),
        "any": lambda m: m.any(x, axis=0),
        "all": lambda m: m.all(x, axis=0),
        "max": lambda m: m.max(x, axis=1),
        "max_initial": lambda m: m.max(x, axis=0, initial=-1.0),
        "cumsum": lambda m: m.cumsum(x, axis=0),
        "sort": lambda m: m.sort(x, axis=0),
        "matmul": lambda m: m.matmul(x.T, x),
        "concatenate": lambda m: m.concatenate([x, x + 1]),
        "where": lambda m: m.where(x > 0, x, 1.0),
        "argsort": lambda m: m.argsort(x, axis=0),
        "einsum": lambda m: m.einsum("ij,ik->jk", x, x),
        "reshape": lambda m: m.reshape(x, (3, 0)),
        "take": lambda m: m.take(x, np.zeros(0, int), axis=1),
        "pad": lambda m: m.pad(x, ((1, 0), (0, 0))),
    }
    compiled = stax.jit(lambda y: [f(snp) for f in names.values()])(x)
    for (name, f), have in zip(names.items(), compiled, strict=True):
        want = f(np)
        assert (have.shape, have.dtype) == (want.shape, want.dtype), name
        np.testing.assert_array_equal(have, want, err_msg=name)
    for wrap in (lambda f: f, stax.jit):
        with pytest.raises(ValueError, match="zero-size"):
            wrap(lambda y: snp.max(y, axis=0))(x)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_and_batches_of_odd_layouts(layout: str) -> None:
    x = np.linspace(-1.0, 1.0, 12).reshape(3, 4)
    y = LAYOUTS[layout](x)
    f = lambda v: snp.sum(snp.tanh(v) * v, axis=-1)
    for wrap in (lambda g: g, stax.jit):
        grad = wrap(stax.grad(lambda v: f(v).sum()))
        np.testing.assert_allclose(grad(y), grad(x), rtol=1e-14)
        np.testing.assert_allclose(wrap(stax.vmap(f))(y), f(x), rtol=1e-14)
        np.testing.assert_allclose(wrap(stax.vmap(f, in_axes=1))(y), f(x.T), rtol=1e-14)


@pytest.mark.parametrize("dtype", [">f4", ">i2", ">c8", np.dtype(">u8"), np.dtype(">f2")])
def test_a_dtype_in_another_byte_order_names_the_native_one(dtype: Any) -> None:
    native = np.dtype(dtype).newbyteorder("=")
    made = {
        "astype": lambda x: x.astype(dtype),
        "zeros": lambda x: snp.zeros(3, dtype),
        "arange": lambda x: snp.arange(3, dtype=dtype) + x.astype(dtype),
        "array": lambda x: snp.array([x, x], dtype=dtype),
        "constant": lambda x: np.arange(3).astype(dtype) * x.astype(dtype),
        "concatenate": lambda x: np.concatenate([x, x], dtype=dtype, casting="unsafe"),
        "sum": lambda x: np.sum(x.astype(dtype), dtype=dtype),
        "callback": lambda x: stax.pure_callback(
            lambda v: v.astype(dtype), stax.ShapeDtypeStruct(x.shape, dtype), x
        ),
    }
    x = np.arange(1.0, 4)
    compiled = stax.jit(lambda v: {k: f(v) for k, f in made.items()})(x)
    for name, have in compiled.items():
        assert have.dtype == native, name
        if name != "sum":  # NumPy refuses these dtypes there
            np.testing.assert_array_equal(have, made[name](x), err_msg=name)
    if native.itemsize == 8:
        with pytest.raises(stax.DtypeError, match="byte order"):
            stax.jit(lambda v: v.view(dtype))(x)


def test_functions_of_an_array_without_axes() -> None:
    x = np.array(2.5)
    for f in (lambda v: np.pad(v, 0), lambda v: snp.argwhere(v, size=2)):
        want, have = f(x), stax.jit(f)(x)
        assert have.shape == want.shape
        np.testing.assert_array_equal(have, want)
    for f, name in (
        (np.vander, "vander"),
        (np.tril, "tril"),
        (np.triu, "triu"),
        (lambda v: snp.nonzero(v, size=1), "nonzero"),
    ):
        with pytest.raises(stax.ShapeError, match=name):
            stax.jit(f)(x)
    row = np.arange(1.0, 4)
    for f in (np.tril, np.triu, lambda v: np.tril(v, -1)):
        np.testing.assert_array_equal(stax.jit(f)(row), f(row))


@pytest.mark.parametrize("f", [np.nanmax, np.nanmin])
@pytest.mark.parametrize("values", [[np.nan, np.nan], [np.nan, 1.0], [], [-7.0, 9.0]])
@pytest.mark.parametrize("initial", [-2.0, np.nan, np.inf])
@pytest.mark.filterwarnings("ignore:All-NaN")
def test_the_initial_value_of_an_extremum_that_ignores_nan(
    f: Callable[..., Any], values: list[float], initial: float
) -> None:
    x, mask = np.array(values), np.arange(len(values)) == 0
    for where in (True, mask):
        want = f(x, initial=initial, where=where)
        for have in (
            stax.jit(lambda v, w=where: f(v, initial=initial, where=w))(x),
            stax.jit(lambda v, i, w=where: f(v, initial=i, where=w))(x, initial),
        ):
            np.testing.assert_array_equal(have, want)


def test_odd_spellings_of_axes_levels_and_indices() -> None:
    x = np.arange(12.0).reshape(3, 4)
    for f in (
        lambda v: v[range(2)],
        lambda v: v[range(2), 1],
        lambda v: v[range(0)],
        lambda v: np.take(v, [], 0),
        lambda v: np.take(v, [[], []], 1),
        lambda v: np.quantile(v, [0, 1]),
        lambda v: np.percentile(v, 100),
    ):
        want, have = f(x), stax.jit(f)(x)
        assert (have.shape, have.dtype) == (want.shape, want.dtype)
        np.testing.assert_array_equal(have, want)
    for f in (
        lambda v: np.sum(v, True),
        lambda v: v.max(True),
        lambda v: np.sort(v, False),
    ):
        with pytest.raises(stax.DtypeError, match=r"(?s)axis is an integer.*bool.*edge_inputs"):
            stax.jit(f)(x)
    for f in (
        lambda v: np.quantile(v, 1.5),
        lambda v: np.nanquantile(v, np.nan),
        lambda v: np.percentile(v, [50, 101]),
        lambda v: np.nanpercentile(v, -1, axis=0),
    ):
        with pytest.raises(ValueError, match="must be in the range"):
            f(x)
        with pytest.raises(ValueError, match=r"(?s)must be in the range.*edge_inputs"):
            stax.jit(f)(x)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.complex64, np.int8])
def test_ranges_have_the_dtype_of_their_ends(kind: Any) -> None:
    x = kind(2)
    ranges: list[Callable[[Any], Any]] = [
        lambda v: np.linspace(v, 1, 3),
        lambda v: np.linspace(0.0, v, 4, endpoint=False),
        lambda v: np.linspace(v, np.float32(1), 3),
        lambda v: np.linspace(v, np.arange(2), 3),
        lambda v: np.logspace(0, v, 3),
        lambda v: np.geomspace(1, v + v, 3),
        lambda v: np.geomspace(np.ones(2, np.float32), v, 3),
    ]
    for f in ranges:
        for given in (x, np.full(2, x)):
            want, have = f(given), stax.jit(f)(given)
            assert (have.dtype, have.shape) == (want.dtype, want.shape)
            np.testing.assert_allclose(have, want, rtol=8 * np.finfo(want.dtype).eps)
