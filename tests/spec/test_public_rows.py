"""Rows 5.2, 5.4, 5.5b, 5.6 and 5.7 through the public API alone, from printed tables and graphs.

Nothing here is imported from inside the library: what the partition decided is read from its
text, work is counted over the equations of public graphs, and compilations are counted as the
files that appear in the cache directory.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stax

RNG = np.random.default_rng(5)
SQUARE = RNG.standard_normal((32, 32))
OTHER = RNG.standard_normal((32, 32))

# Operations that move values and compute nothing.
MOVES = {"broadcast", "reshape", "transpose", "convert", "slice", "pad", "concatenate", "rev"}


def operations(graph: stax.Graph) -> int:
    """Scalar operations that the results depend on: one per element written (read, for a sum)."""
    live, total = {id(v) for v in graph.outputs}, 0
    for eqn in reversed(graph.eqns):
        if not any(id(v) in live for v in eqn.outputs):
            continue
        live.update(id(v) for v in eqn.inputs)
        counted = eqn.inputs[:1] if eqn.op == "sum" else eqn.outputs
        total += 0 if eqn.op in MOVES else sum(math.prod(v.shape) for v in counted)
    return total


# ---------------------------------------------------------------------------------- S5.2

UNARY: list[Callable[[Any], Any]] = [np.exp, np.log, np.tanh, stax.lax.logistic, np.sqrt]
BINARY: list[Callable[[Any, Any], Any]] = [np.add, np.subtract, np.multiply, np.divide]


def straight_line(seed: int) -> Callable[[Any], Any]:
    """A random program of + - * / and exp, log, tanh, sigmoid, sqrt, then a sum."""
    rng = np.random.default_rng(seed)
    steps = [(rng.random(), *rng.integers(0, k + 1, 2)) for k in range(3 + seed % 20)]
    chosen = rng.integers(0, 20, len(steps))

    def program(x: Any) -> Any:
        values = [x]
        for (kind, a, b), which in zip(steps, chosen, strict=True):
            if kind < 0.5:
                values.append(UNARY[which % 5](values[a]))
            else:
                values.append(BINARY[which % 4](values[a], values[b]))
        return values[-1].sum()

    return program


@pytest.mark.parametrize("seed", range(30))
def test_s5_2a_value_and_gradient_cost_at_most_five_times_the_value(seed: int) -> None:
    program = straight_line(seed)
    ratios = []
    for n in (10, 10_000):
        x = np.linspace(1.0, 2.0, n)
        work = operations(stax.make_ir(program)(x))
        both = operations(stax.joint_graph(program)(x))
        assert both <= 5 * work + 5  # the few operations on the scalar result
        ratios.append(both / work)
    assert ratios[1] <= ratios[0] + 1e-9  # whatever the dimension


def test_s5_2b_shared_values_collect_every_adjoint() -> None:
    def shared(x: Any) -> Any:
        a = np.exp(x * 0.3)
        b = a * x
        for k in range(4):  # a diamond in every round
            b = np.sin(b) * 0.7 + np.cos(b * (k + 1)) * a
        return np.sum(a * b) + np.sum(b[::-1] * a) + a[0] * b[1]

    x, step = np.array([0.3, -0.2, 0.9]), 1e-6
    basis = np.eye(3) * step
    central = np.array([(shared(x + e) - shared(x - e)) / (2 * step) for e in basis])
    for gradient in (stax.grad(shared), stax.jit(stax.grad(shared))):
        np.testing.assert_allclose(gradient(x), central, rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(gradient(x), stax.jacfwd(shared)(x), rtol=1e-12)


# ---------------------------------------------------------------------------------- S5.4


@dataclasses.dataclass
class Row:
    """A line of a partition's table: capacity, whether in U and why, whether in B, decision."""

    capacity: float
    reason: str
    read: bool
    decision: str

    @property
    def forced(self) -> bool:
        return self.reason in ("read near and far", "end of a fusible chain")


def table(partition: Any) -> dict[str, Row]:
    """The rematerialisation network as its text shows it, one row a forward value."""
    lines = str(partition).splitlines()
    rows = {}
    for line in lines[1 : lines.index("")]:
        name, _, _, _, _, _, capacity, reason, read, decision = re.split(r"\s{2,}", line.strip())
        rows[name] = Row(float(capacity), reason.strip("-"), read == "yes", decision)
    return rows


