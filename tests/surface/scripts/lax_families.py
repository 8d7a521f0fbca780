"""The families of lax: contractions, convolutions, windows, gathers, bits."""

import stax as jax
import stax.numpy as jnp
from stax import lax
import numpy as np
from functools import partial

results = {}
a = jnp.arange(24.0).reshape(2, 3, 4)
results["dg"] = [
    lax.dot_general(a, a, (((2,), (2,)), ((0,), (0,)))),
    lax.dot_general(
        a[0],
        a[1].T,
        dimension_numbers=(((1,), (0,)), ((), ())),
        precision=lax.Precision.HIGHEST,
        preferred_element_type=jnp.float64,
    ),
    lax.dot(a[0], a[1].T),
    lax.batch_matmul(a, a.transpose(0, 2, 1)),
]
img = jnp.arange(2 * 3 * 6 * 5.0).reshape(2, 3, 6, 5) / 50
ker = jnp.arange(4 * 3 * 3 * 2.0).reshape(4, 3, 3, 2) / 30
results["conv"] = [
    lax.conv(img, ker, (1, 1), "SAME"),
    lax.conv_with_general_padding(img, ker, (1, 1), ((2, 2), (1, 0)), (1, 1), (1, 1)),
    lax.conv_general_dilated(
        img, ker, (2, 1), [(1, 1), (0, 1)], lhs_dilation=(1, 2), rhs_dilation=(1, 1)
    ),
]
dn = lax.conv_dimension_numbers((2, 6, 5, 3), (3, 2, 3, 4), ("NHWC", "HWIO", "NHWC"))
results["nhwc"] = lax.conv_general_dilated(
    jnp.transpose(img, (0, 2, 3, 1)),
    jnp.transpose(ker, (2, 3, 1, 0)),
    (1, 1),
    "VALID",
    (1, 1),
    (1, 1),
    dn,
)
results["nhwc2"] = lax.conv_general_dilated(
    lhs=jnp.transpose(img, (0, 2, 3, 1)),
    rhs=jnp.transpose(ker, (2, 3, 1, 0)),
    window_strides=(2, 2),
    padding="SAME",
    dimension_numbers=("NHWC", "HWIO", "NHWC"),
)
results["depth"] = lax.conv_general_dilated(img, ker[:3, :1], (1, 1), "SAME", feature_group_count=3)
results["convt"] = lax.conv_transpose(
    jnp.transpose(img, (0, 2, 3, 1)), jnp.transpose(ker, (2, 3, 1, 0)), (2, 2), "SAME"
)
results["conv1d"] = lax.conv_general_dilated(
    img[0, :, :, 0][None], ker[:, :, :, 0], (1,), "SAME", dimension_numbers=("NCH", "OIH", "NCH")
)
results["conv3d"] = lax.conv_general_dilated(
    jnp.ones((1, 1, 3, 3, 3)), jnp.ones((2, 1, 2, 2, 2)), (1, 1, 1), "SAME"
).sum()
results["gconv"] = jax.grad(lambda k: jnp.sum(lax.conv(img, k, (1, 1), "SAME") ** 2))(ker)
results["patches"] = lax.conv_general_dilated_patches(img, (2, 2), (1, 1), "VALID")[:, :3, 0]
results["rw"] = [
    lax.reduce_window(img, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"),
    lax.reduce_window(img, 0.0, lax.add, (1, 1, 3, 3), (1, 1, 1, 1), "SAME"),
    lax.reduce_window(
        img, 1.0, lax.mul, (1, 1, 2, 1), (1, 1, 1, 1), ((0, 0), (0, 0), (1, 0), (0, 0))
    ),
    lax.reduce_window(
        img, jnp.inf, lax.min, (1, 1, 2, 2), (1, 1, 1, 1), "VALID", window_dilation=(1, 1, 2, 1)
    ),
]
results["grw"] = jax.grad(
    lambda x: jnp.sum(
        lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID") ** 2
    )
)(img)
results["ds"] = [
    lax.dynamic_slice(a, (0, 1, 2), (1, 2, 2)),
    lax.dynamic_slice_in_dim(a, 1, 2, axis=1),
    lax.dynamic_index_in_dim(a, 2, 1),
    lax.dynamic_index_in_dim(a, 2, 1, keepdims=False),
    lax.dynamic_update_slice(a, jnp.ones((1, 2, 2)), (1, 2, 3)),
    lax.dynamic_update_slice_in_dim(a, jnp.ones((2, 1, 4)), 2, 1),
    lax.dynamic_update_index_in_dim(a, jnp.ones((2, 4)), 0, 1),
]
results["slice"] = [
    lax.slice(a, (0, 0, 1), (2, 3, 4), (1, 2, 1)),
    lax.slice_in_dim(a, 1, 3, axis=1),
    lax.slice_in_dim(a, 0, None, 2, axis=2),
    lax.index_in_dim(a, 1, 0),
]
dnums = lax.GatherDimensionNumbers(
    offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,)
)
results["gather"] = lax.gather(a[0], jnp.array([[0], [2]]), dnums, slice_sizes=(1, 4))
results["gatherm"] = lax.gather(
    a[0],
    jnp.array([[0], [7]]),
    dnums,
    slice_sizes=(1, 4),
    mode=lax.GatherScatterMode.FILL_OR_DROP,
    fill_value=-1,
)
sd = lax.ScatterDimensionNumbers(
    update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)
)
results["scatter"] = [
    lax.scatter(a[0], jnp.array([[0], [2]]), jnp.ones((2, 4)), sd),
    lax.scatter_add(a[0], jnp.array([[0], [0]]), jnp.ones((2, 4)), sd),
    lax.scatter_mul(a[0], jnp.array([[1]]), 2 * jnp.ones((1, 4)), sd),
    lax.scatter_min(a[0], jnp.array([[1]]), jnp.ones((1, 4)), sd),
    lax.scatter_max(a[0], jnp.array([[1]]), 100 * jnp.ones((1, 4)), sd),
    lax.scatter_sub(a[0], jnp.array([[1]]), jnp.ones((1, 4)), sd)
    if hasattr(lax, "scatter_sub")
    else 0,
]
results["topk"] = [
    lax.top_k(jnp.array([3.0, 1, 4, 1, 5]), 2),
    lax.top_k(jnp.array([[3, 1, 2], [9, 8, 10]]), k=2),
]
results["sort"] = [
    lax.sort(jnp.array([3, 1, 2])),
    lax.sort((jnp.array([2, 1, 2, 1]), jnp.array([3, 2, 1, 0]), jnp.arange(4.0)), num_keys=2),
    lax.sort_key_val(jnp.array([3, 1, 2]), jnp.array([10, 20, 30])),
    lax.sort(a, dimension=1),
    lax.sort([jnp.array([2.0, 1.0]), jnp.array([5, 6])]),
]
results["bit"] = [
    lax.bitcast_convert_type(jnp.float32(1.5), jnp.int32),
    lax.bitcast_convert_type(jnp.array([1, 2], jnp.uint32), jnp.uint8),
    lax.population_count(jnp.array([7, 255])),
    lax.clz(jnp.array([1, 8], jnp.int32)),
    lax.shift_left(1, 3),
    lax.shift_right_logical(jnp.int32(-8), jnp.int32(1)),
    lax.shift_right_arithmetic(-8, 1),
    lax.bitwise_xor(5, 3),
    lax.bitwise_not(5),
]
results["bc"] = [
    lax.broadcast(jnp.arange(2), (3,)),
    lax.broadcast_in_dim(jnp.arange(2), (3, 2, 2), (1,)),
    lax.expand_dims(jnp.arange(2), (0, 2)),
    lax.broadcasted_iota(jnp.int32, (2, 3), 1),
    lax.iota(jnp.float32, 4),
    lax.full((2,), 7),
    lax.full_like(a[0, 0], 1),
    lax.squeeze(jnp.ones((1, 2, 1)), (0,)),
    lax.collapse(a, 0, 2),
    lax.reshape(a, (4, 6)),
    lax.rev(a, (2,)),
    lax.transpose(a, (2, 0, 1)),
    lax.concatenate([a, a], 1),
    lax.pad(jnp.arange(3.0), -1.0, [(1, 2, 1)]),
    lax.pad(jnp.arange(5.0), 0.0, [(-1, -2, 0)]),
]
results["red"] = [
    lax.reduce(a, 0.0, lax.add, (0, 2)),
    lax.reduce(a, -jnp.inf, lax.max, (1,)),
    lax.reduce(
        (jnp.arange(4.0), jnp.arange(4)),
        (-jnp.inf, -1),
        lambda x, y: (jnp.maximum(x[0], y[0]), jnp.where(x[0] >= y[0], x[1], y[1])),
        (0,),
    ),
    lax.argmax(a, 1, jnp.int32),
    lax.argmin(a, axis=2, index_dtype=jnp.int32),
    lax.reduce_sum(a, (0,)) if hasattr(lax, "reduce_sum") else 0,
    lax.reduce_precision(jnp.float32(1.2345678), 8, 7),
]
results["el"] = [
    lax.rsqrt(4.0),
    lax.integer_pow(3.0, 3),
    lax.pow(2.0, 3.0),
    lax.erf(0.5),
    lax.erfc(0.5),
    lax.erf_inv(0.5),
    lax.lgamma(3.3),
    lax.digamma(3.3),
    lax.igamma(2.0, 1.5),
    lax.igammac(2.0, 1.5),
    lax.betainc(1.0, 2.0, 0.3),
    lax.bessel_i0e(1.0),
    lax.bessel_i1e(1.0),
    lax.polygamma(1.0, 2.0),
    lax.zeta(2.0, 3.0),
    lax.logistic(0.3),
    lax.sign(-3.0),
    lax.floor(-1.5),
    lax.round(2.5),
    lax.round(2.5, lax.RoundingMethod.TO_NEAREST_EVEN),
    lax.is_finite(jnp.inf),
    lax.nextafter(1.0, 2.0),
    lax.atan2(1.0, 2.0),
    lax.cbrt(8.0),
    lax.expm1(0.1),
    lax.log1p(0.1),
    lax.square(3.0),
    lax.reciprocal(4.0),
    lax.complex(1.0, 2.0),
    lax.conj(1 + 2j),
    lax.real(1 + 2j),
    lax.imag(1 + 2j),
    lax.abs(-1),
    lax.max(1, 2),
    lax.min(1, 2),
    lax.rem(-7.0, 3.0),
    lax.div(7, -2),
    lax.neg(1),
    lax.exp2(3.0),
    lax.tan(1.0),
    lax.asinh(1.0),
    lax.acosh(2.0),
    lax.atanh(0.5),
    lax.sinh(1.0),
    lax.random_gamma_grad(jnp.array(2.0), jnp.array(1.0)),
]
results["cmp"] = [
    lax.eq(1, 1),
    lax.ne(1, 2),
    lax.lt(1, 2),
    lax.ge(jnp.arange(3), jnp.array([1, 1, 1])),
]
results["conv_el"] = [
    lax.convert_element_type(jnp.array([1.7, -1.7]), jnp.int32),
    lax.convert_element_type(3, jnp.bfloat16).astype(float),
]
results["fft"] = [
    lax.fft(jnp.arange(4.0) + 0j, "FFT", (4,)),
    lax.fft(jnp.arange(4.0), lax.FftType.RFFT, (4,)),
]
results["linalg"] = [
    lax.linalg.cholesky(jnp.array([[4.0, 2], [2, 3]])),
    lax.linalg.triangular_solve(
        jnp.array([[2.0, 0], [1, 3]]), jnp.ones((2, 1)), left_side=True, lower=True
    ),
    lax.linalg.qr(jnp.eye(2))[1],
    lax.linalg.eigh(jnp.array([[2.0, 1], [1, 2]]))[1],
    lax.linalg.svd(jnp.eye(2))[1],
    lax.linalg.lu(jnp.array([[1.0, 2], [3, 4]])),
]
results["cls"] = lax.custom_linear_solve(
    lambda x: jnp.array([[2.0, 1], [1, 3]]) @ x,
    jnp.array([1.0, 2.0]),
    lambda mv, b: jnp.linalg.solve(jnp.array([[2.0, 1], [1, 3]]), b),
    symmetric=True,
)
results["croot"] = jax.grad(
    lambda a: lax.custom_root(
        lambda x: x**2 - a,
        1.0,
        lambda f, x0: lax.while_loop(
            lambda x: jnp.abs(f(x)) > 1e-10, lambda x: x - f(x) / jax.grad(f)(x), x0
        ),
        lambda g, y: y / g(1.0),
    )
)(3.0)
results["opt"] = lax.optimization_barrier((a, 1.0))[1]
results["shape"] = [list(lax.broadcast_shapes((2, 1), (3,))), lax.dtype(1.0) == jnp.float64]
results["cumr"] = lax.cumsum(a, 1, reverse=True)
results["split"] = lax.split(jnp.arange(6), (2, 4))
results["tile"] = lax.tile(jnp.arange(2), (2,)) if hasattr(lax, "tile") else 0
results["rd"] = lax.ragged_dot(
    jnp.ones((5, 3)), jnp.ones((2, 3, 4)) * jnp.array([1.0, 2.0])[:, None, None], jnp.array([2, 3])
)
results["stop"] = lax.stop_gradient(3.0)
results["pzl"] = lax.zeros_like_array(a).sum() if hasattr(lax, "zeros_like_array") else 0
results["approx"] = [
    lax.approx_max_k(jnp.array([3.0, 1, 4]), 2)[0],
    lax.approx_min_k(jnp.array([3.0, 1, 4]), 1)[0],
]
results["argc"] = lax.associative_scan(lambda x, y: jnp.maximum(x, y), jnp.array([1, 3, 2]), axis=0)
results["sas"] = jax.grad(lambda x: lax.reduce_window(x, 0.0, lax.add, (2,), (2,), "VALID").max())(
    jnp.arange(4.0)
)
