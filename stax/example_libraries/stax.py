"""Layers of networks as pairs of functions, under the names of `jax.example_libraries.stax`.

Input: the sizes of a layer.  Output: `init_fun(rng, input_shape) -> (output_shape, params)` and
`apply_fun(params, inputs, **kwargs) -> outputs`; `serial` and `parallel` put them together.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import stax.numpy as snp
from stax import lax, nn, random
from stax.core.source import user_source
from stax.errors import ShapeError
from stax.lax.convolution import conv_dimension_numbers
from stax.nn.initializers import glorot_normal, normal, ones, zeros
from stax.transforms.inspect import ShapeDtypeStruct, eval_shape

__all__ = [
    "AvgPool",
    "BatchNorm",
    "Conv",
    "Dense",
    "Dropout",
    "Elu",
    "Exp",
    "FanInConcat",
    "FanInSum",
    "FanOut",
    "Flatten",
    "Gelu",
    "GeneralConv",
    "Identity",
    "LeakyRelu",
    "LogSoftmax",
    "MaxPool",
    "Relu",
    "Selu",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "SumPool",
    "Tanh",
    "elementwise",
    "parallel",
    "serial",
    "shape_dependent",
]

Array = Any
Layer = tuple[Callable[..., Any], Callable[..., Any]]
Shape = tuple[int, ...]


def Dense(out_dim: int, W_init: Any = None, b_init: Any = None) -> Layer:
    """A product with a matrix, plus a vector.

    >>> init, apply = Dense(3)
    >>> shape, params = init(random.key(0), (-1, 5))
    >>> shape, apply(params, snp.ones((2, 5))).shape
    ((-1, 3), (2, 3))
    """
    W_init, b_init = W_init or glorot_normal(), b_init or normal()

    def init_fun(rng: Any, input_shape: Shape) -> Any:
        first, second = random.split(rng)
        weights = W_init(first, (input_shape[-1], out_dim))
        return (*input_shape[:-1], out_dim), (weights, b_init(second, (out_dim,)))

    def apply_fun(params: Any, inputs: Array, **kwargs: Any) -> Array:
        weights, bias = params
        return snp.dot(inputs, weights) + bias

    return init_fun, apply_fun


def GeneralConv(
    dimension_numbers: Any,
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    W_init: Any = None,
    b_init: Any = None,
) -> Layer:
    """A convolution plus a number for each channel; `dimension_numbers` names the axes."""
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    strides = tuple(strides or (1,) * len(filter_shape))
    W_init = W_init or glorot_normal(rhs_spec.index("I"), rhs_spec.index("O"))
    b_init = b_init or normal(1e-6)

    def convolved(inputs: Array, kernel: Array) -> Array:
        numbers = conv_dimension_numbers(inputs.shape, kernel.shape, dimension_numbers)
        return lax.conv_general_dilated(inputs, kernel, strides, padding, dimension_numbers=numbers)

    def init_fun(rng: Any, input_shape: Shape) -> Any:
        extents = iter(filter_shape)
        channels = input_shape[lhs_spec.index("C")]
        kernel_shape = [
            out_chan if c == "O" else channels if c == "I" else next(extents) for c in rhs_spec
        ]
        first, second = random.split(rng)
        kernel = W_init(first, tuple(kernel_shape))
        bias = b_init(second, tuple(out_chan if c == "C" else 1 for c in out_spec))
        return _shape_of(convolved, input_shape, kernel), (kernel, bias)

    def apply_fun(params: Any, inputs: Array, **kwargs: Any) -> Array:
        kernel, bias = params
        return convolved(inputs, kernel) + bias

    return init_fun, apply_fun


Conv = partial(GeneralConv, ("NHWC", "HWIO", "NHWC"))


def _shape_of(fun: Callable[..., Array], input_shape: Shape, *more: Any) -> Shape:
    """The shape of `fun`'s result; a batch of unknown extent (-1) stays one."""
    known = tuple(1 if n == -1 else n for n in input_shape)
    found = eval_shape(fun, ShapeDtypeStruct(known, snp.float64), *more).shape
    same = [a == -1 and b == 1 for a, b in zip(input_shape, found, strict=False)]
    return tuple(-1 if k < len(same) and same[k] else n for k, n in enumerate(found))


def BatchNorm(
    axis: Sequence[int] = (0, 1, 2),
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    beta_init: Any = zeros,
    gamma_init: Any = ones,
) -> Layer:
    """Elements with mean 0 and variance 1 over `axis`, then scaled and moved by parameters."""
    over = (axis,) if isinstance(axis, int) else tuple(axis)

    def init_fun(rng: Any, input_shape: Shape) -> Any:
        shape = tuple(n for k, n in enumerate(input_shape) if k not in over)
        first, second = random.split(rng)
        beta = beta_init(first, shape) if center else ()
        return input_shape, (beta, gamma_init(second, shape) if scale else ())

    def apply_fun(params: Any, x: Array, **kwargs: Any) -> Array:
        beta, gamma = params
        wide = tuple(None if k in over else slice(None) for k in range(len(x.shape)))
        z = nn.standardize(x, axis=over, epsilon=epsilon)
        z = z * snp.asarray(gamma)[wide] if scale else z
        return z + snp.asarray(beta)[wide] if center else z

    return init_fun, apply_fun


def elementwise(fun: Callable[..., Array], **fun_kwargs: Any) -> Layer:
    """A layer that applies a function to its inputs."""
    return lambda rng, shape: (shape, ()), lambda params, x, **kwargs: fun(x, **fun_kwargs)


