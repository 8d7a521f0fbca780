"""Further inputs of the kinds that the other files name: other functions, widths, nestings."""

import functools
import math
import threading

import numpy as np

from tests.cases.frame import (
    F32,
    F64,
    I32,
    I64,
    A,
    Multi,
    N,
    R,
    api,
    both,
    case,
    ckpt,
    grad,
    inf,
    jit,
    key,
    nan,
    nn,
    raises,
    same,
    snp,
    special,
    vmap,
)

WIDTHS = (1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 127, 257)


def everywhere(f, x, expected, tolerance=1e-12):
    """The gradient of `f` at x, eager, compiled and recomputed, against a closed form."""
    x, expected = A(np.asarray(x, F64)), np.asarray(expected, F64)
    ways = dict(eager=grad(f), jit=jit(grad(f)), checkpoint=jit(grad(ckpt(f))))
    return {name: same(way(x), expected, tolerance) for name, way in ways.items()}


def all_true(**groups):
    return (
        Multi({f"{g}.{k}": v for g, found in groups.items() for k, v in found.items()}),
        True,
        "exact",
    )


@case(
    "gelu_overflowing_cube",
    "general (tanh form of gelu on large activations)",
    "saturated activation: 0 times an overflowed polynomial",
)
def _():
    """Gelu' is 1 or 0 up to the largest number of the dtype in both forms; gelu'' 0 up to a 10,000th"""
    out = {}
    for dtype in (np.float16, F32, F64):
        top = float(np.finfo(dtype).max)
        x = np.array([v for v in (1e3, 6e4, 1e13, 1e20, top) if v <= top]).astype(dtype)
        x = np.concatenate([x, -x])
        for approximate in (True, False):
            f = lambda z: snp.sum(nn("gelu")(z, approximate=approximate))
            out[f"{dtype.__name__}{approximate}"] = same(jit(grad(f))(A(x)), x > 0, 0)
        second = jit(grad(lambda z: snp.sum(grad(lambda q: snp.sum(nn("gelu")(q)))(z))))
        out[dtype.__name__ + "second"] = same(
            second(A(np.clip(x, -top / 1e4, top / 1e4) if dtype is not np.float16 else x)),
            np.zeros(len(x)),
            0,
        )
    return Multi(out), True, "exact"


@case(
    "masked_std_nan_grad",
    "jax-ml/jax#23842 (masked reductions)",
    "what a mask hides must not reach the gradient",
)
def _():
    """Std, var, mean, sum, logsumexp with where=: the hidden NaN or inf has gradient 0, the others theirs"""
    mask = np.array([True, False, True])
    out = {}
    for hidden in (nan, inf, -inf):
        x = [1.0, hidden, 3.0]
        lse = special("logsumexp")
        p = 1 / (1 + math.exp(2.0))
        for name, f, e in (
            ("std", lambda z: snp.std(z, where=mask), [-0.5, 0, 0.5]),
            ("var", lambda z: snp.var(z, where=mask), [-1, 0, 1]),
            ("mean", lambda z: snp.mean(z, where=mask), [0.5, 0, 0.5]),
            ("sum", lambda z: snp.sum(z, where=mask), [1, 0, 1]),
            ("lse", lambda z: lse(z, where=mask), [p, 0, 1 - p]),
        ):
            out[f"{name} {hidden}"] = everywhere(f, x, e)
    return all_true(**out)


@case("cumlogsumexp_inf", "jax-ml/jax#6811 (logsumexp)", "running logsumexp with infinities")
def _():
    """Gradient of one running sum with inf or -inf before it: the infinite term has it all; reverse too"""
    f = api("lax.cumlogsumexp")
    return all_true(
        up=everywhere(lambda z: f(z)[-1], [-inf, inf, 0.0], [0.0, 1, 0]),
        low=everywhere(lambda z: f(z)[1], [-inf, 0.0, 5.0], [0.0, 1, 0]),
        none=everywhere(lambda z: f(z)[1], [-inf, -inf, 0.0], [0.0, 0, 0]),
        back=everywhere(lambda z: f(z, reverse=True)[0], [0.0, inf, 1.0], [0.0, 1, 0]),
    )


