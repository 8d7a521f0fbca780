"""An operation added from outside the library: a row, a scalar row, a name, a sample."""

from __future__ import annotations

import numpy as np
import pytest

import stax
from stax.loops.ops import ops
from stax.loops.scalar_ops import ScalarOp, register
from stax.numpy.registration import operand
from stax.primitives.elementwise import abs_, add, guarded_div, square
from stax.primitives.families import literal, unary
from stax.testing import check_grads


def _numpy_softsign(x):
    return x / (1 + np.abs(x))


@pytest.fixture(scope="module")
def softsign():
    # 1. How one element is computed.
    register(
        ScalarOp(
            name="softsign",
            arity=1,
            result=lambda dtypes: dtypes[0],
            numpy=_numpy_softsign,
            c="({0} / (1 + ({0} < 0 ? -{0} : {0})))",
            triton="({0} / (1 + tl.abs({0})))",
            flops=6.0,
        )
    )
    # 2. The row.
    _row, bind = unary(
        "softsign",
        _numpy_softsign,
        lambda t, out, x: guarded_div(t, square(add(abs_(x), literal(1, x)))),
        accepts="f",
        scalar=lambda x: ops.call("softsign", x),
    )
    # 3. The name on the surface.
    return lambda x: bind(operand(x, "softsign"))


# 4. A sample.
SAMPLE = np.array([[-2.0, -0.5, 0.3], [1.5, 0.7, 4.0]])


def test_it_evaluates_batches_compiles_and_differentiates(softsign):
    want = _numpy_softsign(SAMPLE)
    np.testing.assert_array_equal(softsign(SAMPLE), want)
    np.testing.assert_array_equal(stax.vmap(softsign, in_axes=1, out_axes=1)(SAMPLE), want)
    np.testing.assert_allclose(stax.jit(softsign)(SAMPLE), want, rtol=1e-15)
    traced = stax.jit(softsign).trace(SAMPLE)
    assert [e.op for e in traced.graph.eqns] == ["softsign"]
    assert not traced.lower().fallbacks
    check_grads(softsign, (SAMPLE,), order=2)
    check_grads(stax.jit(softsign), (SAMPLE,), order=2)


def test_a_second_row_of_the_same_name_is_refused(softsign):
    with pytest.raises(ValueError, match="has a row already"):
        unary("softsign", _numpy_softsign, lambda t, out, x: t, scalar=None)
