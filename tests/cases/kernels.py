"""Numerics of generated kernels: accuracy, NaN and infinity, integers, half precision."""

import math
import threading

import numpy as np

from tests.cases.frame import (
    EPS32,
    F32,
    F64,
    I32,
    I64,
    A,
    Missing,
    Multi,
    N,
    R,
    api,
    both,
    case,
    ckpt,
    dts,
    grad,
    inf,
    jit,
    nan,
    nn,
    run_sub,
    same,
    snp,
    special,
    vag,
)


@case(
    "small_args", "pytensor#1965 (rewrites); scipy#12758", "log1p/expm1/tanh/sinh at tiny arguments"
)
def _():
    """Relative accuracy for x=1e-3..1e-30 in f32; no rewriting of log1p to log(1+x)"""
    x = np.array([1e-3, 1e-5, 1e-8, 1e-12, 1e-30, -1e-9], F32)
    X = x.astype(F64)
    r = {}
    for n in ("log1p", "expm1", "tanh", "sinh", "arcsinh"):
        r[n] = same(jit(getattr(snp, n))(A(x)), getattr(np, n)(X), (1e-6, 0))
    return Multi(r), True, "exact"


@case(
    "var_cancellation",
    "pytorch#143337; pandas#10242; jax-ml/jax#30426",
    "variance with a large mean",
)
def _():
    """f32 mean 1e4, sd 0.1; must not be negative, rel. error < 2%; and axis 0 of a matrix"""
    x = (1e4 + 0.125 * ((np.arange(4096) % 7) - 3)).astype(F32)
    e = x.astype(F64).var()
    m = np.stack([x, x + F32(1)], 1)
    r = both(lambda z: snp.var(z), x)
    q = both(lambda z: snp.var(z, axis=0), m)
    e2 = m.astype(F64).var(0)
    f = both(lambda z: snp.var(z), np.array([1e8, 1e8 + 1, 1e8 + 2]))
    return (
        Multi(
            a=same(r["eager"], e, (2e-2, 0)),
            b=same(r["jit"], e, (2e-2, 0)),
            c=same(q["jit"], e2, (2e-2, 0)),
            d=same(f["jit"], 2 / 3, 1e-9),
        ),
        True,
        "exact",
    )


@case("var_one_element", "pytorch#94184; jax-ml/jax#8128", "variance of one element")
def _():
    """var([3])=0, gradient 0; ddof=1 -> NaN, not a crash"""
    r = both(lambda z: snp.var(z), np.array([3.0]))
    g = both(grad(lambda z: snp.var(z)), np.array([3.0]))
    with np.errstate(all="ignore"):
        d = N(jit(lambda z: snp.var(z, ddof=1))(A([3.0])))
    return (
        Multi(v=same(r["jit"], 0.0, 0), g=same(g["jit"], [0.0], 0), d=bool(np.isnan(d))),
        True,
        "exact",
    )


@case(
    "f16_bf16_accumulate",
    "pytorch#93708,#141052; jax-ml/jax#17792; candle#3718; burn#4770",
    "low precision accumulation",
)
def _():
    """4096 f16 ones sum to 4096 (not 2048), mean 1; f16 mean of 1e5 x 2.0 is 2, not inf; bf16 512 ones"""
    h = np.ones(4096, np.float16)
    a = both(lambda z: snp.sum(z), h)
    b = both(lambda z: snp.mean(z), np.full(100000, 2.0, np.float16))
    out = dict(
        s=bool(N(a["eager"]) == 4096),
        sj=bool(N(a["jit"]) == 4096),
        m=bool(N(b["jit"]) == 2),
        dt=dts(a["jit"]) == "float16",
    )
    try:
        bf = api("numpy.bfloat16")
        c = jit(lambda z: snp.sum(z.astype(bf)))(A(np.ones(512, F32)))
        out["bf"] = bool(N(c) == 512)
    except Missing:
        pass
    return Multi(out), True, "exact"