@case("where_other_singular", "jax-ml/jax#347", "gradient through where, other functions")
def _():
    """log, power, arccos, arctanh, exp overflow, log1p, cbrt, norm in the branch not taken"""
    w = snp.where
    return all_true(
        log=everywhere(lambda x: snp.sum(w(x > 0, snp.log(x), 0.0)), [0.0, 2, -1], [0, 0.5, 0]),
        power=everywhere(lambda x: snp.sum(w(x > 0, x**-1.5, 0.0)), [0.0, 4], [0, -1.5 / 32]),
        acos=everywhere(
            lambda x: snp.sum(w(abs(x) < 1, snp.arccos(x), 0.0)), [1.0, 0, 2], [0, -1, 0]
        ),
        exp=everywhere(lambda x: snp.sum(w(x < 100, snp.exp(x), 0.0)), [1e3, 0.0], [0, 1]),
        cbrt=everywhere(lambda x: snp.sum(w(x != 0, snp.cbrt(x), 0.0)), [0.0, 8], [0, 1 / 12]),
        norm=everywhere(lambda x: w(snp.sum(x) > 0, snp.linalg.norm(x), 0.0), [0.0, 0], [0, 0]),
    )


@case("sinc_derivatives_at_zero", "general (sinc, removable singularity)", "removable singularity")
def _():
    """Sinc'' = -pi^2/3 and sinc'''' = pi^4/5 at 0, sinc'(1) = -1"""
    second = grad(grad(snp.sinc))
    fourth = grad(grad(second))
    got = [jit(second)(A(0.0)), jit(fourth)(A(0.0)), jit(grad(snp.sinc))(A(1.0))]
    return (
        np.array([float(g) for g in got]),
        np.array([-(math.pi**2) / 3, math.pi**4 / 5, -1]),
        1e-9,
    )


@case("det_singular", "general (cofactors by inverse)", "gradient of the determinant, singular")
def _():
    """Rank 1, rank 0 and a zero row: cofactors, not NaN"""
    det = lambda z: snp.linalg.det(z)
    return all_true(
        rank1=everywhere(det, [[1.0, 2], [2, 4]], [[4.0, -2], [-2, 1]], 1e-9),
        rank0=everywhere(det, np.zeros((3, 3)), np.zeros((3, 3))),
        row=everywhere(det, [[0.0, 0], [0, 1]], [[1.0, 0], [0, 0]]),
    )


@case("ties_prod_cumprod_2d", "tensorflow#3862", "products with zeros along an axis of a matrix")
def _():
    """Prod over rows, cumprod down columns, a running maximum with ties"""
    return all_true(
        prod=everywhere(
            lambda z: snp.sum(snp.prod(z, axis=1)), [[0.0, 2], [3, 4]], [[2, 0], [4, 3]]
        ),
        two=everywhere(lambda z: snp.prod(z), [0.0, 0, 3], [0, 0, 0]),
        down=everywhere(
            lambda z: snp.sum(snp.cumprod(z, axis=0)),
            [[0.0, 2], [0, 0], [1, 1]],
            [[1, 1], [0, 4], [0, 0]],
        ),
        ties=everywhere(
            lambda z: snp.sum(snp.max(z, axis=0)), [[1.0, 1], [1, 0]], [[0.5, 1], [0.5, 0]]
        ),
    )


@case("widths_all_reductions", "tinygrad; general (vector tails)", "sizes around vector widths")
def _():
    """sum, max, argmax, cumsum, sort, var, prod and a count in f32 at 15 lengths, forward and reversed"""
    f = lambda xp, a: (
        xp.sum(a * a),
        xp.max(a),
        xp.argmax(a),
        xp.cumsum(a[::-1]),
        xp.sort(a),
        xp.var(a),
        xp.prod(1 + a / 100),
        xp.sum(a > 0),
    )
    bad = []
    compiled = jit(lambda a: f(snp, a))
    for n in WIDTHS:
        x = R(n).standard_normal(n).astype(F32)
        for way, v in (("forward", x), ("reversed", x[::-1])):
            for k, (g, e) in enumerate(zip(compiled(v), f(np, v.astype(F64)))):
                if not same(g, e, 3e-5):
                    bad.append((n, way, k))
    return bad, [], "exact"


