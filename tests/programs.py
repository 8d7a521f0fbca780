"""Random well-typed programs, the common input of the property tests at every level.

Input: a seed.  Output: a `Program`: a plain NumPy function, its arguments and its source text.
Programs are straight lines of elementwise operations, broadcasts, reductions, views, joins,
contractions, selections, gathers, scatters and cumulative sums.  Every value keeps a bound on its
magnitude, and operations that need it (division, log, sqrt) are guarded, so that results and
derivatives stay of order one.  With `smooth` nothing has a kink, which finite differences need.
With a complex dtype some values are complex and some real, and nothing comes near a branch cut.
Each operation runs while the program is written: shapes and dtypes are NumPy's, and what jumps
(comparisons, rounding to integers) does so away from its values, so that no rounding shows there.
`tests/programs_mixed.py` adds rules of other dtypes, control flow, writes and arrays of nothing.
"""

from __future__ import annotations

import dataclasses
import linecache
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import stax

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Program:
    """A random program: `fn(*args)` runs it; `text` is its source.

    `tolerance` bounds how far roundings of its narrowest float may take two levels apart.
    """

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    text: str
    seed: int
    tolerance: float

    def __repr__(self) -> str:
        return f"Program {self.seed}:\n{self.text}"


@dataclasses.dataclass(frozen=True)
class Value:
    """A value of the program: its name, a bound on its size, and what it is for the arguments."""

    name: str
    bound: float
    array: Any

    @property
    def shape(self) -> Shape:
        return self.array.shape


class Builder:
    """The program being written."""

    def __init__(self, rng: np.random.Generator, dtype: Any, smooth: bool, limit: int) -> None:
        self.rng = rng
        self.limit = limit
        self.dtype = np.dtype(dtype)
        self.complex = self.dtype.kind == "c"
        self.real = self.dtype.type(0).real.dtype
        self.smooth = smooth
        self.lines: list[str] = []
        self.values: list[Value] = []
        self.constants: dict[str, Any] = {}
        self.space: dict[str, Any] = {
            "np": np, "lax": stax.lax, "at": stax.at, "squashed": squashed, "copied": copied
        }  # fmt: skip
        self.narrowest = self.real.itemsize

    def argument(self, array: Any) -> None:
        """Add an argument."""
        name = f"x{len(self.values)}"
        self.values.append(Value(name, 1.0, np.asarray(array)))
        self.space[name] = array

    def emit(self, text: str, shape: Shape, bound: float, then: Sequence[str] = ()) -> Value:
        """Add `v = text`, squashed when it may have grown large, and statements about `{v}`."""
        if bound > 4.0:
            text, bound = f"squashed({text})" if self.complex else f"np.tanh({text})", 1.0
        name = f"v{len(self.lines)}"
        lines = [f"{name} = {text}", *(line.format(v=name) for line in then)]
        with np.errstate(all="ignore"):
            exec("\n".join(lines), self.space)
        self.lines += lines
        value = Value(name, bound, np.asarray(self.space[name]))
        assert value.shape == tuple(shape), (lines, value.shape, shape)
        if value.array.dtype.kind == "f":
            self.narrowest = min(self.narrowest, value.array.dtype.itemsize)
        self.values.append(value)
        return value

    def constant(self, array: Any) -> str:
        """A name for an array the program closes over."""
        name = f"c{len(self.constants)}"
        self.constants[name] = self.space[name] = array
        return name

    @property
    def margin(self) -> float:
        """How far from a jump values have to be, for levels that round differently."""
        return {8: 1e-6, 4: 1e-3}.get(self.narrowest, 0.1)

    def apart(self, x: Any, y: Any) -> bool:
        """Whether no element of one is near the other's."""
        return bool(np.all(np.abs(np.subtract(x, y)) > self.margin))

    def pick(self, accept: Callable[[Value], bool] = lambda v: True) -> Value | None:
        """A random value of the program's own kind with elements, recent ones more likely."""
        own = lambda v: v.array.size and v.array.dtype.kind in "fc" and v.array.dtype >= self.real
        return self.pick_any(lambda v: own(v) and accept(v))

    def pick_any(self, accept: Callable[[Value], bool]) -> Value | None:
        """A random value of any kind."""
        found = [v for v in self.values if accept(v)]
        if not found:
            return None
        k = len(found) - 1 - int(min(self.rng.exponential(2.5), len(found) - 1))
        return found[k]

    def choice(self, options: Any) -> Any:
        """One of `options`."""
        return options[int(self.rng.integers(len(options)))]

    def weights(self, shape: Shape) -> str:
        """A constant array of numbers of order one."""
        return self.constant(numbers(self.rng, shape, self.dtype))


