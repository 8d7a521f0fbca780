"""Rules of random programs for what real numbers and straight lines leave out.

Integers of every width, truth values, narrower floats, sorting, positions computed from data,
loops and branches, writes in place, and arrays without elements.  `MIXED_RULES` are those besides
the rules of `tests/programs.py`, `SINGLE_RULES` those with float32 as well, `HALF_RULES` also with
float16.  Integers and truth values come from floats only where no rounding shows, so that every
level has the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.programs import RULES, Builder, Rule, Value, _broadcasts, _random_slice

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def _of(kinds: str, rank: int = 0) -> Any:
    """Accepts values with elements, of kinds of dtype and at least that rank."""
    return lambda v: v.array.dtype.kind in kinds and v.array.size and v.array.ndim >= rank


def _without(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    return tuple(s for k, s in enumerate(shape) if k != axis % len(shape))


def _axis(b: Builder, v: Value) -> int:
    return int(b.rng.integers(-len(v.shape), len(v.shape)))


# ------------------------------------------------------------------------ truth values, integers


def _truth(b: Builder) -> Value | None:
    """A comparison away from equality, or what makes a truth value of others."""
    v, old = b.pick(), b.pick_any(_of("b"))
    assert v is not None
    if old is None or b.rng.random() < 0.5:
        threshold = round(float(b.rng.uniform(-1, 1)), 4)
        if not b.apart(v.array, threshold):
            return None
        sign = b.choice(["<", "<=", ">", ">=", "==", "!="])
        return b.emit(f"{v.name} {sign} {threshold}", v.shape, 1)
    m = old.name
    other = b.pick_any(lambda w: _of("b")(w) and _broadcasts(w.shape, old.shape))
    assert other is not None
    shape = np.broadcast_shapes(old.shape, other.shape)
    if math.prod(shape) > b.limit:
        return None
    n = other.name
    options = [
        (f"~{m}", old.shape),
        (f"np.isfinite({v.name}) & True", v.shape),
        *((text, shape) for text in (
            f"{m} & {n}", f"{m} | {n}", f"{m} ^ {n}", f"np.logical_and({m}, ~{n})", f"{m} == {n}",
            f"{m} < {n}", f"np.where({m}, {n}, True)", f"np.maximum({m}, {n})", f"{m} * {n}",
        )),
    ]  # fmt: skip
    if old.shape:
        k = _axis(b, old)
        options += [
            (f"np.{name}({m}, axis={k})", _without(old.shape, k)) for name in ("any", "all", "max")
        ]
        options += [(f"np.sort({m}, axis={k})", old.shape), (f"{m}[::-1]", old.shape)]
    text, shape = b.choice(options)
    return b.emit(text, shape, 1)


def _new_integer(b: Builder) -> Value | None:
    v = b.pick()
    assert v is not None
    name = b.choice(INTEGERS)
    kind = int(b.rng.integers(6))
    if kind == 0:
        shape = tuple(b.rng.integers(1, 5, int(b.rng.integers(0, 3))).tolist())
        low = 0 if name[0] == "u" else -100
        array = b.rng.integers(low, 120, shape).astype(name)
        return b.emit(f"{b.constant(array)} + 0", shape, 1)
    if kind == 1 and (truth := b.pick_any(_of("b"))):
        return b.emit(f"{truth.name}.astype(np.{name})", truth.shape, 1)
    if kind == 2 and (truth := b.pick_any(_of("b", 1))):
        k = _axis(b, truth)
        form = b.choice(["np.sum", "np.count_nonzero", "np.argmax"])
        return b.emit(f"{form}({truth.name}, axis={k})", _without(truth.shape, k), 1)
    if kind == 3 and (truth := b.pick_any(_of("b", 1))):
        return b.emit(f"np.cumsum({truth.name}, axis={_axis(b, truth)})", truth.shape, 1)
    if kind == 4 and v.shape:
        k = _axis(b, v)
        if not _distinct(b, v, k):
            return None
        form = b.choice(["np.argmax", "np.argmin", "np.argsort"])
        shape = v.shape if form == "np.argsort" else _without(v.shape, k)
        return b.emit(f"{form}({v.name}, axis={k})", shape, 1)
    scaled = 3.0 * v.array
    if not b.apart(scaled, np.rint(scaled)) or (name[0] == "u" and np.any(v.array < 0)):
        return None
    form = b.choice(["{0}", "np.floor({0})", "np.ceil({0})", "np.trunc({0})"])
    return b.emit(f"{form.format(f'(3.0 * {v.name})')}.astype(np.{name})", v.shape, 1)


def _distinct(b: Builder, v: Value, axis: int) -> bool:
    """Whether the elements along an axis are far from each other."""
    return bool(np.all(np.diff(np.sort(v.array, axis=axis), axis=axis) > b.margin))


def _integer(b: Builder) -> Value | None:
    """An operation on integers; sums and products wrap around."""
    v = b.pick_any(_of("iu"))
    if v is None or b.rng.random() < 0.35:
        return _new_integer(b)
    signs = lambda w: (w.array.dtype == np.uint64) == (v.array.dtype == np.uint64)
    w = b.pick_any(lambda w: _of("iu")(w) and signs(w) and _broadcasts(w.shape, v.shape))
    assert w is not None
    shape = np.broadcast_shapes(v.shape, w.shape)
    if math.prod(shape) > b.limit:
        return None
    m, n = v.name, w.name
    options: list[tuple[str, tuple[int, ...]]] = [
        *((text, shape) for text in (
            f"{m} + {n}", f"{m} * {n}", f"{m} & {n}", f"{m} | {n}", f"{m} ^ {n}",
            f"np.maximum({m}, {n})", f"np.minimum({m}, {n})", f"np.where({m} < {n}, {m}, {n})",
            f"{m} // ({n} + 2)", f"{m} % ({n} + 2)", f"{m} // {n}", f"np.fmod({m}, {n})",
            f"{m} << ({n} & 3)", f"{m} >> ({n} & 3)", f"np.left_shift({m}, {n} & 31)",
            f"({m} >= {n}) + {m}", f"{m} == {n}", f"np.right_shift({m}, {n} & 63)",
        )),
        *((text, v.shape) for text in (
            f"~{m}", f"-{m}", f"np.abs({m})", f"{m} ** 2", f"{m} * 3 - 1", f"np.sign({m})",
            f"{m}.astype(np.{b.choice(INTEGERS)})", f"np.clip({m}, 2, 60)", f"{m} % 7",
            f"{m} // 3", f"{m} >> 1", f"np.square({m})", f"np.bitwise_count({m})",
        )),
    ]  # fmt: skip
    if v.shape:
        k = _axis(b, v)
        options += [
            (f"np.{name}({m}, axis={k})", _without(v.shape, k))
            for name in ("sum", "prod", "max", "min", "argmax", "argmin", "any")
        ]
        options += [
            (f"np.{name}({m}, axis={k})", v.shape) for name in ("cumsum", "cumprod", "sort", "flip")
        ]
        # NumPy's usual order of equal elements is its own.
        options.append((f"np.argsort({m}, axis={k}, kind='stable')", v.shape))
        options += [(f"{m}.sum()", ()), (f"{m}.reshape(-1)", (math.prod(v.shape),))]
    if len(v.shape) == 2 and v.shape[0] ** 2 <= b.limit:
        options += [(f"{m} @ {m}.T", (v.shape[0], v.shape[0])), (f"{m}.T", v.shape[::-1])]
    text, shape = b.choice(options)
    return b.emit(text, shape, 1)


def _back(b: Builder) -> Value | None:
    """A number of the program's own kind that depends on integers or truth values."""
    v = b.pick()
    assert v is not None
    n = v.name
    truth = b.pick_any(lambda w: _of("b")(w) and _broadcasts(w.shape, v.shape))
    if truth is not None and b.rng.random() < 0.5:
        shape = np.broadcast_shapes(truth.shape, v.shape)
        if math.prod(shape) > b.limit:
            return None
        m = truth.name
        forms = [f"np.where({m}, {n}, 0.25)", f"{m} * {n}", f"np.where(~{m}, -{n}, {n} * {n})"]
        return b.emit(b.choice(forms), shape, max(1.0, v.bound, v.bound**2))
    i = b.pick_any(_of("iu"))
    if i is None:
        return None
    index = b.pick_any(lambda w: _of("iu")(w) and w.array.ndim < 2)
    kind = int(b.rng.integers(5))
    if kind == 0 and index is not None and v.shape and len(index.shape) + len(v.shape) < 5:
        shape = (*index.shape, *v.shape[1:])
        if math.prod(shape) > b.limit:
            return None
        return b.emit(f"{n}[{index.name}.astype(int) % {v.shape[0]}]", shape, v.bound)
    if kind == 1 and index is not None and v.shape:
        place = f"{index.name}.astype(int) % {v.shape[0]}"
        update = f"0.125 * np.ones({(*index.shape, *v.shape[1:])})"
        form = b.choice(["add", "max", "min"])
        return b.emit(f"at({n})[{place}].{form}({update})", v.shape, v.bound + 0.125 * i.array.size)
    if kind == 2 and v.shape and _distinct(b, v, k := _axis(b, v)):
        places = f"np.argsort({n}, axis={k})"
        return b.emit(f"np.take_along_axis(np.sin({n}), {places}, axis={k})", v.shape, 1.0)
    if kind == 3:
        return b.emit(f"np.cos(({i.name} % 5) * 0.3)", i.shape, 1.0)
    return b.emit(f"({i.name} % 4) * 0.25", i.shape, 1.0)