@case("int_limits_all_ops", "general (C promotion rules)", "small integers at their limits")
def _():
    """Eight integer dtypes: + - * // % shift compare abs cast at the extremes, 37 lanes, as NumPy"""
    f = lambda xp, a, b, d: (
        a + b,
        a - b,
        a * b,
        -a,
        abs(a),
        a // d,
        a % d,
        a < b,
        a == 300,
        a > 2**70,
        xp.maximum(a, b),
        a.astype(np.int8),
        a.astype(np.uint16),
        a.astype(F32),
        xp.sort(a),
        xp.argmin(a),
        xp.sum(a),
        ~a ^ b,
        xp.left_shift(a, 3),
        xp.right_shift(a, np.iinfo(a.dtype).bits - 1),
    )
    bad = []
    for dtype in (np.int8, np.uint8, np.int16, np.uint16, I32, np.uint32, I64, np.uint64):
        info = np.iinfo(dtype)
        x = np.array([info.min, info.min + 1, 0, 1, 2, 7, info.max - 1, info.max] * 5, dtype)[:37]
        y = np.roll(x, 3)
        d = np.where(y == 0, dtype(3), y)
        with np.errstate(all="ignore"):
            expected = f(np, x, y, d)
        for k, (g, e) in enumerate(zip(jit(lambda a, b, c: f(snp, a, b, c))(x, y, d), expected)):
            if not np.array_equal(N(g), e) or N(g).dtype != e.dtype:
                bad.append((np.dtype(dtype).name, k))
    return bad, [], "exact"


@case("double_rounding", "general (f64 to f16 by way of f32)", "conversion in two steps")
def _():
    """1+2^-11+2^-40 to f16 rounds up, 65519.999 stays finite; uint64 and int64 to f32 once rounded"""
    x = np.array([1 + 2**-11 + 2**-40, 65519.999, 65520.0, 2.0**-25, 2.0**-25 * 1.0001])
    u = np.array([2**64 - 1, 2**40 + 2**16 + 1, 2**63 + 2**39 + 1], np.uint64)
    i = np.array([2**53 + 1, 2**63 - 1, -(2**63), 2**24 + 1], I64)
    with np.errstate(all="ignore"):
        return (
            Multi(
                half=same(jit(lambda z: z.astype(np.float16))(A(x)), x.astype(np.float16), 0),
                u=same(jit(lambda z: z.astype(F32))(A(u)), u.astype(F32), 0),
                i=same(jit(lambda z: z.astype(F32))(A(i)), i.astype(F32), 0),
            ),
            True,
            "exact",
        )


@case("inplace_chain_views", "pytorch#101950", "overlapping writes through views")
def _():
    """Shifts, a strided view doubled, reversal into itself, x += x.T, two smoothing steps: as NumPy"""

    def f(a):
        a = a.copy()
        a[1:] = a[:-1]
        a[0] += a[-1]
        v = a[::2]
        v *= 2
        a[::-1] = a
        a[1:-1] = (a[:-2] + a[2:]) / 2
        return a

    def g(a):
        a = a.copy()
        a += a.T
        a[:, 0] = a[0]
        a[1:, 1:] -= a[:-1, :-1]
        return a

    x = R(0).standard_normal((9, 9))
    out = {
        str(n): same(jit(f)(np.arange(1.0, n + 1)), f(np.arange(1.0, n + 1)), 1e-13) for n in WIDTHS
    }
    out["matrix"] = same(jit(g)(x), g(x), 1e-13)
    return Multi(out), True, "exact"


