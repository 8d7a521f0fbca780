"""The corners of NumPy's surface."""

import stax as jax
import stax.numpy as jnp
import numpy as np
from stax import lax

x = jnp.array([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]])
z = jnp.array([1 + 2j, 3 - 1j])
i = jnp.array([5, 3, 1, 4])
b = jnp.array([True, False, True])

results = {}

# a
out = [
    jnp.apply_along_axis(lambda r: r.sum(), 1, x),
    jnp.apply_over_axes(jnp.sum, x, [0, 1]),
    jnp.argwhere(x > 2),
    jnp.array_split(jnp.arange(7), 3),
    jnp.atleast_3d(x).shape,
    jnp.bartlett(5),
    jnp.blackman(5),
    jnp.hamming(5),
    jnp.hanning(5),
    jnp.kaiser(5, 3.0),
    jnp.block([[x, x], [x, x]]).shape,
    jnp.broadcast_arrays(1.0, x)[0].shape,
    jnp.choose(jnp.array([0, 1, 0]), [jnp.array([1, 2, 3]), jnp.array([4, 5, 6])]),
    jnp.column_stack([i, i]),
    jnp.compress(b, jnp.arange(3)),
    jnp.convolve(i * 1.0, i * 1.0, "same"),
]
results["a"] = out

# b
out = [
    jnp.corrcoef(x),
    jnp.cov(x, bias=True),
    jnp.cross(jnp.array([1, 2, 3]), jnp.array([3, 2, 1])),
    jnp.cumulative_sum(i, include_initial=True),
    jnp.cumulative_prod(i),
    jnp.delete(i, 1),
    jnp.delete(i, jnp.array([0, 2]), assume_unique_indices=True),
    jnp.diag_indices(2),
    jnp.diag_indices_from(x[:, :2]),
    jnp.diagflat(i),
    jnp.diff(x, n=2, axis=1, prepend=0),
    jnp.divmod(i, 2),
    jnp.dsplit(jnp.ones((2, 2, 2)), 2)[0].shape,
    jnp.ediff1d(i, to_begin=0),
    jnp.einsum("ij,kj->ik", x, x),
]
results["b"] = out

# c
out = [
    jnp.extract(x > 2, x),
    jnp.fill_diagonal(x, 0.0, inplace=False),
    jnp.flatnonzero(x > 2),
    jnp.flip(x),
    jnp.float_power(2, 3),
    jnp.fmin(jnp.nan, 1.0),
    jnp.fmod(-3, 2),
    jnp.frexp(x),
    jnp.fromfunction(lambda a, b: a + b, (2, 3)),
    jnp.frombuffer(b"\x01\x02", dtype=jnp.uint8),
    jnp.fromstring("1 2", dtype=jnp.float32, sep=" ") if hasattr(jnp, "fromstring") else 0,
    jnp.gcd(12, 18),
    jnp.geomspace(1, 100, 3),
    jnp.gradient(x),
    jnp.gradient(jnp.arange(5.0) ** 2, 2.0),
    jnp.heaviside(jnp.array([-1.0, 0, 1]), 0.5),
    jnp.histogram(x, 3)[1],
    jnp.histogram2d(x[0], x[1], 2)[1],
    jnp.histogram_bin_edges(x, 4),
    jnp.histogramdd(x.T, 2)[0].shape,
    jnp.hypot(3.0, 4.0),
    jnp.i0(1.0),
]
results["c"] = out