def names(values: Any) -> list[str]:
    return [v.name for v in values]


def is_feasible(rows: dict[str, Row], edges: dict[str, list[str]], saved: set[str]) -> bool:
    """No path from U to B without a saved value on it."""
    open_path: dict[str, bool] = {}
    for name, row in rows.items():
        if name in saved:
            open_path[name] = False
            continue
        open_path[name] = bool(row.reason) or any(open_path[a] for a in edges[name])
        if open_path[name] and (row.read or row.forced):
            return False
    return True


def random_function(seed: int) -> Callable[[Any, Any], Any]:
    rng = np.random.default_rng(seed)
    steps = [(rng.integers(6), rng.random(), rng.random()) for _ in range(rng.integers(2, 10))]

    def program(x: Any, w: Any) -> Any:
        values = [x, w]
        for kind, a, b in steps:
            first, second = values[-1 - int(a * a * len(values))], values[-1 - int(b * len(values))]
            apply = [np.matmul, np.tanh, np.sin, np.multiply, np.add, np.add][kind]
            values.append(apply(first) if kind in (1, 2) else apply(first, second))
        return values[-1]

    return program


@pytest.mark.parametrize("chain_limit", [30, 2])
@pytest.mark.parametrize("seed", range(20))
def test_s5_4a_no_feasible_save_set_costs_less_than_the_cut(seed: int, chain_limit: int) -> None:
    joint = stax.joint_graph(random_function(seed), argnums=(0, 1))(SQUARE / 6, OTHER / 6)
    options = dataclasses.replace(joint.partition().options, chain_limit=chain_limit)
    partition = joint.partition(options=options)
    rows = table(partition)
    edges = {
        v.name: [a.name for a in e.inputs if getattr(a, "name", "") in rows]
        for e in joint.eqns
        for v in e.outputs
        if v.name in rows
    }
    assert list(rows) == list(edges)
    assert len(rows) <= 12
    candidates = [(0.0, frozenset[str]())]
    for name, row in rows.items():
        candidates += [(cost + row.capacity, kept | {name}) for cost, kept in candidates]
    candidates.sort(key=lambda c: c[0])
    least = next(cost for cost, kept in candidates if is_feasible(rows, edges, {*kept}))
    assert partition.cut_value == least
    assert sum(partition.capacities[v] for v in partition.saved) <= partition.cut_value
    recomputed = names(partition.recomputed)
    assert not [n for n in recomputed if rows[n].reason and not rows[n].forced]
    # what the backward part reads is saved, an input, or computed again from such values
    known = {*names(partition.saved), *recomputed}
    assert {n for n, row in rows.items() if row.read} <= known


def test_s5_4b_not_cheap_alone_decides() -> None:
    partition = stax.joint_graph(lambda x, w: np.sin(x @ w).sum())(SQUARE, OTHER).partition()
    assert table(partition)["dot_general"].reason == "not cheap"
    assert names(partition.saved) == ["dot_general"]
    cheap = stax.joint_graph(lambda x, w: np.sin(x * w).sum())(SQUARE, OTHER).partition()
    assert not any(row.reason for name, row in table(cheap).items() if name != "sum")
    assert cheap.saved == ()


def test_s5_4b_written_in_backward_anyway_alone_decides() -> None:
    f = lambda x, w, v: (np.sin(x @ w) @ v).sum()
    read = stax.joint_graph(f, argnums=2)(SQUARE, OTHER, SQUARE).partition()
    assert table(read)["sin"].reason == "written in backward anyway"
    assert names(read.saved) == ["sin"]
    without = stax.joint_graph(f, argnums=1)(SQUARE, OTHER, SQUARE).partition()
    assert table(without)["sin"].reason == ""
    assert names(without.saved) == ["dot_general"]


def test_s5_4b_large_reduction_alone_decides() -> None:
    f = lambda x: np.log(np.exp(x).sum(-1)).sum()
    for width, reason in ((64, "large reduction"), (4, "")):
        partition = stax.joint_graph(f)(np.ones((32, width))).partition()
        assert table(partition)["sum"].reason == reason
        assert ("sum" in names(partition.saved)) is bool(reason)
        assert ("sum" in names(partition.recomputed)) is not bool(reason)


