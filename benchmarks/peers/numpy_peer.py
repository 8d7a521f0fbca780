"""NumPy eager; derivatives are hand-written where a NumPy user would write them."""

import time

ONLY = [
    "a",
    "b32",
    "b64",
    "c",
    "d",
    "e_fwd",
    "e_grad",
    "f",
    "g",
    "h",
    "i",
    "j",
    "k_gather",
    "k_scatter",
    "l",
    "m",
    "n",
    "p",
    "w",
    "x",
    "x_grad",
]


def env(threads, cache, w):
    return {}


class Peer:
    def __init__(self, threads):
        t = time.perf_counter()
        import numpy as np

        self.import_s = time.perf_counter() - t
        self.np = np
        self.jit = lambda f: f

        def scatter_add(n, i, v):
            out = np.zeros(n, v.dtype)
            np.add.at(out, i, v)
            return out

        self.scatter_add = scatter_add

    @property
    def erf(self):
        from scipy.special import erf

        return erf

    def boot(self):
        pass

    def put(self, tree):
        return tree

    def build(self, name):
        np = self.np
        if name == "e_grad":

            def f(x, g, b, w):
                xc = x - x.mean(-1, keepdims=True)
                inv = 1 / np.sqrt((xc * xc).mean(-1, keepdims=True) + 1e-5)
                xh = xc * inv
                t = w * g
                dx = inv * (t - t.mean(-1, keepdims=True) - xh * (t * xh).mean(-1, keepdims=True))
                return dx, (w * xh).sum(0), w.sum(0)

            return f
        if name == "p":

            def f(w, X, y):
                z = -y * (X @ w)
                s = 1 / (1 + np.exp(-z))
                return (
                    np.logaddexp(0.0, z).mean() + 0.005 * (w @ w),
                    (-(s * y)) @ X / len(y) + 0.01 * w,
                )

            return f
        if name == "w":

            def f(r, m):
                d = r[:, None, :] - r[None, :, :]
                d2 = (d * d).sum(-1) + 1e-2
                inv = 1 / np.sqrt(d2)
                mm = m[:, None] * m[None, :]
                e = mm * inv
                return -0.5 * e.sum(), ((e / d2)[..., None] * d).sum(1)

            return f
        if name == "x_grad":
            return lambda x, y: ((np.sin(x) * y).sum(), np.cos(x) * y)
        from benchmarks import definitions

        return definitions.build(name, self)

    def to_numpy(self, name, out):
        from benchmarks.worker import leaves

        return [self.np.asarray(o) for o in leaves(out)]