@case(
    "swapped_carries", "mlx; general (double buffers of loops)", "loop carries read after written"
)
def _():
    """Carries swapped, rotated, reversed, transposed; writes read in the next step; old carry as output"""
    fori, scan = api("lax.fori_loop"), api("lax.scan")
    a = np.arange(9.0).reshape(3, 3)
    t = a
    for _ in range(3):
        t = t.T + t
    swap = jit(lambda p, q: scan(lambda c, _: ((c[1], c[0]), None), (p, q), None, length=3)[0])
    return (
        Multi(
            swap=same(snp.stack(list(swap(np.ones(2), np.zeros(2)))), [[0, 0], [1, 1]], 0),
            roll=same(
                jit(lambda z: fori(0, 7, lambda i, c: snp.roll(c, 1), z))(np.arange(5.0)),
                [3, 4, 0, 1, 2],
                0,
            ),
            flip=same(
                jit(lambda z: fori(0, 3, lambda i, c: c[::-1] + i, z))(np.arange(4.0)),
                [6, 5, 4, 3],
                0,
            ),
            turn=same(jit(lambda z: fori(0, 3, lambda i, c: c.T + c, z))(a), t, 0),
            write=same(
                jit(lambda z: fori(0, 4, lambda i, c: c.at[i + 1].set(c[i] + c[0]), z))(
                    np.array([1.0, 0, 0, 0, 0])
                ),
                [1, 2, 3, 4, 5],
                0,
            ),
            old=same(
                jit(lambda z: scan(lambda c, _: (c + 1, c), z, None, length=3)[1])(np.zeros(1)),
                [[0], [1], [2]],
                0,
            ),
        ),
        True,
        "exact",
    )


@case("scan_of_nothing", "general (loops of no steps)", "scan over zero elements")
def _():
    """Length 0: the carry comes back, ys are empty, the gradient of the carry is 1; reversed and batched"""
    scan = api("lax.scan")
    f = lambda c, x, r: scan(lambda c, x: (c * x, c), c, x, reverse=r)
    e, out = np.zeros(0), {}
    for r in (False, True):
        c, ys = jit(lambda c, x: f(c, x, r))(3.0, e)
        out[f"value{r}"] = float(c) == 3 and N(ys).shape == (0,)
        out[f"grad{r}"] = same(jit(grad(lambda c: f(c, e, r)[0]))(3.0), 1.0, 0)
        c, ys = jit(vmap(lambda x: f(1.0, x, r)))(np.zeros((4, 0)))
        out[f"batch{r}"] = same(c, np.ones(4), 0) and N(ys).shape == (4, 0)
    return Multi(out), True, "exact"


@case("dropout_recomputed", "pytorch (checkpoint and random state)", "mask drawn twice")
def _():
    """A Bernoulli mask inside checkpoint: the gradient has the mask of the forward pass"""
    k, x = key(0), R(0).standard_normal(501)
    mask = N(api("random.bernoulli")(k, 0.5, (501,)))
    f = lambda z, q: snp.sum(snp.where(api("random.bernoulli")(q, 0.5, z.shape), snp.sin(z), 0.0))
    ways = dict(e=grad(f), j=jit(grad(f)), c=jit(grad(ckpt(f))), cj=grad(ckpt(jit(f))))
    e = np.where(mask, np.cos(x), 0)
    return Multi({n: same(g(A(x), k), e, 1e-12) for n, g in ways.items()}), True, "exact"


@case("vmapped_keys", "tinygrad#9108; general", "keys drawn one by one, mapped, scanned")
def _():
    """Normal numbers of five keys: in a loop, under vmap, under scan"""
    r = api("random.normal")
    ks = api("random.split")(key(3), 5)
    e = np.stack([N(r(k, (7,))) for k in ks])
    return (
        Multi(
            vmap=same(vmap(lambda k: r(k, (7,)))(ks), e, 1e-6),
            scan=same(
                jit(lambda q: api("lax.scan")(lambda c, k: (c, r(k, (7,))), 0.0, q)[1])(ks), e, 1e-6
            ),
        ),
        True,
        "exact",
    )


