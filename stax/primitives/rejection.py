"""Draws whose number of trials depends on the numbers drawn: gamma, Poisson, binomial.

Input: a key (or an array of keys) and the parameters, whose leading axes are those of the keys.
Output: one draw for each parameter.  NumPy makes the trials of all elements that have not accepted
yet at once; each trial hashes its own child of the key, so a draw does not depend on its
neighbours.  A gamma draw has a derivative: moving its parameter while the probability of staying
below it is kept fixed (`gamma_slope`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stax.core.aval import Aval, aval_of
from stax.core.primitive import (
    FALLBACK,
    NONLINEAR,
    ZERO_DERIVATIVE,
    Primitive,
    Recompute,
    Rule,
    Sentinel,
    Zero,
)
from stax.core.trace import bind1
from stax.dtypes import FLOAT32, DType, bfloat16, finfo
from stax.errors import ShapeError
from stax.loops import contracted, contracted_powers
from stax.primitives.elementwise import mul
from stax.primitives.families import elementwise_cost
from stax.primitives.families_arrays import batch_size
from stax.primitives.random import U32, U64, hashed_words
from stax.primitives.special import contracted_erfinv_p
from stax.primitives.special_gamma import gamma_slope
from stax.primitives.transcendental import log
from stax.primitives.views import batched_front

F64: DType = np.dtype(np.float64)

# --------------------------------------------------------------------- keys and floats in NumPy


def _children(keys: Any, count: int) -> list[Any]:
    """The first `count` children of each key of an array of keys."""
    return [
        np.stack(hashed_words(keys[..., 0], keys[..., 1], U32.type(0), U32.type(k)), -1)
        for k in range(count)
    ]


def _unit(keys: Any, shape: tuple[int, ...], dtype: DType) -> Any:
    """Uniform floats in [0, 1): `shape` of them for each key, as (keys, shape)."""
    lead = keys.shape[:-1]
    k0, k1 = (keys[..., w].reshape(lead + (1,) * len(shape)) for w in (0, 1))
    counter = np.arange(int(np.prod(shape)), dtype=U32).reshape(shape)
    x0, x1 = hashed_words(k0, k1, U32.type(0), counter)
    mantissa = int(finfo(dtype).nmant)
    width = 8 * dtype.itemsize
    drawn = 8 if mantissa < 8 else width
    word = np.dtype(f"u{width // 8}")
    if width == 64:
        words = np.left_shift(x0.astype(U64), np.uint64(32)) | x1
    else:
        words = (x0 ^ x1).astype(f"u{drawn // 8}").astype(word)
    one = np.ones((), dtype)
    bits = np.right_shift(words, word.type(drawn - mantissa)) | one.view(word)
    return bits.view(dtype) - one


def _fused(dtype: DType) -> Callable[[Any, Any, Any], Any]:
    """How `a * b + c` is rounded: in bfloat16 twice."""
    return (lambda a, b, c: a * b + c) if dtype == bfloat16 else contracted.fma


def _normal(keys: Any, dtype: DType) -> Any:
    """One standard normal number for each key."""
    one = dtype.type(1)
    low = np.nextafter(-one, dtype.type(0))
    u = np.maximum(low, _fused(dtype)(_unit(keys, (), dtype), one - low, low))
    return dtype.type(np.sqrt(2)) * contracted_erfinv_p.impl(u)


# -------------------------------------------------------------------------------------- gamma


def _gamma_draws(keys: Any, a: Any, log_space: bool) -> Any:
    """One draw for each key and parameter (both one-dimensional), by Marsaglia and Tsang.

    A parameter below 1 is raised by 1, and the draw multiplied by a power of a uniform number.
    """
    dtype = a.dtype
    c_, fma, log_of = dtype.type, _fused(dtype), contracted.log
    boosted = a < 1
    d = np.where(boosted, a + c_(1), a) - c_(1 / 3)
    if dtype == bfloat16:
        c = c_(1 / 3) / np.sqrt(d)
    else:
        c = c_(1 / 3) * contracted_powers.reciprocal_root(d)
    keys, extra = _children(keys, 2)
    cube = np.full(a.shape, np.nan, dtype)
    waiting = np.flatnonzero(np.isfinite(c))
    keys = keys[waiting]
    while waiting.size:
        keys, normal_keys, unit_keys = _children(keys, 3)
        x, v = np.zeros(waiting.size, dtype), np.full(waiting.size, -1, dtype)
        again = np.arange(waiting.size)
        while again.size:
            rest, child = _children(normal_keys[again], 2)
            normal_keys[again] = rest
            x[again] = _normal(child, dtype)
            v[again] = fma(x[again], c[waiting[again]], c_(1))
            again = again[v[again] <= 0]
        square, v3, u = x * x, v * v * v, _unit(unit_keys, (), dtype)
        bound = fma(square, c_(0.5), d[waiting] * ((c_(1) - v3) + log_of(v3)))
        refused = (u >= fma(square * square, c_(-0.0331), c_(1))) & (log_of(u) >= bound)
        cube[waiting[~refused]] = v3[~refused]
        waiting, keys = waiting[refused], keys[refused]
    u = _unit(extra, (), dtype)
    if log_space:
        log_u = contracted.log1p(-u)
        power = np.where(boosted & (log_u != 0), log_u * (c_(1) / a), c_(0))
        return log_of(d) + log_of(cube) + power
    power = contracted_powers.power(c_(1) - u, c_(1) / a)
    return d * cube * np.where(boosted, power, c_(1))


def _gamma_impl(keys: Any, a: Any, *, log_space: bool) -> Any:
    keys, a = np.asarray(keys), np.asarray(a)
    dtype = a.dtype
    lead = keys.ndim - 1
    inner = int(np.prod(a.shape[lead:]))
    flat = keys.reshape(-1, 1, 2)
    counter = np.arange(inner, dtype=U32)
    children = np.stack(hashed_words(flat[..., 0], flat[..., 1], U32.type(0), counter), -1)
    with np.errstate(all="ignore"):
        out = _gamma_draws(children.reshape(-1, 2), a.reshape(-1), log_space)
    return out.reshape(a.shape).astype(dtype)[()]


def _gamma_jvp(primals: Any, out: Any, tangents: Any, *, log_space: bool) -> Any:
    t = tangents[1]
    if isinstance(t, Zero):
        return Zero(aval_of(out).tangent())
    a = primals[1]
    if log_space:
        return mul(t, gamma_slope(a, out))
    return mul(t, mul(out, gamma_slope(a, log(out))))


# ------------------------------------------------------------------------------------ Poisson


def _spread_key(keys: Any, value: Any) -> tuple[Any, tuple[int, ...]]:
    """The keys, and the shape of the draws that each of them makes."""
    return np.asarray(keys), np.shape(value)[np.ndim(keys) - 1 :]


def _waiting(done: Any, keys: Any) -> Any:
    """Which elements take the next accepted trial: all of a key until all of them have one.

    The last accepted trial counts, also for elements that had accepted before.
    """
    axes = tuple(range(np.ndim(keys) - 1, np.ndim(done)))
    return ~done.all(axis=axes, keepdims=True)


def _whole(k: Any, dtype: DType) -> Any:
    """Whole floats as integers of `dtype`, its limits where they are beyond them."""
    info = np.iinfo(dtype)
    out = np.where(k >= FLOAT32.type(info.max), info.max, np.maximum(k, info.min).astype(dtype))
    return out.astype(dtype)


def _poisson_by_products(keys: Any, lam: Any, most: int) -> Any:
    """Count uniform factors until their product falls below exp(-lam)."""
    keys, shape = _spread_key(keys, lam)
    count = np.zeros(lam.shape, np.int64)
    total = np.zeros(lam.shape, FLOAT32)
    trials = 0
    while trials < most and (total > -lam).any():
        keys, child = _children(keys, 2)
        count += total > -lam
        total = total + contracted.log(_unit(child, shape, FLOAT32))
        trials += 1
    return count - 1


def _poisson_by_ratio(keys: Any, lam: Any, most: int) -> Any:
    """Hoermann's transformed rejection, rounded where a compiler that contracts rounds."""
    f, fma = FLOAT32.type, contracted.fma
    keys, shape = _spread_key(keys, lam)
    log_lam, deviation = contracted.log(lam), np.sqrt(lam)
    b = fma(f(2.53), deviation, f(0.931))
    a = fma(f(0.02483), b, f(-0.059))
    inv_alpha = f(1.1239) + f(1.1328) / fma(f(2.53), deviation, f(0.931 - 3.4))
    v_r = f(0.9277) - f(3.6224) / fma(f(2.53), deviation, f(0.931 - 2))
    out = np.full(lam.shape, -1, FLOAT32)
    done = np.zeros(lam.shape, bool)
    trials = 0
    while trials < most and not done.all():
        keys, first, second = _children(keys, 3)
        u = _unit(first, shape, FLOAT32) - f(0.5)
        v = _unit(second, shape, FLOAT32)
        us = f(0.5) - np.abs(u)
        k = np.floor(fma(f(2) * a / us + b, u, lam) + f(0.43))
        s = contracted.log(v * inv_alpha / (a / (us * us) + b))
        t = fma(k, log_lam, -lam) - contracted.log_factorial(np.maximum(k, f(0)))
        refused = (k < 0) | ((us < f(0.013)) & (v > us))
        accepted = ((us >= f(0.07)) & (v <= v_r)) | (~refused & (s <= t))
        accepted &= _waiting(done, keys)
        out = np.where(accepted, k, out)
        done |= accepted
        trials += 1
    return out


