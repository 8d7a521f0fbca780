"""Layers with a kernel at every place, orthogonal and separable ones."""

import stax as jax
import stax.numpy as jnp
import numpy as np
from stax import lax, random

results = {}
key = random.key(11)
image = random.normal(key, (2, 3, 8, 7))

# A layer with a kernel of its own at every place.
numbers = ("NCHW", "OIHW", "NCHW")


def local(x, kernels):
    return lax.conv_general_dilated_local(
        x, kernels, (2, 1), "VALID", (3, 2), dimension_numbers=numbers
    )


kernels = random.normal(random.fold_in(key, 1), (4, 18, 3, 6)) * 0.1
results["local"] = jax.jit(local)(image, kernels)
gx, gk = jax.jit(jax.grad(lambda x, k: jnp.tanh(local(x, k)).sum(), (0, 1)))(image, kernels)
results["local_grad_x"] = gx.sum((0, 1))
results["local_grad_k"] = gk.sum((1,))
results["local_vmap"] = jax.vmap(lambda s: local(image * s, kernels).mean((2, 3)))(
    jnp.array([0.5, 2.0])
)
last = lax.conv_general_dilated_local(
    image.transpose(0, 2, 3, 1),
    kernels.transpose(2, 3, 1, 0),
    (2, 1),
    "VALID",
    (3, 2),
    dimension_numbers=("NHWC", "HWIO", "NHWC"),
)
results["local_nhwc"] = last.sum((1, 2))
results["same_as_conv"] = (
    jnp.abs(
        local(image, jnp.broadcast_to(kernels[:, :, :1, :1], kernels.shape))
        - lax.conv(image, kernels[:, :, 0, 0].reshape(4, 3, 3, 2), (2, 1), "VALID")
    ).max()
    < 1e-12
)
line = lax.conv_general_dilated_local(
    jnp.arange(9.0).reshape(1, 1, 9),
    jnp.cos(jnp.arange(2 * 3 * 5.0)).reshape(2, 3, 5),
    (1,),
    [(0, 0)],
    (3,),
    rhs_dilation=(2,),
)
results["line"] = line
patches = lax.conv_general_dilated_patches(
    image, (3, 2), (2, 1), "VALID", dimension_numbers=numbers
)
results["patches"] = patches.sum((0, 2, 3))

# Orthogonal layers from reflections.
vectors = jnp.tril(random.normal(random.fold_in(key, 2), (5, 3)), -1) + jnp.eye(5, 3)
taus = 2.0 / (vectors**2).sum(0)


def orthogonal(vectors):
    v = jnp.tril(vectors, -1) + jnp.eye(5, 3)
    return lax.linalg.householder_product(v, 2.0 / (v**2).sum(0))


q = jax.jit(orthogonal)(vectors)
results["q"] = q
results["q_orthogonal"] = jnp.round(q.T @ q, 10)
results["q_batch"] = jax.vmap(lambda v: orthogonal(v).sum(0))(jnp.stack([vectors, vectors * 2]))

# Separable, grouped and dilated layers beside one another, pooled and normalised.
depthwise = random.normal(random.fold_in(key, 3), (3, 1, 3, 3)) * 0.3
pointwise = random.normal(random.fold_in(key, 4), (5, 3, 1, 1)) * 0.3


@jax.jit
def separable(params, x):
    d, p = params
    x = lax.conv_general_dilated(x, d, (1, 1), "SAME", rhs_dilation=(2, 2), feature_group_count=3)
    x = jax.nn.gelu(lax.conv(x, p, (1, 1), "SAME"))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    mean, var = x.mean((0, 2, 3), keepdims=True), x.var((0, 2, 3), keepdims=True)
    return (x - mean) * lax.rsqrt(var + 1e-5)


results["separable"] = separable((depthwise, pointwise), image).sum((2, 3))
grads = jax.grad(lambda p: (separable(p, image) ** 3).sum())((depthwise, pointwise))
results["separable_grad"] = [g.sum((0, 1)) for g in grads]
results["up"] = jax.image.resize(image, (2, 3, 12, 10), "linear").sum((2, 3))
