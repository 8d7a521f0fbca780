"""Images resized by every method."""

import stax as jax
import stax.numpy as jnp
from stax import image

results = {}
img = jnp.arange(4 * 5.0).reshape(4, 5) ** 1.5
for m in ("nearest", "linear", "bilinear", "cubic", "bicubic", "lanczos3", "lanczos5"):
    results[m] = [
        jax.image.resize(img, (8, 7), m),
        jax.image.resize(img, (2, 3), method=m),
        image.resize(img, (2, 9), m, antialias=False),
    ]
results["rgb"] = jax.image.resize(jnp.ones((2, 4, 4, 3)) * jnp.arange(3), (2, 8, 8, 3), "bilinear")[
    0, 0, 0
]
results["g"] = jax.grad(lambda x: jnp.sum(jax.image.resize(x, (8, 7), "cubic") ** 2))(img)
results["st"] = jax.image.scale_and_translate(
    img,
    (6, 6),
    (0, 1),
    jnp.array([1.5, 0.8]),
    jnp.array([0.3, -0.2]),
    method="linear",
    antialias=True,
)
results["j"] = jax.jit(lambda x: jax.image.resize(x, (3, 3), jax.image.ResizeMethod.LINEAR))(img)
results["int"] = jax.image.resize(jnp.arange(4), (8,), "nearest")
