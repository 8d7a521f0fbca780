"""S5.8c: the partition keeps a memory budget."""

from __future__ import annotations

import numpy as np
import pytest

import stax
from stax.core.staging import eval_graph


def model(x, *weights):
    for W in weights:
        x = np.tanh(x @ W) + np.sin(x)
    return (x * x).sum()


@pytest.fixture
def arguments():
    rng = np.random.default_rng(1)
    return [rng.standard_normal((16, 16)) / 4 for _ in range(6)]


@pytest.fixture
def joint(arguments):
    return stax.joint_graph(model, argnums=(1, 2, 3, 4, 5))(*arguments)


def test_s5_8c_saved_bytes_stay_below_and_work_falls_as_the_budget_grows(joint):
    free = joint.partition()
    budgets = [free.saved_bytes * k // 8 for k in range(9)]
    found = [joint.partition(memory_budget=b) for b in budgets]
    for budget, partition in zip(budgets, found, strict=True):
        assert partition.saved_bytes <= budget
    work = [p.recompute_flops for p in found]
    assert work == sorted(work, reverse=True)
    assert found[0].saved == ()
    assert found[-1].saved == free.saved


def test_s5_8c_results_do_not_change(joint, arguments):
    ct = np.ones(())
    expected = eval_graph(joint, [*arguments, ct])
    for budget in (0, "4KiB", 0.5):
        partition = joint.partition(memory_budget=budget)
        outs = eval_graph(partition.forward, arguments)
        primals = [arguments[k] for k in partition.needed_primals]
        gradients = eval_graph(partition.backward, [*outs[1:], *primals, ct])
        for a, b in zip([outs[0], *gradients], expected, strict=True):
            assert np.array_equal(a, b)


@pytest.mark.parametrize("budget", ["lots", "1 XB", -1, 0.0, 1.5, True, None.__class__])
def test_s5_8c_nonsense_budgets_are_refused(joint, budget):
    with pytest.raises(stax.errors.ConfigurationError, match="not a budget"):
        joint.partition(memory_budget=budget)
