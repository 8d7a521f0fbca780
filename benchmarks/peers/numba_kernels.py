import math

import numpy as np
from numba import njit, prange

P = dict(parallel=True, fastmath=True, cache=True)


@njit(**P)
def boot(x):
    o = np.empty_like(x)
    for k in prange(x.size):
        o[k] = x[k] * 2 + 1
    return o


@njit(**P)
def a(x, y):
    o = np.empty_like(x)
    h, z, c = np.float32(0.5), np.float32(-0.5), np.float32(0.1)
    for k in prange(x.size):
        v = math.tanh(x[k] * y[k] + h) * math.exp(z * (x[k] * x[k])) - y[k]
        o[k] = (v if v > 0 else c * v) + x[k]
    return o


@njit(**P)
def bs(S, K, T):
    call, put = np.empty_like(S), np.empty_like(S)
    one = S.dtype.type(1)
    vol, c = one * 0.3, one * (1 / math.sqrt(2.0))
    for k in prange(S.size):
        t = T[k]
        sq = S.dtype.type(vol) * math.sqrt(t)
        d1 = S.dtype.type((math.log(S[k] / K[k]) + S.dtype.type(0.095) * t) / sq)
        d2 = S.dtype.type(d1 - sq)
        disc = K[k] * math.exp(S.dtype.type(-0.05) * t)
        n1 = S.dtype.type(0.5) * (one + math.erf(d1 * S.dtype.type(c)))
        n2 = S.dtype.type(0.5) * (one + math.erf(d2 * S.dtype.type(c)))
        call[k] = S[k] * n1 - disc * n2
        put[k] = disc * (one - n2) - S[k] * (one - n1)
    return call, put


@njit(**P)
def c(x, y):
    n, m = x.shape
    o = np.empty(n, x.dtype)
    for i in prange(n):
        s = np.float32(0)
        for j in range(m):
            s += max((x[i, j] + y[i, j]) * np.float32(2), np.float32(0))
        o[i] = s
    return o


@njit(**P)
def d(x):
    n, m = x.shape
    o = np.empty_like(x)
    for i in prange(n):
        mx = x[i, 0]
        for j in range(m):
            mx = max(mx, x[i, j])
        s = np.float32(0)
        for j in range(m):
            e = math.exp(x[i, j] - mx)
            o[i, j] = e
            s += e
        s = np.float32(1) / s
        for j in range(m):
            o[i, j] *= s
    return o


@njit(**P)
def e_fwd(x, g, b):
    n, m = x.shape
    o = np.empty_like(x)
    for i in prange(n):
        s = np.float32(0)
        for j in range(m):
            s += x[i, j]
        mu = np.float32(s / np.float32(m))
        q = np.float32(0)
        for j in range(m):
            q += (x[i, j] - mu) * (x[i, j] - mu)
        inv = np.float32(1 / math.sqrt(q / np.float32(m) + np.float32(1e-5)))
        for j in range(m):
            o[i, j] = (x[i, j] - mu) * inv * g[j] + b[j]
    return o


@njit(**P)
def f(x):
    n, m = x.shape
    o = np.empty(n, x.dtype)
    for i in prange(n):
        mx = x[i, 0]
        for j in range(m):
            mx = max(mx, x[i, j])
        s = np.float32(0)
        for j in range(m):
            s += math.exp(x[i, j] - mx)
        o[i] = math.log(s) + mx
    return o


@njit(**P)
def g(x):
    n, m = x.shape
    mean, var = np.empty(n, x.dtype), np.empty(n, x.dtype)
    for i in prange(n):
        s = np.float32(0)
        for j in range(m):
            s += x[i, j]
        mu = np.float32(s / np.float32(m))
        q = np.float32(0)
        for j in range(m):
            q += (x[i, j] - mu) * (x[i, j] - mu)
        mean[i], var[i] = mu, q / np.float32(m)
    return mean, var


@njit(**P)
def h(x):
    n, m = x.shape
    o = np.empty(n, np.int64)
    for i in prange(n):
        best, mx = 0, x[i, 0]
        for j in range(m):
            if x[i, j] > mx:
                best, mx = j, x[i, j]
        o[i] = best
    return o