def _poisson_impl(keys: Any, lam: Any, *, dtype: DType) -> Any:
    lam = np.asarray(lam, FLOAT32)
    small = np.isnan(lam) | (lam < 10)
    most = int(np.iinfo(dtype).max)  # trials, as many as the type can count
    with np.errstate(all="ignore"):
        few = _poisson_by_products(keys, np.where(small, lam, FLOAT32.type(0)), most).astype(dtype)
        if small.all():
            out = few
        else:
            many = _poisson_by_ratio(keys, np.where(small, FLOAT32.type(1e5), lam), most)
            out = np.where(small, few, _whole(many, dtype))
        return np.where(lam == 0, dtype.type(0), out)[()]


# ----------------------------------------------------------------------------------- binomial

_STIRLING_TAIL = (
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509,
    0.0166446911898211, 0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
    0.00925546218271273, 0.00833056343336287,
)  # fmt: skip


def _stirling_tail(k: Any) -> Any:
    """What Stirling's formula for log k! leaves out."""
    table = np.array(_STIRLING_TAIL, k.dtype)
    small = np.clip(k, 0, 9)
    square = (small + 1) * (small + 1)
    f = k.dtype.type
    series = (f(1 / 12) - (f(1 / 360) - f(1 / 1260) / square) / square) / (small + 1)
    return np.where(k <= 9, table[np.floor(small).astype(np.int64)], series)


