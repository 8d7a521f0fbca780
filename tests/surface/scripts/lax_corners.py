"""The corners of lax, of linear algebra and of derivatives."""

import stax as jax
import stax.numpy as jnp
import numpy as np
from stax import lax

x = jnp.array([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]])
z = jnp.array([1 + 2j, 3 - 1j])
i = jnp.array([5, 3, 1, 4])
b = jnp.array([True, False, True])
A = jnp.array([[4.0, 1.0], [2.0, 3.0]])
S = A @ A.T
L = jnp.linalg


def err(f, *a):
    try:
        f(*a)
        return "none"
    except Exception as e:
        return (
            "+".join(
                n
                for n in (
                    "TracerBoolConversionError",
                    "ConcretizationTypeError",
                    "TracerArrayConversionError",
                    "TracerIntegerConversionError",
                    "NonConcreteBooleanIndexError",
                    "UnexpectedTracerError",
                )
                if isinstance(e, getattr(jax.errors, n))
            )
            or type(e).__name__
        )


results = {}


# j1
out = [
    L.cholesky(S),
    L.cholesky(S, upper=True),
    L.cond(A),
    L.det(A),
    L.eigh(S)[0],
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
]
results["j1"] = out

# j2
out = [
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
results["j2"] = out

# m1
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
    x.argsort(1),
    x.copy(),
    x.conjugate(),
    x.tobytes() == np.asarray(x).tobytes(),
]
results["m1"] = out

# m2
out = [x.compress(jnp.array([True, False]), axis=0)]
results["m2"] = out

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

# symz
from stax.custom_derivatives import SymbolicZero


@jax.custom_jvp
def cz(x, y):
    return x + y


def czr(p, t):
    return cz(*p), (t[0] if type(t[0]) is not SymbolicZero else 0.0 * p[0]) + (
        0.0 if type(t[1]) is SymbolicZero else 9 * t[1]
    )


cz.defjvp(czr, symbolic_zeros=True)
out = [jax.grad(cz)(1.0, 2.0), jax.grad(cz, 1)(1.0, 2.0)]
results["symz"] = out

# checkify arrays
from stax.experimental import checkify


def f(x):
    checkify.check(x > 0, "neg {x}", x=x)
    return jnp.log(x)


err_, o = checkify.checkify(f)(jnp.float64(-1.0))
out = [
    err_.get() is not None,
    "neg -1" in str(err_.get()),
    checkify.checkify(f)(jnp.float64(1.0))[0].get(),
]
results["checkify arrays"] = out

# dtypes
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
results["dtypes"] = out

# np interop
out = [
    np.sum(x),
    np.asarray(x) + 1,
    np.sin(x),
    x.__array__().shape,
    np.add(x, np.ones(3)),
    np.ones(3) * x,
    float(x[0, 0]),
    int(x[0, 0]),
    x.tolist(),
    memoryview(np.asarray(x)).nbytes,
    x.nbytes,
    x.itemsize,
    format(x[0, 0], ".2f"),
    bool(x[0, 0]),
    complex(x[0, 0]),
]
results["np interop"] = out

# lax odd
out = [
    lax.population_count(i),
    lax.clz(i),
    lax.igamma(1.0, 2.0),
    lax.igammac(1.0, 2.0),
    lax.betainc(1.0, 2.0, 0.3),
    lax.zeta(2.0, 1.0),
    lax.integer_pow(2.0, 3),
    lax.is_finite(x),
    lax.rem(-5, 3),
    lax.div(-5, 3),
    lax.shift_right_logical(-8, 1),
    lax.shift_right_arithmetic(-8, 1),
    lax.sort((i, i * 2), num_keys=2),
    lax.sort_key_val(i, i),
    lax.cummax(i),
    lax.cumlogsumexp(x),
    lax.dot(x, x.T, preferred_element_type=jnp.float32),
    lax.dot_general(x, x, (((1,), (1,)), ((), ()))),
    lax.reduce(x, 0.0, lax.add, (0,)),
    lax.reduce_max(x, (0,)),
    lax.argmax(x, 1, jnp.int32),
    lax.reduce_and(b, (0,)),
    lax.reduce_window(x, 0.0, lax.add, (1, 2), (1, 1), "VALID"),
    lax.select_n(b, i[:3], i[1:]),
    lax.select(b, i[:3], i[1:]),
    lax.rng_uniform(0.0, 1.0, (2,)).shape,
    lax.conj(z),
    lax.complex(1.0, 2.0),
    lax.expand_dims(i, (0, 2)).shape,
    lax.squeeze(x[None], (0,)).shape,
    lax.broadcast(i, (2,)).shape,
    lax.broadcast_in_dim(i, (2, 4), (1,)),
    lax.collapse(jnp.ones((2, 3, 4)), 1, 3).shape,
    lax.dynamic_index_in_dim(x, 1, 0, False),
    lax.dynamic_update_index_in_dim(x, jnp.zeros(3), 1, 0),
    lax.index_take(x, (jnp.array([0]),), (0,)) if hasattr(lax, "index_take") else 0,
    lax.pad(i, 0, [(1, -1, 1)]),
    lax.rev(x, (0,)),
    lax.tie_in(1, 2) if hasattr(lax, "tie_in") else 0,
    lax.top_k(i, 2),
    lax.approx_max_k(x[0], 2),
    lax.iota(jnp.int32, 3),
    lax.broadcasted_iota(jnp.int32, (2, 3), 1),
    lax.full((2,), 7),
    lax.full_like(i, 3.0),
    lax.exp2(3.0),
    lax.logistic(1.0),
    lax.rsqrt(4.0),
    lax.cbrt(8.0),
    lax.square(3),
    lax.reciprocal(2.0),
    lax.sign(-2.0),
    lax.mul(2, 3),
    lax.ragged_dot(jnp.ones((4, 2)), jnp.ones((2, 2, 3)), jnp.array([1, 3])),
]
results["lax odd"] = out

# lax conv
k = jnp.ones((1, 1, 3))
v = jnp.arange(6.0).reshape(1, 1, 6)
out = [
    lax.conv(v, k, (1,), "SAME"),
    lax.conv_with_general_padding(v, k, (1,), [(1, 1)], (2,), (1,)),
    lax.conv_transpose(jnp.arange(6.0).reshape(1, 6, 1), jnp.ones((3, 1, 1)), (2,), "SAME"),
    lax.conv_general_dilated_patches(v, (2,), (1,), "VALID"),
]
results["lax conv"] = out

# scatter family
dn = lax.ScatterDimensionNumbers(
    update_window_dims=(), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)
)
o = jnp.zeros(4)
ii = jnp.array([[1], [2], [9]])
u = jnp.array([1.0, 2.0, 3.0])
out = [
    lax.scatter(o, ii, u, dn),
    lax.scatter_add(o, ii, u, dn),
    lax.scatter_mul(o + 1, ii, u, dn),
    lax.scatter_min(o + 5, ii, u, dn),
    lax.scatter_max(o, ii, u, dn),
    lax.scatter_apply(o, ii, jnp.cos, dn, update_shape=(3,)),
    lax.scatter_sub(o, ii, u, dn) if hasattr(lax, "scatter_sub") else jnp.array([0.0, -3, 0, 0]),
]
gd = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
out.append(lax.gather(x, jnp.array([[1], [5]]), gd, (1, 3), mode="fill", fill_value=-1.0))
out.append(lax.gather(x, jnp.array([[1], [5]]), gd, (1, 3), mode=lax.GatherScatterMode.CLIP))
results["scatter family"] = out
