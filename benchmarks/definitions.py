"""Every workload written once against a JAX-like namespace.

`B` supplies: np, jit, grad, value_and_grad, hvp, hessian, jacobian, scan, erf,
conv2d, gather, scatter_add.  Used by the jax, stax, autograd and numpy peers and
(with autograd on float64) by the reference.
"""

import math

DEFS = {}


def D(*names):
    def deco(f):
        for n in names:
            DEFS[n] = f
        return f

    return deco


def build(name, B):
    return DEFS[name](B)


@D("a")
def _(B):
    np = B.np

    def f(x, y):
        t = np.tanh(x * y + 0.5)
        e = np.exp(-0.5 * (x * x))
        v = t * e - y
        return np.where(v > 0, v, 0.1 * v) + x

    return B.jit(f)


@D("b32", "b64")
def _(B):
    np, erf = B.np, B.erf
    rate, vol = 0.05, 0.3

    def f(S, K, T):
        sq = vol * np.sqrt(T)
        d1 = (np.log(S / K) + (rate + 0.5 * vol * vol) * T) / sq
        d2 = d1 - sq
        cdf = lambda z: 0.5 * (1 + erf(z * (1 / math.sqrt(2))))
        disc = K * np.exp(-rate * T)
        n1, n2 = cdf(d1), cdf(d2)
        return S * n1 - disc * n2, disc * (1 - n2) - S * (1 - n1)

    return B.jit(f)


@D("c")
def _(B):
    np = B.np
    return B.jit(lambda x, y: np.sum(np.maximum((x + y) * 2, 0), axis=-1))


def softmax(np, x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def log_softmax(np, x):
    s = x - np.max(x, axis=-1, keepdims=True)
    return s - np.log(np.sum(np.exp(s), axis=-1, keepdims=True))


def layernorm(np, x, g, b):
    mu = np.mean(x, axis=-1, keepdims=True)
    xc = x - mu
    var = np.mean(xc * xc, axis=-1, keepdims=True)
    return xc / np.sqrt(var + 1e-5) * g + b


def gelu(np, x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))))


@D("d")
def _(B):
    return B.jit(lambda x: softmax(B.np, x))


@D("e_fwd")
def _(B):
    return B.jit(lambda x, g, b: layernorm(B.np, x, g, b))


@D("e_grad")
def _(B):
    np = B.np
    loss = lambda x, g, b, w: np.sum(layernorm(np, x, g, b) * w)
    return B.jit(B.grad(loss, (0, 1, 2)))


@D("f")
def _(B):
    np = B.np

    def f(x):
        m = np.max(x, axis=-1, keepdims=True)
        return np.log(np.sum(np.exp(x - m), axis=-1)) + m[..., 0]

    return B.jit(f)


@D("g")
def _(B):
    np = B.np
    return B.jit(lambda x: (np.mean(x, axis=-1), np.var(x, axis=-1)))


@D("h")
def _(B):
    return B.jit(lambda x: B.np.argmax(x, axis=-1))


@D("i")
def _(B):
    return B.jit(lambda x: B.np.sum(x, axis=0))


@D("j")
def _(B):
    return B.jit(lambda x, y: x.T + y)


@D("k_gather")
def _(B):
    return B.jit(lambda x, i: x[i] * 2)


@D("k_scatter")
def _(B):
    return B.jit(lambda i, v: B.scatter_add(1 << 20, i, v))


@D("l")
def _(B):
    return B.jit(lambda x: B.np.cumsum(x))


@D("m")
def _(B):
    np = B.np
    return B.jit(lambda a, b, c, d: np.concatenate([a * 2, b + 1, c * c, d]) * 0.5 + 1)


@D("n")
def _(B):
    def f(u):
        for _ in range(10):
            u = u[1:-1, 1:-1] + 0.1 * (
                u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
            )
        return u

    return B.jit(f)


# ------------------------------------------------------------------ autodiff
def mlp_loss(np):
    def loss(p, x, y):
        n = len(p) // 2
        h = x
        for k in range(n):
            h = h @ p[2 * k] + p[2 * k + 1]
            if k < n - 1:
                h = gelu(np, h)
        return -np.mean(np.sum(y * log_softmax(np, h), axis=-1))

    return loss


@D("o_sgd")
def _(B):
    vg = B.value_and_grad(mlp_loss(B.np))

    def step(p, x, y):
        l, g = vg(p, x, y)
        return l, [a - 0.1 * b for a, b in zip(p, g)]

    return B.jit(step)


B1, B2, EPS, LR, T = 0.9, 0.999, 1e-8, 1e-3, 10