Tanh = elementwise(snp.tanh)
Relu = elementwise(nn.relu)
Exp = elementwise(snp.exp)
LogSoftmax = elementwise(nn.log_softmax, axis=-1)
Softmax = elementwise(nn.softmax, axis=-1)
Softplus = elementwise(nn.softplus)
Sigmoid = elementwise(nn.sigmoid)
Elu = elementwise(nn.elu)
LeakyRelu = elementwise(nn.leaky_relu)
Selu = elementwise(nn.selu)
Gelu = elementwise(nn.gelu)


def _pooling(start: float, merge: Callable[..., Array], mean: bool = False) -> Callable[..., Layer]:
    def pool(
        window_shape: Sequence[int],
        strides: Sequence[int] | None = None,
        padding: str = "VALID",
        spec: str | None = None,
    ) -> Layer:
        steps = list(strides or (1,) * len(window_shape))
        window = list(window_shape)
        spec = spec or "N" + "WHD"[: len(window)][::-1] + "C"
        for k, c in enumerate(spec):
            if c in "NC":
                window.insert(k, 1)
                steps.insert(k, 1)

        def pooled(x: Array) -> Array:
            out = lax.reduce_window(x, start, merge, tuple(window), tuple(steps), padding)
            if not mean:
                return out
            count = lax.reduce_window(
                snp.ones_like(x), 0.0, lax.add, tuple(window), tuple(steps), padding
            )
            return out / count

        def init_fun(rng: Any, input_shape: Shape) -> Any:
            return _shape_of(pooled, input_shape), ()

        return init_fun, lambda params, x, **kwargs: pooled(x)

    return pool


MaxPool = _pooling(-math.inf, lax.max)
SumPool = _pooling(0.0, lax.add)
AvgPool = _pooling(0.0, lax.add, mean=True)

Flatten: Layer = (
    lambda rng, shape: ((shape[0], reduce(operator.mul, shape[1:], 1)), ()),
    lambda params, x, **kwargs: snp.reshape(x, (x.shape[0], -1)),
)
Identity: Layer = (lambda rng, shape: (shape, ()), lambda params, x, **kwargs: x)
FanInSum: Layer = (
    lambda rng, shapes: (shapes[0], ()),
    lambda params, xs, **kwargs: sum(xs[1:], xs[0]),
)


def FanOut(num: int) -> Layer:
    """The input `num` times, for `parallel`."""
    return lambda rng, shape: ([shape] * num, ()), lambda params, x, **kwargs: [x] * num


def FanInConcat(axis: int = -1) -> Layer:
    """The inputs, put together along `axis`."""

    def init_fun(rng: Any, shapes: Sequence[Shape]) -> Any:
        k = axis % len(shapes[0])
        total = sum(shape[k] for shape in shapes)
        return (*shapes[0][:k], total, *shapes[0][k + 1 :]), ()

    return init_fun, lambda params, xs, **kwargs: snp.concatenate(xs, axis)


def Dropout(rate: float, mode: str = "train") -> Layer:
    """Inputs kept with probability `rate` and divided by it; all of them unless `mode` is "train".

    The layer's `apply_fun` needs the keyword `rng`, a key.
    """

    def apply_fun(params: Any, x: Array, **kwargs: Any) -> Array:
        if mode != "train":
            return x
        rng = kwargs.get("rng")
        if rng is None:
            raise ValueError(
                "Dropout needs a key while training: call apply_fun(params, inputs, rng=key)"
            )
        return snp.where(random.bernoulli(rng, rate, x.shape), x / rate, 0)

    return lambda rng, shape: (shape, ()), apply_fun


def serial(*layers: Layer) -> Layer:
    """Layers one after another."""
    inits, applies = zip(*layers, strict=True)

    def init_fun(rng: Any, input_shape: Shape) -> Any:
        params = []
        for init in inits:
            rng, own = random.split(rng)
            input_shape, made = init(own, input_shape)
            params.append(made)
        return input_shape, params

    def apply_fun(params: Any, inputs: Array, **kwargs: Any) -> Array:
        for apply, p, rng in zip(applies, params, _keys(kwargs, len(layers)), strict=True):
            inputs = apply(p, inputs, rng=rng, **kwargs)
        return inputs

    return init_fun, apply_fun


def parallel(*layers: Layer) -> Layer:
    """Layers side by side: a list of inputs, one for each, gives a list of outputs."""
    inits, applies = zip(*layers, strict=True)

    def init_fun(rng: Any, input_shapes: Sequence[Shape]) -> Any:
        if len(input_shapes) != len(layers):
            raise ShapeError(
                f"parallel: {len(layers)} layers for {len(input_shapes)} inputs",
                where=user_source() or None,
            )
        keys = random.split(rng, len(layers))
        made = [i(k, s) for i, k, s in zip(inits, keys, input_shapes, strict=True)]
        return [shape for shape, _ in made], [params for _, params in made]

    def apply_fun(params: Any, inputs: Sequence[Array], **kwargs: Any) -> list[Array]:
        keys = _keys(kwargs, len(layers))
        return [
            apply(p, x, rng=k, **kwargs)
            for apply, p, x, k in zip(applies, params, inputs, keys, strict=True)
        ]

    return init_fun, apply_fun


def _keys(kwargs: dict[str, Any], count: int) -> Any:
    """A key for each layer from the one in `kwargs`, which is taken out."""
    rng = kwargs.pop("rng", None)
    return [None] * count if rng is None else random.split(rng, count)


def shape_dependent(make_layer: Callable[[Shape], Layer]) -> Layer:
    """A layer that is made from its input's shape."""
    return (
        lambda rng, shape: make_layer(shape)[0](rng, shape),
        lambda params, x, **kwargs: make_layer(x.shape)[1](params, x, **kwargs),
    )
