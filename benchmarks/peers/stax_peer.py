"""stax itself: the installed one, or the checkout STAX_PATH points at."""

import importlib.util
import os
import sys
import time


def env(threads, cache, w):
    return {"STAX_CACHE_DIR": cache + "/stax"}


def available():
    return bool(os.environ.get("STAX_PATH")) or importlib.util.find_spec("stax") is not None


class Peer:
    def __init__(self, threads):
        if os.environ.get("STAX_PATH"):
            sys.path.insert(0, os.environ["STAX_PATH"])
        t = time.perf_counter()
        import stax
        import stax.numpy as snp

        self.import_s = time.perf_counter() - t
        self.stax, self.np = stax, snp
        self.jit = stax.jit
        self.grad = lambda f, a=0: stax.grad(f, a)
        self.value_and_grad = lambda f: stax.value_and_grad(f)
        self.hvp = lambda f, p, v: stax.hvp(f, (p,), (v,))
        self.hessian, self.jacobian = stax.hessian, stax.jacrev
        lax = stax.lax
        self.scan = lax.scan
        self.erf = lax.erf
        self.conv2d = lambda x, w: lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        self.scatter_add = lambda n, i, v: snp.zeros(n, v.dtype).at[i].add(v)

    def boot(self):
        import numpy as np

        self.stax.jit(lambda x: x * 2 + 1)(np.ones(8, np.float32))

    def put(self, tree):
        return tree  # numpy arrays in, numpy arrays out

    def build(self, name):
        from benchmarks import definitions

        return definitions.build(name, self)

    def to_numpy(self, name, out):
        import numpy as np

        from benchmarks.worker import leaves

        return [np.asarray(o) for o in leaves(out)]