def numbers(rng: np.random.Generator, shape: Shape, dtype: Any) -> Any:
    """Numbers of size up to one."""
    found = rng.uniform(-1, 1, shape)
    if np.dtype(dtype).kind == "c":
        found = (found + 1j * rng.uniform(-1, 1, shape)) * 0.7
    return found.astype(dtype)


def squashed(x: Any) -> Any:
    """Numbers of any size made smaller than one."""
    return x / (1.0 + np.abs(x))


def copied(x: Any) -> Any:
    """Numbers that statements may write to."""
    return np.array(x) if isinstance(x, np.generic) else x.copy()


EXTENTS = (2, 3, 5, 7, 8, 16, 17, 31, 32, 33, 63, 64, 65, 66, 70, 100, 128, 129, 130, 257, 300)

Rule = Callable[[Builder], Value | None]


def _unary(b: Builder) -> Value | None:
    v = b.pick()
    assert v is not None
    n = v.name
    smooth: list[tuple[str, float]] = [
        (f"np.sin({n})", 1.0),
        (f"np.cos({n})", 1.0),
        (f"np.tanh({n})", 1.0),
        (f"np.arctan({n})", 1.6),
        (f"-{n}", v.bound),
        (f"{n} * 0.5", v.bound / 2),
        (f"1.5 - {n}", v.bound + 1.5),
        (f"{n} * {n}", v.bound**2),
        (f"{n} ** 3", v.bound**3),
        (f"np.square({n})", v.bound**2),
        (f"np.exp(-np.square({n}))", 1.0),
        (f"np.exp(0.25 * {n})", math.exp(v.bound / 4)),
        (f"np.expm1(0.25 * {n})", math.exp(v.bound / 4) + 1),
        (f"np.log(1.5 + {n} * {n})", math.log(1.5 + v.bound**2) + 0.5),
        (f"np.log1p(np.square({n}))", math.log1p(v.bound**2)),
        (f"np.sqrt(0.5 + {n} * {n})", math.sqrt(0.5 + v.bound**2)),
        (f"1.0 / (1.0 + np.exp(-{n}))", 1.0),
        (f"np.arcsinh({n})", v.bound),
        (f"np.reciprocal(1.5 + np.square({n}))", 0.7),
    ]
    kinked: list[tuple[str, float]] = [
        (f"np.abs({n})", v.bound),
        (f"np.maximum({n}, 0)", v.bound),
        (f"np.clip({n}, -0.5, 0.75)", 0.75),
        (f"np.where({n} > 0, {n}, 0.1 * {n})", v.bound),
        (f"np.floor(2 * {n}) + {n}", 3 * v.bound + 1),
        (f"np.sign({n}) * {n}", v.bound),
    ]
    text, bound = b.choice(smooth if b.smooth or b.rng.random() < 0.7 else kinked)
    if "floor" in text and not b.apart(2 * v.array, np.rint(2 * v.array)):
        return None
    return b.emit(text, v.shape, bound)


def _binary(b: Builder) -> Value | None:
    x = b.pick()
    assert x is not None
    y = b.pick(lambda v: _broadcasts(v.shape, x.shape))
    assert y is not None
    shape = np.broadcast_shapes(x.shape, y.shape)
    if math.prod(shape) > b.limit:
        return None
    m, n = x.name, y.name
    smooth: list[tuple[str, float]] = [
        (f"{m} + {n}", x.bound + y.bound),
        (f"{m} - {n}", x.bound + y.bound),
        (f"{m} * {n}", x.bound * y.bound),
        (f"{m} / (1.5 + {n} * {n})", x.bound),
        (f"np.hypot({m}, 1.5 + np.square({n}))", x.bound + 1.5 + y.bound**2),
        (f"np.logaddexp({m}, {n})", x.bound + y.bound + 0.7),
        (f"np.arctan2({m}, 1.5 + np.square({n}))", 1.6),
        (f"(1.5 + np.square({m})) ** np.sin({n})", 1.5 + x.bound**2),
    ]
    kinked: list[tuple[str, float]] = [
        (f"np.maximum({m}, {n})", max(x.bound, y.bound)),
        (f"np.minimum({m}, {n})", max(x.bound, y.bound)),
        (f"np.where({m} < {n}, {m} * 0.5, {n})", max(x.bound, y.bound)),
        (f"({m} >= {n}) * {m}", x.bound),
    ]
    text, bound = b.choice(smooth if b.smooth or b.rng.random() < 0.7 else kinked)
    if ("<" in text or ">" in text) and x is not y and not b.apart(x.array, y.array):
        return None
    return b.emit(text, shape, bound)


