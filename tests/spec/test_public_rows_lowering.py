"""Rows of 6.4 to 6.7 through the public API alone, from the text of loops, schedules and sources.

The text of a buffer is itself a program over `ops`, and the merge operations in a device's source
are functions of plain Python: both are run here under interpretations that the test brings along.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import stax

DEVICE = "cuda:sm_90"


def computed(lowered: Any) -> list[Any]:
    return [b for b in lowered.buffers if b.kind not in ("input", "constant")]


def c_kernel(lowered: Any) -> str:
    """The C of the only kernel."""
    (kernel,) = lowered.kernels
    text = lowered.as_text("source")
    return text[text.index(f"static int32_t {kernel.name}(") : text.index("int32_t stax_run")]


def same_bits(a: Any, b: Any) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


# ---------------------------------------------------------------------------------- S6.4a


@pytest.mark.parametrize("seed", range(30))
def test_s6_4a_any_views_of_views_are_one_read_with_numpys_strides(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(tuple(rng.integers(1, 6, 3)))
    cut = tuple(slice(int(rng.integers(n)), None, int(rng.choice([1, 2, -1, -2]))) for n in x.shape)
    order, axis, copies = rng.permutation(4).tolist(), int(rng.integers(4)), int(rng.integers(1, 4))

    def view(a: Any) -> Any:
        a = np.expand_dims(a[cut], axis).transpose(order)
        return np.broadcast_to(a, (copies, *a.shape))[:, ::-1]

    wanted = view(x)
    _, buffer = stax.jit(lambda a: -view(a)).lower(x).buffers  # no copy between the two
    (read,) = buffer.reads
    address = re.fullmatch(r"a\[(.*)\]", str(read))
    assert address is not None
    first = wanted.__array_interface__["data"][0] - x.__array_interface__["data"][0]
    for _ in range(5):
        at = [int(rng.integers(n)) for n in wanted.shape]
        found = eval(address[1], {f"i{k}": i for k, i in enumerate(at)})
        offset = first + sum(s * i for s, i in zip(wanted.strides, at, strict=True))
        assert found * x.itemsize == offset
    assert same_bits(stax.jit(lambda a: -view(a))(x), -wanted)


# ---------------------------------------------------------------------------------- S6.5

NAMES = ["sum", "prod", "max", "min", "argmax", "argmin", "any", "all"]


@pytest.mark.parametrize("length", [1, 7, 33, 1000])
def test_s6_5a_every_reduction_of_any_length_and_of_its_parts(length: int) -> None:
    x = np.random.default_rng(length).choice([-2.0, -1.0, 1.0, 1.0, 0.0], (5, length))
    x[:, :] = np.where(np.arange(length) < 40, x, np.sign(x) ** 2)  # exact products
    f = stax.jit(lambda x: [getattr(np, name)(x, axis=1) for name in NAMES])
    lowered = f.lower(x)
    text = lowered.as_text("loops")
    if length > 1:
        assert [n for n in NAMES if f"reduction {n} over [5]×[{length}]" not in text] == []
    whole = f(x)
    for name, found in zip(NAMES, whole, strict=True):
        assert same_bits(found, getattr(np, name)(x, axis=1)), name
    for cut in range(1, length, max(1, length // 3)):
        left, right = ([*map(np.asarray, f(part))] for part in (x[:, :cut], x[:, cut:]))
        for k, merge in enumerate([np.add, np.multiply, np.maximum, np.minimum]):
            assert same_bits(merge(left[k], right[k]), whole[k])
        for k in (4, 5):  # pairs: the value decides, the smaller index on ties
            better = right[k - 2] > left[k - 2] if k == 4 else right[k - 2] < left[k - 2]
            assert same_bits(np.where(better, right[k] + cut, left[k]), whole[k])
        assert same_bits(left[6] | right[6], whole[6])
        assert same_bits(left[7] & right[7], whole[7])


def printed_merge(name: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A merge operation as the device's source prints it, and the identity that pads a block."""
    x = np.ones((300, 17_000), np.float32)
    source = (
        stax.jit(lambda x: getattr(np, name)(x, axis=-1)).lower(x, device=DEVICE).as_text("source")
    )
    (function,) = re.findall(rf"def merge_{name}_\w+\(.*?\n\n", source, re.S)
    tl = SimpleNamespace(
        where=np.where,
        maximum=lambda a, b, **_: np.maximum(a, b),
        minimum=lambda a, b, **_: np.minimum(a, b),
        PropagateNan=SimpleNamespace(ALL=None),
    )
    scope: dict[str, Any] = {"tl": tl}
    exec(function, scope)
    (merge,) = (v for k, v in scope.items() if k.startswith("merge_"))
    padding = re.findall(r"= tl\.where\(rmask, .*, (.*)\)$", source, re.M)
    return merge, tuple(eval(p) for p in padding)