def _sorted(b: Builder) -> Value | None:
    v = b.pick(lambda v: len(v.shape) > 0)
    if v is None:
        return None
    k = _axis(b, v)
    if not _distinct(b, v, k):
        return None
    n, size, rest = v.name, v.shape[k], _without(v.shape, k)
    options = [
        (f"np.sort({n}, axis={k})", v.shape),
        (f"np.sort({n}, axis={k}) * np.cos(np.arange(1.0))", v.shape),
        (f"np.median({n}, axis={k})", rest),
        (f"np.ptp({n}, axis={k})", rest),
        (f"lax.cummax({n}, axis={k % len(v.shape)})", v.shape),
        (f"lax.cummin({n}, axis={k % len(v.shape)}, reverse=True)", v.shape),
        (f"lax.top_k({n}, 1)[0]", (*v.shape[:-1], 1)),
    ]
    if size > 1:
        shape = tuple(s - (d == k % len(v.shape)) for d, s in enumerate(v.shape))
        options.append((f"np.diff({n}, axis={k})", shape))
    text, shape = b.choice(options)
    return b.emit(text, shape, 2 * v.bound)


# ------------------------------------------------------------------------ loops, branches, writes


def _expression(b: Builder, leaves: Sequence[str], depth: int) -> str:
    """An elementwise expression of values of size up to one, itself of that size."""
    if depth == 0 or b.rng.random() < 0.15:
        return str(b.choice(leaves))
    x, y = _expression(b, leaves, depth - 1), _expression(b, leaves, depth - 1)
    return str(b.choice([
        f"np.sin({x})", f"np.tanh({x} + {y})", f"(0.5 * {x} + 0.5 * {y})", f"({x} * {y})",
        f"np.exp(-np.square({x}))", f"(0.7 * {x} - 0.3 * {y})", f"np.cos({x} - {y})", f"(-{x})",
    ]))  # fmt: skip