def _broadcasts(a: Shape, b: Shape) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(a[::-1], b[::-1], strict=False))


def _reduction(b: Builder) -> Value | None:
    v = b.pick(lambda v: len(v.shape) > 0)
    if v is None:
        return None
    count = int(b.rng.integers(1, len(v.shape) + 1))
    axes = tuple(sorted(b.rng.choice(len(v.shape), count, replace=False).tolist()))
    keep = bool(b.rng.random() < 0.3)
    n = math.prod(v.shape[a] for a in axes)
    given = axes[0] - (len(v.shape) if b.rng.random() < 0.3 else 0) if count == 1 else axes
    tail = f"axis={given}" + (", keepdims=True" if keep else "")
    shape = tuple(1 if k in axes else s for k, s in enumerate(v.shape) if keep or k not in axes)
    smooth = [
        (f"np.mean({v.name}, {tail})", v.bound),
        (f"{v.name}.mean({tail})", v.bound),
        (f"np.sum({v.name}, {tail}) * {1.0 / n!r}", v.bound),
        (f"{v.name}.sum({tail})", v.bound * n),
        (f"np.var({v.name}, {tail})", v.bound**2),
        (f"np.log(np.sum(np.exp({v.name}), {tail}))", v.bound + math.log(n)),
    ]
    if n <= 12:
        smooth.append((f"np.prod(0.8 + 0.2 * np.tanh({v.name}), {tail})", 1.0))
    kinked = [(f"np.max({v.name}, {tail})", v.bound), (f"{v.name}.min({tail})", v.bound)]
    text, bound = b.choice(smooth if b.smooth or b.rng.random() < 0.7 else kinked)
    return b.emit(text, shape, bound)


