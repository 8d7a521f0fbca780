"""What the cases run in processes of their own: `python -m tests.cases --child NAME`."""

import gc
import json

import numpy as np

from tests.cases.frame import (
    F32,
    I32,
    I64,
    A,
    N,
    R,
    ckpt,
    grad,
    jit,
    peak_kb,
    reset_peak,
    rss_kb,
    snp,
    vjp,
)


def child(name):
    if name == "small":
        x = np.linspace(0, 1, 1000)
        g = N(jit(grad(lambda z: snp.sum(snp.sin(z) * z)))(x))
        assert np.allclose(g, np.cos(x) * x + np.sin(x))
        print("ok")
    elif name == "intdiv":
        f = jit(lambda a, b: (a // b, a % b))
        N(f(A(np.array([5, -5, 0], I32)), A(np.zeros(3, I32)))[0])
        N(f(A(np.array([-(2**31)], I32)), A(np.array([-1], I32)))[1])
        N(f(A(np.array([-(2**63)], I64)), A(np.array([-1], I64)))[0])
        print("ok")
    elif name == "deep":

        def f(x):
            for _ in range(10000):
                x = x * 1.0001 + 1e-6
            return x

        v = float(N(grad(f)(A(1.0))))
        assert abs(v / 1.0001**10000 - 1) < 1e-9, v
        print("ok")
    elif name == "deepjit":

        def f(x):
            for i in range(3000):
                x = x * 1.0001 + 1e-6
            return x

        v = float(N(jit(grad(f))(A(1.0))))
        assert abs(v / 1.0001**3000 - 1) < 1e-9, v
        print("ok")
    elif name == "memchain":
        n = 8_000_000
        x = np.linspace(0, 1, n, dtype=F32)

        def f(z):
            for _ in range(24):
                z = snp.sin(z)
            return snp.sum(z)

        g = jit(grad(f))
        N(g(x[:8]))
        xa = A(x)
        N(xa[:1])
        gc.collect()
        reset_peak()
        b = rss_kb()
        r = N(g(xa))
        print(json.dumps(dict(growth=(peak_kb() - b) * 1024 / (4 * n))))
    elif name in ("memmm0", "memmm1"):
        B, H = 32768, 256
        W = (R(0).standard_normal((H, H)) / 16).astype(F32)
        x = R(1).standard_normal((B, H)).astype(F32)

        def blk(z):
            for _ in range(4):
                z = snp.tanh(z @ A(W))
            return z

        h = ckpt(blk) if name[-1] == "1" else blk

        def f(z):
            for _ in range(4):
                z = h(z)
            return snp.sum(z)

        g = jit(grad(f))
        xa = A(x)
        N(g(A(x[:B])))
        gc.collect()
        reset_peak()
        b = rss_kb()
        N(g(xa))
        print(json.dumps(dict(growth=(peak_kb() - b) * 1024 / (4 * B * H))))
    elif name in ("resview", "resweight"):
        n = 4096
        W = R(0).standard_normal((n, n)).astype(F32) / 64
        if name == "resview":
            f = jit(lambda x, w: snp.sum(snp.sin(x @ w)[0] ** 2))
            x = R(1).standard_normal((n, n)).astype(F32)
        else:
            f = jit(lambda x, w: snp.sum(snp.sin(x @ (w * 0.5))))
            x = R(1).standard_normal((8, n)).astype(F32)
        x, W = A(x), A(W)
        y, p = vjp(f, x, W)
        N(p(A(np.ones((), F32)))[0])
        del y, p
        gc.collect()
        b = rss_kb()
        y, p = vjp(f, x, W)
        N(y)
        gc.collect()
        m = (rss_kb() - b) / 1024
        g = p(A(np.ones((), F32)))
        N(g[0])
        print(json.dumps(dict(mb=m)))
    elif name == "index2g":
        n = 2**31 + 8
        x = np.zeros(n, np.uint8)
        x[-3] = 7
        x[5] = 1
        f = jit(lambda z: (z[-3], snp.max(z[::-1][:100]), snp.sum(z == 7), snp.sum(z[2**31 :])))
        r = [int(N(v)) for v in f(x)]
        assert r == [7, 7, 1, 7], r
        print("ok")
    else:
        raise SystemExit("?")