def test_s5_4b_read_near_and_far_forces_a_save() -> None:
    def f(x: Any, a: Any, b: Any, far: bool) -> Any:
        r = np.sin(x @ a)
        return np.cos((r * 2.0) @ b + (r if far else 0.0)).sum()

    reasons = [
        table(
            stax.joint_graph(lambda x, a, b, far=far: f(x, a, b, far), argnums=1)(
                SQUARE, OTHER, SQUARE
            ).partition()
        )["sin"].reason
        for far in (True, False)
    ]
    assert reasons == ["read near and far", ""]
    joint = stax.joint_graph(lambda x, a, b: f(x, a, b, True), argnums=1)(SQUARE, OTHER, SQUARE)
    assert "sin" in names(joint.partition().saved)
    free = dataclasses.replace(joint.partition().options, near_and_far=False)
    assert "sin" in names(joint.partition(options=free).recomputed)


@pytest.mark.parametrize(
    ("length", "forced"), [(30, []), (40, ["sin_30"]), (70, ["sin_30", "sin_61"])]
)
def test_s5_4b_the_end_of_a_long_fusible_chain_is_saved(length: int, forced: list[str]) -> None:
    def f(x: Any, w: Any) -> Any:
        y = x @ w
        for _ in range(length):
            y = np.sin(y)
        return y.sum()

    partition = stax.joint_graph(f)(SQUARE, OTHER).partition()
    rows = table(partition)
    assert [n for n, row in rows.items() if row.reason == "end of a fusible chain"] == forced
    assert names(partition.saved) == ["dot_general", *forced]


def test_s5_4b_without_a_finite_cut_everything_read_is_saved() -> None:
    def f(x: Any, w: Any) -> Any:
        h = x @ w
        return (h * h + np.sin(h)).sum()

    joint = stax.joint_graph(f)(SQUARE, OTHER)
    assert names(joint.partition().saved) == ["dot_general"]
    # every program has a finite cut unless the caller forbids saves, as an option does
    forbid = lambda var, eqn: eqn.op != "dot_general"
    partition = joint.partition(
        options=dataclasses.replace(joint.partition().options, may_save=forbid)
    )
    assert "maximum flow infinite" in str(partition)
    rows = table(partition)
    assert rows["dot_general"].decision == "saved: no finite cut"
    assert names(partition.saved) == [n for n, row in rows.items() if row.read]


# ---------------------------------------------------------------------------------- S5.5b


def test_s5_5b_the_printed_device_kernel_reads_h_and_one_scalar() -> None:
    def backward(ct: Any, x: Any, h: Any) -> Any:
        gelu = lambda h: stax.nn.gelu(h, approximate=False).sum()
        return x.T @ stax.vjp(gelu, h)[1](ct)[0]

    x = np.ones((32, 64), np.float32)
    lowered = stax.jit(backward).lower(np.float32(1), x, x, device="cuda:sm_90")
    (kernel,) = lowered.kernels
    text = lowered.as_text("source").split(f"def {kernel.name}(")[1].split("@triton.jit")[0]
    loads = re.findall(r"tl\.load\((p\d) \+ (\w+)", text)
    assert [address for _, address in loads] == ["0", "x0"]  # a scalar, and an array
    assert len(re.findall(r"tl\.store\(p\d", text)) == 1
    assert text.count("libdevice.erf(") == 1
    assert text.count("libdevice.exp(") == 1


# ---------------------------------------------------------------------------------- S5.6

COUNTING = """
import os
import numpy as np, stax

def compiled():
    found = os.walk(os.environ["STAX_CACHE_DIR"])
    return sum(name.endswith(".so") for _, _, files in found for name in files)

x = np.random.default_rng(0).standard_normal((20, 20))
stax.jit(lambda x: x + 1)(x)  # whatever the first call of a process needs
f = stax.jit(lambda x: np.tanh(x @ x.T).sum(1))
counts = [compiled()]
y, pull = stax.vjp(f, x)
counts.append(compiled())
g = pull(np.ones(20))[0]
counts.append(compiled())
twice = pull(np.full(20, 2.0))[0]
stax.vjp(f, x + 1)[1](np.ones(20))
counts.append(compiled())
np.testing.assert_allclose(twice, 2 * g, rtol=1e-12, atol=1e-12)
plain = stax.vjp(lambda x: np.tanh(x @ x.T).sum(1), x)
np.testing.assert_allclose(y, plain[0], rtol=1e-12)
np.testing.assert_allclose(g, plain[1](np.ones(20))[0], rtol=1e-11, atol=1e-12)
print(*counts)
"""


