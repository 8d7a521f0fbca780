"""Wrong use gives an error that names the cause."""

import math

import numpy as np

from tests.cases.frame import A, Multi, N, case, grad, jit, raises, same, vjp


@case("err_int_input", "ott#129 (float0)", "grad of an integer input")
def _():
    """TypeError that says integer and asks for a float"""
    return (
        raises(lambda: grad(lambda x: x * 2.0)(A(3)), TypeError, ["int", "float|real|inexact"]),
        "raised",
        "exact",
    )


@case("err_branch_on_tracer", "jax-ml/jax#16430,#24511,#23637", "Python if on a traced value")
def _():
    """Jit raises and names the offending place; grad without jit simply works"""

    def step(x):
        if x > 0:
            return x * 2
        return x

    m = raises(
        lambda: jit(step)(A(1.0)),
        Exception,
        ["bool|condition|branch|concret|control flow", "step|cases.py"],
    )
    return Multi(msg=m == "raised", grad=same(grad(step)(A(3.0)), 2, 0)), True, "exact"


@case("err_numpy_on_tracer", "jax-ml/jax#3656", "plain numpy called on a tracer")
def _():
    """Either it traces rightly or it raises; never a silently frozen constant"""
    try:
        f = jit(lambda x: np.sin(x) + x)
        a, b = float(N(f(A(1.0)))), float(N(f(A(2.0))))
    except Exception:
        return True, True, "exact"
    return (
        bool(abs(a - (math.sin(1) + 1)) < 1e-9 and abs(b - (math.sin(2) + 2)) < 1e-9),
        True,
        "exact",
    )


@case(
    "err_shape_mismatch",
    "jax-ml/jax#4858 (better_errors label)",
    "shape errors come at trace time and carry both shapes",
)
def _():
    """(2,3)@(4,5), (3,)+(4,), wrong cotangent shape: error at trace time with the sizes"""
    m = raises(
        lambda: jit(lambda a, b: a @ b)(A(np.ones((2, 3))), A(np.ones((4, 5)))),
        Exception,
        ["3", "4"],
    )
    n = raises(lambda: jit(lambda a, b: a + b)(A(np.ones(3)), A(np.ones(4))), Exception, ["3", "4"])
    c = raises(lambda: vjp(lambda a: a * 2, A(np.ones(3)))[1](A(np.ones(4))), Exception)
    return (m, n, c), ("raised",) * 3, "exact"