def _binomial_by_waiting(keys: Any, count: Any, p: Any) -> Any:
    """Count geometric waiting times until they exceed the number of trials."""
    keys, shape = _spread_key(keys, p)
    scale = contracted.log1p(-p)
    number = np.zeros(p.shape, p.dtype)
    total = np.zeros(p.shape, p.dtype)
    while (total <= count).any():
        child, keys = _children(keys, 2)
        number = np.where(total <= count, number + 1, number)
        total = total + np.ceil(contracted.log(_unit(child, shape, p.dtype)) / scale)
    return number - 1


def _binomial_by_ratio(keys: Any, count: Any, p: Any) -> Any:
    """Hoermann's transformed rejection; in float32 rounded as a compiler that contracts does."""
    keys, shape = _spread_key(keys, p)
    f, fma, log = p.dtype.type, _fused(p.dtype), contracted.log
    deviation = np.sqrt(count * p * (1 - p))
    b = fma(f(2.53), deviation, f(1.15))
    a = fma(f(0.01), p, fma(f(0.0248), b, f(-0.0873)))
    c = fma(count, p, f(0.5))
    v_r = f(0.92) - f(4.2) / b
    r = p / (1 - p)
    alpha = (f(2.83) + f(5.1) / b) * deviation
    m = np.floor((count + 1) * p)
    out = np.full(p.shape, -1, p.dtype)
    done = np.zeros(p.shape, bool)
    while not done.all():
        keys, first, second = _children(keys, 3)
        u, v = _unit(first, shape, p.dtype) - f(0.5), _unit(second, shape, p.dtype)
        us = f(0.5) - np.abs(u)
        accepted = (us >= 0.07) & (v <= v_r)
        k = np.floor(fma(2 * a / us + b, u, c))
        refused = (k < 0) | (k > count)
        v = log(v * alpha / (a / (us * us) + b))
        bound = fma(
            m + f(0.5),
            log((m + 1) / (r * (count - m + 1))),
            (count + 1) * log((count - m + 1) / (count - k + 1)),
        )
        bound = (
            fma(k + f(0.5), log(r * (count - k + 1) / (k + 1)), bound)
            + _stirling_tail(m)
            + _stirling_tail(count - m)
            - _stirling_tail(k)
            - _stirling_tail(count - k)
        )
        accepted |= ~refused & (v <= bound)
        accepted &= _waiting(done, keys)
        out = np.where(accepted, k, out)
        done |= accepted
    return out


