"""The corners of lax, of checks, and of NumPy's functions on its arrays."""

import stax as jax
import stax.numpy as jnp
import numpy as np
from stax import lax

x = jnp.array([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]])
z = jnp.array([1 + 2j, 3 - 1j])
i = jnp.array([5, 3, 1, 4])
b = jnp.array([True, False, True])


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