# d
out = [
    jnp.indices((2, 2)),
    jnp.inner(x, x),
    jnp.insert(i, 1, 9),
    jnp.insert(x, 1, 7.0, axis=1),
    jnp.interp(2.5, jnp.arange(4.0), jnp.arange(4.0) ** 2),
    jnp.intersect1d(i, jnp.array([1, 5, 9])),
    jnp.intersect1d(i, jnp.array([1, 5]), return_indices=True),
    jnp.isclose(1.0, 1.0 + 1e-9),
    jnp.iscomplexobj(z),
    jnp.isin(i, jnp.array([1, 2])),
    jnp.isreal(z),
    jnp.isscalar(3),
    jnp.issubdtype(jnp.float32, jnp.floating),
    jnp.ix_(jnp.arange(2), jnp.arange(3))[0].shape,
    jnp.kron(i, i)[:4],
    jnp.lcm(4, 6),
    jnp.ldexp(1.0, 3),
    jnp.lexsort((i, i)),
    jnp.linspace(0, 1, 3, retstep=True),
    jnp.logspace(0, 2, 3),
    jnp.mask_indices(3, jnp.triu),
    jnp.matrix_transpose(x).shape,
    jnp.matvec(x, jnp.ones(3)),
    jnp.vecmat(jnp.ones(2), x),
    jnp.vecdot(x, x),
    jnp.maximum(jnp.nan, 1.0),
    jnp.meshgrid(i, i, indexing="ij", sparse=True)[0].shape,
    jnp.mgrid[0:2, 0:3].shape,
    jnp.ogrid[0:2, 0:3][1].shape,
    jnp.r_[1:4, 0, 4],
    jnp.c_[i, i],
    jnp.s_[1:2],
]
results["d"] = out

# e
out = [
    jnp.modf(jnp.array([1.5, -2.5])),
    jnp.moveaxis(jnp.ones((1, 2, 3)), 0, -1).shape,
    jnp.nan_to_num(jnp.array([jnp.nan, jnp.inf])),
    jnp.nanargmax(jnp.array([jnp.nan, 1.0])),
    jnp.nancumsum(jnp.array([jnp.nan, 1.0])),
    jnp.nanpercentile(x, 30),
    jnp.ndim(x),
    jnp.nextafter(1.0, 2.0),
    jnp.packbits(b),
    jnp.unpackbits(jnp.array([5], jnp.uint8)),
    jnp.pad(i, (1, 2), "reflect"),
    jnp.pad(x, 1, "constant", constant_values=9),
    jnp.pad(x, ((0, 0), (1, 1)), "wrap"),
    jnp.pad(i, 2, "linear_ramp", end_values=0),
    jnp.pad(i, 2, "mean"),
    jnp.pad(i, 2, "symmetric"),
    jnp.pad(i, 1, "edge"),
    jnp.pad(i, 1, "maximum"),
    jnp.pad(i, 1, mode="empty").shape,
    jnp.partition(i, 2).shape,
    jnp.argpartition(i, 2).shape,
    jnp.percentile(x, jnp.array([20.0, 80.0]), axis=1, method="nearest"),
    jnp.permute_dims(x, (1, 0)).shape,
    jnp.piecewise(x, [x < 2, x > 4], [lambda v: v * 10, 0.0, lambda v: -v]),
    jnp.place(x, x > 2, jnp.array([9.0, 8.0]), inplace=False),
]
results["e"] = out

# f
out = [
    jnp.poly(jnp.array([1.0, 2.0])),
    jnp.polyadd(i, i),
    jnp.polyder(i * 1.0),
    jnp.polydiv(jnp.array([1.0, 5, 6]), jnp.array([1.0, 2]))[0],
    jnp.polyfit(jnp.arange(4.0), jnp.arange(4.0) ** 2, 2),
    jnp.polyint(jnp.array([2.0, 1])),
    jnp.polymul(i * 1.0, i * 1.0),
    jnp.polysub(i, i),
    jnp.polyval(i, 2),
    jnp.roots(jnp.array([1.0, 0, 2])),
    jnp.positive(x).shape,
    jnp.ptp(x, 1),
    jnp.put(i, jnp.array([0, 2]), jnp.array([7, 8]), inplace=False),
    jnp.put_along_axis(x, jnp.array([[0], [1]]), 99.0, 1, inplace=False),
    jnp.quantile(x, 0.3),
    jnp.ravel_multi_index((jnp.array([1]), jnp.array([2])), (2, 3)),
    jnp.unravel_index(jnp.array([5]), (2, 3)),
    jnp.reciprocal(x),
    jnp.repeat(i, jnp.array([1, 0, 2, 1]), total_repeat_length=4),
    jnp.resize(i, (2, 3)),
    jnp.result_type(jnp.int32, jnp.int64) == jnp.int64,
    jnp.rint(2.5),
    jnp.rollaxis(jnp.ones((1, 2, 3)), 2).shape,
    jnp.roll(x, (1, 1), (0, 1)),
    jnp.rot90(x),
    jnp.round(2.567, 1),
]
results["f"] = out


