"""S5.3: the joint graph of Example 5.1, `gelu(x @ W).sum()` differentiated by W alone."""

from __future__ import annotations

import numpy as np
import pytest

import stax


def f(x, W):
    return stax.nn.gelu(x @ W, approximate=False).sum()


@pytest.fixture
def arguments():
    rng = np.random.default_rng(0)
    return rng.standard_normal((32, 64), np.float32), rng.standard_normal((64, 64), np.float32)


@pytest.fixture
def joint(arguments):
    return stax.joint_graph(f, argnums=1)(*arguments)


def test_s5_3_forward_values(joint):
    forward = [e for e in joint.eqns if e.phase == "forward"]
    assert [e.op for e in forward] == ["dot_general", "gelu", "sum"]
    assert [e.outputs[0].shape for e in forward] == [(32, 64), (32, 64), ()]
    assert all(e.outputs[0].dtype == np.float32 for e in forward)


def test_s5_3_inputs_are_primals_then_the_upstream_gradient(joint):
    assert [v.shape for v in joint.inputs] == [(32, 64), (64, 64), ()]
    assert [v.shape for v in joint.outputs] == [(), (64, 64)]


def test_s5_3_backward_reads_h_and_not_the_output_of_gelu(joint):
    h, gelu, _ = (e.outputs[0] for e in joint.eqns if e.phase == "forward")
    backward = [e for e in joint.eqns if e.phase == "backward"]
    read = {a for e in backward for a in e.inputs}
    assert h in read
    assert gelu not in read
    assert backward[0].op == "broadcast"
    assert backward[0].inputs == (joint.inputs[2],)


def test_s5_3_the_gradient_is_x_transposed_times_h_bar(joint):
    last = joint.eqns[-1]
    assert (last.op, last.phase) == ("dot_general", "backward")
    assert joint.inputs[0] in last.inputs
    assert last.outputs[0] is joint.outputs[1]


def test_s5_3_nothing_computes_the_gradient_of_x(joint):
    contractions = [e for e in joint.eqns if e.op == "dot_general"]
    assert len(contractions) == 2
    W = joint.inputs[1]
    assert [e.phase for e in joint.eqns if W in e.inputs] == ["forward"]


def test_s5_3_tags_and_user_lines_are_printed(joint):
    lines = str(joint).splitlines()[1:-2]
    assert [line.split()[0] for line in lines[:4]] == ["fwd", "fwd", "fwd", "bwd"]
    assert all("# test_s5_3_joint_graph.py:" in line for line in lines)


def test_s5_3_several_results_pytrees_and_integer_results():
    def g(params, x):
        y = np.tanh(x @ params["w"]) + params["b"]
        return {"loss": (y * y).sum(), "best": y.argmax(), "y": y}

    params = {"w": np.ones((3, 2)), "b": np.zeros(2)}
    joint = stax.joint_graph(g)(params, np.ones((4, 3)))
    # b, w, x, then one upstream gradient for each floating-point result: loss and y
    assert [v.shape for v in joint.inputs] == [(2,), (3, 2), (4, 3), (), (4, 2)]
    # best, loss, y, then the gradients of b and w
    assert [v.shape for v in joint.outputs] == [(), (), (4, 2), (2,), (3, 2)]