def _view(b: Builder) -> Value | None:
    v = b.pick(lambda v: len(v.shape) > 0)
    if v is None:
        return None
    n, shape = v.name, v.shape
    rank = len(shape)
    kind = int(b.rng.integers(8))
    if kind == 0:
        perm = tuple(b.rng.permutation(rank).tolist())
        return b.emit(f"np.transpose({n}, {perm})", tuple(shape[p] for p in perm), v.bound)
    if kind == 1:
        size = math.prod(shape)
        options = [(size,), (1, size), *((k, size // k) for k in (2, 3) if size % k == 0)]
        target = b.choice(options)
        return b.emit(f"{n}.reshape({target})", target, v.bound)
    if kind == 2:
        axis = int(b.rng.integers(rank + 1))
        return b.emit(f"np.expand_dims({n}, {axis})", (*shape[:axis], 1, *shape[axis:]), v.bound)
    if kind == 3:
        axis = int(b.rng.integers(rank))
        return b.emit(f"np.flip({n}, {axis})", shape, v.bound)
    if kind == 4:
        lead = int(b.rng.integers(1, 4))
        if math.prod(shape) * lead > b.limit:
            return None
        return b.emit(f"np.broadcast_to({n}, {(lead, *shape)})", (lead, *shape), v.bound)
    if kind == 5:
        parts, out = [], []
        for extent in shape:
            start, stop, step = _random_slice(b, extent)
            parts.append(f"{'' if start is None else start}:{'' if stop is None else stop}:{step}")
            out.append(len(range(extent)[slice(start, stop, step)]))
        if 0 in out:
            return None
        return b.emit(f"{n}[{', '.join(parts)}]", tuple(out), v.bound)
    if kind == 6:
        k = int(b.rng.integers(-shape[0], shape[0]))
        return b.emit(f"{n}[{k}, ...]" if rank > 1 else f"{n}[{k}]", shape[1:], v.bound)
    axis = int(b.rng.integers(rank))
    return b.emit(f"np.roll({n}, {int(b.rng.integers(-3, 4))}, {axis})", shape, v.bound)


def _random_slice(b: Builder, extent: int) -> tuple[int | None, int | None, int]:
    if b.rng.random() < 0.4:
        return None, None, 1
    step = int(b.choice([1, 1, 2, -1, -2]))
    cut = int(b.rng.integers(0, max(1, extent // 2)))
    return (None, cut - 1 if cut else None, step) if step < 0 else (cut, None, step)


def _join(b: Builder) -> Value | None:
    v = b.pick(lambda v: len(v.shape) > 0 and math.prod(v.shape) <= 0.375 * b.limit)
    if v is None:
        return None
    w = b.pick(lambda w: w.shape == v.shape)
    assert w is not None
    bound = max(v.bound, w.bound)
    kind = int(b.rng.integers(3))
    axis = int(b.rng.integers(len(v.shape)))
    if kind == 0:
        shape = tuple(2 * s if k == axis else s for k, s in enumerate(v.shape))
        return b.emit(f"np.concatenate([{v.name}, {w.name}], axis={axis})", shape, bound)
    if kind == 1:
        shape = (*v.shape[:axis], 2, *v.shape[axis:])
        return b.emit(f"np.stack([{v.name}, {w.name}], axis={axis})", shape, bound)
    widths = [(int(b.rng.integers(0, 2)), int(b.rng.integers(0, 2))) for _ in v.shape]
    shape = tuple(s + lo + hi for s, (lo, hi) in zip(v.shape, widths, strict=True))
    return b.emit(f"np.pad({v.name}, {widths})", shape, bound)


def _contraction(b: Builder) -> Value | None:
    v = b.pick(lambda v: len(v.shape) in (1, 2, 3) and math.prod(v.shape) <= 0.375 * b.limit)
    if v is None:
        return None
    k = v.shape[-1]
    kind = int(b.rng.integers(5))
    if kind == 0:
        out = int(b.rng.integers(1, 5))
        w = b.weights((k, out))
        return b.emit(f"{v.name} @ {w}", (*v.shape[:-1], out), v.bound * k)
    if kind == 1:
        w = b.weights((k,))
        return b.emit(f"np.dot({v.name}, {w})", v.shape[:-1], v.bound * k)
    if kind == 2 and len(v.shape) == 2 and v.shape[0] ** 2 <= b.limit:
        shape = (v.shape[0], v.shape[0])
        return b.emit(f"{v.name} @ {v.name}.T * {1.0 / k!r}", shape, v.bound**2)
    if kind == 3 and len(v.shape) == 3:
        w = b.weights((v.shape[0], k, 2))
        return b.emit(f"np.matmul({v.name}, {w})", (*v.shape[:2], 2), v.bound * k)
    if len(v.shape) == 2:
        w = b.weights((v.shape[0], 3))
        return b.emit(f"np.einsum('ij,ik->jk', {v.name}, {w})", (k, 3), v.bound * v.shape[0])
    w = b.weights((3,))
    return b.emit(f"np.outer({v.name}, {w})", (math.prod(v.shape), 3), v.bound)


def _select(b: Builder) -> Value | None:
    v = b.pick()
    assert v is not None
    w = b.pick(lambda w: w.shape == v.shape)
    assert w is not None
    mask = b.constant(b.rng.random(v.shape) < 0.5)
    return b.emit(f"np.where({mask}, {v.name}, {w.name})", v.shape, max(v.bound, w.bound))


def _gather(b: Builder) -> Value | None:
    v = b.pick(lambda v: 0 < len(v.shape) < 4)
    if v is None:
        return None
    extent = v.shape[0]
    kind = int(b.rng.integers(4))
    count = int(b.rng.integers(1, 5))
    index = b.constant(b.rng.integers(-extent, extent, count))
    if kind == 0:
        return b.emit(f"{v.name}[{index}]", (count, *v.shape[1:]), v.bound)
    if kind == 1:
        axis = len(v.shape) - 1
        index = b.constant(b.rng.integers(0, v.shape[axis], count))
        return b.emit(f"np.take({v.name}, {index}, axis={axis})", (*v.shape[:-1], count), v.bound)
    if kind == 2 and len(v.shape) == 2:
        columns = b.constant(b.rng.integers(0, v.shape[1], count))
        return b.emit(f"{v.name}[{index}, {columns}]", (count,), v.bound)
    mask = b.rng.random(extent) < 0.6
    mask[0] = True
    name = b.constant(mask)
    return b.emit(f"{v.name}[{name}]", (int(mask.sum()), *v.shape[1:]), v.bound)


def _scatter(b: Builder) -> Value | None:
    v = b.pick(lambda v: 0 < len(v.shape) < 4)
    if v is None:
        return None
    extent = v.shape[0]
    count = int(b.rng.integers(1, 4))
    target = f"{v.name} + 0j" if b.complex else v.name
    if b.rng.random() < 0.5:
        index = b.constant(b.rng.integers(0, extent, count))
        update = b.weights((count, *v.shape[1:]))
        text = f"at({target})[{index}].add({update} * 0.5)"
        return b.emit(text, v.shape, v.bound + 0.5 * count)
    index = b.constant(b.rng.permutation(extent)[:count])
    value = f"0.5 * {v.name}[0]" if b.complex else f"np.sin({v.name}[0])"
    return b.emit(f"at({target})[{index}].set({value})", v.shape, max(v.bound, 1.0))


def _cumulative(b: Builder) -> Value | None:
    v = b.pick(lambda v: len(v.shape) > 0)
    if v is None:
        return None
    axis = int(b.rng.integers(len(v.shape)))
    n = v.shape[axis]
    if b.rng.random() < 0.75:
        return b.emit(f"np.cumsum({v.name}, axis={axis})", v.shape, v.bound * n)
    small = f"0.02 * {v.name}" if b.complex else f"0.1 * np.tanh({v.name})"
    return b.emit(f"np.cumprod(1.0 + {small}, axis={axis})", v.shape, 1.1**n)


# ------------------------------------------------------------------------ of complex numbers


def _complex_unary(b: Builder) -> Value | None:
    v = b.pick()
    assert v is not None
    n, wide = v.name, math.cosh(v.bound)
    options: list[tuple[str, float]] = [
        (f"np.sin({n})", wide),
        (f"np.cos({n})", wide),
        (f"np.tanh(0.25 * {n})", 1.6),
        (f"np.arctan(0.2 * {n})", 1.6),
        (f"-{n}", v.bound),
        (f"{n} * (0.5 - 0.25j)", v.bound),
        (f"1.5 - {n}", v.bound + 1.5),
        (f"{n} * {n}", v.bound**2),
        (f"{n} ** 3", v.bound**3),
        (f"np.square({n})", v.bound**2),
        (f"np.exp(0.25j * {n})", math.exp(v.bound / 4)),
        (f"np.expm1(0.25 * {n})", math.exp(v.bound / 4) + 1),
        (f"np.log(5.0 + {n})", 2.5),
        (f"np.log1p(0.2 * {n})", 2.5),
        (f"np.sqrt(5.0 + {n})", 3.0),
        (f"np.reciprocal(5.0 + {n})", 1.0),
        (f"np.conj({n})", v.bound),
        (f"np.real({n})", v.bound),
        (f"np.imag({n})", v.bound),
        (f"np.abs({n})", v.bound),
        (f"np.angle(5.0 + {n})", 1.6),
        (f"np.where(np.abs({n}) > 0.7, {n}, 0.1 * {n})", v.bound),
    ]
    text, bound = b.choice(options)
    return b.emit(text, v.shape, bound)


def _complex_binary(b: Builder) -> Value | None:
    x = b.pick()
    assert x is not None
    y = b.pick(lambda v: _broadcasts(v.shape, x.shape))
    assert y is not None
    shape = np.broadcast_shapes(x.shape, y.shape)
    if math.prod(shape) > b.limit:
        return None
    m, n = x.name, y.name
    options: list[tuple[str, float]] = [
        (f"{m} + {n}", x.bound + y.bound),
        (f"{m} - {n}", x.bound + y.bound),
        (f"{m} * {n}", x.bound * y.bound),
        (f"np.conj({m}) * {n}", x.bound * y.bound),
        (f"{m} + 1j * {n}", x.bound + y.bound),
        (f"{m} / (5.0 + {n})", x.bound),
        (f"{m} * np.abs({n})", x.bound * y.bound),
        (f"(5.0 + {m}) ** (0.25 * {n})", 50.0),
        (f"np.where(np.abs({m}) < 0.6, {m} * 0.5, {n})", max(x.bound, y.bound)),
        (f"({m} == {n}) * {m}", x.bound),
    ]
    text, bound = b.choice(options)
    return b.emit(text, shape, bound)


def _complex_reduction(b: Builder) -> Value | None:
    v = b.pick(lambda v: len(v.shape) > 0)
    if v is None:
        return None
    axis = int(b.rng.integers(-len(v.shape), len(v.shape)))
    n = v.shape[axis]
    shape = tuple(s for k, s in enumerate(v.shape) if k != axis % len(v.shape))
    options: list[tuple[str, float]] = [
        (f"np.mean({v.name}, axis={axis})", v.bound),
        (f"{v.name}.sum(axis={axis})", v.bound * n),
        (f"np.var({v.name}, axis={axis})", v.bound**2),
        (f"np.prod(0.8 + 0.05 * {v.name}, axis={axis})", 1.0),
        (f"np.sum(np.abs({v.name}), axis={axis})", v.bound * n),
        (f"np.any({v.name}, axis={axis}) * 1.0", 1.0),
    ]
    text, bound = b.choice(options)
    return b.emit(text, shape, bound)


RULES: list[tuple[Rule, float]] = [
    (_unary, 4.0),
    (_binary, 4.0),
    (_reduction, 1.5),
    (_view, 2.0),
    (_join, 1.0),
    (_contraction, 1.5),
    (_select, 0.7),
    (_gather, 0.8),
    (_scatter, 0.6),
    (_cumulative, 0.6),
]
COMPLEX_RULES: list[tuple[Rule, float]] = [
    (_complex_unary, 4.0),
    (_complex_binary, 4.0),
    (_complex_reduction, 1.5),
    *RULES[3:],
]


def random_program(
    seed: int,
    *,
    size: int = 12,
    dtype: Any = np.float64,
    smooth: bool = True,
    scalar: bool = True,
    rules: list[tuple[Rule, float]] | None = None,
    large: bool = False,
) -> Program:
    """The program of that seed.

    Args:
      size: number of operations.
      dtype: of all arguments and constants.
      smooth: leave out operations with kinks and jumps.
      scalar: return one number (a loss); otherwise a tuple of the values nobody used.
      rules: the operations to draw from, with weights; by default all for the kind of dtype.
      large: arrays of up to 20,000 elements instead of 400, so that loops have vectors, blocks
        and remainders; otherwise no axis of an argument is longer than 4.
    """
    rng = np.random.default_rng([seed, 20240])
    b = Builder(rng, dtype, smooth, 20_000 if large else 400)
    extents = np.append(rng.choice(EXTENTS, 2), 1) if large else np.arange(1, 5)
    args = []
    count = int(rng.integers(1, 4))
    for k in range(count):
        rank = int(rng.integers(0, 4)) if k else int(rng.integers(1, 4))
        shape = tuple(extents[rng.integers(0, len(extents), rank)].tolist())
        while math.prod(shape) > b.limit // 2:
            shape = shape[1:]
        args.append(numbers(rng, shape, dtype)[()])
        b.argument(args[-1])
    table = rules or (COMPLEX_RULES if b.complex else RULES)
    chances = np.array([w for _, w in table]) / sum(w for _, w in table)
    while len(b.lines) < size:
        table[int(rng.choice(len(table), p=chances))][0](b)
    results = [v for v in b.values if not _is_read(v.name, b.lines)]
    body = [f"    {line}" for line in b.lines]
    if scalar:
        form = "np.mean(np.abs({0}) ** 2)" if b.complex else "np.mean({0})"
        forms = [form if v.array.size else "np.sum({0})" for v in results]
        terms = [f.format(v.name) for f, v in zip(forms, results, strict=True)]
        body.append(f"    return {' + '.join(terms)}")
    else:
        body.append(f"    return ({', '.join(v.name for v in results)},)")
    parameters = ", ".join(f"x{k}" for k in range(count))
    source = f"def program({parameters}):\n" + "\n".join(body) + "\n"
    filename = f"<program {seed}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    exec(compile(source, filename, "exec"), b.space)
    tolerance = {8: 1e-12, 4: 2e-4}.get(b.narrowest, 3e-2)
    return Program(b.space["program"], tuple(args), source, seed, tolerance)


def _is_read(name: str, lines: list[str]) -> bool:
    for line in lines:
        _, _, expression = line.partition(" = ")
        position = expression.find(name)
        while position >= 0:
            end = position + len(name)
            before = expression[position - 1] if position else " "
            after = expression[end] if end < len(expression) else " "
            if not (before.isalnum() or before in "_." or after.isalnum() or after == "_"):
                return True
            position = expression.find(name, end)
    return False
