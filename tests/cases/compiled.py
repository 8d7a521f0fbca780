"""Compiled functions: cache keys, aliases, statics, structure of results, threads."""

import functools
import math
import time

import numpy as np

from tests.cases.frame import (
    F32,
    I32,
    A,
    Multi,
    N,
    R,
    api,
    case,
    ckpt,
    dts,
    grad,
    jit,
    same,
    snp,
    vag,
    vjp,
    vmap,
)


@case("output_buffer_reuse", "tinygrad#7020", "second call overwrites the first call's result")
def _():
    """Three calls of one jitted function (and of its grad, and of one vjp closure): all three results stay right"""
    f = jit(lambda x: x + 1)
    g = jit(grad(lambda x: snp.sum(x**2)))
    xs = [A(np.full(4096, v)) for v in (1.0, 2.0, 3.0)]
    a = [f(x) for x in xs]
    b = [g(x) for x in xs]
    _, pull = vjp(jit(lambda x: snp.sin(x)), xs[0])
    c1 = pull(A(np.ones(4096)))[0]
    c2 = pull(A(np.full(4096, 2.0)))[0]
    return (
        np.array([N(v)[7] for v in a + b + [c1, c2]]),
        np.array([2, 3, 4, 2, 4, 6, math.cos(1), 2 * math.cos(1)]),
        1e-12,
    )


@case(
    "numpy_input_mutated",
    "jax-ml/jax#37830; mxnet#14733",
    "caller mutates its NumPy array after the call",
)
def _():
    """Results and saved residuals keep the values they had (identity output, vjp closure)"""
    x = np.arange(1.0, 1001.0)
    y = jit(lambda a: a)(x)
    z = jit(lambda a: a * 2)(x)
    _, pull = vjp(lambda a: a * a, x)
    _, pullj = vjp(jit(lambda a: snp.sin(a) * a), x)
    keep = x.copy()
    x[:] = -5.0
    r = {
        "id": same(y, keep, 0),
        "mul": same(z, keep * 2, 0),
        "vjp": same(pull(A(np.ones(1000)))[0], 2 * keep, 0),
        "vjpj": same(pullj(A(np.ones(1000)))[0], np.sin(keep) + keep * np.cos(keep), 1e-12),
    }
    return Multi(r), True, "exact"


@case(
    "input_not_mutated", "pytorch inductor in-place reuse #189735", "kernel writes into its input"
)
def _():
    """at[].set on an argument inside jit: caller's arrays unchanged"""
    x = np.ones((64, 64))
    w = x.copy()
    f = jit(lambda a, b: (a.at[0].set(9.0) * 2 + b, snp.exp(a) - a, a - b))
    f(x, w)
    jit(grad(lambda a: snp.sum(snp.tanh(a) * a.at[1].set(3.0))))(x)
    return Multi(x=bool((x == 1).all()), w=bool((w == 1).all())), True, "exact"


@case("duplicate_args", "pytorch#181146,#139789", "same array passed twice")
def _():
    """Separate gradients per slot; the compiled version for (x,x) is not reused wrongly for (x,y)"""
    f = jit(grad(lambda a, b: snp.sum(a * a * b), argnums=(0, 1)))
    x, y = A([1.0, 2.0]), A([3.0, 5.0])
    p, q = f(x, x)
    r, s = f(x, y)
    b = np.ones(8)
    t = jit(lambda u, v: u * 2 + v)(b[:4], b[2:6])
    return (
        np.stack([N(p), N(q), N(r), N(s), N(t)[:2]]),
        np.array([[2, 8], [1, 4], [6, 20], [1, 4], [3, 3.0]]),
        0,
    )


@case("unused_inputs", "pytorch#172730; general", "unused or disconnected inputs")
def _():
    """Zeros of the right shape and dtype; unused jit args of any size; output independent of input"""
    g = jit(grad(lambda a, b: snp.sum(a), argnums=(0, 1)))(
        A(np.ones(2, F32)), A(np.ones((3, 1), F32))
    )
    h = jit(grad(lambda a: 3.0 * snp.sum(snp.ones(2))))(A(np.ones(4)))
    k = jit(grad(lambda a: snp.sum(api("lax.stop_gradient")(a) * a)))(A([3.0]))
    i = jit(grad(lambda a: snp.sum(a * snp.argmax(a))))(A([1.0, 4.0]))
    return (
        Multi(
            b=same(g[1], np.zeros((3, 1)), 0) and dts(g[1]) == "float32",
            h=same(h, np.zeros(4), 0),
            k=same(k, [3.0], 0),
            i=same(i, [1.0, 1.0], 0),
        ),
        True,
        "exact",
    )


@case("many_buffers", "mlx#1880,#3165", "kernels with hundreds of inputs/outputs")
def _():
    """Sum of 300 arrays; 300 outputs"""
    xs = [np.full(5, float(i)) for i in range(300)]
    f = jit(lambda *a: functools.reduce(lambda p, q: p + q, [snp.sin(v) * 0 + v for v in a]))
    g = jit(lambda x: [x + i for i in range(300)])
    o = g(A(np.zeros(3)))
    return (
        Multi(
            s=same(f(*[A(x) for x in xs]), np.full(5, 44850.0), 1e-12),
            o=all(same(v, np.full(3, float(i)), 0) for i, v in enumerate(o)),
        ),
        True,
        "exact",
    )


