"""The array-API standard 2024.12 in `stax.numpy`: names, signatures, dtypes, values; eager and jit.

Where NumPy has the function the values and dtypes are NumPy's, which conform; what NumPy lacks
(`descending`) is checked against its definition.
"""

from __future__ import annotations

import inspect
from inspect import Parameter
from typing import Any

import numpy as np
import pytest

import stax
import stax.numpy as snp
from tests.array_api.calls import SIGNATURES, Call, calls, required

CALLS: dict[str, list[Call]] = {}
for _call in calls():
    CALLS.setdefault(_call.name, []).append(_call)


def member(space: Any, name: str) -> Any:
    for part in name.split("."):
        space = getattr(space, part)
    return space


def leaves(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple | list) else [value]


def is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic)


def compiled(group: list[Call]) -> list[Any]:
    """The results of calls of one function in one compiled program, their arrays traced."""
    function = member(snp, group[0].name)
    traced = [[a for a in call.args if is_array(a) or isinstance(a, list)] for call in group]

    def run(arrays: list[list[Any]]) -> list[Any]:
        results = []
        for call, values in zip(group, arrays, strict=True):
            left = iter(values)
            args = [next(left) if is_array(a) or isinstance(a, list) else a for a in call.args]
            results.append(function(*args, **call.options))
        return results

    return stax.jit(run)(traced)  # type: ignore[no-any-return]


NOT_ARRAYS = {"can_cast", "isdtype", "result_type", "finfo", "iinfo", "broadcast_shapes"}
DATA_DEPENDENT = {"nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values"}
UNSET = {"empty", "empty_like"}


def compare_with_numpy(call: Call, eager: Any) -> None:
    try:
        want = member(np, call.name)(*call.args, **call.options)
    except TypeError:  # an argument of the standard that NumPy lacks
        assert {"descending", "dtype", "device"} & call.options.keys()
        return
    for have, value in zip(leaves(eager), leaves(want), strict=True):
        if is_array(value):
            assert have.dtype == value.dtype, call
            if call.name not in UNSET:
                np.testing.assert_array_equal(have, value, err_msg=str(call))
        elif call.name not in ("finfo", "iinfo"):
            assert have == value


@pytest.mark.parametrize("name", CALLS)
def test_values_and_dtypes_are_those_of_numpy(name: str) -> None:
    group = CALLS[name]
    with np.errstate(all="ignore"):
        eager = [member(snp, name)(*call.args, **call.options) for call in group]
        for call, value in zip(group, eager, strict=True):
            compare_with_numpy(call, value)
        if name in NOT_ARRAYS | DATA_DEPENDENT:
            return
        found = compiled(group)
    for call, have, want in zip(group, found, eager, strict=True):
        for a, b in zip(leaves(have), leaves(want), strict=True):
            b = np.asarray(b)
            assert (np.asarray(a).dtype, np.shape(a)) == (b.dtype, b.shape), call
            if name in UNSET:
                continue
            size = np.abs(b).astype(np.float64)
            scale = max(float(np.nanmax(size, initial=1.0)), 1.0)
            tolerance = 1e-5 if b.dtype in (np.float32, np.complex64) else 1e-12
            np.testing.assert_allclose(
                a, b, rtol=tolerance, atol=tolerance * scale, err_msg=str(call)
            )


@pytest.mark.parametrize("name", SIGNATURES)
def test_parameters_have_the_names_of_the_standard(name: str) -> None:
    function = member(snp, name)
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:
        return
    if {p.kind for p in parameters.values()} == {Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD}:
        return  # those of a ufunc
    lacking = [p for p, kind, _ in SIGNATURES[name] if kind in ("", "*") and p not in parameters]
    assert not lacking


@pytest.mark.parametrize("name", sorted(DATA_DEPENDENT))
def test_a_shape_that_depends_on_data_is_refused_with_the_alternative(name: str) -> None:
    x = required(name, "float64")[0]
    with pytest.raises(stax.errors.ConcretizationError, match=r"shape depends on the values"):
        stax.jit(lambda a: member(snp, name)(a))(x)


@pytest.mark.parametrize("name", ["sort", "argsort"])
def test_descending_is_stable(name: str) -> None:
    x = np.array([[2.0, 3.0, 2.0, 1.0], [0.0, 0.0, 5.0, 5.0]])
    f = lambda a: getattr(snp, name)(a, descending=True, stable=True)
    expected = {
        "sort": [[3, 2, 2, 1], [5, 5, 0, 0]],
        "argsort": [[1, 0, 2, 3], [2, 3, 0, 1]],
    }[name]
    np.testing.assert_array_equal(f(x), expected)
    np.testing.assert_array_equal(stax.jit(f)(x), expected)


@pytest.mark.parametrize("descending", [False, True])
def test_argsort_is_stable_where_nothing_else_is_asked_for(descending: bool) -> None:
    x = np.random.default_rng(0).integers(0, 3, 400).astype(np.uint8)
    f = lambda a: snp.argsort(a, descending=descending)
    expected = sorted(range(400), key=lambda i: -int(x[i]) if descending else int(x[i]))
    np.testing.assert_array_equal(f(x), expected)
    np.testing.assert_array_equal(stax.jit(f)(x), expected)


