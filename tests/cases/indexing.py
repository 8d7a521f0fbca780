"""Shapes, strides, views, gather, scatter, empty and zero-dimensional arrays."""

import math

import numpy as np

from tests.cases.frame import (
    F32,
    F64,
    I32,
    A,
    Multi,
    N,
    R,
    api,
    both,
    case,
    grad,
    hess,
    jit,
    raises,
    same,
    snp,
    vag,
    vmap,
)


@case("empty_reductions", "pytorch#28380,#188218; tvm#19578", "reductions over nothing")
def _():
    """Sum 0, prod 1, mean NaN, max raises; but max over a full axis of a (3,0) array gives shape (0,)"""
    e = np.zeros((0,))
    m = np.zeros((3, 0))
    with np.errstate(all="ignore"):
        r = {
            "sum": same(jit(snp.sum)(A(e)), 0, 0),
            "prod": same(jit(snp.prod)(A(e)), 1, 0),
            "mean": bool(np.isnan(N(jit(snp.mean)(A(e))))),
            "max": raises(lambda: jit(snp.max)(A(e))) == "raised",
            "ok": N(jit(lambda z: snp.max(z, axis=0))(A(m))).shape == (0,),
            "rows": same(jit(lambda z: snp.sum(z, axis=1))(A(m)), [0, 0, 0], 0),
            "g": N(jit(grad(lambda z: snp.sum(z)))(A(m))).shape == (3, 0),
        }
    return Multi(r), True, "exact"


@case(
    "matmul_ranks", "pytorch#31421; numba-mlir#174 (general)", "matmul of 1-d and broadcast batches"
)
def _():
    """Value and both gradients against einsum-free float64 NumPy"""
    r = R(3)
    bad = []
    for sa, sb in [
        ((4,), (4,)),
        ((4,), (4, 3)),
        ((3, 4), (4,)),
        ((2, 1, 3, 4), (5, 4, 2)),
        ((4,), (2, 4, 3)),
        ((2, 3, 4), (4,)),
        ((1, 1), (1, 1)),
        ((3, 4), (2, 4, 5)),
    ]:
        a, b = r.standard_normal(sa), r.standard_normal(sb)
        c = a @ b
        w = r.standard_normal(np.shape(c))
        v, (ga, gb) = jit(vag(lambda x, y: snp.sum((x @ y) * w), argnums=(0, 1)))(A(a), A(b))
        if not np.isclose(N(v), (c * w).sum()) or N(ga).shape != sa or N(gb).shape != sb:
            bad.append((sa, sb))
            continue
        for g, p, which in ((ga, a, 0), (gb, b, 1)):
            d = r.standard_normal(p.shape)
            h = 1e-6
            q = (
                (lambda t: ((p + t * d) @ b * w).sum())
                if which == 0
                else (lambda t: (a @ (p + t * d) * w).sum())
            )
            if not np.isclose((N(g) * d).sum(), (q(h) - q(-h)) / (2 * h), rtol=1e-6, atol=1e-7):
                bad.append((sa, sb, which))
    return bad, [], "exact"


@case("negative_index", "general; webnn#642", "negative indices, value and gradient")
def _():
    """x[-1], x[[-1,-3,-1]] and the scatter of their gradients"""
    f = lambda x: x[-1] * 3 + snp.sum(x[np.array([-1, -3, -1])] * np.array([1.0, 10.0, 100.0]))
    return (
        both(lambda x: snp.concatenate([f(x)[None], grad(f)(x)]), np.array([2.0, 3.0, 5.0, 7.0])),
        np.array([7 * 104 + 3 * 10, 0, 10, 0, 104.0]),
        1e-12,
    )


@case(
    "oob_index",
    "jax-ml/jax#2895; iree#24881; tt-mlir#9211",
    "index out of bounds: no garbage, forward and backward agree",
)
def _():
    """Dynamic index beyond the end: error, NaN/fill, or clamp; if clamped, the gradient lands on the clamped element"""
    x = np.array([1.0, 2.0, 3.0])
    big = np.array([1000003, 0])
    f = jit(lambda z, i: snp.sum(z[i] * np.array([1.0, 0.0])))
    g = jit(grad(lambda z, i: snp.sum(z[i])))
    try:
        v = float(N(f(A(x), A(big))))
        d = N(g(A(x), A(big)))
    except Exception:
        return True, True, "exact"
    if v == 3.0:
        ok = np.array_equal(d, [1, 0, 1])
    elif math.isnan(v) or v == 0:
        ok = np.array_equal(d[1:], [0, 0])
    else:
        ok = False
    return bool(ok), True, "exact"


@case(
    "oob_static",
    "jax-ml/jax#4455 sharp bits",
    "constant index out of bounds should raise",
    level="better",
)
def _():
    """x[10] on length 3: IndexError at trace time"""
    return (
        raises(
            lambda: jit(lambda z: z[10])(A(np.arange(3.0))), (IndexError, ValueError, TypeError)
        ),
        "raised",
        "exact",
    )