@case(
    "multi_output_fusion",
    "mlx#946,#950",
    "fused group with outputs of several shapes, repeated outputs",
)
def _():
    """Seven outputs of five shapes from one fused group, one repeated: each right, right shape"""
    f = jit(
        lambda a: (
            a + 1,
            a * 2,
            snp.sum(a + 1),
            a + 1,
            snp.max(a * 2, axis=0),
            (a + 1)[None],
            snp.sum(a, axis=1) * 2,
        )
    )
    a = np.arange(12.0).reshape(3, 4)
    e = (a + 1, a * 2, (a + 1).sum(), a + 1, (a * 2).max(0), (a + 1)[None], a.sum(1) * 2)
    return (
        all(same(x, y, 1e-12) and N(x).shape == np.shape(y) for x, y in zip(f(A(a)), e)),
        True,
        "exact",
    )


@case("cache_python_scalars", "cccl#9626; jax-ml/jax#4274", "1, 1.0, True hash alike")
def _():
    """jit(identity) of True, 1, 1.0, int8(1): kinds bool, int, float, int; int32*2 stays int32, *2.5 becomes float"""
    f = jit(lambda z: z)
    g = jit(lambda x, z: x / z if False else x * z)
    r = [
        "bool" if "bool" in dts(f(True)) else "x",
        "int" if "int" in dts(f(1)) else "x",
        "float" if "float" in dts(f(1.0)) else "x",
        "int" if "int" in dts(f(np.int8(1))) else "x",
    ]
    v = [dts(g(A(np.ones(1, I32)), 2)), dts(g(A(np.ones(1, I32)), 2.5))[:5]]
    return r + v, ["bool", "int", "float", "int", "int32", "float"], "exact"


def counted(f):
    c = [0]

    def g(*args_, **kw_):
        c[0] += 1
        return f(*args_, **kw_)

    return g, c


@case(
    "varargs_kw_clash",
    "found while validating (jax 0.10.2: internal AssertionError)",
    "f(*a, **k) called with a keyword named a",
)
def _():
    """Jit of def g(*a, **k) called with keywords a= and b=: -2 in both orders"""

    def g(*a, **k):
        return a[0] + k["a"] - k["b"]

    return (
        np.array([float(jit(g)(A(1.0), a=2.0, b=5.0)), float(jit(g)(A(1.0), b=5.0, a=2.0))]),
        np.array([-2.0, -2.0]),
        0,
    )


@case(
    "closure_values",
    "mlir-aie#2948; FlyDSL#1130; jax-ml/jax#38460",
    "same bytecode, other captured value",
)
def _():
    """Ten functions sharing bytecode, differing in closure / default / bound self / partial: own value each"""
    mk = lambda k: jit(lambda x: x * k)
    fs = [mk(2.0), mk(3.0), mk(np.array([4.0])), mk(5)]
    dm = [jit(lambda x, k=k: x * k) for k in (1.0, 2.0)]

    class C:
        def __init__(s, k):
            s.k = k

        def __call__(s, x):
            return x * s.k

    ms = [jit(C(k).__call__) for k in (7.0, 9.0)]
    ps = [jit(functools.partial(lambda k, x: x * k, k)) for k in (11.0, 13.0)]
    return (
        np.array([float(N(f(A(1.0))).ravel()[0]) for f in fs + dm + ms + ps]),
        np.array([2, 3, 4, 5, 1, 2, 7, 9, 11, 13.0]),
        0,
    )


@case(
    "closure_mutated_consistent",
    "numba#3267,#6232; numba#253",
    "captured array mutated: value and gradient must use the same version",
)
def _():
    """Old or new is a matter of rules; a mix of both is a fault"""
    c = np.array([2.0])
    f = jit(vag(lambda x: snp.sum(x * x * c)))
    f(A([3.0]))
    c[0] = 10.0
    v, g = f(A([3.0]))
    return bool((float(N(v)), float(N(g)[0])) in ((18.0, 12.0), (90.0, 60.0))), True, "exact"


@case(
    "error_leaves_clean_state",
    "nstarman/quax#42; jax-ml/jax#734",
    "an exception during tracing poisons later calls",
)
def _():
    """Function raises KeyError while being traced by jit, grad, vmap, checkpoint: later plain calls are right"""

    def bad(x):
        y = snp.sin(x)
        raise KeyError("boom")

    for w in (jit, grad, lambda f: jit(grad(f)), lambda f: vmap(f), lambda f: grad(ckpt(f))):
        try:
            w(bad)(A([1.0]) if w is not grad else A(1.0))
        except KeyError:
            pass
    y = snp.sin(A(1.0))
    return (
        Multi(
            plain=same(y, math.sin(1), 1e-12),
            g=same(grad(snp.sin)(A(0.0)), 1.0, 0),
            j=same(jit(snp.sin)(A(1.0)), math.sin(1), 1e-12),
            conc=isinstance(float(y), float),
        ),
        True,
        "exact",
    )


@case(
    "big_constant",
    "jax-ml/jax#14655,#12789,#10596,#36305",
    "large captured array: compile time and memory",
    slow=True,
)
def _():
    """32 MB captured constant: first call under 20 s, right value, not written out as source text"""
    c = R(1).standard_normal(4_000_000)
    f = jit(lambda x: snp.sum(snp.sin(x + c)))
    t = time.time()
    v = float(N(f(A(0.5))))
    dt = time.time() - t
    return Multi(v=abs(v - np.sin(0.5 + c).sum()) < 1e-6, time=dt < 20), True, "exact"