def test_clip_takes_either_end_by_place_or_by_name() -> None:
    x = np.array([-2.0, 0.5, 3.0])
    for args, named, want in [
        ((), {}, x),
        ((0,), {}, [0, 0.5, 3]),
        ((0,), {"max": 1}, [0, 0.5, 1]),
        ((None, 1), {}, [-2, 0.5, 1]),
        ((), {"max": np.array([-3.0, 1, 2])}, [-3, 0.5, 2]),
        ((), {"a_min": 0, "a_max": 1}, [0, 0.5, 1]),
    ]:
        for f in (snp.clip, stax.jit(lambda a, *p, **kw: snp.clip(a, *p, **kw))):
            np.testing.assert_array_equal(f(x, *args, **named), want)
    with pytest.raises(ValueError, match="not both"):
        snp.clip(x, 0, a_min=1)


def test_limits_of_an_array_are_those_of_its_dtype() -> None:
    for x in (np.ones(3, np.int8), np.int8(1)):
        assert (snp.iinfo(x).max, snp.iinfo(x).bits, snp.iinfo(x).dtype) == (127, 8, np.int8)
    assert snp.finfo(np.ones(3, np.complex64)).dtype == np.float32
    seen = []
    stax.jit(lambda x, y: seen.append((snp.iinfo(x).min, snp.finfo(y).bits)))(
        np.ones(3, np.int16), np.ones(3, np.float32)
    )
    assert seen == [(-(2**15), 32)]


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_the_sign_of_complex_numbers_with_zeros_and_infinities_is_that_of_numpy(
    dtype: str,
) -> None:
    parts = (0.0, -0.0, 2.0, -2.0, np.inf, -np.inf, np.nan)
    x = np.array([complex(a, b) for a in parts for b in parts], dtype)
    with np.errstate(all="ignore"):
        want = np.sign(x)
    for got in (stax.jit(snp.sign)(x), stax.jit(snp.sign, backend="numpy")(x)):
        for a, b in ((got.real, want.real), (got.imag, want.imag)):
            np.testing.assert_allclose(a, b, rtol=1e-6)
            sure = ~np.isnan(b)
            np.testing.assert_array_equal(np.signbit(a)[sure], np.signbit(b)[sure])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_constants_keep_the_sign_of_nan(dtype: str) -> None:
    plus, minus = (np.array([v], dtype)[0] for v in (np.nan, -np.nan))
    made, chosen = stax.jit(
        lambda x: (snp.full((2,), minus), snp.where(x > 0, snp.where(x > 1, plus, minus), x))
    )(np.array([0, 1, 2], dtype))
    assert np.signbit(made).tolist() == [True, True]
    assert np.isnan(chosen).tolist() == [False, True, True]
    assert np.signbit(chosen).tolist() == [False, True, False]


METHODS = (
    "abs add and bool complex float floordiv ge getitem gt iadd iand ifloordiv ilshift imatmul "
    "imod imul int invert ior ipow irshift isub itruediv ixor le lshift lt matmul mod mul ne neg "
    "or pos pow radd rand rfloordiv rlshift rmatmul rmod rmul ror rpow rrshift rshift rsub "
    "rtruediv rxor setitem sub truediv xor eq index len array_namespace"
).split()


def test_traced_values_have_the_methods_of_an_array_object() -> None:
    seen: list[Any] = []

    def look(x: Any) -> Any:
        seen.extend(m for m in METHODS if not hasattr(type(x), f"__{m}__"))
        assert x.device == "cpu"
        assert x.to_device("cpu") is x
        assert (x.ndim, x.shape, x.size) == (2, (2, 3), 6)
        assert x.__array_namespace__() is snp
        assert x.__array_namespace__(api_version="2024.12") is snp
        assert x.T.shape == x.mT.shape == (3, 2)
        return x

    stax.jit(look)(np.ones((2, 3)))
    assert not seen


def test_the_namespace_says_what_it_can_do() -> None:
    info = snp.__array_namespace_info__()
    assert info.default_device() == "cpu"
    assert "cpu" in info.devices()
    assert info.default_dtypes()["real floating"] == np.float64
    assert info.capabilities()["boolean indexing"]
    kinds = info.dtypes(kind="integral")
    assert all(getattr(snp, n) == d for n, d in kinds.items())
    assert snp.__array_api_version__ == "2024.12"
    assert {snp.e, snp.pi} == {np.e, np.pi}
    assert snp.newaxis is None
    assert np.isinf(snp.inf)
    assert np.isnan(snp.nan)


def test_an_array_goes_through_dlpack() -> None:
    x = np.arange(3.0)
    assert np.shares_memory(snp.from_dlpack(x), x)
    copy = snp.from_dlpack(x, copy=True)
    assert not np.shares_memory(copy, x)


@pytest.mark.parametrize("wrap", [lambda f: f, stax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize(
    "name", ["add", "sin", "sum", "reshape", "matmul", "concat", "take", "where", "linalg.inv"]
)
def test_too_few_arguments_are_refused(name: str, wrap: Any) -> None:
    x = np.eye(2)
    args = (x,) * (len(required(name, "float64")) - 1)
    with pytest.raises((TypeError, ValueError)):
        wrap(lambda *a: member(snp, name)(*a))(*args)
