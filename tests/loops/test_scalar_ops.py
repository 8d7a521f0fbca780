"""The table of scalar operations: complete rows, types, spellings, and NumPy meaning."""

from __future__ import annotations

import re

import numpy as np
import pytest

from stax.backends.c.vecmath import function_table
from stax.errors import DtypeError
from stax.loops.handlers import Counter
from stax.loops.ops import handling, ops
from stax.loops.scalar_ops import (
    BOOL,
    SCALAR_OPS,
    ScalarOp,
    compute_dtype,
    register,
    spelling,
    type_tag,
)
from stax.loops.trace import BodyTracer

F32, F64, I64 = np.dtype("f4"), np.dtype("f8"), np.dtype("i8")


def accepted(row: ScalarOp) -> list[np.dtype]:
    """The types for which the row has C code."""
    found = []
    for dtype in map(np.dtype, ("f4", "f8", "i4", "i8", "u1", "?", "c8", "c16")):
        try:
            spelling(row, (dtype,) * row.arity, "c", ("a", "b", "c")[: row.arity], 2)
        except DtypeError:
            continue
        found.append(dtype)
    return found


@pytest.mark.parametrize("row", SCALAR_OPS.values(), ids=lambda row: row.name)
def test_rows_are_whole(row: ScalarOp) -> None:
    assert callable(getattr(ops, row.name))
    assert row.flops > 0
    types = accepted(row)
    assert types, f"{row.name} has no C spelling"
    names = ("a", "b", "c")[: row.arity]
    text = spelling(row, (types[0],) * row.arity, "c", names, 2)
    if text not in ("0", "1"):
        assert all(name in text for name in names)


def test_spellings() -> None:
    assert spelling(SCALAR_OPS["add"], (F32, F32), "c", ("a", "b")) == "(a + b)"
    assert spelling(SCALAR_OPS["exp"], (F64,), "c", ("x",)) == "stax_exp_f64(x)"
    assert (
        spelling(SCALAR_OPS["floordiv"], (I64, I64), "c", ("a", "b")) == "stax_floordiv_i64(a, b)"
    )
    assert spelling(SCALAR_OPS["where"], (BOOL, F32, F32), "c", ("m", "a", "b")) == "(m ? a : b)"
    assert spelling(SCALAR_OPS["exp"], (F32,), "triton", ("x",)) == "libdevice.exp(x)"
    with pytest.raises(DtypeError, match="no c code"):
        spelling(SCALAR_OPS["bitwise_and"], (F32, F32), "c", ("a", "b"))
    assert [type_tag(np.dtype(t)) for t in ("?", "i4", "u8", "f8")] == ["b8", "i32", "u64", "f64"]


def test_second_registration_fails() -> None:
    with pytest.raises(ValueError, match="already in the table"):
        register(SCALAR_OPS["add"])


def test_type_rules() -> None:
    assert SCALAR_OPS["lt"].result((F32, F32)) == BOOL
    assert SCALAR_OPS["where"].result((BOOL, I64, I64)) == I64
    with pytest.raises(DtypeError, match="float32, float64"):
        SCALAR_OPS["add"].result((F32, F64))
    with pytest.raises(DtypeError, match="Boolean condition"):
        SCALAR_OPS["where"].result((I64, F32, F32))


def test_half_types_compute_in_float32() -> None:
    import ml_dtypes

    for half in (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)):
        assert compute_dtype(half) == F32
        tracer = BodyTracer()
        with handling(tracer):
            value = ops.add(ops.constant(1.1, half), ops.cast(ops.constant(0.1, F64), half))
        assert value.dtype == F32
        assert tracer.instrs[0].attrs == (float(np.float32(half.type(1.1))),)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 8, 13])
def test_integer_powers(n: int) -> None:
    x = np.array([1.5, -2.0, 0.0, 3.25])
    row = SCALAR_OPS["integer_pow"]
    np.testing.assert_allclose(row.numpy(x, n=n), x**n, rtol=1e-14)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(row.numpy(x, n=-n), x**-n, rtol=1e-14)


def test_sigmoid_does_not_overflow() -> None:
    x = np.array([-1e4, -50.0, 0.0, 50.0, 1e4, np.nan], dtype=np.float32)
    with np.errstate(all="raise", under="ignore"):
        got = SCALAR_OPS["sigmoid"].numpy(x)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got[:5], [0, np.exp(-50.0), 0.5, 1, 1], rtol=1e-6, atol=1e-30)
    assert np.isnan(got[5])


def test_equal_work_is_recorded_once_and_zeros_keep_their_sign() -> None:
    tracer = BodyTracer()
    with handling(tracer):
        a = ops.constant(0.0, F64)
        b = ops.constant(-0.0, F64)
        assert a is ops.constant(0.0, F64)
        assert a is not b
        assert ops.exp(a) is ops.exp(a)
        assert ops.constant(float("nan"), F64) is ops.constant(float("nan"), F64)


def test_comparisons_that_ranges_decide_are_constants() -> None:
    tracer = BodyTracer()
    with handling(tracer):
        byte = ops.load("x", ops.indirect(ops.constant(3, I64), 8), np.dtype(np.uint8))
        wide = ops.cast(byte, I64)
        assert ops.where(ops.lt(wide, ops.constant(0, I64)), ops.constant(1, I64), wide) is wide
    assert not any(i.op in ("lt", "where") for i in tracer.instrs)


def test_handler_is_restored_after_an_error() -> None:
    outer = Counter()
    with handling(outer):
        with pytest.raises(ZeroDivisionError), handling(Counter()):
            raise ZeroDivisionError
        ops.add(F32, F32)
    assert outer.operations == 1


@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "i4", "i8", "u1", "u8", "?"])
def test_every_c_function_that_is_named_exists(dtype: str) -> None:
    kind = np.dtype(dtype)
    table = function_table()
    for row in SCALAR_OPS.values():
        types = (BOOL, kind, kind) if row.operand else (kind,) * row.arity
        try:
            text = spelling(row, types, "c", ("a", "b", "c")[: row.arity], 2)
        except DtypeError:
            continue
        named = re.findall(r"stax_(\w+)\(", text)
        assert all(name in table for name in named), text
