"""numexpr where one expression says it."""

import time

ONLY = ["a", "c", "j"]


def env(threads, cache, w):
    return {"NUMEXPR_NUM_THREADS": str(threads), "NUMEXPR_MAX_THREADS": str(threads)}


class Peer:
    def __init__(self, threads):
        t = time.perf_counter()
        import numexpr

        self.import_s = time.perf_counter() - t
        self.ne = numexpr

    def boot(self):
        pass

    def put(self, tree):
        return tree

    def build(self, name):
        ne = self.ne
        if name == "a":
            import numpy as np

            h, z1, c, zero = np.float32(0.5), np.float32(-0.5), np.float32(0.1), np.float32(0)

            def f(x, y):
                v = ne.evaluate(
                    "tanh(x*y + h)*exp(z1*(x*x)) - y", {"x": x, "y": y, "h": h, "z1": z1}
                )
                return ne.evaluate(
                    "where(v > zero, v, c*v) + x", {"v": v, "x": x, "c": c, "zero": zero}
                )

            return f
        if name == "c":
            return lambda x, y: ne.evaluate("sum(where(x+y > 0, (x+y)*2, 0), axis=1)")
        if name == "j":

            def f(x, y):
                return ne.evaluate("xt + y", {"xt": x.T, "y": y})

            return f

    def to_numpy(self, name, out):
        import numpy as np

        from benchmarks.worker import leaves

        return [np.asarray(o) for o in leaves(out)]