@case(
    "maxmin_nan",
    "pytorch#118266,#196030; pytensor#2272; nx#1499",
    "NaN in max/min/clip/relu, lanes and tail",
)
def _():
    """NaN wins in maximum/minimum/max/min/clip/relu for every position of a 37-vector"""
    bad = []
    mx = jit(
        lambda a, b: (
            snp.maximum(a, b),
            snp.minimum(b, a),
            snp.max(a),
            snp.min(a),
            snp.clip(a, -1.0, 1.0),
            nn("relu")(a),
        )
    )
    base = np.linspace(-2, 2, 37).astype(F32)
    for i in (0, 1, 7, 8, 15, 16, 31, 32, 36):
        a = base.copy()
        a[i] = nan
        r = [N(t) for t in mx(A(a), A(base))]
        e = [
            np.maximum(a, base),
            np.minimum(base, a),
            nan,
            nan,
            np.clip(a, -1, 1),
            np.where(np.isnan(a), nan, np.maximum(a, 0)),
        ]
        for k, (u, v) in enumerate(zip(r, e)):
            if not np.array_equal(u, np.asarray(v, F32), equal_nan=True):
                bad.append((i, k))
    return bad, [], "exact"


@case("reduce_identity", "numba#5662; tinygrad", "wrong identity of min/max reduce")
def _():
    """Min of all +inf is inf, max of all -inf is -inf (not FLT_MAX); max of all negatives; ints at the limits"""
    o = [
        jit(snp.min)(A([inf, inf])),
        jit(snp.max)(A([-inf] * 19, F32)),
        jit(snp.max)(A([-5.0, -7.0])),
        jit(snp.max)(A([np.iinfo(I64).min] * 3)),
        jit(snp.min)(A([np.iinfo(I32).max] * 9, I32)),
    ]
    return (
        np.array([float(N(x)) for x in o]),
        np.array([inf, -inf, -5, float(np.iinfo(I64).min), float(np.iinfo(I32).max)]),
        "exact",
    )


@case("argmax_nan_ties", "pytorch#118266,#113013; triton#1813", "argmax with NaN and ties")
def _():
    """First NaN wins; first of ties wins, also across lanes/threads; two reduced dims; -0.0 ties with 0.0"""
    x = np.array([1.0, nan, 3.0, nan])
    big = np.zeros(100003, F32)
    big[[5, 70000, 99999]] = 1
    m = np.zeros((9, 2, 5))
    m[6, 1, 3] = 4
    m[8, 0, 0] = 4
    r = [
        jit(snp.argmax)(A(x)),
        jit(snp.argmin)(A(x)),
        jit(snp.argmax)(A(big)),
        jit(snp.argmax)(A(m)),
        jit(snp.argmin)(A([0.0, -0.0])),
        jit(lambda z: snp.argmax(z, axis=1))(A([[2, 5, 5], [7, 7, 1]]))[0],
    ]
    return np.array([int(N(v)) for v in r]), np.array([1, 1, 5, 6 * 10 + 1 * 5 + 3, 0, 1]), "exact"


@case(
    "sort_nan_stable",
    "jax-ml/jax#6443; pytorch#15764; ekzhang/jax-js#78",
    "sort order and stability",
)
def _():
    """NaN last (both sign bits); argsort stable; descending long array right"""
    x = np.array([3.0, nan, -inf, np.copysign(nan, -1), inf, 1.0])
    s = N(jit(snp.sort)(A(x)))
    k = N(jit(snp.argsort)(A([2, 1, 2, 1, 0])))
    v = R(1).standard_normal(40000).astype(F32)
    return (
        Multi(
            s=same(s, [-inf, 1, 3, inf, nan, nan], 0),
            k=same(k, [4, 1, 3, 0, 2], 0),
            big=bool(np.array_equal(N(jit(snp.sort)(A(v))), np.sort(v))),
        ),
        True,
        "exact",
    )


@case(
    "isnan_fastmath",
    "pytorch#179135; jax-ml/jax#777; tt-metal#48708",
    "finite-math flags fold isnan/isinf",
)
def _():
    """Sum of finite part 5, plus 10*isnan(5) + 100*isinf(10) + 1000*isfinite(10)"""
    x = np.array([nan, inf, -inf, 1.0, 0.0] * 5, F32)
    f = lambda z: (
        snp.sum(snp.where(snp.isnan(z) | snp.isinf(z), 0.0, z))
        + 10 * snp.sum(snp.isnan(z))
        + 100 * snp.sum(snp.isinf(z))
        + 1000 * snp.sum(snp.isfinite(z))
    )
    return both(f, x), 5 + 50 + 1000 + 10000, 0


