"""The workloads: inputs (fixed seeds, sizes), tolerance, minimal traffic / flops.

The mathematics of each is in definitions.py (written once against a JAX-like
namespace).  The float64 reference is that definition run over plain NumPy
(autograd for derivatives) on the same inputs cast to float64.
"""

import numpy as np

M = 1 << 20
MB = 1e6


class Workload:
    def __init__(
        self, name, title, make, tol=2e-5, f64=False, i64=False, bytes=0, flops=0, mem=False
    ):
        self.name, self.title, self.make = name, title, make
        self.tol, self.bytes, self.flops, self.mem = tol, bytes, flops, mem
        self.f64, self.i64 = f64, i64  # what it holds of 64 bits: numbers, indices


WORKLOADS = {}


def W(name, title, **kw):
    def deco(fn):
        def make():
            seed = 1000 + sum(map(ord, name))
            return fn(np.random.default_rng(seed))

        WORKLOADS[name] = Workload(name, title, make, **kw)
        return fn

    return deco


def _n(r, *s, scale=1.0, dt=np.float32):
    return (r.standard_normal(s) * scale).astype(dt)


# ---------------------------------------------------------------- pointwise / reduction
@W("a", "12-op pointwise chain, 4M", bytes=3 * 16 * M)
def _(r):
    return _n(r, 4 * M), _n(r, 4 * M)


def _bs(r, dt):
    n = 1_000_000
    return (
        r.uniform(10, 50, n).astype(dt),
        r.uniform(10, 50, n).astype(dt),
        r.uniform(0.2, 2.0, n).astype(dt),
    )


@W("b32", "Black-Scholes 1M f32", tol=1e-5, bytes=5 * 4e6)
def _(r):
    return _bs(r, np.float32)


@W("b64", "Black-Scholes 1M f64", tol=1e-12, f64=True, bytes=5 * 8e6)
def _(r):
    return _bs(r, np.float64)


def _mat(r):
    return (_n(r, 4096, 1024),)


@W("c", "sum(relu((x+y)*2),-1) 4096x1024", bytes=2 * 16 * M)
def _(r):
    return _n(r, 4096, 1024), _n(r, 4096, 1024)


W("d", "softmax 4096x1024", bytes=2 * 16 * M)(_mat)


@W("e_fwd", "layernorm fwd 4096x1024", bytes=2 * 16 * M)
def _(r):
    return _n(r, 4096, 1024), _n(r, 1024), _n(r, 1024)


@W("e_grad", "layernorm grad (x,g,b) 4096x1024", bytes=3 * 16 * M, tol=5e-5)
def _(r):
    return _n(r, 4096, 1024), _n(r, 1024), _n(r, 1024), _n(r, 4096, 1024)


W("f", "logsumexp 4096x1024", bytes=16 * M)(_mat)
W("g", "mean+var 4096x1024", bytes=16 * M)(_mat)
W("h", "argmax 4096x1024", bytes=16 * M, tol=0)(_mat)


@W("i", "column sum 4096x4096", bytes=64 * M)
def _(r):
    return (_n(r, 4096, 4096),)


@W("j", "x.T + y 2048x2048", bytes=3 * 16 * M)
def _(r):
    return _n(r, 2048, 2048), _n(r, 2048, 2048)


@W("k_gather", "x[idx]*2, 1M", i64=True, bytes=4 * M * 2 + 8 * M)
def _(r):
    return _n(r, M), r.integers(0, M, M)


@W("k_scatter", "scatter-add 1M into 1M", i64=True, bytes=4 * M * 3 + 8 * M)
def _(r):
    return r.integers(0, M, M), _n(r, M)


@W("l", "cumsum 4M", tol=2e-4, bytes=2 * 16 * M)
def _(r):
    return (_n(r, 4 * M),)


@W("m", "concat 4x1M + pointwise", bytes=2 * 16 * M)
def _(r):
    return tuple(_n(r, M) for _ in range(4))


@W("n", "5-point stencil 2048^2 x10", bytes=2 * 16 * M, flops=0)
def _(r):
    return (_n(r, 2048, 2048),)


# ---------------------------------------------------------------- autodiff / training
def mlp_params(r, sizes):
    p = []
    for a, b in zip(sizes[:-1], sizes[1:]):
        p += [_n(r, a, b, scale=a**-0.5), _n(r, b, scale=0.1)]
    return p


def onehot(r, b, k):
    y = np.zeros((b, k), np.float32)
    y[np.arange(b), r.integers(0, k, b)] = 1
    return y