def run_python(code: str, **environment: str) -> str:
    """What a fresh process prints."""
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {**os.environ, "PYTHONPATH": path, **environment}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_s5_6_one_library_for_the_forward_part_one_at_the_first_pull(tmp_path: Path) -> None:
    printed = run_python(COUNTING, STAX_CACHE_DIR=str(tmp_path))
    before, forward, backward, again = map(int, printed.split())
    assert forward == before + 1
    assert backward == forward + 1
    assert again == backward


# ---------------------------------------------------------------------------------- S5.7


def test_s5_7a_each_jacobian_is_one_batched_pass_of_n_or_m_directions() -> None:
    def sizes(n: int, m: int) -> tuple[int, int, set[int], set[int]]:
        w = np.arange(1.0, n * m + 1).reshape(m, n) / (n * m)
        f = lambda x: np.tanh(w @ np.sin(x))
        forward, reverse = (stax.make_ir(j(f))(np.ones(n)) for j in (stax.jacfwd, stax.jacrev))
        widths = [
            {d for e in g.eqns for v in e.outputs if len(v.shape) == 2 for d in v.shape}
            for g in (forward, reverse)
        ]
        return len(forward.eqns), len(reverse.eqns), widths[0], widths[1]

    small, large = sizes(5, 2), sizes(15, 6)
    assert small[:2] == large[:2]  # no loop over the directions
    assert 5 in small[2]
    assert 15 in large[2]
    assert 2 in small[3]
    assert 6 in large[3]


def test_s5_7a_forward_mode_holds_no_residuals() -> None:
    def chain(x: Any) -> Any:
        for _ in range(40):
            x = np.sin(x)
        return x

    x = np.ones(100_000)

    def peak(run: Callable[[], Any]) -> float:
        tracemalloc.start()
        run()
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found / x.nbytes

    assert peak(lambda: stax.jvp(chain, (x,), (x,))) < 8
    assert peak(lambda: stax.vjp(chain, x)[1](x)) > 40


def loss(x: Any) -> Any:
    for _ in range(5):
        x = np.tanh(x * 1.1) + 0.1 * np.sin(x)
    return np.sum(x * x) / (1.0 + np.sum(np.exp(-x)))


def test_s5_7b_a_hessian_product_costs_a_constant_multiple_whatever_the_dimension() -> None:
    ratios = []
    for n in (10, 1000):
        x = np.linspace(-1.0, 1.0, n)
        graph = stax.make_ir(lambda x, v: stax.hvp(loss, (x,), (v,)))(x, x)
        ratios.append(operations(graph) / operations(stax.make_ir(loss)(x)))
    assert max(ratios) <= 15
    assert ratios[1] <= ratios[0] * 1.05
    x, v = np.linspace(-1, 1, 6), np.arange(6.0)
    full = stax.hessian(loss)(x)
    reverse_over_reverse = stax.grad(lambda x: stax.grad(loss)(x) @ v)(x)
    for product in (stax.hvp(loss, (x,), (v,))[0], reverse_over_reverse):
        np.testing.assert_allclose(product, full @ v, rtol=1e-10, atol=1e-12)


def test_s5_7c_a_callback_has_a_value_and_an_error_that_names_the_way_out() -> None:
    def f(x: Any) -> Any:
        shape = stax.ShapeDtypeStruct(x.shape, x.dtype)
        return stax.pure_callback(lambda v: np.asarray(v) ** 3, shape, x).sum()

    for g in (f, stax.jit(f)):
        assert g(np.array([1.0, 2.0])) == 9.0
        with pytest.raises(stax.errors.NonDifferentiableError, match="custom_"):
            stax.grad(g)(np.array([1.0, 2.0]))