def _small(b: Builder, accept: Any = lambda v: True) -> Value | None:
    return b.pick(lambda v: v.bound <= 1.0 and accept(v))


def _loop(b: Builder) -> Value | None:
    v = _small(b, lambda v: len(v.shape) > 0)
    if v is None:
        return None
    n, rest, length = v.name, v.shape[1:], v.shape[0]
    w = _small(b, lambda w: w.shape == rest)
    start = w.name if w else b.weights(rest)
    outer = [start, f"{n}[0]"]
    body = _expression(b, ["c", "x", *outer], 2)
    out = _expression(b, ["c", "x", "x"], 2)
    reverse = ", reverse=True" if b.rng.random() < 0.3 else ""
    scan = f"lax.scan(lambda c, x: ({body}, {out}), {start}, {n}{reverse})"
    steps = int(b.rng.integers(0, 5))
    row = _expression(b, ["c[i - 1]", f"{n}[i]", "c[i]"], 2)
    inner = f"lax.fori_loop(0, {steps}, lambda j, d: {_expression(b, ['d', 'x', 'c'], 1)}, c)"
    options: list[tuple[str, tuple[int, ...]]] = [
        (f"{scan}[0]", rest),
        (f"{scan}[1]", v.shape),
        (f"lax.scan(lambda c, x: ({inner}, c), {start}, {n})[1]", v.shape),
        (f"lax.scan(lambda c, x: ((c[1], {_expression(b, ['c[0]', 'x'], 2)}), c[0] * x), "
         f"({start}, {n}[-1]), {n})[1]", v.shape),
        (f"lax.fori_loop(0, {steps}, lambda i, c: {_expression(b, ['c', n], 2)}, {n})", v.shape),
        (f"lax.fori_loop(0, {length}, lambda i, c: at(c)[i].set({row}), {n} * 1.0)", v.shape),
        (f"lax.map(lambda x: {_expression(b, ['x', start], 2)}, {n})", v.shape),
        (f"lax.associative_scan(lambda p, q: p * q, 0.9 * {n})", v.shape),
    ]  # fmt: skip
    if not b.smooth:
        i = b.pick_any(lambda i: _of("iu")(i) and i.shape == ())
        count = f"({i.name} % 4).astype(int)" if i else str(steps)
        step = _expression(b, ["c[1]", n], 2)
        options += [
            (f"lax.while_loop(lambda c: c[0] < {count}, lambda c: (c[0] + 1, {step}), (0, {n}))[1]",
             v.shape),
            (f"lax.fori_loop(0, {count}, lambda i, c: {_expression(b, ['c', n], 2)}, {n})",
             v.shape),
        ]  # fmt: skip
    text, shape = b.choice(options)
    return b.emit(text, shape, 1.0)