@case("static_lookalikes", "cccl#9626", "static arguments that are equal and differ")
def _():
    """1, True, 1.0; 0.0 and -0.0; dictionaries in another order: each its own program"""
    kind = jit(lambda x, n: x + {bool: 1, int: 2, float: 3}[type(n)], static_argnums=1)
    sign = jit(lambda x, n: x * math.copysign(1, n), static_argnums=1)
    order = jit(lambda d: d["a"] - d["b"])
    return (
        np.array(
            [float(kind(0.0, n)) for n in (1, True, 1.0)]
            + [float(sign(3.0, n)) for n in (0.0, -0.0)]
            + [float(order(d)) for d in (dict(a=1.0, b=2.0), dict(b=2.0, a=1.0))]
        ),
        np.array([2, 1, 3, 3, -3, -1, -1.0]),
        0,
    )


@case("constant_outputs_owned", "tinygrad#7020; mxnet#14733", "writing into a result")
def _():
    """A caller writes into constants, captured arrays and repeated outputs: later calls and neighbours keep theirs"""
    captured = np.ones(3)
    f = jit(lambda x: (snp.zeros(3), snp.zeros(3), captured, x, x))
    x = np.ones(3)
    a = f(x)
    for v in (a[0], a[2], a[3]):
        np.asarray(v)[...] = 7.0
    b = f(x)
    got = np.stack([N(v) for v in (a[1], a[4], b[0], b[2], captured, x)])
    return got, np.array([[0.0] * 3, [1] * 3, [0] * 3, [1] * 3, [1] * 3, [1] * 3]), 0


@case("threads_many_shapes", "numba#3267; general", "compiled from several threads")
def _():
    """Four threads, one function and its gradient, new shapes all the time"""
    f = jit(lambda x: snp.sum(snp.sin(x) @ snp.cos(x).T, axis=1))
    g = jit(grad(lambda x: snp.sum(snp.tanh(x @ x.T))))
    bad = []

    def work(seed):
        r = R(seed)
        for _ in range(4):
            n = int(r.integers(1, 9))
            x = r.standard_normal((n, n))
            d = 1 - np.tanh(x @ x.T) ** 2
            if not same(f(x), (np.sin(x) @ np.cos(x).T).sum(1), 1e-10):
                bad.append(("f", seed))
            if not same(g(x), (d + d.T) @ x, 1e-10):
                bad.append(("g", seed))

    threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return bad, [], "exact"


@case("custom_rule_in_scan", "jax-ml/jax#28805", "custom rule in loops and batches")
def _():
    """Cotangent clipped at every step of a scan: gradient 1, not 81; under vmap and checkpoint too"""
    keep = api("custom_vjp")(lambda x: x)
    keep.defvjp(lambda x: (x, None), lambda _, g: (snp.clip(g, -1, 1),))
    scan = api("lax.scan")
    f = lambda x: scan(lambda c, _: (keep(c) * 3, None), x, None, length=4)[0]
    return (
        Multi(
            j=same(jit(grad(f))(1.0), 1.0, 0),
            v=same(jit(vmap(grad(f)))(np.ones(2)), [1.0, 1], 0),
            c=same(jit(grad(ckpt(f)))(1.0), 1.0, 0),
        ),
        True,
        "exact",
    )


@case("doubling_chains", "general (expression swell)", "a value used twice at every level")
def _():
    """60 levels of a+a, 80 Fibonacci steps, five nested derivatives: no doubling of the program"""
    fib = lambda x: functools.reduce(lambda p, _: (p[1], p[0] + p[1]), range(60), (x, x))[0]
    f = lambda x: snp.sin(x) * snp.exp(x)
    fifth = functools.reduce(lambda g, _: grad(g), range(5), f)
    half = lambda x: functools.reduce(lambda a, _: (a + a) * 0.5, range(60), x)
    x = 0.3
    e = -4 * math.exp(x) * (math.sin(x) + math.cos(x))
    return (
        np.array([float(jit(grad(half))(1.0)), float(jit(fib)(1.0)), float(jit(fifth)(x))]),
        np.array([1.0, 2504730781961.0, e]),
        1e-9,
    )