_MLP = (784, 512, 512, 10)
_mlp_flops = 2 * 256 * sum(a * b for a, b in zip(_MLP[:-1], _MLP[1:]))
_mlp_bwd = 3 * _mlp_flops - 2 * 256 * 784 * 512


@W("o_sgd", "gelu MLP grad + SGD", tol=5e-5, flops=_mlp_bwd, mem=True)
def _(r):
    return mlp_params(r, _MLP), _n(r, 256, 784), onehot(r, 256, 10)


@W("o_adam", "gelu MLP grad + Adam", tol=5e-5, flops=_mlp_bwd, mem=True)
def _(r):
    p = mlp_params(r, _MLP)
    m = [_n(r, *q.shape, scale=1e-3) for q in p]
    v = [r.uniform(1e-4, 1e-3, q.shape).astype(np.float32) for q in p]
    return p, m, v, _n(r, 256, 784), onehot(r, 256, 10)


@W("p", "logreg grad 100k x 64 f64", tol=1e-12, f64=True, bytes=100_000 * 64 * 8)
def _(r):
    X = r.standard_normal((100_000, 64))
    return r.standard_normal(64) * 0.1, X, np.sign(r.standard_normal(100_000))


@W("q", "2-layer transformer fwd+bwd", tol=2e-4, flops=11.3e9, mem=True)
def _(r):
    d, out = 256, []
    for _ in range(2):
        out.append(
            [
                _n(r, d, scale=0.1) + 1,
                _n(r, d, scale=0.1),
                _n(r, d, 3 * d, scale=d**-0.5),
                _n(r, d, d, scale=d**-0.5),
                _n(r, d, scale=0.1) + 1,
                _n(r, d, scale=0.1),
                _n(r, d, 4 * d, scale=d**-0.5),
                _n(r, 4 * d, scale=0.1),
                _n(r, 4 * d, d, scale=(4 * d) ** -0.5),
                _n(r, d, scale=0.1),
            ]
        )
    return out, _n(r, 4, 256, d), _n(r, 4, 256, d)


@W("r", "small CNN fwd+bwd, batch 64", tol=1e-4, flops=3 * 115e6 + 2 * 14.4e6)
def _(r):
    p = [
        _n(r, 3, 3, 1, 16, scale=1 / 3),
        _n(r, 16, scale=0.1),
        _n(r, 3, 3, 16, 32, scale=1 / 12),
        _n(r, 32, scale=0.1),
        _n(r, 1568, 10, scale=1568**-0.5),
        _n(r, 10, scale=0.1),
    ]
    return p, _n(r, 64, 28, 28, 1), onehot(r, 64, 10)


@W("s", "HVP of gelu MLP loss", tol=1e-4, flops=2 * _mlp_bwd)
def _(r):
    p = mlp_params(r, _MLP)
    return p, [_n(r, *q.shape, scale=0.1) for q in p], _n(r, 256, 784), onehot(r, 256, 10)


@W("t", "full Hessian Rosenbrock-100 f64", tol=1e-12, f64=True)
def _(r):
    return (r.standard_normal(100),)


@W("u", "Jacobian R50->R50", tol=2e-5)
def _(r):
    return _n(r, 50), _n(r, 50, 50, scale=50**-0.5), _n(r, 50, 50, scale=50**-0.5)


@W("v", "LSTM scan 128 steps fwd+bwd", tol=1e-4, flops=3 * 128 * 32 * 192 * 512 * 2, mem=True)
def _(r):
    I, H = 64, 128
    return (
        [_n(r, I, 4 * H, scale=I**-0.5), _n(r, H, 4 * H, scale=H**-0.5), _n(r, 4 * H, scale=0.1)],
        _n(r, 128, 32, I),
    )


@W("w", "N-body energy grad n=512 f64", tol=1e-12, f64=True)
def _(r):
    return r.standard_normal((512, 3)), r.uniform(0.5, 1.5, 512)


@W("x", "tiny: 3 ops on size 8", tol=1e-6)
def _(r):
    return _n(r, 8), _n(r, 8)


@W("x_grad", "tiny: value_and_grad on size 8", tol=1e-6)
def _(r):
    return _n(r, 8), _n(r, 8)


def _chain(L):
    def mk(r):
        return [_n(r, 64, 64, scale=1 / 8) for _ in range(L)], _n(r, 64, 64)

    return mk


for _L in (16, 64, 256):
    W(f"y{_L}", f"matmul+pointwise chain {_L} layers, fwd+bwd", tol=1e-4, flops=3 * _L * 2 * 64**3)(
        _chain(_L)
    )