def _branch(b: Builder) -> Value | None:
    v = _small(b)
    assert v is not None
    w = _small(b, lambda w: w.shape == v.shape)
    assert w is not None
    leaves = ["a", v.name, w.name]
    one, two, three = (f"lambda a: {_expression(b, leaves, 2)}" for _ in range(3))
    truth = b.pick_any(lambda t: _of("b")(t) and t.shape == ())
    if truth is not None and b.rng.random() < 0.6:
        return b.emit(f"lax.cond({truth.name}, {one}, {two}, {w.name})", v.shape, 1.0)
    i = b.pick_any(lambda i: _of("iu")(i) and i.shape == ())
    if i is not None:
        index = f"({i.name} % 4).astype(int) - 1"
        return b.emit(f"lax.switch({index}, [{one}, {two}, {three}], {w.name})", v.shape, 1.0)
    threshold = round(float(b.rng.uniform(-0.5, 0.5)), 4)
    if not b.apart(np.mean(v.array), threshold):
        return None
    text = f"lax.cond(np.mean({v.name}) > {threshold}, {one}, {two}, {w.name})"
    return b.emit(text, v.shape, 1.0)


def _write(b: Builder) -> Value | None:
    """A copy that statements change in place."""
    v = _small(b, lambda v: len(v.shape) > 0)
    if v is None:
        return None
    w = _small(b, lambda w: w.shape == v.shape)
    assert w is not None
    then = []
    for _ in range(int(b.rng.integers(1, 4))):
        cuts = [_random_slice(b, s) for s in v.shape]
        index = ", ".join(
            f"{'' if lo is None else lo}:{'' if hi is None else hi}:{step}" for lo, hi, step in cuts
        )
        first = int(b.rng.integers(-v.shape[0], v.shape[0]))
        count = int(b.rng.integers(1, 4))
        places = b.constant(b.rng.permutation(v.shape[0])[:count])
        mask = b.constant(b.rng.random(v.shape) < 0.5)
        then.append(str(b.choice([
            f"{{v}}[{index}] = {w.name}[{index}] * 0.5",
            f"{{v}}[{index}] = 0.25",
            f"{{v}}[{index}] *= np.cos({w.name}[{index}])",
            f"{{v}}[{index}] = {{v}}[{index}][::-1] * 0.5",
            f"{{v}}[{first}] -= 0.5 * {{v}}[{first}]",
            f"{{v}}[{first}] = {w.name}[0]",
            f"{{v}}[{places}] = np.sin({w.name}[{places}])",
            f"{{v}}[{places}] *= -1.0",
            f"{{v}}[{mask}] = 0.125",
            f"{{v}}[{mask}] *= 0.5",
            f"{{v}}.T[...] = {w.name}.T * 0.75",
            "{v}.reshape(-1)[::2] = 0.375",
            "{v} *= 0.5",
            "np.tanh({v}, out={v})",
        ])))  # fmt: skip
    # Where only the first argument is traced, a plain array could not take what depends on it.
    first = b.values[0]
    traced = f"0.0 * x0{'[' + ', '.join('0' * len(first.shape)) + ']' if first.shape else ''}"
    return b.emit(f"copied({v.name} + {traced})", v.shape, 1.0, then)


