"""S5.5: the partition of Example 5.1: capacities, flow, and the one value saved."""

from __future__ import annotations

import numpy as np
import pytest

import stax


def f(x, W):
    return stax.nn.gelu(x @ W, approximate=False).sum()


@pytest.fixture
def partition():
    rng = np.random.default_rng(0)
    x, W = rng.standard_normal((32, 64), np.float32), rng.standard_normal((64, 64), np.float32)
    return stax.joint_graph(f, argnums=1)(x, W).partition()


def test_s5_5_capacities(partition):
    capacities = {var.name: capacity for var, capacity in partition.capacities.items()}
    assert capacities == {
        "dot_general": 9011,
        "gelu": 225_781_552,  # floor(2 * 8192 * 1.1 ** 100): nothing in backward reads it
        "sum": 55_122,  # a result of f: written anyway
    }


def test_s5_5_flow_and_saved_set(partition):
    assert partition.cut_value == 9011
    (h,) = partition.saved
    assert partition.capacities[h] == 9011
    assert (h.name, h.shape) == ("dot_general", (32, 64))
    assert partition.saved_bytes == 8192
    assert partition.recomputed == ()
    assert partition.recompute_flops == 0


def test_s5_5_flow_equals_networkx(partition):
    import networkx

    assert networkx.maximum_flow_value(partition.network(), "s", "t") == 9011


def test_s5_5_graphs(partition):
    forward, backward = partition.forward, partition.backward
    assert [e.op for e in forward.eqns] == ["dot_general", "gelu", "sum"]
    assert [v.shape for v in forward.outputs] == [(), (32, 64)]
    assert [v.shape for v in backward.inputs] == [(32, 64), (32, 64), ()]
    assert "erf" in [e.op for e in backward.eqns]
    assert [v.shape for v in backward.outputs] == [(64, 64)]


def test_s5_5_table(partition):
    header, h, gelu, total, _, summary = str(partition).splitlines()
    assert header.split() == ("value type line bytes d beta capacity U read decision".split())
    assert h.split()[3:7] == ["8192", "1", "1", "9011"]
    assert h.endswith("saved: on the minimum cut")
    assert gelu.split()[3:7] == ["8192", "100", "2", "225781552"]
    assert total.split()[3:7] == ["4", "100", "1", "55122"]
    assert summary.startswith("maximum flow 9011; saved 1 values, 8192 bytes")