@case("scatter_duplicates", "general (atomic updates)", "several updates of one element")
def _():
    """at[dup].add, multiply, max with NaN; uint8 wraps; gradients of add"""
    i = np.array([0, 0, -1])
    z, o = np.zeros(4), np.ones(4)
    return (
        Multi(
            add=same(jit(lambda a: A(z).at[i].add(a))(A([1.0, 2, 3])), [3, 0, 0, 3], 0),
            mul=same(jit(lambda a: A(o).at[i].multiply(a))(A([2.0, 5, 3])), [10, 1, 1, 3], 0),
            max=same(jit(lambda a: A(z).at[i].max(a))(A([1.0, nan, 3])), [nan, 0, 0, 3], 0),
            wrap=same(
                jit(lambda a: a.at[np.array([0, 0])].add(np.uint8(200)))(A(np.zeros(2, np.uint8))),
                [144, 0],
                0,
            ),
            grad=same(
                jit(grad(lambda a: snp.sum(A(z).at[i].add(a) ** 2)))(A([1.0, 2, 3])), [6, 6, 6], 0
            ),
        ),
        True,
        "exact",
    )


@case("complex_branches", "general (complex functions)", "branch cuts and large complex numbers")
def _():
    """Sqrt and log on both sides of the cut by the sign of zero; 1e200 scale in abs and division; tanh large"""
    x = np.array(
        [complex(-4, 0.0), complex(-4, -0.0), complex(-3e200, 4e200), complex(1e-200, 1e-200)]
    )
    f = lambda xp: lambda z: (xp.sqrt(z), xp.log(z), xp.abs(z), z / z[::-1], xp.tanh(z))
    with np.errstate(all="ignore"):
        expected = f(np)(x)
    bad = []
    for k, (g, e) in enumerate(zip(jit(f(snp))(A(x)), expected)):
        if not np.allclose(np.asarray(g), e, rtol=1e-12, atol=0, equal_nan=True):
            bad.append(k)
    return bad, [], "exact"


@case("loop_carry_errors", "general (loop carries)", "carry that changes: a named error")
def _():
    """Dtype, shape and structure of a carry change; lengths differ: the message says what"""
    scan, fori = api("lax.scan"), api("lax.fori_loop")
    x = np.ones(3)
    return (
        Multi(
            dtype=raises(lambda: fori(0, 3, lambda i, c: c.astype(F32), x), Exception, ("carry",)),
            shape=raises(
                lambda: scan(lambda c, _: (c[None], None), x, None, length=2), Exception, ("carry",)
            ),
            tree=raises(lambda: scan(lambda c, y: ((c, c), y), 0.0, x), Exception, ("carry",)),
            size=raises(
                lambda: scan(lambda c, y: (c, c), 0.0, (x, np.ones(4))),
                Exception,
                ("leading|length",),
            ),
        ),
        "raised",
        "exact",
    )


@case(
    "half_decisions_variants",
    "general (16-bit values in 32-bit registers)",
    "rounding before a decision",
)
def _():
    """f16: sum of 4096 ones by matmul, x+tiny == x, argmax of sums that round to ties, overflow seen by isinf"""
    h = np.float16
    o = np.ones((2, 4096), h)
    x = np.array([1.0, 1.0, 0.5], h)
    t = np.array([1e-4, 0.0, 0.0], h)
    return (
        Multi(
            product=same(jit(lambda a: a @ a.T)(A(o)), np.full((2, 2), 4096), 0),
            equal=same(jit(lambda a, b: (a + b) == a)(A(x), A(t)), [True, True, True], 0),
            tie=same(jit(lambda a, b: snp.argmax(b - a))(A(-x), A(t)), 0, 0),
            inf=same(jit(lambda a: snp.isinf(a * 60000 * 2))(A(x)), [True, True, False], 0),
            both=bool(N(both(lambda a: snp.sum(a), o)["jit"]) == 8192),
        ),
        True,
        "exact",
    )