def _nothing(b: Builder) -> Value | None:
    """Arrays without elements, and what comes back from them."""
    v = b.pick(lambda v: len(v.shape) > 0 and v.array.size <= 0.375 * b.limit)
    if v is None:
        return None
    n, shape = v.name, v.shape
    old = b.pick_any(lambda w: w.array.size == 0)
    if old is not None and b.rng.random() < 0.4:
        e, gone = old.name, old.shape.index(0)
        return b.emit(b.choice([
            f"np.sin({e})", f"{e} * {e}", f"-{e}", f"np.cumsum({e}, axis={gone})",
            f"np.flip({e})", f"np.where({e} > 0, {e}, 1.0)", f"np.sort({e}, axis={gone})",
        ]), old.shape, old.bound)  # fmt: skip
    axis = int(b.rng.integers(len(shape)))
    cut = f"{n}[{', '.join([':'] * axis + [':0'])}]"
    empty = tuple(0 if k == axis else s for k, s in enumerate(shape))
    none = b.constant(np.zeros((0, 3)))
    options: list[tuple[str, tuple[int, ...], float]] = [
        (f"{cut} * 2.0", empty, 1.0),
        (f"{n} + {cut}.sum(axis={axis}, keepdims=True)", shape, v.bound),
        (f"{n} * np.prod({cut}, axis={axis}, keepdims=True)", shape, v.bound),
        (f"np.concatenate([{cut}, {n}], axis={axis})", shape, v.bound),
        (f"{n} + np.sum({cut})", shape, v.bound),
        (f"{n}[..., :0] @ {none}", (*shape[:-1], 3), 1.0),
        (f"at({n})[{b.constant(np.zeros(0, int))}].set(0.5)", shape, max(v.bound, 0.5)),
        (f"{n} * np.all({cut} > 0)", shape, v.bound),
        (f"np.max({cut}, axis={axis}, initial=0.5, keepdims=True) + {n}", shape, v.bound + 0.5),
        (f"{n}[{b.constant(np.zeros(shape[0], bool))}]", (0, *shape[1:]), v.bound),
        (f"lax.scan(lambda c, x: (c * x, c), {n}, {b.constant(np.zeros(0))})[0]", shape, v.bound),
    ]
    text, shape, bound = b.choice(options)
    return b.emit(text, shape, bound)


# ------------------------------------------------------------------------ narrower floats


