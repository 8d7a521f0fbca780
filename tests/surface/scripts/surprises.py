"""Where array programs surprise: promotion, overflow, NaNs, updates, errors."""

import stax as jax
import stax.numpy as jnp
import numpy as np
from stax import lax, grad, jit

results = {}
x = jnp.arange(10)
x = jnp.arange(10)
results["prom"] = [
    str((jnp.arange(2, dtype="int8") + jnp.arange(2, dtype="uint8")).dtype),
    str((jnp.ones(2, jnp.bfloat16) + jnp.ones(2, jnp.float32)).dtype),
    str((jnp.float16(1) + 1.0).dtype),
    str((jnp.arange(3) * 1.5).dtype),
    str(jnp.mean(jnp.arange(3)).dtype),
    str(jnp.sum(jnp.ones(3, bool)).dtype),
    str((True + jnp.ones(2, jnp.int8)).dtype),
    str(jnp.exp(jnp.arange(2)).dtype),
]
results["intdiv"] = [
    jnp.arange(-3, 4) // 2,
    jnp.arange(-3, 4) % 3,
    lax.div(-7, 2),
    lax.rem(-7, 2),
    jnp.divmod(jnp.array([7, -7]), 3),
]
results["int0"] = [jnp.array([1]) // jnp.array([0])] if False else 0
results["f0"] = [
    jnp.array([1.0, -1.0, 0.0]) / 0.0,
    jnp.log(jnp.array([-1.0, 0.0])),
    jnp.sqrt(jnp.array([-1.0])),
]
results["ov"] = [
    jnp.array([127], jnp.int8) + jnp.int8(1),
    jnp.array([200], jnp.uint8) * jnp.uint8(2),
    -jnp.array([1], jnp.uint8),
    jnp.array([300.7, -1.5]).astype(jnp.int32),
    jnp.abs(jnp.array([-128], jnp.int8)),
]
results["list"] = jnp.sum(jnp.array([1, 2, 3]))
results["nansafe"] = grad(
    lambda x: jnp.where(x > 0, x, 0.0) ** 0.5 if False else jnp.where(x > 1, jnp.log(x), x)
)(0.5)
results["nanred"] = [
    jnp.nanmean(jnp.array([1, jnp.nan])),
    jnp.nan_to_num(jnp.array([jnp.nan, jnp.inf]), nan=1.0, posinf=9.0),
    jnp.argmax(jnp.array([1.0, jnp.nan, 3.0])),
    jnp.max(jnp.array([1.0, jnp.nan])),
    jnp.fmax(jnp.nan, 1.0),
    jnp.sort(jnp.array([3.0, jnp.nan, 1.0])),
    jnp.maximum(jnp.nan, 1.0),
]
jax.config.update("jax_debug_nans", True)
try:
    jnp.divide(0.0, 0.0)
    results["dn"] = 0
except FloatingPointError:
    results["dn"] = 1
try:
    jit(lambda x: jnp.log(x))(-1.0)
    results["dnj"] = 0
except FloatingPointError:
    results["dnj"] = 1
jax.config.update("jax_debug_nans", False)
results["dnoff"] = jnp.divide(0.0, 0.0)
results["x64"] = [jax.config.jax_enable_x64, jax.config.read("jax_enable_x64")]


def dynamic(x, n):
    return lax.dynamic_slice(x, (n,), (3,))


results["ds"] = [jit(dynamic)(x, 2), jit(dynamic)(x, 9)]
results["mask"] = jnp.sum(jnp.where(x > 4, x, 0))
results["boolidx"] = x[x > 4]
try:
    jit(lambda x: x[x > 4])(x)
    results["bi"] = 0
except jax.errors.NonConcreteBooleanIndexError:
    results["bi"] = 1
try:
    jit(lambda x: np.sin(x))(1.0)
    results["np"] = 0
except jax.errors.TracerArrayConversionError:
    results["np"] = 1
try:
    jit(lambda n: jnp.arange(n))(3)
    results["ar"] = 0
except (jax.errors.ConcretizationTypeError, TypeError):
    results["ar"] = 1
try:
    jit(lambda x: x if x > 0 else -x)(1.0)
    results["if"] = 0
except jax.errors.TracerBoolConversionError:
    results["if"] = 1
g = 0.0


def impure(x):
    return x + g


results["cached"] = [jit(impure)(4.0)]
g = 10.0


def print_side(x):
    calls.append(1)
    return x


calls = []
pj = jit(print_side)
pj(4.0)
pj(5.0)
pj(jnp.array([1.0]))
results["calls"] = len(calls)
results["donate"] = jit(lambda x: x + 1, donate_argnums=0)(jnp.ones(3))
results["weak"] = [
    jnp.asarray(1).dtype.name,
    jnp.array(1.0).dtype.name,
    (jnp.array(1, jnp.int16) + 1).dtype.name,
    (jnp.zeros(1, jnp.float32) + np.float64(1)).dtype.name,
]
results["upd"] = [
    x.at[2:4].set(0),
    x.at[::3].add(100),
    x.at[jnp.array([1, 1, 1])].add(1),
    x.at[x > 5].set(-1),
    x.at[3].mul(2),
    x.at[-1].min(0),
    x.at[0].max(5),
    jnp.arange(4.0).at[1].power(2),
    jnp.arange(4.0).at[1].divide(2),
    jnp.arange(4.0).at[2].apply(jnp.exp),
    jnp.zeros((3, 3)).at[jnp.arange(3), jnp.arange(3)].set(1),
    jnp.zeros((3, 3)).at[1].set(jnp.arange(3)),
    jnp.zeros((2, 3, 4)).at[..., 0].set(1),
    jnp.zeros((2, 3, 4)).at[:, None, 1].get(),
    jnp.zeros((3, 4)).at[jnp.ix_(jnp.array([0, 2]), jnp.array([1, 3]))].add(2),
    jnp.arange(5).at[jnp.array([0, 1])].set(9, indices_are_sorted=True, unique_indices=True),
]
y = jnp.ones(3)
y += 1
results["aug"] = y
results["negidx"] = jnp.arange(5)[-2:]
results["ell"] = jnp.arange(24).reshape(2, 3, 4)[..., 1]
results["step"] = jnp.arange(5)[::-1]
results["newax"] = list(jnp.arange(3)[:, None].shape)
results["idxt"] = jnp.arange(12).reshape(3, 4)[jnp.array([0, 1]), jnp.array([2, 3])]
try:
    jnp.ones(3) + jnp.ones(4)
    results["shape"] = 0
except (TypeError, ValueError):
    results["shape"] = 1
results["hash"] = [
    isinstance(x, jnp.ndarray),
    isinstance(x, jax.Array),
    isinstance(1.0, jax.Array),
    isinstance(jnp.float32(1), jax.Array),
]
results["item"] = [
    float(jnp.array(2.5)),
    int(jnp.array(3)),
    jnp.array(3).item(),
    x.tolist(),
    bool(jnp.array(True)),
    [int(v) for v in x[:2]],
    len(x),
    "%.2f" % jnp.array(1.5),
    f"{jnp.array(1.5):.3f}",
    round(float(jnp.array(1.234)), 1),
]
results["np"] = np.asarray(jnp.ones(2)) + np.array(jnp.ones(2))
results["mix"] = [
    np.ones(2) + jnp.ones(2),
    jnp.ones(2) + np.ones(2),
    np.sin(jnp.ones(2)),
    jnp.sin(np.ones(2)),
    2 ** jnp.arange(3),
    1 - jnp.arange(3),
    jnp.arange(3) @ jnp.arange(3),
]
results["cast"] = [
    jnp.float32(3.7),
    jnp.int32(3.7),
    jnp.bool_(2),
    jnp.asarray(2.5, dtype=int),
    jnp.array([1, 2], dtype="float32"),
    jnp.uint8(255),
    jnp.complex64(1),
]
results["prec"] = jnp.matmul(
    jnp.ones((2, 2), jnp.float32), jnp.ones((2, 2), jnp.float32), precision="highest"
)
results["pet"] = jnp.dot(
    jnp.ones((2, 2), jnp.float16), jnp.ones((2, 2), jnp.float16), preferred_element_type=jnp.float32
)
results["copy"] = [jnp.copy(x), x.copy(), jnp.array(x, copy=True)]
results["finfo"] = [
    jnp.finfo(jnp.float32).eps,
    jnp.iinfo(jnp.int32).max,
    jnp.finfo(jnp.bfloat16).max,
    jnp.pi,
    jnp.e,
    jnp.inf,
]
