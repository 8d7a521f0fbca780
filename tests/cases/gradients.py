"""Gradients at points where formulas break: zeros, ties, infinities, saturation."""

import math

import numpy as np

from tests.cases.frame import (
    F32,
    F64,
    A,
    Multi,
    N,
    both,
    case,
    grad,
    inf,
    jit,
    nn,
    same,
    snp,
    special,
    within,
)


@case(
    "nan_single_where",
    "jax-ml/jax#347; tensorflow#38349",
    "NaN gradient through where",
    level="better",
)
def _():
    """unguarded: the branch not taken should not poison the gradient"""
    f = lambda x: snp.sum(snp.where(x > 0, snp.sqrt(x), 0.0))
    return both(grad(f), np.array([0.0, 4.0])), np.array([0.0, 0.25]), 1e-12


@case(
    "std_constant",
    "jax-ml/jax#11716; pytorch#4320",
    "std gradient of constant input",
    level="better",
)
def _():
    """Std of a constant vector: zero subgradient rather than NaN"""
    return both(grad(lambda x: snp.std(x)), np.array([2.0, 2.0, 2.0])), np.zeros(3), 0


@case(
    "pow_zero_base_int",
    "tinygrad#9075; boost/math#445; mallory#74",
    "power, zero base, integer exponents",
)
def _():
    """x**n at 0 for n=0..4: value 1,0,0,0,0; first derivative 0,1,0,0,0; second 0,0,2,0,0"""
    x = A(0.0)
    v, d, dd = [], [], []
    for n in range(5):
        f = lambda z, n=n: z**n
        v.append(float(jit(f)(x)))
        d.append(float(jit(grad(f))(x)))
        dd.append(float(jit(grad(grad(f)))(x)))
    return np.array([v, d, dd]), np.array([[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 2, 0, 0.0]]), 0


@case(
    "pow_zero_base_float",
    "pytorch#27134,#95180; stan-dev/math#3031",
    "power, zero base, traced exponent",
)
def _():
    """d/da a**b at (0,2)=0; d/db a**b at a=0,b>0 is 0; at a=2,b=3: 12 and 8 ln 2"""
    f = lambda a, b: snp.sum(a**b)
    a, b = np.array([0.0, 2.0]), np.array([2.0, 3.0])
    r = both(lambda a, b: snp.stack(list(grad(f, argnums=(0, 1))(a, b))), a, b)
    return r, np.array([[0.0, 12.0], [0.0, 8 * math.log(2)]]), 1e-12


@case(
    "cumprod_zeros",
    "tensorflow#3862,#119430; pytensor#1911; burn#3864",
    "cumprod gradient with zeros",
)
def _():
    """sum(cumprod): [2,0,3,4] -> [1,32,0,0]; [2,0,0,3] -> [1,2,0,0]"""
    f = lambda x: snp.sum(snp.cumprod(x))
    g = jit(grad(f))
    return (
        np.stack([N(g(A([2.0, 0, 3, 4]))), N(g(A([2.0, 0, 0, 3])))]),
        np.array([[1.0, 32, 0, 0], [1, 2, 0, 0]]),
        1e-12,
    )


@case(
    "logsumexp_inf",
    "jax-ml/jax#1624,#6811,#7390; rmcgibbo/logsumexp#2",
    "logsumexp with infinities",
)
def _():
    """values: all -inf -> -inf; +inf -> inf; big finite; gradient with one -inf: [0,1]"""
    f = special("logsumexp")
    x = np.array([[-inf, -inf, -inf], [inf, 0, 1], [1000.0, 1000, -inf], [-inf, 0, -inf]])
    r = both(lambda z: f(z, axis=1), x)
    g = jit(grad(lambda z: f(z)))(A([-inf, 0.0]))
    e = np.array([-inf, inf, 1000 + math.log(2), 0])
    return (
        Multi(a=same(r["eager"], e, 1e-12), b=same(r["jit"], e, 1e-12), g=same(g, [0.0, 1.0], 0)),
        True,
        "exact",
    )


@case(
    "logsumexp_allneg_grad",
    "jax-ml/jax#6811; pytorch#31829",
    "logsumexp gradient, all -inf",
    level="better",
)
def _():
    """logsumexp([-inf,-inf]): gradient finite in [0,1]"""
    f = special("logsumexp")
    g = both(grad(lambda z: f(z)), np.array([-inf, -inf]))
    return Multi(e=within(g["eager"], 0, 1), j=within(g["jit"], 0, 1)), True, "exact"


@case("logsumexp_where_grad", "jax-ml/jax#23842,#22398", "logsumexp with a mask", level="better")
def _():
    """x=[0,100], mask [T,F]: gradient [1,0]"""
    f = special("logsumexp")
    m = np.array([True, False])
    return both(grad(lambda z: f(z, where=m)), np.array([0.0, 100.0])), np.array([1.0, 0.0]), 1e-12


@case("logaddexp_lanes", "jax-ml/jax#1624,#777", "logaddexp(-inf,-inf) in a vector lane")
def _():
    """9 mixed pairs against float64 np.logaddexp; (-inf,-inf) -> -inf in every lane"""
    a = np.array([-inf, -1.0, inf, -inf, 700.0, -inf, 3.0, 0.0, -inf], F32)
    b = np.array([-inf, -1.0, inf, 5.0, 700.0, inf, -inf, 0.0, -inf], F32)
    with np.errstate(all="ignore"):
        e = np.logaddexp(a.astype(F64), b.astype(F64))
    return both(lambda x, y: snp.logaddexp(x, y), a, b), e, 1e-6


@case("softmax_masked_rows", "pytorch#41508; mlx#2395; burn#4697", "softmax with -inf rows")
def _():
    """A fully masked row may be NaN or 0 but must not touch its neighbours (value and gradient)"""
    f = nn("softmax")
    x = np.array([[0.0, -inf, 1.0], [-inf, -inf, -inf], [1e4, 0.0, -1e4]])
    y = N(jit(lambda z: f(z, axis=-1))(A(x)))
    g = N(jit(grad(lambda z: snp.sum(f(z, axis=-1)[0] * snp.asarray([1.0, 2.0, 4.0]))))(A(x)))
    s = 1 / (1 + math.e)
    p = np.array([s, 0, 1 - s])
    w = np.array([1.0, 2, 4])
    ge = p * (w - (p * w).sum())
    return (
        Multi(
            row0=same(y[0], p, 1e-12),
            row2=same(y[2], [1.0, 0, 0], 0),
            grad0=same(g[0], ge, 1e-12),
            grad2=same(g[2], [0.0, 0, 0], 0),
        ),
        True,
        "exact",
    )


@case(
    "sigmoid_tanh_tail_grad",
    "jax-ml/jax#40385",
    "cancellation in derivative of saturating functions",
    level="better",
)
def _():
    """sigmoid'(37.43) = s(x)s(-x); tanh'(18) = sech^2: both representable, 1-y cancels"""
    x = 37.43
    e1 = 1 / (1 + math.exp(-x)) * (math.exp(-x) / (1 + math.exp(-x)))
    e2 = 1 / math.cosh(18.0) ** 2
    a = jit(grad(nn("sigmoid")))(A(x))
    b = jit(grad(snp.tanh))(A(18.0))
    return Multi(sig=same(a, e1, (1e-9, 0)), tanh=same(b, e2, (1e-9, 0))), True, "exact"
