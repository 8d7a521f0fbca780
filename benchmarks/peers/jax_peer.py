"""JAX jit on CPU."""

import time

SPLIT_64 = True  # workloads with numbers or indices of 64 bits get a process of their own


def env(threads, cache, w):
    e = {
        "JAX_PLATFORMS": "cpu",
        "JAX_COMPILATION_CACHE_DIR": cache + "/jax",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
    if w.f64 or w.i64:
        e["JAX_ENABLE_X64"] = "1"
    return e


class Peer:
    def __init__(self, threads):
        t = time.perf_counter()
        import jax
        import jax.numpy as jnp

        self.import_s = time.perf_counter() - t
        self.jax, self.np, self.threads = jax, jnp, threads
        self.jit = jax.jit
        self.grad = lambda f, a=0: jax.grad(f, a)
        self.value_and_grad = lambda f: jax.value_and_grad(f)
        self.hvp = lambda f, p, v: jax.jvp(jax.grad(f), (p,), (v,))[1]
        self.hessian, self.jacobian = jax.hessian, jax.jacrev
        self.scan = jax.lax.scan
        self.erf = jax.lax.erf
        self.conv2d = lambda x, w: jax.lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        self.scatter_add = lambda n, i, v: jnp.zeros(n, v.dtype).at[i].add(v)

    def boot(self):
        self.jax.block_until_ready(self.jax.jit(lambda x: x * 2 + 1)(self.np.ones(8)))

    def put(self, tree):
        return self.jax.block_until_ready(self.jax.tree.map(self.jax.numpy.asarray, tree))

    def build(self, name):
        from benchmarks import definitions

        f, block = definitions.build(name, self), self.jax.block_until_ready
        return lambda *a: block(f(*a))

    def to_numpy(self, name, out):
        import numpy as np

        return [np.asarray(o) for o in self.jax.tree.leaves(out)]
