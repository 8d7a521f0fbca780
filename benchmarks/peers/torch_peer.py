"""PyTorch: eager, and torch.compile (default mode, inductor on CPU)."""

import math
import time


def env(threads, cache, w):
    return {"TORCHINDUCTOR_CACHE_DIR": cache + "/inductor", "TORCHINDUCTOR_COMPILE_THREADS": "1"}


class Peer:
    compile = False

    def __init__(self, threads):
        t = time.perf_counter()
        import torch

        self.import_s = time.perf_counter() - t
        self.t = torch
        torch.set_num_threads(threads)
        if self.compile:
            import torch._dynamo

            torch._dynamo.config.recompile_limit = 64
            self.C = lambda f: torch.compile(f)
        else:
            self.C = lambda f: f

    def reset(self):
        if self.compile:
            self.t.compiler.reset()

    def boot(self):
        self.C(lambda x: x * 2 + 1)(self.t.ones(8))

    def put(self, tree):
        if isinstance(tree, (list, tuple)):
            return type(tree)(self.put(x) for x in tree)
        return self.t.from_numpy(tree)

    def to_numpy(self, name, out):
        from benchmarks.worker import leaves

        res = [o.detach().numpy() if isinstance(o, self.t.Tensor) else o for o in leaves(out)]
        if name == "r":  # OIHW -> HWIO, CHW features -> HWC features
            res[1], res[3] = (a.transpose(2, 3, 1, 0) for a in (res[1], res[3]))
            res[5] = res[5].reshape(32, 7, 7, 10).transpose(1, 2, 0, 3).reshape(1568, 10)
        return res

    # ---------------------------------------------------------------- forward workloads
    def build(self, name):
        t, C = self.t, self.C
        F = t.nn.functional
        fwd = {}

        def a(x, y):
            v = t.tanh(x * y + 0.5) * t.exp(-0.5 * (x * x)) - y
            return t.where(v > 0, v, 0.1 * v) + x

        def bs(S, K, T):
            sq = 0.3 * t.sqrt(T)
            d1 = (t.log(S / K) + (0.05 + 0.045) * T) / sq
            d2 = d1 - sq
            cdf = lambda z: 0.5 * (1 + t.erf(z * (1 / math.sqrt(2))))
            disc = K * t.exp(-0.05 * T)
            n1, n2 = cdf(d1), cdf(d2)
            return S * n1 - disc * n2, disc * (1 - n2) - S * (1 - n1)

        def n(u):
            for _ in range(10):
                u = u[1:-1, 1:-1] + 0.1 * (
                    u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
                )
            return u

        fwd.update(
            a=a,
            b32=bs,
            b64=bs,
            n=n,
            c=lambda x, y: ((x + y) * 2).relu().sum(-1),
            d=lambda x: F.softmax(x, -1),
            e_fwd=lambda x, g, b: F.layer_norm(x, (1024,), g, b, 1e-5),
            f=lambda x: t.logsumexp(x, -1),
            g=lambda x: (t.mean(x, -1), t.var(x, -1, correction=0)),
            h=lambda x: t.argmax(x, -1),
            i=lambda x: x.sum(0),
            j=lambda x, y: x.T + y,
            k_gather=lambda x, i: x[i] * 2,
            k_scatter=lambda i, v: t.zeros(1 << 20).index_add_(0, i, v),
            l=lambda x: t.cumsum(x, 0),
            m=lambda a, b, c, d: t.cat([a * 2, b + 1, c * c, d]) * 0.5 + 1,
            x=lambda x, y: t.sin(x) * y + 1,
        )
        if name in fwd:
            f = C(fwd[name])

            def run(*args):
                with t.no_grad():
                    return f(*args)

            return run
        return getattr(self, "w_" + name[0])(name)

    # ---------------------------------------------------------------- gradient workloads
    def vg(self, loss, params, *rest):
        """(compiled) forward, then autograd's backward (compiled by AOTAutograd)."""
        l = loss(params, *rest)
        return l, self.t.autograd.grad(l, params)

    def leaf(self, p):
        if isinstance(p, (list, tuple)):
            return [self.leaf(x) for x in p]
        return p.detach().requires_grad_()

    def cached_leaf(self, fn):
        """The harness passes plain tensors; make them leaves once, not per call."""
        memo = {}

        def f(p, *rest):
            if id(p) not in memo:
                memo[id(p)] = (self.leaf(p), p)
            return fn(memo[id(p)][0], *rest)

        return f

    def mlp(self):
        F, t = self.t.nn.functional, self.t

        def loss(p, x, y):
            n, h = len(p) // 2, x
            for k in range(n):
                h = t.addmm(p[2 * k + 1], h, p[2 * k])
                if k < n - 1:
                    h = F.gelu(h, approximate="tanh")
            return -(y * F.log_softmax(h, -1)).sum(-1).mean()

        return loss

    def w_e(self, name):
        F = self.t.nn.functional
        loss = self.C(lambda p, w: (F.layer_norm(p[0], (1024,), p[1], p[2], 1e-5) * w).sum())
        memo = []

        def f(x, g, b, w):
            if not memo:
                memo.extend(self.leaf([x, g, b]))
            return self.vg(loss, memo, w)[1]

        return f

    def w_o(self, name):
        t = self.t
        loss = self.C(self.mlp())
        if name == "o_sgd":

            def upd(p, g):
                return [a - 0.1 * b for a, b in zip(p, g)]

            if not self.compile:
                upd = lambda p, g: t._foreach_add(p, g, alpha=-0.1)
            upd = self.C(upd)

            def step(p, x, y):
                l, g = self.vg(loss, p, x, y)
                with t.no_grad():
                    return l, upd(p, g)

            return self.cached_leaf(step)
        from benchmarks.definitions import B1, B2, EPS, LR, T

        def upd(p, g, m, v):
            m = [B1 * a + (1 - B1) * b for a, b in zip(m, g)]
            v = [B2 * a + (1 - B2) * (b * b) for a, b in zip(v, g)]
            p = [
                a - LR * (b / (1 - B1**T)) / (t.sqrt(c / (1 - B2**T)) + EPS)
                for a, b, c in zip(p, m, v)
            ]
            return p, m, v

        def upd_foreach(p, g, m, v):
            m = t._foreach_lerp(m, g, 1 - B1)
            v = t._foreach_mul(v, B2)
            t._foreach_addcmul_(v, g, g, 1 - B2)
            d = t._foreach_div(v, 1 - B2**T)
            t._foreach_sqrt_(d)
            t._foreach_add_(d, EPS)
            return t._foreach_addcdiv(p, m, d, -LR / (1 - B1**T)), m, v

        upd = self.C(upd) if self.compile else upd_foreach

        def step(p, m, v, x, y):
            l, g = self.vg(loss, p, x, y)
            with t.no_grad():
                return (l, *upd(p, g, m, v))

        return self.cached_leaf(step)

    def w_p(self, name):
        F = self.t.nn.functional
        loss = self.C(
            lambda w, X, y: F.softplus(-y * (X @ w), threshold=1e9).mean() + 0.005 * (w * w).sum()
        )
        return self.cached_leaf(lambda w, X, y: self.vg(loss, w, X, y))

    def w_q(self, name):
        F = self.t.nn.functional

        def loss(flat, x, y):
            for k in range(0, 20, 10):
                g1, b1, wqkv, wo, g2, b2, w1, c1, w2, c2 = flat[k : k + 10]
                b, s, d = x.shape
                h = F.layer_norm(x, (d,), g1, b1, 1e-5)
                q, kk, v = (h @ wqkv).view(b, s, 3, 8, d // 8).permute(2, 0, 3, 1, 4)
                o = F.scaled_dot_product_attention(q, kk, v).transpose(1, 2).reshape(b, s, d)
                x = x + o @ wo
                h = F.layer_norm(x, (d,), g2, b2, 1e-5)
                x = x + F.gelu(h @ w1 + c1, approximate="tanh") @ w2 + c2
            return ((x - y) ** 2).mean()

        loss = self.C(loss)
        memo = []

        def f(ps, x, y):
            if not memo:
                memo.extend(self.leaf(ps[0] + ps[1]))
            return self.vg(loss, memo, x, y)

        return f

    def w_r(self, name):
        t, F = self.t, self.t.nn.functional

        def loss(p, x, y):
            h = F.avg_pool2d(F.conv2d(x, p[0], p[1], padding=1).relu(), 2)
            h = F.avg_pool2d(F.conv2d(h, p[2], p[3], padding=1).relu(), 2)
            h = t.addmm(p[5], h.flatten(1), p[4])
            return -(y * F.log_softmax(h, -1)).sum(-1).mean()

        loss = self.C(loss)
        memo = []

        def f(p, x, y):
            if not memo:
                w = p[4].view(7, 7, 32, 10).permute(2, 0, 1, 3).reshape(1568, 10)
                q = [
                    p[0].permute(3, 2, 0, 1).contiguous(),
                    p[1],
                    p[2].permute(3, 2, 0, 1).contiguous(),
                    p[3],
                    w,
                    p[5],
                ]
                memo.extend([self.leaf(q), x.permute(0, 3, 1, 2).contiguous()])
            return self.vg(loss, memo[0], memo[1], y)

        return f

    def w_s(self, name):
        t = self.t
        loss = self.mlp()
        if self.compile:  # AOTAutograd has no double backward: use torch.func

            def hvp(p, v, x, y):
                g = t.func.grad(lambda q: loss(q, x, y))
                return t.func.jvp(g, (p,), (v,))[1]

            return self.C(hvp)

        def hvp(p, v, x, y):  # eager: double backward, the usual way
            l = loss(p, x, y)
            g = t.autograd.grad(l, p, create_graph=True)
            return t.autograd.grad(g, p, v)

        return self.cached_leaf(hvp)

    def w_t(self, name):
        t = self.t
        f = lambda x: (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()
        return self.C(t.func.hessian(f) if not self.compile else (lambda x: t.func.hessian(f)(x)))

    def w_u(self, name):
        t = self.t
        return self.C(
            lambda x, w1, w2: t.func.jacrev(lambda z: t.tanh(w2 @ t.sin(w1 @ z)) + z * z)(x)
        )

    def w_v(self, name):
        t, H = self.t, 128
        if getattr(self, "fused_lstm", False):
            memo = []

            def f(p, xs):
                if not memo:
                    memo.extend(
                        [
                            self.leaf([p[0].T.contiguous(), p[1].T.contiguous(), p[2]]),
                            t.zeros(512),
                            t.zeros(1, 32, H),
                        ]
                    )
                (wi, wh, b), zb, z = memo
                hs = t.lstm(xs, (z, z), (wi, wh, b, zb), True, 1, 0.0, True, False, False)[0]
                l = (hs * hs).mean()
                g = t.autograd.grad(l, memo[0])
                return l, (g[0].T, g[1].T, g[2])

            return f

        def loss(p, xs):
            wx, wh, b = p
            h = c = t.zeros(32, H)
            hs = []
            for k in range(128):
                z = t.addmm(b, xs[k], wx) + h @ wh
                i, f, g, o = z.chunk(4, 1)
                c = f.sigmoid() * c + i.sigmoid() * g.tanh()
                h = o.sigmoid() * c.tanh()
                hs.append(h)
            hs = t.stack(hs)
            return (hs * hs).mean()

        loss = self.C(loss)
        return self.cached_leaf(lambda p, xs: self.vg(loss, p, xs))

    def w_w(self, name):
        t = self.t

        def energy(r, m):
            d = r[:, None, :] - r[None, :, :]
            d2 = (d * d).sum(-1) + 1e-2
            return -0.5 * (m[:, None] * m[None, :] / t.sqrt(d2)).sum()

        energy = self.C(energy)
        return self.cached_leaf(lambda r, m: self.vg(energy, r, m))

    def w_x(self, name):
        t = self.t
        f = self.C(lambda x, y: (t.sin(x) * y).sum())
        return self.cached_leaf(lambda x, y: self.vg(f, x, y))

    def w_y(self, name):
        t = self.t

        def loss(ws, h):
            for w in ws:
                h = t.tanh(h @ w) * 0.9 + 0.1 * h
            return (h * h).mean()

        loss = self.C(loss)
        return self.cached_leaf(lambda ws, h: self.vg(loss, ws, h))


class CompilePeer(Peer):
    compile = True


class FusedLSTM(Peer):
    """torch's own fused nn.LSTM kernel (mkldnn), eager: only (v)."""

    fused_lstm = True