# i at methods
out = [
    x.at[0].set(1.0),
    x.at[:, 1].add(5),
    x.at[0, 0].multiply(3),
    x.at[0].divide(2.0),
    x.at[0].power(2),
    x.at[0].min(2.0),
    x.at[0].max(2.0),
    x.at[0, 1].apply(jnp.sin),
    x.at[5, 0].get(mode="fill", fill_value=-7),
    x.at[jnp.array([0, 0])].add(1.0),
    x.at[x > 3].set(0.0),
    x.at[9].set(1.0, mode="drop"),
    x.at[..., ::2].set(0.0),
    x.at[0].subtract(1.0),
    x.at[:, jnp.array([0, 2])].get(indices_are_sorted=True, unique_indices=True),
    x.at[jnp.ix_(jnp.array([0, 1]), jnp.array([0, 2]))].set(0.0),
]
results["i at methods"] = out

# j linalg
A = jnp.array([[4.0, 1.0], [2.0, 3.0]])
S = A @ A.T
L = jnp.linalg
out = [
    L.cholesky(S),
    L.cholesky(S, upper=True),
    L.cond(A),
    L.det(A),
    L.eigh(S)[0],
    jnp.sort(L.eigvals(A).real),
    L.eigvalsh(S),
    L.inv(A),
    L.lstsq(A, jnp.ones(2))[0],
    L.matrix_norm(A),
    L.matrix_power(A, 3),
    L.matrix_rank(A),
    L.multi_dot([A, A, A]),
    L.norm(A, "nuc"),
    L.norm(A, 1),
    L.norm(x, axis=1, ord=3),
    L.pinv(A),
    abs(L.qr(A)[1]),
    L.slogdet(A),
    L.solve(A, jnp.ones(2)),
    L.svd(A)[1],
    L.svdvals(A),
    L.tensorinv(jnp.eye(4).reshape(2, 2, 2, 2)).shape,
    L.tensorsolve(jnp.eye(4).reshape(2, 2, 2, 2), jnp.ones((2, 2))),
    L.trace(A),
    L.vector_norm(x, axis=1),
    L.cross(jnp.array([1.0, 0, 0]), jnp.array([0, 1.0, 0])),
    L.diagonal(A),
    L.outer(i, i)[0],
    L.vecdot(x, x),
    L.matrix_transpose(A),
]
results["j linalg"] = out

# k fft
F = jnp.fft
out = [
    F.fft(i),
    F.rfft(i),
    F.irfft(F.rfft(i)),
    F.fft2(x),
    F.fftn(x),
    F.fftshift(i),
    F.fftfreq(4, 0.5),
    F.rfftfreq(4),
    F.hfft(z),
    F.ihfft(i),
    F.ifft(i, n=6),
    F.rfft2(x),
    F.irfft2(F.rfft2(x), s=(2, 3)),
    F.fft(x, axis=0, norm="ortho"),
    F.rfftn(x),
    F.ifftshift(i),
]
results["k fft"] = out