@D("o_adam")
def _(B):
    np = B.np
    vg = B.value_and_grad(mlp_loss(np))

    def step(p, m, v, x, y):
        l, g = vg(p, x, y)
        m = [B1 * a + (1 - B1) * b for a, b in zip(m, g)]
        v = [B2 * a + (1 - B2) * (b * b) for a, b in zip(v, g)]
        p = [
            a - LR * (b / (1 - B1**T)) / (np.sqrt(c / (1 - B2**T)) + EPS)
            for a, b, c in zip(p, m, v)
        ]
        return l, p, m, v

    return B.jit(step)


@D("p")
def _(B):
    np = B.np

    def loss(w, X, y):
        return np.mean(np.logaddexp(0.0, -y * (X @ w))) + 0.005 * np.sum(w * w)

    return B.jit(B.value_and_grad(loss))


@D("q")
def _(B):
    np = B.np

    def attn(x, wqkv, wo):
        b, s, d = x.shape
        qkv = np.transpose(np.reshape(x @ wqkv, (b, s, 3, 8, d // 8)), (2, 0, 3, 1, 4))
        q, k, v = qkv[0], qkv[1], qkv[2]
        a = softmax(np, q @ np.swapaxes(k, -1, -2) * (1 / math.sqrt(d // 8)))
        return np.reshape(np.transpose(a @ v, (0, 2, 1, 3)), (b, s, d)) @ wo

    def loss(ps, x, y):
        for p in ps:
            g1, b1, wqkv, wo, g2, b2, w1, c1, w2, c2 = [p[k] for k in range(10)]
            x = x + attn(layernorm(np, x, g1, b1), wqkv, wo)
            x = x + gelu(np, layernorm(np, x, g2, b2) @ w1 + c1) @ w2 + c2
        return np.mean((x - y) * (x - y))

    return B.jit(B.value_and_grad(loss))


@D("r")
def _(B):
    np = B.np

    def pool(x):
        n, h, w, c = x.shape
        return np.mean(np.reshape(x, (n, h // 2, 2, w // 2, 2, c)), axis=(2, 4))

    def loss(p, x, y):
        h = pool(np.maximum(B.conv2d(x, p[0]) + p[1], 0))
        h = pool(np.maximum(B.conv2d(h, p[2]) + p[3], 0))
        h = np.reshape(h, (h.shape[0], -1)) @ p[4] + p[5]
        return -np.mean(np.sum(y * log_softmax(np, h), axis=-1))

    return B.jit(B.value_and_grad(loss))


def conv2d_shift(np):
    """3x3 SAME convolution NHWC/HWIO as nine shifted matmuls (fallback)."""

    def conv(x, w):
        _, h, wd, _ = x.shape
        xp = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), "constant")
        out = 0
        for i in range(3):
            for j in range(3):
                out = out + xp[:, i : i + h, j : j + wd, :] @ w[i, j]
        return out

    return conv


@D("s")
def _(B):
    loss = mlp_loss(B.np)
    return B.jit(lambda p, v, x, y: B.hvp(lambda q: loss(q, x, y), p, v))


@D("t")
def _(B):
    np = B.np
    f = lambda x: np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)
    return B.jit(B.hessian(f))


@D("u")
def _(B):
    np = B.np

    def jac(x, w1, w2):
        return B.jacobian(lambda z: np.tanh(w2 @ np.sin(w1 @ z)) + z * z)(x)

    return B.jit(jac)


@D("v")
def _(B):
    np = B.np
    H = 128

    def loss(p, xs):
        wx, wh, b = p[0], p[1], p[2]
        sig = lambda z: 1 / (1 + np.exp(-z))

        def cell(carry, xt):
            h, c = carry
            z = xt @ wx + h @ wh + b
            i, f, g, o = z[:, :H], z[:, H : 2 * H], z[:, 2 * H : 3 * H], z[:, 3 * H :]
            c = sig(f) * c + sig(i) * np.tanh(g)
            h = sig(o) * np.tanh(c)
            return (h, c), h

        z0 = np.zeros((xs.shape[1], H), xs.dtype)
        _, hs = B.scan(cell, (z0, z0), xs)
        return np.mean(hs * hs)

    return B.jit(B.value_and_grad(loss))


@D("w")
def _(B):
    np = B.np

    def energy(r, m):
        d = r[:, None, :] - r[None, :, :]
        d2 = np.sum(d * d, axis=-1) + 1e-2
        return -0.5 * np.sum(m[:, None] * m[None, :] / np.sqrt(d2))

    return B.jit(B.value_and_grad(energy))


@D("x")
def _(B):
    return B.jit(lambda x, y: B.np.sin(x) * y + 1)


@D("x_grad")
def _(B):
    return B.jit(B.value_and_grad(lambda x, y: B.np.sum(B.np.sin(x) * y)))


@D("y16", "y64", "y256")
def _(B):
    np = B.np

    def loss(ws, h):
        for k in range(len(ws)):
            h = np.tanh(h @ ws[k]) * 0.9 + 0.1 * h
        return np.mean(h * h)

    return B.jit(B.value_and_grad(loss))