def _single(b: Builder) -> Value | None:
    """A value in single precision: converted, computed with, compared, and back."""
    own = b.pick()
    v = b.pick_any(_thin(b))
    assert own is not None
    if v is None or b.rng.random() < 0.3:
        return b.emit(f"{own.name}.astype(np.float32)", own.shape, own.bound)
    w = b.pick_any(lambda w: _thin(b)(w) and _broadcasts(w.shape, v.shape))
    assert w is not None
    shape = np.broadcast_shapes(v.shape, w.shape)
    if math.prod(shape) > b.limit:
        return None
    m, n, large = v.name, w.name, v.bound + w.bound
    options: list[tuple[str, tuple[int, ...], float]] = [
        (f"{m} + {n}", shape, large),
        (f"{m} * {n}", shape, v.bound * w.bound),
        (f"{m} - {n}", shape, large),
        (f"np.maximum({m}, {n})", shape, large),
        (f"{m} / (1.5 + {n} * {n})", shape, v.bound),
        (f"np.tanh({m})", v.shape, 1.0),
        (f"np.sin({m})", v.shape, 1.0),
        (f"np.exp(-np.square({m}))", v.shape, 1.0),
        (f"np.sqrt(0.5 + {m} * {m})", v.shape, 1.0 + v.bound),
        (f"{m} * 0.5", v.shape, v.bound),
        (f"1 - {m}", v.shape, v.bound + 1),
        (f"np.where({m} == {m}, {m}, 0)", v.shape, v.bound),
        (f"{m}.astype(np.float64)", v.shape, v.bound),
        (f"{m}.astype(np.float32)", v.shape, v.bound),
    ]
    mixed = np.broadcast_shapes(own.shape, v.shape) if _broadcasts(own.shape, v.shape) else None
    if mixed is not None and math.prod(mixed) <= b.limit:
        options += [(f"{own.name} * {m}", mixed, own.bound * v.bound)] * 2
    if v.shape:
        k = _axis(b, v)
        options += [
            (f"np.max({m}, axis={k})", _without(v.shape, k), v.bound),
            (f"np.cumsum({m}, axis={k})", v.shape, v.bound * v.shape[k]),
            (f"np.sort({m}, axis={k})", v.shape, v.bound),
            (f"{m}[::-1]", v.shape, v.bound),
        ]
    text, shape, bound = b.choice(options)
    return b.emit(text, shape, bound)


def _half(b: Builder) -> Value | None:
    """Half precision, and sums of narrower floats."""
    own = b.pick()
    v = b.pick_any(_thin(b))
    assert own is not None
    if v is None or not v.shape or b.rng.random() < 0.3:
        return b.emit(f"{own.name}.astype(np.float16)", own.shape, own.bound)
    m, k = v.name, _axis(b, v)
    options: list[tuple[str, tuple[int, ...], float]] = [
        (f"np.mean({m}, axis={k})", _without(v.shape, k), v.bound),
        (f"np.sum({m}, axis={k})", _without(v.shape, k), v.bound * v.shape[k]),
        (f"np.var({m}, axis={k})", _without(v.shape, k), v.bound**2),
        (f"{m}.astype(np.float16) * {m}", v.shape, v.bound**2),
    ]
    if 2 * v.array.size <= b.limit:
        shape = (2 * v.shape[0], *v.shape[1:])
        options.append((f"np.concatenate([{m}, {m} * 0.5])", shape, v.bound))
    if len(v.shape) == 2 and v.shape[0] ** 2 <= b.limit:
        options += [(f"{m} @ {m}.T", (v.shape[0],) * 2, v.bound**2 * v.shape[1])] * 2
    text, shape, bound = b.choice(options)
    return b.emit(text, shape, bound)


def _thin(b: Builder) -> Any:
    """Accepts values narrower than the program's own."""
    return lambda w: _of("f")(w) and w.array.dtype.itemsize < b.real.itemsize


NEW_RULES: list[tuple[Rule, float]] = [
    (_truth, 1.5),
    (_integer, 3.0),
    (_back, 2.0),
    (_sorted, 0.8),
    (_loop, 1.2),
    (_branch, 0.8),
    (_write, 0.8),
    (_nothing, 0.6),
]
MIXED_RULES = [*((rule, weight / 2) for rule, weight in RULES), *NEW_RULES]
SINGLE_RULES = [*MIXED_RULES, (_single, 3.0)]
HALF_RULES = [*SINGLE_RULES, (_half, 2.0)]
