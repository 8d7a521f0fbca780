"""The flow solver against networkx, and the partition's network against brute force."""

from __future__ import annotations

import random
import time

import networkx
import numpy as np
import pytest

from stax.core.aval import Aval
from stax.core.graph import BACKWARD, Eqn, Graph, Literal, Var, check_graph
from stax.core.staging import eval_graph
from stax.primitives.elementwise import add_p, mul_p, neg_p
from stax.primitives.views import reshape_p
from stax.transforms.maxflow import INFINITE, FlowNetwork
from stax.transforms.partition import PartitionOptions, partition
from stax.transforms.phases import split_joint
from stax.transforms.rematerialise import rematerialise

F64 = np.dtype(np.float64)


@pytest.mark.parametrize("seed", range(60))
def test_flow_and_cut_equal_networkx(seed):
    rng = random.Random(seed)
    n = rng.randint(2, 16)
    network = FlowNetwork(n)
    oracle = networkx.DiGraph()
    oracle.add_nodes_from(range(n))
    edges = []
    for _ in range(rng.randint(0, 50)):
        tail, head = rng.sample(range(n), 2)
        if oracle.has_edge(tail, head):
            continue
        capacity = rng.randint(0, 9)
        network.add_edge(tail, head, capacity)
        oracle.add_edge(tail, head, capacity=capacity)
        edges.append((tail, head, capacity))
    flow = network.max_flow(0, n - 1)
    near = network.reachable(0)
    assert flow == networkx.maximum_flow_value(oracle, 0, n - 1)
    assert flow == sum(c for t, h, c in edges if near[t] and not near[h])


def test_infinite_path_gives_infinite_flow():
    network = FlowNetwork(4)
    network.add_edge(0, 1, INFINITE)
    network.add_edge(1, 2, INFINITE)
    network.add_edge(0, 2, 5)
    network.add_edge(2, 3, INFINITE)
    assert network.max_flow(0, 3) == INFINITE


def test_fifty_thousand_vertices_in_time():
    rng = random.Random(0)
    values = 25_000
    network = FlowNetwork(2 * values + 2)
    source, sink = 2 * values, 2 * values + 1
    for k in range(values):
        network.add_edge(2 * k, 2 * k + 1, rng.randint(1, 10**6))
        for _ in range(2):
            before = k - 1 - int(rng.expovariate(0.3))
            if before >= 0:
                network.add_edge(2 * before + 1, 2 * k, INFINITE)
        if rng.random() < 0.2:
            network.add_edge(source, 2 * k, INFINITE)
        if rng.random() < 0.3:
            network.add_edge(2 * k + 1, sink, INFINITE)
    start = time.process_time()
    assert 0 < network.max_flow(source, sink) < INFINITE
    assert time.process_time() - start < 3.0  # 0.4 s on an idle machine


def chain(length: int, read_every: int) -> Graph:
    """X -> mul -> mul ...; the backward part multiplies a gradient by every k-th value."""
    x, ct = Var(Aval((8,), F64), "x"), Var(Aval((8,), F64), "ct")
    eqns: list[Eqn] = []
    last, kept = x, []
    for k in range(length):
        out = Var(x.aval)
        eqns.append(Eqn(mul_p, [last, Literal(np.float64(1.0 + k % 3))], [out], {}))
        if k % read_every == 0:
            kept.append(out)
        last = out
    gradient = ct
    for value in reversed(kept):
        out = Var(x.aval)
        eqns.append(Eqn(mul_p, [gradient, value], [out], {}, BACKWARD))
        gradient = out
    return Graph([x, ct], eqns, [last, gradient])


def test_partition_is_linear_and_not_recursive():
    def seconds(length: int) -> float:
        graph = chain(length, 7)
        start = time.process_time()
        found = partition(split_joint(graph, 1, 1))
        assert found.cut_value < INFINITE
        rematerialise(graph)
        return time.process_time() - start

    seconds(500)
    assert seconds(20_000) <= 12 * seconds(4_000) + 0.5


def test_partition_is_deterministic():
    texts = {str(partition(split_joint(chain(200, 3), 1, 1))) for _ in range(3)}
    assert len(texts) == 1


def random_joint(seed: int) -> tuple[Graph, int]:
    """A random graph with a forward and a backward part, over views and arithmetic."""
    rng = random.Random(seed)
    x, ct = Var(Aval((6,), F64), "x"), Var(Aval((6,), F64), "ct")
    eqns: list[Eqn] = []
    values = [x]
    for _ in range(rng.randint(2, 14)):
        first, second = rng.choice(values), rng.choice(values)
        out = Var(x.aval)
        if rng.random() < 0.2:
            eqns.append(Eqn(reshape_p, [first], [out], {"shape": (6,)}))
        elif rng.random() < 0.3:
            eqns.append(Eqn(neg_p, [first], [out], {}))
        else:
            eqns.append(Eqn(rng.choice([add_p, mul_p]), [first, second], [out], {}))
        values.append(out)
    gradient = ct
    for _ in range(rng.randint(1, 6)):
        out = Var(x.aval)
        eqns.append(Eqn(mul_p, [gradient, rng.choice(values)], [out], {}, BACKWARD))
        gradient = out
    results = rng.sample(values, 1)
    return Graph([x, ct], eqns, [*results, gradient]), len(results)


@pytest.mark.parametrize("seed", range(40))
def test_both_forms_of_the_partition_keep_every_bit(seed):
    graph, results = random_joint(seed)
    rng = np.random.default_rng(seed)
    x, ct = rng.standard_normal(6), rng.standard_normal(6)
    expected = eval_graph(graph, [x, ct])
    for options in (PartitionOptions(), PartitionOptions(chain_limit=2)):
        found = partition(split_joint(graph, 1, results), options)
        check_graph(found.forward)
        check_graph(found.backward)
        outs = eval_graph(found.forward, [x])
        primals = [[x][k] for k in found.needed_primals]
        gradients = eval_graph(found.backward, [*outs[results:], *primals, ct])
        for a, b in zip([*outs[:results], *gradients], expected, strict=True):
            assert np.array_equal(a, b)
        one = rematerialise(graph, options)
        check_graph(one)
        for a, b in zip(eval_graph(one, [x, ct]), expected, strict=True):
            assert np.array_equal(a, b)


def test_recomputation_keeps_its_own_region_and_is_placed_late():
    graph = chain(12, 2)
    one = rematerialise(graph, PartitionOptions())
    again = [e for e in one.eqns if e.region]
    assert again, "a cheap function of the input is recomputed"
    assert {e.phase for e in again} == {BACKWARD}
    first_backward = next(k for k, e in enumerate(one.eqns) if e.phase == BACKWARD)
    for k, eqn in enumerate(one.eqns):
        if eqn.region:
            assert k >= first_backward


def test_checkpointed_equations_never_read_a_forward_value_instead():
    x, ct = Var(Aval((8,), F64), "x"), Var(Aval((8,), F64), "ct")
    y, again, out = Var(x.aval), Var(x.aval), Var(x.aval)
    graph = Graph(
        [x, ct],
        [
            Eqn(neg_p, [x], [y], {}),
            Eqn(neg_p, [x], [again], {}, BACKWARD, region=4),
            Eqn(mul_p, [ct, again], [out], {}, BACKWARD),
        ],
        [y, out],
    )
    one = rematerialise(graph)
    assert [e.region for e in one.eqns] == [0, 4, 0]
    found = partition(split_joint(graph, 1, 1))
    assert found.saved == ()
    assert [e.region for e in found.backward.eqns] == [4, 0]