@case(
    "scatter_index_from_input",
    "jax-ml/jax#1104; mlx#1439,#3787",
    "indices computed from the differentiated input",
)
def _():
    """Integer indices carry no gradient; the value path does"""
    f = lambda x: snp.sum(
        snp.zeros(3).at[(x - 1).astype(I32)].set(x * x) * np.array([1.0, 10.0, 100.0])
    )
    t = lambda x: snp.sum(
        snp.take_along_axis(x, snp.argsort(x), axis=0) * np.array([1.0, 10.0, 100.0])
    )
    return (
        Multi(
            a=same(jit(grad(f))(A([1.0, 3.0, 2.0])), [2.0, 600, 40], 1e-12),
            b=same(jit(grad(t))(A([3.0, 1.0, 2.0])), [100, 1, 10], 1e-12),
        ),
        True,
        "exact",
    )


@case(
    "noncontiguous_inputs",
    "tinygrad#5073; tt-forge-onnx#2768",
    "strided / reversed / Fortran / unaligned / broadcast inputs",
)
def _():
    """One jitted function, first contiguous, then every odd layout of the same shape and dtype"""
    base = R(2).standard_normal((12, 12))
    f = jit(lambda z: snp.sum(z * np.arange(36.0).reshape(6, 6), axis=1))
    g = jit(grad(lambda z: snp.sum(z**2 * np.arange(36.0).reshape(6, 6))))
    buf = bytearray(6 * 6 * 8 + 1)
    un = np.frombuffer(buf, np.uint8)[1:].view(np.float64).reshape(6, 6)
    un[...] = base[:6, :6]
    ro = base[:6, :6].copy()
    ro.flags.writeable = False
    vs = dict(
        c=base[:6, :6].copy(),
        t=base[:6, :6].T,
        st=base[::2, ::2],
        rev=base[5::-1, 11:5:-1],
        fo=np.asfortranarray(base[:6, :6]),
        off=base[3:9, 2:8],
        un=un,
        bc=np.broadcast_to(base[0, :6], (6, 6)),
        col=np.broadcast_to(base[:6, :1], (6, 6)),
        ro=ro,
    )
    W = np.arange(36.0).reshape(6, 6)
    bad = []
    for k, v in vs.items():
        try:
            r, d = N(f(v)), N(g(v))
        except Exception as e:
            bad.append((k, type(e).__name__))
            continue
        if not (
            np.allclose(r, (np.asarray(v, F64) * W).sum(1))
            and np.allclose(d, 2 * np.asarray(v, F64) * W)
        ):
            bad.append(k)
    return bad, [], "exact"


@case(
    "overlap_update",
    "pytorch#101950,#164701; numba prange",
    "overlapping read/write in one fused kernel",
)
def _():
    """Shift right/left, reverse in place, x + x.T, running copies: never read an already overwritten cell"""
    x = np.arange(1.0, 70.0)
    m = R(4).standard_normal((33, 33))
    r = {
        "r": same(jit(lambda z: z.at[1:].set(z[:-1]))(A(x)), np.r_[1.0, x[:-1]], 0),
        "l": same(jit(lambda z: z.at[:-1].set(z[1:] * 2))(A(x)), np.r_[x[1:] * 2, 69.0], 0),
        "rev": same(jit(lambda z: z.at[:].set(z[::-1] + z))(A(x)), x[::-1] + x, 0),
        "tt": same(jit(lambda z: z + z.T - z.T @ z)(A(m)), m + m.T - m.T @ m, 1e-10),
        "ad": same(
            jit(lambda z: z.at[2:].add(z[:-2]).at[:-2].add(z[2:]))(A(x)),
            np.r_[x[:2], x[2:] + x[:-2]] + np.r_[x[2:], 0, 0],
            1e-12,
        ),
    }
    return Multi(r), True, "exact"


@case(
    "tail_sizes",
    "pytorch#196681; SHI-Labs/NATTEN#7",
    "vector tails in tiled / transposed reductions",
)
def _():
    """Sizes around SIMD widths, reduce over each axis of transposed inputs, followed by a pointwise op"""
    bad = []
    f = {
        ax: jit(lambda z, ax=ax: snp.sum(snp.transpose(z, (2, 0, 1)) * 0.5, axis=ax) + 1.0)
        for ax in (0, 1, 2, (0, 2))
    }
    for sh in [(1, 7, 8), (8, 9, 3), (17, 1, 5), (33, 5, 2), (66, 8, 1), (3, 66, 16), (2, 31, 15)]:
        x = R(sum(sh)).standard_normal(sh).astype(F32)
        for ax in f:
            e = np.sum(np.transpose(x.astype(F64), (2, 0, 1)) * 0.5, axis=ax) + 1
            if not np.allclose(N(f[ax](A(x))), e, rtol=1e-4, atol=1e-5):
                bad.append((sh, ax))
    return bad, [], "exact"


