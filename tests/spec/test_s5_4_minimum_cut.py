"""S5.4: feasible save sets are the cuts of the network (a), and every rule decides a case (b)."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import stax
from stax.core.graph import check_graph
from stax.core.staging import eval_graph
from stax.transforms.maxflow import INFINITE
from stax.transforms.partition import PartitionOptions

RNG = np.random.default_rng(5)
SQUARE = RNG.standard_normal((32, 32))
OTHER = RNG.standard_normal((32, 32))


# --- S5.4a: brute force over all save sets ------------------------------------------------------


def random_function(seed: int):
    """A straight-line program of at most 12 forward values, and how many arguments it takes."""
    rng = np.random.default_rng(seed)
    steps = [(rng.integers(6), rng.random(), rng.random()) for _ in range(rng.integers(2, 11))]

    def program(x, W):
        values = [x, W]
        for kind, a, b in steps:
            # mostly recent values: deep graphs rather than wide ones
            first = values[-1 - int(a * a * len(values))]
            second = values[-1 - int(b * len(values))]
            if kind == 0:
                values.append(first @ second)
            elif kind == 1:
                values.append(np.tanh(first))
            elif kind == 2:
                values.append(np.sin(first))
            elif kind == 3:
                values.append(first * second)
            else:
                values.append(first + second)
        return values[-1]

    return program


def brute_force(values):
    """The cheapest feasible save set: no path from U to B without a saved value on it."""
    index = {v.var: k for k, v in enumerate(values)}
    sources = [[index[a] for a in dict.fromkeys(v.eqn.inputs) if a in index] for v in values]
    best, best_set = math.inf, None
    for mask in range(1 << len(values)):
        cost = sum(v.capacity for k, v in enumerate(values) if mask >> k & 1)
        if cost >= best:
            continue
        open_path = [False] * len(values)  # an unsaved value of U reaches k by unsaved values
        feasible = True
        for k, v in enumerate(values):
            if mask >> k & 1:
                continue
            start = bool(v.ban or v.force)
            open_path[k] = start or any(open_path[j] for j in sources[k])
            if open_path[k] and (v.read or v.force):
                feasible = False
                break
        if feasible:
            best, best_set = cost, mask
    return best, best_set


@pytest.mark.parametrize("seed", range(60))
def test_s5_4a_minimum_cut_is_the_cheapest_feasible_set(seed):
    joint, again = (
        stax.joint_graph(random_function(seed), argnums=(0, 1))(SQUARE / 6, OTHER / 6)
        for _ in range(2)
    )
    for options in (PartitionOptions(), PartitionOptions(chain_limit=2)):
        partition = joint.partition(options=options)
        assert str(partition) == str(again.partition(options=options))
        values = partition.values
        assert len(values) <= 12
        best, _ = brute_force(values)
        assert partition.cut_value == best
        # what is returned is feasible, and costs no more than the cut (a value that the backward
        # part turns out not to read is not saved)
        assert sum(partition.capacities[v] for v in partition.saved) <= partition.cut_value
        bans = {v.var for v in values if v.ban}
        assert not bans.intersection(partition.recomputed)
        check_graph(partition.backward)


# --- S5.4b: one case for each rule --------------------------------------------------------------


def by_op(partition):
    return {v.var.name: v for v in partition.values}


def names(values):
    return [v.name for v in values]


def test_s5_4b_not_cheap():
    # h is read by pointwise backward work only: the cost of the product alone puts it into U.
    partition = stax.joint_graph(lambda x, W: np.sin(x @ W).sum())(SQUARE, OTHER).partition()
    assert by_op(partition)["dot_general"].ban == "not cheap"
    assert names(partition.saved) == ["dot_general"]


def test_s5_4b_written_in_backward_anyway():
    # t is cheap, and sin' does not read it; but a backward product does, and reads memory.
    def f(x, W, V):
        return (np.sin(x @ W) @ V).sum()

    needs_t = stax.joint_graph(f, argnums=2)(SQUARE, OTHER, SQUARE).partition()
    assert by_op(needs_t)["sin"].ban == "written in backward anyway"
    assert names(needs_t.saved) == ["sin"]
    # without a gradient of V no backward product reads t, and t is not saved
    without = stax.joint_graph(f, argnums=1)(SQUARE, OTHER, SQUARE).partition()
    assert by_op(without)["sin"].ban == ""
    assert names(without.saved) == ["dot_general"]


def test_s5_4b_large_reduction():
    def f(x):
        return np.log(np.exp(x).sum(-1)).sum()

    long_rows = stax.joint_graph(f)(RNG.standard_normal((32, 64))).partition()
    assert by_op(long_rows)["sum"].ban == "large reduction"
    assert "sum" in names(long_rows.saved)
    # rows of 4: four times the output is not smaller than the input
    short_rows = stax.joint_graph(f)(RNG.standard_normal((32, 4))).partition()
    assert by_op(short_rows)["sum"].ban == ""
    assert "sum" in names(short_rows.recomputed)
    assert short_rows.saved == ()


def test_s5_4b_read_near_and_far():
    # r feeds a product close by and, beyond it, the sum whose cosine's derivative is needed.
    def f(x, A, B):
        r = np.sin(x @ A)
        y = (r * 2.0) @ B + r
        return np.cos(y).sum()

    joint = stax.joint_graph(f, argnums=1)(SQUARE, OTHER, SQUARE)
    forced = joint.partition()
    assert by_op(forced)["sin"].force == "read near and far"
    assert names(forced.saved) == ["dot_general", "sin", "dot_general_1"]
    free = joint.partition(options=PartitionOptions(near_and_far=False))
    assert by_op(free)["sin"].force == ""
    assert names(free.saved) == ["dot_general", "dot_general_1"]
    assert "sin" in names(free.recomputed)


def test_s5_4b_end_of_a_long_fusible_chain():
    def f(x, W):
        y = x @ W
        for _ in range(40):
            y = np.sin(y)
        return y.sum()

    joint = stax.joint_graph(f)(SQUARE, OTHER)
    forced = joint.partition()
    ends = [v for v in forced.values if v.force == "end of a fusible chain"]
    assert [v.var.name for v in ends] == ["sin_30"]
    assert names(forced.saved) == ["dot_general", "sin_30"]
    free = joint.partition(options=PartitionOptions(chain_limit=1000))
    assert names(free.saved) == ["dot_general"]


def test_s5_4b_no_finite_cut_saves_everything():
    def f(x, W):
        h = x @ W
        return (h * h + np.sin(h)).sum()

    joint = stax.joint_graph(f)(SQUARE, OTHER)
    options = PartitionOptions(may_save=lambda var, eqn: eqn.op != "dot_general")
    partition = joint.partition(options=options)
    assert partition.cut_value == INFINITE
    assert names(partition.saved) == [v.var.name for v in partition.values if v.read]
    assert "dot_general" in names(partition.saved)
    assert "no finite cut" in str(partition)
    # the same graph has a finite cut when the product may be saved
    assert names(joint.partition().saved) == ["dot_general"]


# --- what the rules add up to -------------------------------------------------------------------


def test_s5_4_functions_and_views_of_inputs_are_not_saved():
    def f(x, W):
        return (np.tanh(x).T @ np.exp(W).reshape(32, 32)).sum()

    partition = stax.joint_graph(f, argnums=(0, 1))(SQUARE, OTHER).partition()
    assert partition.saved == ()
    assert partition.saved_bytes == 0


def test_s5_4_never_a_view_and_its_base():
    def f(x, W):
        h = x @ W
        return (np.sin(h.T) * np.cos(h.reshape(-1)).reshape(32, 32)).sum()

    partition = stax.joint_graph(f)(SQUARE, OTHER).partition()
    assert names(partition.saved) == ["dot_general"]


@pytest.mark.parametrize("seed", range(12))
def test_s5_4_the_two_graphs_compute_the_joint_graph(seed):
    joint = stax.joint_graph(random_function(seed), argnums=(0, 1))(SQUARE / 6, OTHER / 6)
    partition = joint.partition()
    args, ct = (SQUARE / 6, OTHER / 6), np.ones((32, 32))
    *results, _ = eval_graph(joint, [*args, ct])
    outs = eval_graph(partition.forward, args)
    primals = [args[k] for k in partition.needed_primals]
    gradients = eval_graph(partition.backward, [*outs[1:], *primals, ct])
    got = [outs[0], *gradients]
    for a, b in zip(got, eval_graph(joint, [*args, ct]), strict=True):
        assert np.array_equal(a, b)
    assert len(results) == 2


def test_s5_4a_exhaustive_on_small_dags():
    # every DAG of four pointwise or product steps over two inputs, two kinds of step
    seen = 0
    for kinds in itertools.product((0, 2), repeat=3):

        def f(x, W, kinds=kinds):
            y = x
            for kind in kinds:
                y = y @ W if kind == 0 else np.sin(y)
            return (y * y).sum()

        partition = stax.joint_graph(f)(SQUARE / 6, OTHER / 6).partition()
        assert partition.cut_value == brute_force(partition.values)[0]
        seen += 1
    assert seen == 8