def _binomial_impl(keys: Any, count: Any, p: Any, *, dtype: DType) -> Any:
    count, p = np.asarray(count), np.asarray(p)
    with np.errstate(all="ignore"):
        low = p < 0.5
        q = np.where(low, p, 1 - p)
        bad_count = np.isnan(count) | (count < 0)
        endless = np.isinf(count)
        bad = (q < 0) | np.isnan(q)
        q = np.where(bad, q.dtype.type(0.01), q)
        few = bad_count | (count * q <= 10)
        count = np.floor(count)
        plain = np.where(few & ~endless, count, count.dtype.type(0))
        out = _binomial_by_waiting(keys, plain, q)
        if not few.all():
            many = np.where(few | endless, count.dtype.type(1e4), count)
            half = np.where(few, q.dtype.type(0.5), q)
            out = np.where(few, out, _binomial_by_ratio(keys, many, half))
        invalid = bad | bad_count
        out = np.where(invalid, np.nan, out)
        out = np.where(endless & ~invalid, np.inf, out)
        keep = low | bad_count | np.isnan(p) | endless
        return np.where(keep, out, count - out).astype(dtype)[()]


# --------------------------------------------------------------------------------------- rows


def _keyed_row(
    name: str, impl: Callable[..., Any], result: Callable[..., DType], jvp: Rule | Sentinel
) -> Primitive:
    """A row for draws: a key (or an array of keys) first, then parameters of one shape."""

    def abstract_eval(keys: Aval, *values: Aval, **params: Any) -> Aval:
        shape = values[0].shape
        lead = keys.shape[:-1]
        if keys.dtype != U32 or keys.shape[-1:] != (2,):
            raise ShapeError("keys are uint32 of shape (..., 2)", op=name, operands=[keys])
        if shape[: len(lead)] != lead or any(v.shape != shape for v in values):
            raise ShapeError(
                "parameters need one shape, led by that of the keys", op=name, operands=values
            )
        return Aval(shape, result(values[0], **params))

    def batch(args: Any, dims: Any, **params: Any) -> tuple[Any, int]:
        size = batch_size(args, dims)
        wide = [batched_front(x, d, size) for x, d in zip(args, dims, strict=True)]
        return bind1(row, *wide, **params), 0

    row: Primitive = Primitive(
        name,
        family="random",
        abstract_eval=abstract_eval,
        impl=impl,
        jvp=jvp,
        transpose=NONLINEAR,
        batch=batch,
        lower=FALLBACK,
        cost=elementwise_cost(500.0),
        recompute=Recompute.RANDOM,
    )
    return row


random_gamma_p = _keyed_row(
    "random_gamma", _gamma_impl, lambda a, *, log_space: a.dtype, _gamma_jvp
)
random_poisson_p = _keyed_row(
    "random_poisson", _poisson_impl, lambda lam, *, dtype: dtype, ZERO_DERIVATIVE
)
random_binomial_p = _keyed_row(
    "random_binomial", _binomial_impl, lambda count, *, dtype: dtype, ZERO_DERIVATIVE
)


def random_gamma(keys: Any, a: Any, log_space: bool = False) -> Any:
    """Gamma draws with parameters `a` (or their logarithms), differentiable in `a`."""
    return bind1(random_gamma_p, keys, a, log_space=log_space)


def random_poisson(keys: Any, lam: Any, dtype: DType) -> Any:
    """Poisson draws with means `lam`, as `dtype`."""
    return bind1(random_poisson_p, keys, lam, dtype=dtype)


def random_binomial(keys: Any, count: Any, p: Any, dtype: DType) -> Any:
    """Numbers of successes in `count` trials of probability `p`, as `dtype`."""
    return bind1(random_binomial_p, keys, count, p, dtype=dtype)