@pytest.mark.parametrize("name", NAMES)
def test_s6_5a_the_printed_merge_is_associative_with_its_identity(name: str) -> None:
    merge, identity = printed_merge(name)
    numbers = (
        [False, True] if name in ("any", "all") else [0.0, 1.0, 1.0, 2.0, -2.0, -math.inf, 4.0]
    )
    if name in ("max", "min", "argmax", "argmin"):
        numbers.append(math.nan)
    pool = [(v, k) if name.startswith("arg") else (v,) for k, v in enumerate(numbers)]
    if name in ("sum", "prod"):
        pool = [p for p in pool if math.isfinite(p[0])]

    def combine(a: Sequence[Any], b: Sequence[Any]) -> tuple[Any, ...]:
        found = merge(*a, *b)
        return tuple(map(np.asarray, found if isinstance(found, tuple) else (found,)))

    for a in pool:
        np.testing.assert_array_equal(combine(identity, a), a)
        np.testing.assert_array_equal(combine(a, identity), a)
    for a, b, c in itertools.product(pool, repeat=3):
        left, right = combine(combine(a, b), c), combine(a, combine(b, c))
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e6])
def test_s6_5a_mean_and_variance_lose_nothing_to_a_large_offset(scale: float) -> None:
    """As exact as merging (count, mean, squares) triples; the squares are of centred values."""
    x = (np.random.default_rng(2).standard_normal((9, 333)) + scale).astype(np.float32)
    mean, variance = stax.jit(lambda x: (x.mean(-1), x.var(-1)))(x)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(mean, wide.mean(-1), rtol=1e-6)
    # the mean is off by half a unit, which moves a centred square by that unit squared
    unit = scale * 2.0**-23
    np.testing.assert_allclose(variance, wide.var(-1), rtol=2e-6, atol=unit * unit)


def test_s6_5b_a_long_row_is_two_buffers_and_two_kernels_on_a_device() -> None:
    x = np.ones((64, 16384), np.float32)
    lowered = stax.jit(lambda x: (x * x).sum(-1)).lower(x, device=DEVICE)
    first, second = computed(lowered)
    assert (first.ranges, first.reduction_ranges) == ((64, 2), (8192,))
    assert (second.ranges, second.reduction_ranges) == ((64,), (2,))
    assert [str(r) for r in first.reads] == ["x[16384*i0 + 8192*i1 + r0]"]
    assert [str(r) for r in second.reads] == [f"{first.name}[2*i0 + r0]"]
    assert len(lowered.kernels) == 2
    on_cpu = stax.jit(lambda x: (x * x).sum(-1)).lower(x)
    assert len(computed(on_cpu)) == 1


def in_order(x: np.ndarray) -> Any:
    total = x.dtype.type(0)
    for value in x:
        total = x.dtype.type(total + value)
    return total


@pytest.mark.parametrize("n", [1000, 65_536])
def test_s6_5c_sums_are_within_the_bound_and_no_worse_than_in_order(n: int) -> None:
    rng = np.random.default_rng(3)
    data = {
        "a constant": np.full(n, 0.1),
        "one, then crumbs": np.concatenate([[1], np.full(n - 1, 2.0**-25)]),
        "growing": np.geomspace(1e-6, 1e6, n),
        "a large offset": rng.standard_normal(n) + 1e4,
    }
    f, unit = stax.jit(np.sum), 2.0**-24
    for name, values in data.items():
        x = values.astype(np.float32)
        exact = math.fsum(x.tolist())
        error = abs(float(f(x)) - exact)
        # four running sums or more: at most n/4 + 4 roundings on the way of any term
        assert error <= (n / 4 + 4) * unit * math.fsum(np.abs(x).tolist()), name
        assert error <= max(abs(float(in_order(x)) - exact), unit * abs(exact)), name


# ---------------------------------------------------------------------------------- S6.6


def stored(g: Callable[..., Any], *args: Any, device: str = "cpu", readers: int = 2) -> int:
    """How many values besides the results are stored, `g`'s value having several readers."""

    def f(*args: Any) -> Any:
        h = g(*args)
        return [h[::-1] + k for k in range(readers)]

    return len(computed(stax.jit(f).lower(*args, device=device))) - readers


def largest_inlined(family: Callable[[int], tuple[Any, ...]], device: str) -> int:
    """The largest member of a family of values that is not stored for its two readers."""
    low, high = 1, 100
    while high - low > 1:
        middle = (low + high) // 2
        g, *args = family(middle)
        low, high = (low, middle) if stored(g, *args, device=device) else (middle, high)
    return low