@njit(**P)
def i(x):
    n, m = x.shape
    B = 16
    part = np.zeros((B, m), x.dtype)
    for b in prange(B):
        for r in range(b * n // B, (b + 1) * n // B):
            for j in range(m):
                part[b, j] += x[r, j]
    return part.sum(0)


@njit(**P)
def j(x, y):
    n, m = x.shape
    o = np.empty_like(y)
    T = 32
    for bi in prange(n // T):
        for bj in range(m // T):
            for p in range(bi * T, bi * T + T):
                for q in range(bj * T, bj * T + T):
                    o[p, q] = x[q, p] + y[p, q]
    return o


@njit(**P)
def k_gather(x, idx):
    o = np.empty(idx.size, x.dtype)
    for k in prange(idx.size):
        o[k] = x[idx[k]] * np.float32(2)
    return o


@njit(fastmath=True, cache=True)
def k_scatter(idx, v):
    o = np.zeros(1 << 20, v.dtype)
    for k in range(idx.size):
        o[idx[k]] += v[k]
    return o


@njit(fastmath=True, cache=True)
def l(x):
    o = np.empty_like(x)
    s = np.float32(0)
    for k in range(x.size):
        s += x[k]
        o[k] = s
    return o


@njit(**P)
def m(a, b, c, d):
    n = a.size
    o = np.empty(4 * n, a.dtype)
    h, one, two = np.float32(0.5), np.float32(1), np.float32(2)
    for k in prange(n):
        o[k] = a[k] * two * h + one
        o[n + k] = (b[k] + one) * h + one
        o[2 * n + k] = c[k] * c[k] * h + one
        o[3 * n + k] = d[k] * h + one
    return o


@njit(**P)
def n(u):
    w, f = np.float32(0.1), np.float32(4)
    for _ in range(10):
        p, q = u.shape
        v = np.empty((p - 2, q - 2), u.dtype)
        for i in prange(p - 2):
            for j in range(q - 2):
                cc = u[i + 1, j + 1]
                v[i, j] = cc + w * (
                    u[i + 2, j + 1] + u[i, j + 1] + u[i + 1, j + 2] + u[i + 1, j] - f * cc
                )
        u = v
    return u


@njit(**P)
def p(w, X, y):
    n, m = X.shape
    B = 16
    G, L = np.zeros((B, m)), np.zeros(B)
    for b in prange(B):
        for r in range(b * n // B, (b + 1) * n // B):
            s = 0.0
            for j in range(m):
                s += X[r, j] * w[j]
            z = -y[r] * s
            e = math.exp(-abs(z))
            L[b] += max(z, 0.0) + math.log1p(e)
            sg = 1 / (1 + e) if z >= 0 else e / (1 + e)
            cc = -y[r] * sg / n
            for j in range(m):
                G[b, j] += cc * X[r, j]
    return L.sum() / n + 0.005 * (w * w).sum(), G.sum(0) + 0.01 * w


@njit(**P)
def w(r, m):
    n = r.shape[0]
    g, e = np.zeros((n, 3)), np.zeros(n)
    xs, ys, zs = r[:, 0].copy(), r[:, 1].copy(), r[:, 2].copy()
    for i in prange(n):
        gx = gy = gz = s = 0.0
        for j in range(n):
            dx, dy, dz = xs[i] - xs[j], ys[i] - ys[j], zs[i] - zs[j]
            inv2 = 1 / (dx * dx + dy * dy + dz * dz + 1e-2)
            t = m[j] * math.sqrt(inv2)
            s += t
            t *= inv2
            gx += t * dx
            gy += t * dy
            gz += t * dz
        e[i] = m[i] * s
        g[i, 0], g[i, 1], g[i, 2] = m[i] * gx, m[i] * gy, m[i] * gz
    return -0.5 * e.sum(), g


@njit(fastmath=True, cache=True)
def x(a, b):
    o = np.empty_like(a)
    for k in range(a.size):
        o[k] = math.sin(a[k]) * b[k] + np.float32(1)
    return o