@case("matvec_vmap_reduce", "jax-ml/jax#39103", "vmapped mat-vec then reduce at size 16385 / 32769")
def _():
    """Identity matrix: sum of squares of the last row is (n-1)^2"""
    out = {}
    for dt, n in ((F64, 16385), (F32, 32769)):
        i = np.arange(n, dtype=dt)
        x = np.stack([i, 0 * i, 0 * i], 1)
        M = np.eye(3, dtype=dt)
        out[np.dtype(dt).name] = bool(
            N(jit(lambda x: vmap(lambda r: snp.sum((A(M) @ r) ** 2))(x))(A(x)))[-1]
            == dt(n - 1) ** 2
        )
    return Multi(out), True, "exact"


@case(
    "vmap_axes",
    "mlx#4321; jax-ml/jax#16655; functorch#597",
    "vmap of scatter/gather/reduce on inner axes",
)
def _():
    """Each in_axes in 0..2 against a Python loop; hessian under vmap; None axes"""
    x = R(9).standard_normal((2, 3, 4))
    idx = np.array([2, 0, 2])
    idx2 = np.array([1, 0, 1])
    bad = []
    for ax in range(3):
        f = lambda m: m.at[idx2 if m.shape[0] < 3 else idx].add(m[0, 0])

        def ref(m):
            o = m.copy()
            np.add.at(o, idx2 if m.shape[0] < 3 else idx, m[0, 0])
            return o

        e = np.stack([ref(np.take(x, k, ax)) for k in range(x.shape[ax])])
        if not np.allclose(N(jit(vmap(f, in_axes=ax))(A(x))), e):
            bad.append(ax)
        e = np.moveaxis(e, 0, -1)
        if not np.allclose(N(vmap(f, in_axes=ax, out_axes=-1)(A(x))), e):
            bad.append(("out", ax))
    h = vmap(hess(lambda v, s: s * snp.sum(v**3)), in_axes=(0, None))(A(x[0]), 2.0)
    if not np.allclose(N(h), np.stack([np.diag(12 * r) for r in x[0]])):
        bad.append("hess")
    if not np.array_equal(N(vmap(snp.any)(A([[True, False], [False, False]]))), [True, False]):
        bad.append("any")
    return bad, [], "exact"


def conv2d_ref(x, w, s, p):
    x = np.pad(x, ((0, 0), (0, 0), (p, p), (p, p)))
    n, _, H, W = x.shape
    o, _, k, l = w.shape
    Ho, Wo = (H - k) // s + 1, (W - l) // s + 1
    y = np.zeros((n, o, Ho, Wo))
    for a in range(Ho):
        for b in range(Wo):
            y[:, :, a, b] = np.einsum(
                "nckl,ockl->no", x[:, :, a * s : a * s + k, b * s : b * s + l], w
            )
    return y


@case(
    "conv_edges",
    "PKU CMU10-714#6; jax-ml/jax#563,#11517",
    "convolution value/gradient when stride does not divide",
)
def _():
    """16x16, kernel 7, stride 3, pad 2 and 5x5, kernel 5, stride 2: value and finite-difference gradient"""
    cv = api("lax.conv_general_dilated", "lax.conv", "nn.conv")
    bad = []
    for H, k, s, p in ((16, 7, 3, 2), (5, 5, 2, 0), (6, 2, 4, 1)):
        x, w = R(H).standard_normal((2, 2, H, H)), R(k).standard_normal((3, 2, k, k))
        y = conv2d_ref(x, w, s, p)
        t = R(1).standard_normal(y.shape)
        f = lambda a, b: snp.sum(cv(a, b, (s, s), [(p, p), (p, p)]) * t)
        v, (ga, gb) = jit(vag(f, argnums=(0, 1)))(A(x), A(w))
        dx, dw = R(2).standard_normal(x.shape), R(3).standard_normal(w.shape)
        nx = (
            (conv2d_ref(x + 1e-6 * dx, w, s, p) - conv2d_ref(x - 1e-6 * dx, w, s, p)) * t
        ).sum() / 2e-6
        nw = (
            (conv2d_ref(x, w + 1e-6 * dw, s, p) - conv2d_ref(x, w - 1e-6 * dw, s, p)) * t
        ).sum() / 2e-6
        if not (
            np.isclose(N(v), (y * t).sum())
            and np.isclose((N(ga) * dx).sum(), nx, rtol=1e-5)
            and np.isclose((N(gb) * dw).sum(), nw, rtol=1e-5)
        ):
            bad.append((H, k, s, p))
    return bad, [], "exact"