X = np.linspace(0.1, 1, 6).reshape(2, 3)
ROWS = np.arange(240.0).reshape(120, 2)


def negations(n: int) -> tuple[Any, ...]:
    def g(x: Any) -> Any:
        for _ in range(n):
            x = -x
        return x

    return g, X


def arguments(n: int) -> tuple[Any, ...]:
    return lambda *args: sum(args[1:], args[0]), *[X] * n


def windows(n: int) -> tuple[Any, ...]:
    return lambda x: sum((x[k : k + 2] for k in range(1, n)), x[:2]), ROWS


@pytest.mark.parametrize(
    ("family", "cpu", "cuda"), [(negations, 50, 30), (arguments, 3, 4), (windows, 12, 8)]
)
def test_s6_6_each_limit_is_where_the_table_has_it(family: Any, cpu: int, cuda: int) -> None:
    assert largest_inlined(family, "cpu") == cpu
    assert largest_inlined(family, DEVICE) == cuda


def test_s6_6_a_transcendental_and_many_readers_decide_on_the_cpu() -> None:
    assert stored(np.tanh, X) == 1
    assert stored(np.tanh, X, device=DEVICE) == 0
    nearly, *args = negations(45)
    assert stored(nearly, *args, readers=5) == 0
    assert stored(nearly, *args, readers=6) == 1
    within, *args = negations(30)
    assert stored(within, *args, readers=6, device=DEVICE) == 0


def test_s6_6_one_reader_inlines_and_the_report_names_the_rule() -> None:
    assert len(computed(stax.jit(lambda x: np.exp(np.tanh(np.log(x))) * 2).lower(X))) == 1

    def f(x: Any) -> Any:
        h = np.tanh(x)
        s = np.sort(x + 1)
        return h[::-1] + 1, h * 2, s

    report = str(stax.explain(f)(X))
    assert "2 readers and costs tanh" in report
    assert "an output of the program" in report
    assert "a reader needs it in memory" in report  # what sort, outside the loops, reads


# ---------------------------------------------------------------------------------- S6.7


def test_s6_7_the_text_of_a_buffer_runs_under_any_interpretation() -> None:
    f = lambda x, y: (np.exp(x.T) * y).sum(1)
    x, y = np.linspace(0, 1, 48).reshape(16, 3), np.linspace(1, 2, 48).reshape(3, 16)
    lowered = stax.jit(f).lower(x, y)
    (buffer,) = computed(lowered)
    body = "\n".join(line.strip() for line in buffer.text.splitlines()[2:])

    def under(i0: Any, r0: Any, **handlers: Any) -> None:
        exec(body, {"ops": SimpleNamespace(**handlers), "i0": i0, "r0": r0})

    # 1. A recorder agrees with the reads that the buffer reports.
    reads, writes, counted = [], [], []
    for i0, r0 in ((0, 0), (1, 5), (2, 15)):
        under(
            i0,
            r0,
            load=lambda name, at: reads.append((name, at)),
            exp=counted.append,
            mul=lambda a, b: counted.append("mul"),
            reduction=lambda kind, value: None,
            store=lambda name, at, value: writes.append((name, at)),
        )
    for k, (i0, r0) in enumerate(((0, 0), (1, 5), (2, 15))):
        told = [str(r).removesuffix("]").split("[") for r in buffer.reads]
        expected = [(name, eval(at, {"i0": i0, "r0": r0})) for name, at in told]
        assert reads[2 * k : 2 * k + 2] == expected
    assert writes == [(buffer.name, 0), (buffer.name, 1), (buffer.name, 2)]
    # 2. A counter: two operations a point.
    assert len(counted) == 3 * 2
    # 3. A NumPy evaluator gives the function's values.
    memory, result = {"x": x.ravel(), "y": y.ravel()}, np.empty(3)
    under(
        np.arange(3)[:, None],
        np.arange(16)[None, :],
        load=lambda name, at: memory[name][at],
        exp=np.exp,
        mul=np.multiply,
        reduction=lambda kind, value: getattr(np, kind)(value, axis=1),
        store=lambda name, at, value: np.put(result, at, value),
    )
    np.testing.assert_allclose(result, f(x, y), rtol=1e-14)
    # 4., 5. The printers of C and of Triton, and 6. the compiled program.
    c = c_kernel(lowered)
    assert c.count("stax_exp_f64(") == 1
    assert "[x0 + 3*x1]" in c
    device = stax.jit(f).lower(x, y, device=DEVICE).as_text("source")
    assert device.count("libdevice.exp(") == 1
    assert "(x0 + 3*x1)" in device
    np.testing.assert_allclose(stax.jit(f)(x, y), f(x, y), rtol=1e-14)