@case(
    "denormals_kept",
    "llvm#57589; symengine#1453",
    "denormals flushed inside kernels",
    level="better",
)
def _():
    """x*0.5*2 of f32 denormals is exact"""
    x = np.array([1e-40, 5e-42, -1e-39], F32)
    return both(lambda z: z * F32(0.5) * F32(2.0), x), x, "exact"


@case(
    "denormals_process",
    "llvm#57589; symengine#1453; flac#476",
    "loading a kernel sets FTZ for the whole process",
)
def _():
    """After compiling and running: plain Python/NumPy denormals still live"""
    jit(lambda z: snp.sum(snp.exp(z)))(A(np.ones(1000, F32)))
    t = float("5e-324")
    u = np.array([1e-40], F32)
    res = []
    th = threading.Thread(target=lambda: res.append(np.array([1e-40], F32)[0] * F32(0.5) != 0))
    th.start()
    th.join()
    return (
        Multi(py=(t * 1.0 != 0.0), np32=bool((u * F32(0.5))[0] != 0), thread=bool(res[0])),
        True,
        "exact",
    )


@case(
    "floordiv_mod",
    "triton#619,#4676; tinygrad#9674; numba#7867",
    "integer division/modulo of negatives",
)
def _():
    """Floor division and modulo, all sign pairs, ints and floats, equal NumPy"""
    a = np.array([-7, 7, -7, 7, 6, -6, 0, -1], I64)
    b = np.array([2, -2, -2, 2, -3, 3, -5, 4], I64)
    r = both(lambda x, y: snp.stack([x // y, x % y]), a, b)
    x = np.array([-7.5, 7.5, -7.5, 6.0, -6.0, 1e300])
    y = np.array([2.0, -2.0, -2.0, -3.0, 3.0, 7.0])
    q = both(lambda x, y: snp.stack([x // y, x % y]), x, y)
    e, e2 = np.stack([a // b, a % b]), np.stack([x // y, x % y])
    return (
        Multi(
            i=same(r["eager"], e, 0),
            ij=same(r["jit"], e, 0),
            f=same(q["eager"], e2, 1e-12),
            fj=same(q["jit"], e2, 1e-12),
        ),
        True,
        "exact",
    )


@case(
    "int_div_zero_no_crash",
    "triton#4676; C UB",
    "integer division by zero / INT_MIN // -1 must not kill the process",
)
def _():
    """5//0, INT_MIN//-1, INT_MIN%-1 in int32/int64: any value, process must end with 0"""
    r = run_sub("intdiv", timeout=120)
    return r.returncode, 0, 0


@case(
    "int_wraparound",
    "general (C signed-overflow UB); hlslibs/ac_types#35; cumo#299",
    "integer overflow is wrap-around, not UB",
)
def _():
    """i32 max+1, |INT_MIN|, i8 -(-128), u8 200+100, i64 product; x+1>x must not fold to True"""
    M = np.iinfo(I32).max
    a = np.array([M, M - 1], I32)
    r = {
        "add": same(jit(lambda z: z + 1)(A(a)), np.array([-M - 1, M], I32), 0),
        "cmp": same(jit(lambda z: (z + 1) > z)(A(a)), [False, True], 0),
        "abs": same(jit(snp.abs)(A(np.array([-M - 1], I32))), [-M - 1], 0),
        "neg8": same(jit(lambda z: -z)(A(np.array([-128], np.int8))), [-128], 0),
        "u8": same(jit(lambda z: z + z)(A(np.array([150], np.uint8))), [44], 0),
        "mul": same(jit(lambda z: z * z)(A(np.array([1 << 40], I64))), [0], 0),
        "u8f": dts(jit(lambda z: z + 1)(A(np.array([255], np.uint8)))) == "uint8",
    }
    return Multi(r), True, "exact"


@case("int_reduce_promote", "pytensor#2272", "small-int reductions overflow")
def _():
    """Sum of 1000 u8 200s = 200000; prod of i8; mean of i32 near the limit; cumsum of bool counts"""
    r = {
        "u8": same(jit(snp.sum)(A(np.full(1000, 200, np.uint8))), 200000, 0),
        "i8": same(jit(snp.prod)(A(np.array([100, 100, 2], np.int8))), 20000, 0),
        "mean": same(jit(snp.mean)(A(np.full(4, 2**31 - 1, I32))), 2147483647.0, 1e-6),
        "bool": same(jit(snp.cumsum)(A([True, True, False, True])), [1, 2, 2, 3], 0),
    }
    return Multi(r), True, "exact"


@case(
    "unsigned_compare", "general (C promotion rules); pytensor#2272", "unsigned handled as signed"
)
def _():
    """uint64 above 2^63: compare, max, divide, shift, to float; uint32 4e9 to f32; -5>>1 = -3 in int32"""
    x = np.array([2**63 + 5, 1, 2**64 - 1], np.uint64)
    r = {
        "gt": same(jit(lambda z: z > np.uint64(7))(A(x)), [True, False, True], 0),
        "max": int(N(jit(snp.max)(A(x)))) == 2**64 - 1,
        "div": [int(v) for v in N(jit(lambda z: z // np.uint64(2))(A(x)))]
        == [int(v) // 2 for v in x],
        "f": same(jit(lambda z: z.astype(F64))(A(x)), x.astype(F64), 1e-15),
        "u32f": same(
            jit(lambda z: z.astype(F32))(A(np.array([4000000000], np.uint32))), [4e9], 1e-6
        ),
        "shr": [int(v) for v in N(jit(lambda z: z >> np.uint64(1))(A(x)))]
        == [int(v) >> 1 for v in x],
        "sar": same(jit(lambda z: z >> 1)(A(np.array([-5], I32))), [-3], 0),
    }
    return Multi(r), True, "exact"


@case("promotion_weak", "jax-ml/jax#4274; NumPy NEP 50", "Python scalars must not widen arrays")
def _():
    """f32*2.0+1 f32; f16/3 f16; i8+1 i8; where(f32,0.0) f32; f32+f64 array f64; i32/i32 float; same eager and jit"""
    x32, h, i8, i32 = np.ones(2, F32), np.ones(2, np.float16), np.ones(2, np.int8), np.ones(2, I32)
    r = {}
    for nm, w in (("eager", lambda f: f), ("jit", jit)):
        r[nm] = [
            dts(w(lambda z: z * 2.0 + 1)(A(x32))),
            dts(w(lambda z: z / 3)(A(h))),
            dts(w(lambda z: z + 1)(A(i8))),
            dts(w(lambda z: snp.where(z > 0, z, 0.0))(A(x32))),
            dts(w(lambda z: snp.maximum(z, 0))(A(x32))),
            dts(w(lambda z, y: z + y)(A(x32), A(np.float64(1.0) * np.ones(1)))),
            dts(grad(lambda z: snp.sum(z * 2.0))(A(x32))),
            "f" if "float" in dts(w(lambda z: z / z)(A(i32))) else "?",
        ]
    e = ["float32", "float16", "int8", "float32", "float32", "float64", "float32", "f"]
    return Multi(eager=r["eager"] == e, jit=r["jit"] == e), True, "exact"


@case("erf_family", "scipy#12758; pytorch#189804", "erf/erfc/erfinv accuracy")
def _():
    """f64 erf, erfc(10) relative, erfinv at 1e-12 and near 1; f32 erf within 4 ulp"""
    x = np.array([1e-20, 1e-8, 0.3, 0.5, 1.0, 2.0, 3.5, -0.7])
    e = np.array([math.erf(v) for v in x])
    p = np.array([1e-12, 0.2, -0.9, 1 - 1e-9])
    q = [8.862269254527580e-13, 0.17914345462129167, -1.1630871536766743, 4.320005388105362]
    xf = x.astype(F32)
    ef = np.array([math.erf(float(v)) for v in xf])
    r = {
        "erf": same(jit(special("erf"))(A(x)), e, (1e-14, 0)),
        "erfc": same(
            jit(special("erfc"))(A([10.0, 0.5, 5.0])),
            [math.erfc(10), math.erfc(0.5), math.erfc(5)],
            (1e-12, 0),
        ),
        "erfinv": same(jit(special("erfinv"))(A(p)), q, (1e-10, 0)),
        "f32": same(jit(special("erf"))(A(xf)), ef, (4 * EPS32, 0)),
        "d": same(jit(grad(special("erf")))(A(1.0)), 2 / math.sqrt(math.pi) * math.exp(-1), 1e-13),
    }
    return Multi(r), True, "exact"


@case("gammaln_roots", "jax-ml/jax#21284,#19010", "log-gamma near its zeros, f32", level="better")
def _():
    """lgamma(1)=lgamma(2)=0 exactly; at 2.0001 relative 1e-3 in f32"""
    f = jit(special("gammaln"))
    x = np.array([1.0, 2.0, 2.0001, 0.999], F32)
    e = np.array([math.lgamma(float(v)) for v in x])
    return f(A(x)), e, (1e-3, 0)


@case("gamma_f64", "jax-ml/jax#21284", "gammaln/digamma in f64")
def _():
    """gammaln(2.00001, .5, 10, 171.5); digamma(1)=-0.57721566490153286, digamma(.5)=-1.9635100260214235; gammaln'(1)"""
    r = {
        "g": same(
            jit(special("gammaln"))(A([2.00001, 0.5, 10.0, 171.5])),
            [math.lgamma(v) for v in (2.00001, 0.5, 10.0, 171.5)],
            (1e-9, 0),
        ),
        "d": same(
            jit(special("digamma"))(A([1.0, 0.5])),
            [-0.5772156649015329, -1.9635100260214235],
            1e-12,
        ),
        "gr": same(jit(grad(special("gammaln")))(A(1.0)), -0.5772156649015329, 1e-12),
    }
    return Multi(r), True, "exact"


@case("libm_extremes", "pytorch#189804; general (vector libm)", "vector libm at the extremes")
def _():
    """Exp at +-overflow edge, log of denormal/0/-1, sin(1e6), sin(2^40), pow edge, tanh(+-inf), atan2 signs"""
    x = np.array([88.7, 89.0, -87.3, -103.0, -200.0, 0.0, -0.0], F32)
    with np.errstate(all="ignore"):
        r = {
            "exp": same(
                jit(snp.exp)(A(x)),
                np.where(x < -103.9, 0, np.exp(x.astype(F64))).astype(F32),
                (1e-5, 1.5e-38),
            ),
            "log": same(
                jit(snp.log)(A([0.0, -1.0, 1.0, inf, 1e-300])),
                [-inf, nan, 0, inf, math.log(1e-300)],
                1e-13,
            ),
            "sin": same(
                jit(snp.sin)(A([1e6, 2.0**40, -3e9])),
                [math.sin(1e6), math.sin(2.0**40), math.sin(-3e9)],
                1e-10,
            ),
            "sin32": same(
                jit(snp.sin)(A(np.array([1e5, 12345.678], F32))),
                [math.sin(float(F32(1e5))), math.sin(float(F32(12345.678)))],
                1e-5,
            ),
            "tanh": same(
                jit(snp.tanh)(A([inf, -inf, 20.0, 710.0, nan])), [1, -1, 1, 1, nan], 1e-15
            ),
            "atan2": same(
                jit(snp.arctan2)(A([0.0, -0.0, 0.0, 1.0]), A([-1.0, -1.0, 1.0, 0.0])),
                [math.pi, -math.pi, 0, math.pi / 2],
                1e-15,
            ),
            "pow": same(
                jit(snp.power)(A([inf, 0.0, -inf, 1.0, 2.0]), A([0.0, 0.0, 3.0, nan, -1022.0])),
                [1, 1, -inf, 1, 2.0**-1022],
                0,
            ),
        }
    return Multi({k: v for k, v in r.items()}), True, "exact"


@case(
    "recompute_bit_consistent",
    "pytensor#2187; pytorch gemm+O3 #115261",
    "recomputed value takes another branch than the saved one",
)
def _():
    """p=x*y*z*w against a bound equal to its left-to-right product: value and gradient must agree on the branch"""
    r = R(7)
    bad = 0

    def f(x, y, z, w, b):
        p = x * y * z * w
        return snp.sum(snp.where(p >= b, p, 0.0))

    g = jit(vag(ckpt(f)))
    h = jit(vag(f))
    for _ in range(60):
        x, y, z, w = [r.uniform(0.5, 2, 1) for _ in range(4)]
        b = ((x * y) * z) * w
        for k in (g, h):
            v, d = k(A(x), A(y), A(z), A(w), A(b))
            bad += (N(v) > 0) != (N(d)[0] > 0)
    return int(bad), 0, 0