# l dtypes
out = [
    str(jnp.bfloat16(1.5).dtype),
    jnp.finfo(jnp.bfloat16).eps * 1.0,
    jnp.iinfo("int8").max,
    str(jnp.zeros(1, jnp.float8_e4m3fn).dtype),
    jnp.array([1.7, -1.7]).astype(jnp.int8),
    x.view(jnp.int64).shape,
    str(jnp.dtype("float32")),
    jnp.can_cast(jnp.int32, jnp.float32),
    str(jnp.complex64(1).dtype),
    jnp.uint8(250) + jnp.uint8(10),
    str((jnp.int8(1) + 1).dtype),
    str((jnp.float32(1) * 2.5).dtype),
    str(jnp.asarray(1).dtype),
    str(jnp.asarray([1, 2.0]).dtype),
    str(jnp.asarray(1j).dtype),
]
results["l dtypes"] = out

# m methods
out = [
    x.mean(1),
    x.std(),
    x.var(ddof=1),
    x.argmax(1),
    x.clip(2, 4),
    x.cumsum(1),
    x.cumprod(0),
    x.diagonal(),
    x.dot(x.T),
    x.flatten(),
    x.max(0, initial=0),
    x.min(),
    x.prod(),
    x.ravel(),
    x.repeat(2),
    x.reshape(3, 2),
    x.round(),
    x.squeeze(),
    x.sum(where=x > 2),
    x.swapaxes(0, 1),
    x.take(jnp.array([0, 1])),
    x.trace(),
    x.transpose(),
    x.T,
    x.mT,
    z.conj(),
    z.imag,
    z.real,
    x.nonzero(),
    x.all(),
    x.any(),
    x.astype("int32"),
    x.compress(jnp.array([True, False]), axis=0),
    x.argsort(1),
    i.argpartition(1).shape,
    x.copy(),
    x.conjugate(),
    x.tobytes() == np.asarray(x).tobytes(),
]
results["m methods"] = out

# n grads of odd
g = jax.grad
out = [
    g(lambda v: jnp.sort(v)[0])(x[0]),
    g(lambda v: jnp.median(v))(x[0]),
    g(lambda v: jnp.percentile(v, 30))(x[0]),
    g(lambda v: jnp.max(v))(jnp.array([1.0, 1.0])),
    g(lambda v: jnp.sqrt(v))(0.0),
    g(lambda v: jnp.prod(v))(jnp.array([0.0, 2.0, 3.0])),
    g(lambda v: jnp.cumprod(v).sum())(jnp.array([0.0, 2.0, 3.0])),
    g(lambda v: jnp.maximum(v, 0.0))(0.0),
    g(lambda v: jnp.sign(v))(1.0),
    g(lambda v: v**2.0)(0.0),
    g(lambda v: jnp.sinc(v))(0.0),
    g(lambda v: jnp.logaddexp(v, v))(1.0),
    g(lambda v: jnp.floor(v))(1.0),
    g(lambda v: v % 2.0)(3.0),
    g(lambda v: jnp.interp(v, jnp.arange(3.0), jnp.arange(3.0) ** 2))(1.0),
    g(lambda v: jnp.nanmean(jnp.array([v, jnp.nan])))(1.0),
    g(lambda v: jnp.round(v))(1.0),
    g(lambda v: jnp.ptp(jnp.array([v, 2 * v])))(1.0),
    g(lambda v: jnp.trace(jnp.outer(v, v)))(x[0]),
    g(lambda v: jnp.minimum(v, v))(1.0),
    g(lambda v: jnp.fmax(v, jnp.nan))(1.0),
    g(lambda v: jnp.cross(v, jnp.array([1.0, 0, 0])).sum())(x[0]),
    g(lambda v: jnp.i0(v))(0.0),
    g(lambda v: jnp.real(jnp.fft.fft(v)).sum())(x[0]),
    g(lambda v: jnp.linalg.det(v))(jnp.zeros((2, 2))),
    g(lambda v: jnp.unwrap(v).sum())(jnp.array([0.0, 6.0, 12.0])),
    g(lambda v: jnp.gradient(v).sum())(jnp.arange(4.0)),
    g(lambda v: jnp.nanmax(v))(jnp.array([jnp.nan, 1.0])),
]
results["n grads of odd"] = out
