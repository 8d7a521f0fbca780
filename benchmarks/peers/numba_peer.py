"""numba: the loops a numba user would write (parallel, fastmath, cached on disk)."""

import time

ONLY = [
    "a",
    "b32",
    "b64",
    "c",
    "d",
    "e_fwd",
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
]


def env(threads, cache, w):
    return {"NUMBA_CACHE_DIR": cache + "/numba", "NUMBA_NUM_THREADS": str(threads)}


class Peer:
    def __init__(self, threads):
        t = time.perf_counter()
        import numba

        self.import_s = time.perf_counter() - t
        self.nb = numba

    def boot(self):
        import numpy as np

        from benchmarks.peers import numba_kernels

        numba_kernels.boot(np.ones(8, np.float32))

    def put(self, tree):
        return tree

    def build(self, name):
        from benchmarks.peers import numba_kernels as k

        return getattr(k, {"b32": "bs", "b64": "bs"}.get(name, name))

    def to_numpy(self, name, out):
        import numpy as np

        from benchmarks.worker import leaves

        return [np.asarray(o) for o in leaves(out)]
