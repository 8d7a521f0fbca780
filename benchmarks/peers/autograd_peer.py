"""HIPS autograd (eager NumPy tape).  Also computes the float64 reference."""

import time

ONLY = [
    "e_grad",
    "o_sgd",
    "o_adam",
    "p",
    "q",
    "r",
    "s",
    "t",
    "u",
    "v",
    "w",
    "x_grad",
    "y16",
    "y64",
    "y256",
]


def env(threads, cache, w):
    return {}


class Peer:
    def __init__(self, threads):
        t = time.perf_counter()
        import autograd
        import autograd.numpy as anp

        self.import_s = time.perf_counter() - t
        self.np = anp
        self.jit = lambda f: f
        self.hessian, self.jacobian = autograd.hessian, autograd.jacobian
        self.value_and_grad = autograd.value_and_grad
        from benchmarks import definitions

        self.conv2d = definitions.conv2d_shift(anp)
        grad = self.grad = lambda f, a=0: autograd.grad(f, a)

        def hvp(f, p, v):
            dot = lambda q: sum(anp.sum(a * b) for a, b in zip(grad(f)(q), v))
            return grad(dot)(p)

        self.hvp = hvp

        def scan(f, c, xs):
            ys = []
            for k in range(xs.shape[0]):
                c, y = f(c, xs[k])
                ys.append(y)
            return c, anp.stack(ys)

        self.scan = scan

        def scatter_add(n, i, v):
            import numpy as np

            out = np.zeros(n, v.dtype)
            np.add.at(out, i, v)
            return out

        self.scatter_add = scatter_add
        from autograd.scipy.special import erf

        self.erf = erf

    def boot(self):
        pass

    def put(self, tree):
        return tree

    def build(self, name):
        from benchmarks import definitions

        return definitions.build(name, self)

    def to_numpy(self, name, out):
        import numpy as np

        from benchmarks.worker import leaves

        return [np.asarray(o) for o in leaves(out)]
